"""The soft APIs that we stand on: a failure here names the dependency, its version, and what of ours it breaks."""

import functools
import inspect
import logging
import os
import signal
import subprocess
import sys
import threading
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from consilience import _compat

from .patience import PATIENCE
from .peers.crew import free_ports

HOOKS = {}  # by name: how often it is tested


def relies_on(package, broken, *hooks):
    """Let a test that fails say what is broken, in which version, and which function of ours stands on it."""
    for hook in hooks:
        HOOKS[hook.__name__] = HOOKS.get(hook.__name__, 0) + 1

    def decorate(test):
        @functools.wraps(test)
        def told(*args, **kwargs):
            try:
                test(*args, **kwargs)
            except Exception as error:
                names = ", ".join(f"_compat.{hook.__name__}" for hook in hooks)
                pytest.fail(f"{package} {version(package)}: {broken}; see {names}.\n{error!r}")

        return told

    return decorate


def python(code, *arguments):
    """Run code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_every_hook_is_tested():
    public = {
        name
        for name, value in vars(_compat).items()
        if callable(value) and not name.startswith("_") and inspect.getmodule(value) is _compat
    }
    assert public == set(HOOKS)


def test_every_hook_says_what_it_stands_on():
    for name in HOOKS:
        said = inspect.getdoc(getattr(_compat, name))
        assert "API: " in said and "Without it: " in said, name


# --- jax: tracing --------------------------------------------------------------------------------------


@relies_on(
    "jax",
    "the trace state does not tell a loop from what is around it: collectives inside of loops would be miscounted",
    _compat.trace_state,
)
def test_the_trace_state_changes_inside_of_loops_and_branches_only():
    seen = {}

    def inside(name):
        def body(x):
            seen[name] = _compat.trace_state()
            return x + 1

        return body

    def lane(x):
        seen["first"] = _compat.trace_state()
        x = lax.psum(x, "agents")
        seen["same"] = _compat.trace_state()
        x, _ = lax.scan(lambda carry, _: (inside("scan")(carry), None), x, length=2)
        x = lax.while_loop(lambda x: x < 9, inside("while_loop"), x)
        x = lax.cond(x > 3, inside("cond"), inside("cond"), x)
        seen["last"] = _compat.trace_state()
        return x

    jax.make_jaxpr(jax.vmap(jax.vmap(lane, axis_name="agents")))(jnp.ones((2, 3)))
    assert seen["first"] == seen["same"] == seen["last"]
    for name in ("scan", "while_loop", "cond"):
        assert (seen[name] == seen["first"]) is False, f"inside of {name}"


def some_program(factor=2.0):
    """A function made anew at every call, with all that has an address in a jaxpr."""

    @jax.custom_jvp
    def own(x):
        return x * factor

    own.defjvp(lambda primals, tangents: (own(*primals), factor * tangents[0]))

    def function(x):
        form = jax.ShapeDtypeStruct(x.shape, x.dtype)
        called = jax.pure_callback(lambda x: x, form, x, vmap_method="expand_dims")
        return jax.nn.relu(own(x)) + jax.jit(jnp.sin)(called)

    return jax.make_jaxpr(function)(jnp.ones(3))


@relies_on(
    "jax",
    "the text of a jaxpr is coloured or not the same twice: equal models would be taken for unlike ones",
    _compat.jaxpr_text,
)
def test_the_text_of_a_program_is_plain_and_stable(monkeypatch):
    text = _compat.jaxpr_text(some_program())
    assert "custom_jvp" in text and "pure_callback" in text
    assert _compat.jaxpr_text(some_program()) == text
    assert _compat.jaxpr_text(some_program(3.0)) != text
    monkeypatch.setattr("jax._src.pretty_printer.CAN_USE_COLOR", True, raising=False)  # as in a terminal
    assert _compat.jaxpr_text(some_program()) == text


@relies_on(
    "jax",
    "arrays that a program has captured are not found in its jaxpr: models with unlike data would share compiled code",
    _compat.jaxpr_constants,
)
def test_captured_numbers_are_found_wherever_they_are():
    captured = {name: 10.0 * k + jnp.arange(3) for k, name in enumerate(("plain", "scan", "branch", "jit", "map"), 1)}

    def function(x):
        x = x + captured["plain"]
        x, _ = lax.scan(lambda carry, _: (carry * captured["scan"], None), x, length=2)
        x = lax.cond(x[0] > 0, lambda x: x - captured["branch"], lambda x: x, x)
        x = jax.jit(lambda x: x + captured["jit"])(x)
        x = x + lax.map(lambda k: captured["map"][k], jnp.arange(3))
        return x * 7.5

    found = [np.asarray(value) for value in _compat.jaxpr_constants(jax.make_jaxpr(function)(jnp.ones(3)))]
    for name, value in captured.items():
        assert any(np.array_equal(value, other) for other in found), name
    key = jax.random.key(5)
    [value] = _compat.jaxpr_constants(jax.make_jaxpr(lambda: jax.random.split(key))())
    assert np.array_equal(jax.random.key_data(value), jax.random.key_data(key))


@relies_on(
    "jax",
    "a callback is not recognised in a jaxpr: models that call unlike functions would share compiled code",
    _compat.jaxpr_calls_python,
)
def test_calls_of_python_are_recognised_wherever_they_are():
    from jax.experimental import io_callback
    from jax.experimental.buffer_callback import buffer_callback

    form = jax.ShapeDtypeStruct((), jnp.float32)
    calls = {
        "pure_callback": lambda x: jax.pure_callback(lambda x: x, form, x, vmap_method="expand_dims"),
        "io_callback": lambda x: io_callback(lambda x: x, form, x),
        "buffer_callback": lambda x: buffer_callback(lambda *_: None, form)(x),
    }
    for name, call in calls.items():
        inside = {
            "plain": call,
            "jit": jax.jit(call),
            "scan": lambda x, call=call: lax.scan(lambda x, _: (call(x), None), x, length=2)[0],
            "cond": lambda x, call=call: lax.cond(x > 0, call, lambda x: x, x),
        }
        for where, function in inside.items():
            assert _compat.jaxpr_calls_python(jax.make_jaxpr(function)(jnp.float32(1))), f"{name}, {where}"
    for function in (jnp.sin, jax.jit(jnp.sin), lambda x: lax.scan(lambda x, _: (x + 1, None), x, length=2)[0]):
        assert not _compat.jaxpr_calls_python(jax.make_jaxpr(function)(jnp.float32(1)))


@relies_on("jax", "what was traced cannot be applied: nothing would run", _compat.apply_jaxpr)
def test_what_was_traced_is_applied_again():
    def cumulative(x, y):
        return lax.scan(lambda total, each: (total + each * y, total), 0.0, x)

    x, traced = jnp.arange(4.0), jax.make_jaxpr(cumulative)(jnp.arange(4.0), 2.0)
    expected = jax.tree.leaves(cumulative(x, 3.0))
    found = jax.jit(lambda x, y: _compat.apply_jaxpr(traced, [x, y]))(x, 3.0)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


# --- jax: callbacks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["cpu", "another"])
@relies_on(
    "jax",
    "a callback under custom_vmap is not called once a step for all chains: peers with several chains cannot exchange",
    _compat.callback_for_all_chains,
)
def test_a_callback_is_called_once_a_step_for_all_chains(backend, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)  # "cpu": by buffer_callback, else by pure_callback
    shapes = []

    def double(arrays):
        shapes.append([array.shape for array in arrays])
        return [2 * arrays[0]]

    def exchange(arrays):
        return [[arrays[0] + k] for k in range(4)]

    vector = (jax.ShapeDtypeStruct((2,), jnp.float32),)

    def chain(x, steps):
        def step(carry):
            done, x = carry
            own = lax.all_gather(x, "agents")[0]  # off the axis of agents, as `PeerNeighbors` takes it
            return done + 1, _compat.callback_for_all_chains(double, vector)(own, done)[0]

        return lax.while_loop(lambda carry: carry[0] < steps, step, (0, x))[1]

    def start(x):
        return _compat.callback_for_all_chains(exchange, vector, 4)(lax.all_gather(x, "agents")[0])[0]

    def of_lanes(function):
        return jax.jit(jax.vmap(jax.vmap(function, (0, None), axis_name="agents"), (0, None)))

    x = np.arange(6, dtype=np.float32).reshape(3, 1, 2)  # chains, agents, numbers
    np.testing.assert_array_equal(of_lanes(chain)(x, 5), 32 * x)
    assert shapes == [[(3, 2), (3,)]] * 5
    found = of_lanes(lambda x, _: start(x))(x, 0)
    np.testing.assert_array_equal(found[:, 0], x + np.arange(4)[:, None])


@relies_on(
    "jax",
    "a call of compiled code returns before that is done: `consilience peer` may hang",
    _compat.dispatch_synchronously,
)
def test_compiled_code_is_done_when_its_call_returns():
    done = python(
        "import jax, jax.numpy as jnp; from consilience import _compat\n"
        "_compat.dispatch_synchronously()\n"
        "x = jax.random.normal(jax.random.key(0), 100_000)\n"
        "function = jax.jit(lambda x: jnp.cumsum(jnp.sort(jnp.sort(x)[::-1]))).lower(x).compile()\n"
        "print([function(x).is_ready() for _ in range(5)])"
    )
    assert done.stdout.strip() == str([True] * 5), done.stdout + done.stderr
    done = python(
        "import jax; from consilience._compat import dispatch_synchronously as synchronously\n"
        "jax.numpy.ones(3).sum()\n"
        "print(synchronously())\n"
        "jax.clear_caches()\n"
        "print(synchronously())"
    )
    assert done.stdout.split() == ["False", "False"], done.stdout + done.stderr


@relies_on(
    "jax",
    "the log of errors in callbacks has another name: tracebacks would fill the log of `consilience peer`",
    _compat.callback_errors_unlogged,
)
def test_errors_of_one_kind_in_callbacks_are_not_logged(caplog):
    class EndedError(Exception):
        pass

    def fail_with(error):
        def call(x):
            raise error

        form = jax.ShapeDtypeStruct((), jnp.float32)
        with pytest.raises(jax.errors.JaxRuntimeError):
            jax.jit(lambda x: jax.pure_callback(call, form, x))(np.float32(1)).block_until_ready()

    logging.getLogger("jax").addHandler(caplog.handler)  # jax may not pass on what it logs
    try:
        with _compat.callback_errors_unlogged(EndedError):
            fail_with(EndedError("as expected"))
            assert "as expected" not in caplog.text
            fail_with(ValueError("unforeseen"))
            assert "unforeseen" in caplog.text
        fail_with(EndedError("afterwards"))
        assert "afterwards" in caplog.text
    finally:
        logging.getLogger("jax").removeHandler(caplog.handler)


# --- jax: many devices and hosts -----------------------------------------------------------------------


@relies_on(
    "jax",
    "a mesh orders its devices or shards its arrays otherwise: `cs.Devices` cannot place agents",
    _compat.device_mesh,
)
def test_a_mesh_has_the_devices_in_order_and_lets_the_compiler_shard():
    devices = jax.devices()[3::-1]
    mesh = _compat.device_mesh(devices, "devices")
    assert list(mesh.devices) == devices
    spread = jax.device_put(jnp.arange(4.0), NamedSharding(mesh, PartitionSpec("devices")))
    other = jax.device_put(jnp.ones((4, 4)), NamedSharding(mesh, PartitionSpec()))
    where = {part.device: float(part.data[0]) for part in spread.addressable_shards}
    assert [where[device] for device in devices] == [0, 1, 2, 3]
    found = jax.jit(lambda x, y: x[:, None] + y + y.at[jnp.int32(x)].get())(spread, other)
    np.testing.assert_array_equal(found, np.arange(4.0)[:, None] + 2 * np.ones((4, 4)))


@relies_on(
    "jax",
    "shard_map refuses loops that start from a constant: samplers, which know of no devices, cannot run under it",
    _compat.on_every_device,
)
def test_a_loop_from_a_constant_runs_on_every_device():
    mesh = _compat.device_mesh(jax.devices()[:3], "devices")

    def function(x):
        own = lax.fori_loop(0, 4, lambda _, total: total + x, jnp.zeros(1))
        return own, lax.psum(own, "devices")

    by_device, alike = PartitionSpec("devices"), PartitionSpec()
    own, total = jax.jit(_compat.on_every_device(function, mesh, by_device, (by_device, alike)))(jnp.arange(3.0))
    np.testing.assert_array_equal(own, [0, 4, 8])
    np.testing.assert_array_equal(total, [12])


@pytest.mark.skipif(os.name != "posix", reason="signals")
@relies_on(
    "jax",
    "a process that has met other hosts swallows SIGTERM: a run on a cluster would be killed before it has saved",
    _compat.meet_other_hosts,
)
def test_a_host_still_hears_sigterm():
    done = python(
        "import os, signal, sys, time, jax; from consilience import _compat\n"
        "_compat.meet_other_hosts(f'127.0.0.1:{sys.argv[1]}', 1, 0, 30)\n"
        "print(jax.process_count(), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "time.sleep(2)\n",
        *free_ports(1),
    )
    assert done.stdout.strip() == "1", done.stderr
    assert done.returncode == -signal.SIGTERM


# --- jax: compiled code on disk -------------------------------------------------------------------------


@relies_on(
    "jax",
    "an entry of the compilation cache is not written as we say: a kill would leave half of one behind",
    _compat.write_compiled_code_whole,
)
def test_compiled_code_is_whole_or_not_there(tmp_path, monkeypatch):
    """A process that is killed while it writes leaves nothing that another would read."""
    from jax._src.lru_cache import LRUCache

    _compat.write_compiled_code_whole()
    cache = LRUCache(str(tmp_path), max_size=-1)

    def killed(self, value):
        with self.open("wb") as file:
            file.write(value[: len(value) // 2])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", killed)
        with pytest.raises(KeyboardInterrupt):
            cache.put("key", b"compiled code")
    assert cache.get("key") is None
    assert list(tmp_path.iterdir()) == []
    cache.put("key", b"compiled code")
    assert cache.get("key") == b"compiled code"
    cache.put("key", b"other code")  # asked for where the first could not be read
    assert cache.get("key") == b"other code"


@relies_on(
    "jax",
    "a limit that somebody has given jax's compilation cache is not kept",
    _compat.write_compiled_code_whole,
)
def test_a_limit_of_compiled_code_is_jax_s_to_keep(tmp_path):
    from jax._src.lru_cache import LRUCache

    _compat.write_compiled_code_whole()
    cache = LRUCache(str(tmp_path), max_size=1000)
    cache.put("first", bytes(600))
    cache.put("second", bytes(600))
    assert cache.get("first") is None and cache.get("second") == bytes(600)


CALLING = """
import sys
import jax
import jax.numpy as jnp
from consilience import _compat

folder, factor, shift = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
jax.config.update("jax_compilation_cache_dir", folder)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
_compat.keep_compiled_callers_of_python()
found = []
jax.monitoring.register_event_listener(lambda event, **_: found.append(event) if "cache_hit" in event else None)
form = jax.ShapeDtypeStruct((3,), jnp.float32)
times = _compat.callback_for_all_chains(lambda leaves: [leaves[0] * factor], (form,))
program = jax.jit(lambda x: jax.pure_callback(lambda y: y + shift, form, *times(x)))
compiled = program.lower(form).compile()
print(len(found), *compiled(jnp.arange(3.0)), *compiled(jnp.ones(3)))
"""


@relies_on(
    "jax",
    "a program that calls Python is not kept, or calls something else when it is found: peers compile at every start",
    _compat.keep_compiled_callers_of_python,
)
def test_a_program_that_is_found_calls_what_is_here(tmp_path):
    """What one process has compiled calls the functions of the other that finds it, in their order."""
    for found, factor, shift in ((0, 2, 1), (1, 5, 3)):
        done = python(CALLING, tmp_path, factor, shift)
        assert done.returncode == 0, done.stderr
        expected = [shift, factor + shift, 2 * factor + shift] + [factor + shift] * 3
        assert [float(word) for word in done.stdout.split()] == [found, *expected]


# --- jax: errors ---------------------------------------------------------------------------------------


@relies_on(
    "jax",
    "out of memory is not told from other errors: a host would blame another one",
    _compat.is_out_of_memory,
)
def test_out_of_memory_is_known_by_what_jax_says():
    with pytest.raises(jax.errors.JaxRuntimeError) as raised:
        jnp.zeros((1 << 50,), jnp.float32).block_until_ready()
    assert _compat.is_out_of_memory(raised.value)
    assert not _compat.is_out_of_memory(jax.errors.JaxRuntimeError("UNAVAILABLE: no answer"))
    assert not _compat.is_out_of_memory(ValueError("RESOURCE_EXHAUSTED"))


# --- jax: checked indices ------------------------------------------------------------------------------


@relies_on(
    "jax",
    "checkify does not name the row and its index: data that lead out of range would be sampled from",
    _compat.with_checked_indices,
    _compat.wrong_indices,
)
def test_an_index_out_of_range_is_told_by_row():
    def row(table, index):
        return table[index] + table[jnp.abs(index) % 4]

    checked = jax.jit(jax.vmap(_compat.with_checked_indices(row), (None, 0)))
    error, _ = jax.device_get(checked(jnp.arange(4.0), jnp.array([0, 17, 3, -9])))
    wrong = _compat.wrong_indices(error)
    assert list(wrong) == [1, 3]
    assert "17" in wrong[1] and "(4,)" in wrong[1]
    assert wrong[3] != wrong[1]
    assert list(_compat.wrong_indices(error, but=1)) == [3]
    error, _ = jax.device_get(checked(jnp.arange(4.0), jnp.array([0, 1, 2, 3])))
    assert _compat.wrong_indices(error) == {}


# --- BlackJAX ------------------------------------------------------------------------------------------


@relies_on("blackjax", "the schedule of a warm-up has another form: no sampler tunes itself", _compat.warmup_schedule)
def test_the_schedule_says_stage_and_end_of_window_by_iteration():
    stage, ends = _compat.warmup_schedule(200, 30, 20, 10)
    assert stage.shape == ends.shape == (200,)
    assert np.flatnonzero(stage).tolist() == list(range(30, 180))
    last = np.flatnonzero(ends)
    assert last[0] == 39 and last[-1] == 179
    lengths = np.diff(last)
    assert (lengths[1:-1] == 2 * lengths[:-2]).all() and lengths[0] == 20  # they double; the last takes what is left
    stage, ends = _compat.warmup_schedule(1000)
    assert (stage.argmax(), np.flatnonzero(stage)[-1]) == (75, 949)  # Stan's


@relies_on("blackjax", "dual averaging has another form: no sampler tunes its step size", _compat.dual_averaging)
def test_dual_averaging_finds_the_step_size():
    init, update, final = _compat.dual_averaging(0.8)
    state = init(1.0)
    for _ in range(500):  # an acceptance of exp(-step size): 0.8 at 0.223
        state = update(state, jnp.exp(-jnp.exp(state.log_step_size)))
    np.testing.assert_allclose(final(state), -np.log(0.8), rtol=0.05)
    np.testing.assert_allclose(final(state), jnp.exp(state.log_step_size_avg), rtol=1e-6)


@pytest.mark.parametrize("dense", [False, True])
@relies_on(
    "blackjax",
    "the estimation of a mass matrix has another form: no sampler tunes its own",
    _compat.mass_matrix_estimation,
)
def test_the_mass_matrix_is_the_covariance_drawn_to_a_small_one(dense):
    init, update, final = _compat.mass_matrix_estimation(dense)
    draws = np.random.default_rng(0).standard_normal((40, 3)) * [1, 2, 3]
    state = init(3)
    for draw in draws:
        state = update(state, jnp.asarray(draw, jnp.float32))
    covariance = np.cov(draws.T) * 40 / 45 + 1e-3 * np.eye(3) * 5 / 45  # Stan's
    expected = covariance if dense else np.diag(covariance)
    np.testing.assert_allclose(final(state).inverse_mass_matrix, expected, rtol=1e-3)


# --- NumPyro -------------------------------------------------------------------------------------------


@relies_on(
    "numpyro",
    "it cannot be told what a result depends on: a NumPyro model's prior is not told from its likelihood",
    _compat.inputs_of,
)
def test_what_a_result_depends_on_is_told():
    import numpyro.distributions as dist

    def function(params, batch):
        looped, _ = lax.scan(lambda total, x: (total + x, None), params["a"], batch)
        return {
            "prior": dist.Normal(0, 1).log_prob(params["a"]),
            "likelihood": dist.Poisson(jnp.exp(looped)).log_prob(3),
            "data": jax.jit(jnp.cumsum)(batch),
            "neither": jnp.zeros(2) + len(batch),
            "chosen": lax.cond(batch[0] > 0, lambda: params["b"], lambda: jnp.zeros(2)),
        }

    form = functools.partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
    found = _compat.inputs_of(function, params={"a": form(()), "b": form((2,))}, batch=form((5,)))
    assert {name: set().union(*jax.tree.leaves(part)) for name, part in found.items()} == {
        "prior": {"params"},
        "likelihood": {"params", "batch"},
        "data": {"batch"},
        "neither": set(),
        "chosen": {"params", "batch"},
    }


@relies_on(
    "numpyro",
    "an unconditioned site does not say what was observed there: NumPyro models cannot predict",
    _compat.observation_and_key,
)
def test_an_unconditioned_site_says_what_was_observed():
    import numpyro
    import numpyro.distributions as dist
    from numpyro.handlers import seed, substitute, trace, uncondition

    found = []

    def draw(site):
        observation, key = _compat.observation_and_key(site)
        found.append(observation)
        return site["fn"].expand((3,)).sample(key)

    def model(y):
        numpyro.sample("y", dist.Normal(5, 0.1), obs=y)

    y = jnp.arange(3.0)
    sites = trace(substitute(uncondition(seed(model, jax.random.key(0))), substitute_fn=draw)).get_trace(y)
    np.testing.assert_array_equal(found[0], y)
    np.testing.assert_allclose(sites["y"]["value"], 5, atol=1)
    assert len(np.unique(sites["y"]["value"])) == 3


@relies_on("numpyro", "masks are not found: rows that they leave out count as observations", _compat.mask_of)
def test_the_mask_of_a_distribution_is_found_wherever_it_was_put():
    import numpyro.distributions as dist

    rows, table = np.array([True, False, True]), np.array([[True, False], [False, False], [True, True]])
    normal = dist.Normal(jnp.zeros(3), 1)
    for masked in (normal.mask(rows), dist.Normal(0, 1).mask(rows).expand([2, 3]), normal.mask(rows).mask(True)):
        np.testing.assert_array_equal(_compat.mask_of(masked), rows)
    by_events = dist.Normal(jnp.zeros((3, 2)), 1).mask(table).to_event(1)
    np.testing.assert_array_equal(_compat.mask_of(by_events), rows)  # a row with one number left is an observation
    assert not _compat.mask_of(normal.mask(False))
    assert _compat.mask_of(dist.Unit(jnp.zeros(3)))


# --- ArviZ ---------------------------------------------------------------------------------------------


@relies_on("arviz-stats", "diagnostics of plain arrays are others: no summary has them", _compat.array_stats)
def test_diagnostics_are_per_series_along_the_named_axes():
    stats = _compat.array_stats()
    axes = {"chain_axis": 1, "draw_axis": 2}
    draws = np.random.default_rng(0).standard_normal((2, 4, 1000, 3))  # agents, chains, draws, numbers
    draws[1, 0, :, 2] += 2  # a chain that is elsewhere
    found = {
        "bulk": stats.ess(draws, method="bulk", **axes),
        "tail": stats.ess(draws, method="tail", prob=(0.05, 0.95), **axes),
        "mcse": stats.mcse(draws, method="mean", **axes),
        "rhat": stats.rhat(draws, method="rank", **axes),
    }
    well = np.ones((2, 3), bool)
    well[1, 2] = False
    for name, values in found.items():
        assert np.shape(values) == (2, 3), name
    for name in ("bulk", "tail"):
        assert (found[name][well] > 3000).all() and (found[name][well] < 5000).all(), name
    assert found["bulk"][1, 2] < 100
    np.testing.assert_allclose(found["mcse"][well], 1 / np.sqrt(4000), rtol=0.15)
    assert (found["rhat"][well] < 1.01).all() and found["rhat"][1, 2] > 1.1
    energy = np.cumsum(np.random.default_rng(1).standard_normal((4, 1000)), axis=1)
    step, spread = np.diff(energy, axis=1), energy - energy.mean(axis=1, keepdims=True)
    fraction = (step**2).sum(axis=1) / (spread**2).sum(axis=1)
    np.testing.assert_allclose(stats.bfmi(energy, chain_axis=0, draw_axis=1), fraction, rtol=5e-3)


@relies_on("arviz-stats", "leave-one-out is another, or is not there: run.loo and cs.compare", _compat.array_stats)
def test_leave_one_out_of_plain_arrays_is_that_of_the_posterior_without_the_row():
    """Of a normal mean with a flat prior, whose posterior without a row is known."""
    random = np.random.default_rng(0)
    y = random.standard_normal(30)
    draws = y.mean() + random.standard_normal((4, 2000)) / np.sqrt(30)  # chains, draws
    log_likelihoods = -0.5 * (y[:, None, None] - draws) ** 2 - 0.5 * np.log(2 * np.pi)
    elpd, k, p_loo = _compat.array_stats().loo(log_likelihoods, chain_axis=1, draw_axis=2, r_eff=1.0)
    others = (y.sum() - y) / 29
    exact = -0.5 * (y - others) ** 2 / (1 + 1 / 29) - 0.5 * np.log(2 * np.pi * (1 + 1 / 29))
    np.testing.assert_allclose(elpd, exact, atol=0.02)
    mean = np.log(np.exp(log_likelihoods).mean(axis=(1, 2)))
    np.testing.assert_allclose(p_loo, mean - elpd, atol=1e-9)
    assert k.shape == (30,) and (k < 0.5).all()


@relies_on("arviz-stats", "standard errors of elpd are not ArviZ's: run.loo and cs.compare", _compat.elpd_ddof)
def test_the_divisor_of_the_variance_of_elpd_is_that_of_arviz():
    import arviz_stats
    from arviz_base import from_dict

    values = np.random.default_rng(0).standard_normal((4, 100, 7))  # chains, draws, rows
    found = arviz_stats.loo(
        from_dict({"posterior": {"w": values[..., 0]}, "log_likelihood": {"y": values}}), pointwise=True
    )
    assert _compat.elpd_ddof() in (0, 1)
    assert found.se == pytest.approx(np.sqrt(7 * np.var(found.elpd_i.values, ddof=_compat.elpd_ddof())), rel=1e-12)


# --- zarr ----------------------------------------------------------------------------------------------


def pipelines():
    import zarr.core.codec_pipeline

    names = [name for name in ("BatchedCodecPipeline", "FusedCodecPipeline") if hasattr(zarr.core.codec_pipeline, name)]
    return [f"zarr.core.codec_pipeline.{name}" for name in names]


@pytest.mark.parametrize("pipeline", [None, *pipelines()])
@relies_on(
    "zarr",
    "something is written past our store: after a power cut, draws may be missing that a checkpoint counts",
    _compat.zarr_store_written_by,
)
def test_all_that_zarr_writes_is_written_by_us(pipeline, tmp_path):
    import zarr

    threads = {}

    def write(path, content):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        threads.setdefault(path.relative_to(tmp_path).as_posix(), threading.get_ident())

    with zarr.config.set({} if pipeline is None else {"codec_pipeline.path": pipeline}):
        store = _compat.zarr_store_written_by(write)
        group = zarr.open_group(store(tmp_path), mode="a")
        blosc = zarr.codecs.BloscCodec(cname="lz4", clevel=1, shuffle="bitshuffle")
        array = group.create_array(
            "posterior/w", shape=(5, 3), chunks=(2, 3), dtype=np.float32, compressors=blosc, fill_value=np.nan
        )
        assert "posterior/w/c/0/0" not in threads
        values = np.arange(15, dtype=np.float32).reshape(5, 3)
        array[:5] = values
        array.resize((7, 3))
        array[5:7] = values[:2]
        again = zarr.open_array(store(tmp_path / "posterior/w"), mode="r+")
        again[6:] = 9.0
    on_disk = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert on_disk == set(threads)
    assert {"zarr.json", "posterior/w/zarr.json", *(f"posterior/w/c/{k}/0" for k in range(4))} <= on_disk
    found = zarr.open_array(tmp_path / "posterior/w", mode="r")[:]
    np.testing.assert_array_equal(found, np.concatenate([values, values[:1], np.full((1, 3), 9.0)]))


# --- Zenoh ---------------------------------------------------------------------------------------------

DOOR = """
import os, sys, time
from pathlib import Path
import zenoh
from consilience import _compat
from tests.peers.parties import Intruder, Ring

folder = Path(sys.argv[1])
log = folder / "log"
os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)


def await_refusal():
    end = time.monotonic() + 60  # where there is none, the test says so
    while time.monotonic() < end:
        lines = log.read_text().rpartition("--\\n")[2].splitlines()
        if any((_compat.zenoh_refusal(line) or "").startswith("zenoh") for line in lines):
            return
        time.sleep(0.02)


_compat.log_zenoh_refusals()
ring = Ring(folder)
agent = ring.agent("a")
try:
    Intruder({**ring.credentials("c").tls(), "enable_mtls": False}, dials=ring.endpoint("a"), seconds=1.0)
except zenoh.ZError:
    pass
await_refusal()
time.sleep(0.5)  # whatever else is said of that one
print("--", flush=True)
with Intruder(ring.credentials("c").tls(), dials=ring.endpoint("a")) as other:
    other.put(agent.place.key("round", "b", "a"), b"not from b")
    await_refusal()
agent.close()
"""


@relies_on(
    "eclipse-zenoh",
    "whom Zenoh turns away is not in its log as it was: nobody would learn of strangers at the door",
    _compat.log_zenoh_refusals,
    _compat.zenoh_refusal,
)
def test_zenoh_logs_whom_it_turns_away(tmp_path):
    done = python(DOOR, tmp_path)
    log = (tmp_path / "log").read_text()
    without_certificate, _, of_no_neighbor = log.partition("--\n")
    for said in (without_certificate, of_no_neighbor):
        refusals = [_compat.zenoh_refusal(line) for line in said.splitlines()]
        assert any(text is not None and text.startswith("zenoh") for text in refusals), log + done.stderr
    assert _compat.zenoh_refusal("2026-01-01T00:00:00Z  INFO main zenoh::net::runtime: Using ZID: 1") is None


# --- what the tests themselves stand on ------------------------------------------------------------------


def test_compilations_are_seen(compilations):
    """Or every test that nothing is compiled twice would pass."""
    function = jax.jit(lambda x: x * np.float32(np.random.default_rng().uniform()) + 3)
    function(np.ones(5)).block_until_ready()
    seen = len(compilations)
    assert seen > 0, f"jax {jax.__version__} names the event of a compilation otherwise; see tests/conftest.py"
    function(np.ones(5)).block_until_ready()
    assert len(compilations) == seen
