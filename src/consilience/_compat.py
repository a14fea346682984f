"""All uses of unstable APIs of dependencies: experimental, private, undocumented, or texts that are meant for people.

Each function says which API it stands on, and what breaks without it. Each has a test in tests/test_compat.py, which
fails with the version and the name of the function. No other module of the package may use these APIs
(tests/test_imports.py). They were seen to work with jax 0.10.2 and 0.12.0, BlackJAX 1.7.1, NumPyro 0.22.0, arviz-stats
0.8.0 and 1.3.3, zarr 3.1.6 and 3.4.2, and Zenoh 1.10.2.

All layers may import this module, and it imports none of them. Dependencies are imported where they are used: extras
may be missing, and an API that is gone must break what stands on it and not `import consilience`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._extras import require

# --- jax: tracing --------------------------------------------------------------------------------------


def trace_state() -> Any:
    """Return a token of what jax is tracing: equal throughout a function, different inside of its loops and branches.

    API: jax.extend.core.get_opaque_trace_state, of which jax promises nothing but equality.
    Without it: a collective inside of a `lax` loop would be counted once instead of refused, and `run.traffic` and
    `consilience plan` would be wrong (neighbors/lanes.py).
    """
    from jax.extend.core import get_opaque_trace_state

    return get_opaque_trace_state()


def jaxpr_text(jaxpr: Any) -> str:
    """Return the program of a closed jaxpr as text, without colours, and without addresses, which vary by chance.

    API: pretty_print(use_color=False) of a jaxpr. The text itself is no API: another version of jax prints another.
    Without it: equal models get unlike fingerprints, so that every run compiles anew and `resume=True` refuses to go on
    with a run begun in another terminal (engine/fingerprint.py).
    """
    return re.sub(r"0x[0-9a-fA-FX]+", "", jaxpr.pretty_print(use_color=False))


def jaxpr_constants(jaxpr: Any) -> Iterator[Any]:
    """Yield the arrays that a jaxpr, or one inside of it, has captured: its text shows their shapes only.

    API: the attributes `consts`, `jaxpr`, `eqns` of jaxprs, `invars`, `params` of equations, `val` of literals.
    Without it: models that differ in a captured number get one fingerprint, and share compiled code: wrong draws
    (engine/fingerprint.py).
    """
    yield from getattr(jaxpr, "consts", ())
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield from (atom.val for atom in equation.invars if hasattr(atom, "val"))
        for inner in _inner_jaxprs(equation):
            yield from jaxpr_constants(inner)


def jaxpr_calls_python(jaxpr: Any) -> bool:
    """Tell whether a jaxpr, or one inside of it, calls Python.

    API: the attributes that `jaxpr_constants` reads, and that the primitives of callbacks have "callback" in their
    names.
    Without it: models that call unlike functions of one name share compiled code: wrong draws
    (engine/fingerprint.py).
    """
    return any(
        "callback" in equation.primitive.name or any(map(jaxpr_calls_python, _inner_jaxprs(equation)))
        for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns
    )


def _inner_jaxprs(equation: Any) -> Iterator[Any]:
    """Yield the jaxprs that an equation applies."""

    def is_jaxpr(value: Any) -> bool:
        return hasattr(value, "eqns") or hasattr(value, "jaxpr")

    yield from filter(is_jaxpr, jax.tree.leaves(equation.params, is_leaf=is_jaxpr))


def apply_jaxpr(jaxpr: Any, leaves: Sequence[Any]) -> list[Any]:
    """Return what a closed jaxpr computes from these arrays, without tracing its Python function again.

    API: jax.extend.core.jaxpr_as_fun.
    Without it: nothing runs (engine/loop.py).
    """
    from jax.extend.core import jaxpr_as_fun

    return jaxpr_as_fun(jaxpr)(*leaves)


# --- jax: callbacks ------------------------------------------------------------------------------------


def callback_for_all_chains(
    function: Callable[[list[np.ndarray]], Any],
    shapes: tuple[jax.ShapeDtypeStruct, ...],
    several: int | None = None,
) -> Any:
    """Return `function` as one that compiled code can call, and calls once for all chains under a `vmap` over them.

    API: jax.custom_batching.custom_vmap, which must see the batch through `while_loop` and `scan`;
    jax.experimental.buffer_callback on a CPU, whose buffers are written where they are and which may say that it has
    side effects, so that no call is left out or made twice; jax.pure_callback elsewhere, since loops over chains refuse
    the other callbacks with side effects.
    Without it: peers with several chains cannot exchange, or count different numbers of messages and wait for each
    other (neighbors/messages.py).

    Args:
      function: takes a list of arrays, and returns a list of arrays with the shapes and dtypes of `shapes`.
      several: number of such lists that it returns instead of one; their arrays are stacked along a first axis.
    """
    from jax.custom_batching import custom_vmap
    from jax.experimental.buffer_callback import buffer_callback

    whole = shapes
    if several is not None:
        whole = tuple(jax.ShapeDtypeStruct((several, *shape.shape), shape.dtype) for shape in shapes)

    def on_arrays(*arrays: Any) -> tuple[np.ndarray, ...]:
        found = function([np.asarray(array) for array in arrays])
        return tuple(found if several is None else map(np.stack, zip(*found, strict=True)))

    def on_buffers(_: Any, results: Any, *arrays: Any) -> None:
        found = function([np.asarray(array) for array in arrays])
        places = [_bytes(np.asarray(result)) for result in results]
        for k, values in enumerate([found] if several is None else found):
            for place, value in zip(places, values, strict=True):
                place[k * value.nbytes : (k + 1) * value.nbytes] = _bytes(np.ascontiguousarray(value))

    @custom_vmap
    def call(*leaves: jax.Array) -> tuple[jax.Array, ...]:
        if jax.default_backend() == "cpu":  # without a copy, where the host can reach the numbers: ten times as fast
            return tuple(buffer_callback(on_buffers, whole, has_side_effect=True)(*leaves))
        return jax.pure_callback(on_arrays, whole, *leaves)

    @call.def_vmap  # type: ignore[untyped-decorator]
    def of_chains(size: int, is_batched: list[bool], *leaves: jax.Array) -> Any:
        every = [
            leaf if batched else jnp.broadcast_to(leaf, (size, *leaf.shape))
            for leaf, batched in zip(leaves, is_batched, strict=True)
        ]
        larger = tuple(jax.ShapeDtypeStruct((size, *shape.shape), shape.dtype) for shape in shapes)
        results = callback_for_all_chains(function, larger, several)(*every)
        if several is not None:
            results = tuple(jnp.moveaxis(result, 1, 0) for result in results)
        return results, (True,) * len(shapes)

    return call


def _bytes(array: np.ndarray) -> memoryview:
    """Return a view of a contiguous array's bytes, to copy them in half the time of an assignment by numpy."""
    return array.reshape(-1).data.cast("B")


def dispatch_synchronously() -> bool:
    """Make calls of compiled code return when it is done, in the whole process; tell whether that was not too late.

    It is too late where something has been computed: a CPU keeps what it was started with.

    API: the option jax_cpu_enable_async_dispatch, undocumented. It does not cover code with parallel parts. And
    backends_are_initialized of jax._src.xla_bridge, private.
    Without it: a callback may wait for numbers that are computed by the thread that it holds, and peers hang
    (runs/member.py).
    """
    from jax._src.xla_bridge import backends_are_initialized

    option = "jax_cpu_enable_async_dispatch"
    if jax.config.values[option] and backends_are_initialized() and jax.default_backend() == "cpu":
        return False
    jax.config.update(option, False)
    return True


@contextmanager
def callback_errors_unlogged(kind: type[BaseException]) -> Iterator[None]:
    """Keep jax from logging, with a traceback, errors of this kind that a callback raises.

    API: the name of a private module's logger, jax._src.callback.
    Without it: on machines where the callback is jax.pure_callback, tracebacks fill the log of `consilience peer`
    whenever another agent leaves (cli/peer.py).
    """

    def is_another(record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], kind))

    log = logging.getLogger("jax._src.callback")
    log.addFilter(is_another)
    try:
        yield
    finally:
        log.removeFilter(is_another)


# --- jax: many devices and hosts -----------------------------------------------------------------------


def device_mesh(devices: Sequence[jax.Device], axis: str) -> jax.sharding.Mesh:
    """Return a mesh of these devices, in their order, along one axis that the compiler shards by itself.

    API: jax.sharding.Mesh with AxisType.Auto. What axes are when nothing is said has changed between versions, for
    `jax.make_mesh`, which may also put devices in another order.
    Without it: arrays carry their sharding in their types, and what mixes sharded with unsharded ones is refused
    (runs/arrays.py, engine/hosts.py).
    """
    from jax.sharding import AxisType, Mesh

    return Mesh(np.array(devices), (axis,), axis_types=(AxisType.Auto,))


def on_every_device(function: Callable[..., Any], mesh: jax.sharding.Mesh, ins: Any, outs: Any) -> Callable[..., Any]:
    """Return `function` as one that every device of a mesh runs on its own part; `ins` and `outs` are partition specs.

    API: check_vma=False of jax.shard_map. Whether a value is the same on all devices is not checked, since samplers
    know nothing of devices and their loops start from constants, which count as the same (`lax.pcast` would mend each).
    Without it: loops whose carry starts from a constant are refused with a TypeError (runs/mesh.py).
    """
    return jax.shard_map(function, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False)


def meet_other_hosts(coordinator: str | None, hosts: int | None, host: int | None, heartbeat_seconds: int) -> None:
    """Connect a run's processes; None leaves an argument to the cluster, and raises ValueError where there is none.

    API: the option jax_enable_preemption_service, undocumented, and heartbeat_timeout_seconds of
    jax.distributed.initialize.
    Without it: jax swallows SIGTERM, so that a run is killed before it has saved, and the death of a host is noticed
    after minutes (engine/hosts.py).
    """
    jax.config.update("jax_enable_preemption_service", False)
    jax.distributed.initialize(coordinator, hosts, host, heartbeat_timeout_seconds=heartbeat_seconds)


# --- jax: compiled code on disk -------------------------------------------------------------------------


@cache
def write_compiled_code_whole() -> None:
    """Make jax write entries of its compilation cache whole or not at all, and replace damaged ones.

    API: LRUCache of jax._src.lru_cache, private: its method `put`, its attributes `path` and `eviction_enabled`. jax
    writes an entry where it will be read, and never again.
    Without it: a process that is killed while it writes leaves half an entry, which no later one mends and all warn
    about; and one that reads while another writes warns too. Where it is gone, no code is kept (_compiled.py).
    """
    from jax._src.lru_cache import LRUCache

    of_jax = LRUCache.put

    def put(self: Any, key: str, value: bytes) -> None:
        if self.eviction_enabled:  # somebody has set a limit, which jax keeps with files of its own
            of_jax(self, key, value)
            return
        path = Path(str(self.path)) / f"{key}-cache"
        partial = path.with_name(f".{uuid.uuid4().hex}")
        try:
            partial.write_bytes(value)
            partial.replace(path)
        except OSError:  # a full disk costs a compilation, and no warning for every program
            pass
        finally:
            partial.unlink(missing_ok=True)

    LRUCache.put = put  # type: ignore[method-assign]


@cache
def keep_compiled_callers_of_python() -> None:
    """Let jax's compilation cache keep programs that call Python, too, as every peer's does.

    API: compile_or_get_cached of jax._src.compiler, private, and host_callbacks of the client's `compile_and_load` and
    `deserialize_executable`. A program names its callbacks by their numbers alone, and those of this process are handed
    over when it is loaded, so what is found calls what it would call if it were compiled here.
    Only for jax before 0.11.2, which does so by itself and is left alone.
    Without it: every start of `consilience peer` compiles for some seconds. Where it is gone, no code is kept
    (_compiled.py).
    """
    from jax._src import compilation_cache, compiler

    name = "host_callbacks"
    if name in inspect.signature(compilation_cache.get_executable_and_time).parameters:
        return
    of_jax = compiler.compile_or_get_cached
    if [*inspect.signature(of_jax).parameters][4] != name:
        raise AttributeError(f"jax {jax.__version__} has its programs' callbacks elsewhere.")

    def compile_or_get_cached(
        client: Any, program: Any, devices: Any, options: Any, callbacks: Sequence[Any], *others: Any, **named: Any
    ) -> Any:
        # jax keeps no programs with callbacks; nor may hosts share them, since each has callbacks of its own.
        if callbacks and not jax.config.jax_share_binary_between_hosts:  # type: ignore[attr-defined]
            client, callbacks = _ClientWithCallbacks(client, callbacks), ()
        return of_jax(client, program, devices, options, callbacks, *others, **named)

    compiler.compile_or_get_cached = compile_or_get_cached  # type: ignore[assignment]


class _ClientWithCallbacks:
    """A client of XLA that adds the callbacks to programs that it compiles or loads."""

    def __init__(self, client: Any, callbacks: Sequence[Any]) -> None:
        self._client, self._callbacks = client, callbacks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def compile_and_load(self, *arguments: Any, **named: Any) -> Any:
        return self._client.compile_and_load(*arguments, **named, host_callbacks=self._callbacks)

    def deserialize_executable(self, *arguments: Any, **named: Any) -> Any:
        return self._client.deserialize_executable(*arguments, **named, host_callbacks=self._callbacks)


# --- jax: errors ---------------------------------------------------------------------------------------


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error says that a device had too little memory for what it was to compute.

    API: the text of jax's errors, which begins with the name of a status of XLA.
    Without it: a host that has run out of memory says that another host has gone (cli/devices.py).
    """
    return isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)


# --- jax: checked indices ------------------------------------------------------------------------------


def with_checked_indices(function: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """Return `function` with checks of its indices: it also returns an error, to be read by `wrong_indices`.

    API: jax.experimental.checkify with index_checks.
    Without it: a row of data whose index is out of range is sampled as if it were in the last group
    (model/numpyro_rows.py).
    """
    from jax.experimental import checkify

    return checkify.checkify(function, errors=checkify.index_checks)


def wrong_indices(error: Any, but: int = -1) -> dict[int, str]:
    """Return, by lane of a `vmap`, how the first index that is out of range there is described.

    API: the flags by kind of error in a checkify error, private, which say in which lanes there is one; and that the
    error is a pytree whose leaves have the lanes as their first axis. The description is for people alone.
    Without it: as without `with_checked_indices`.

    Args:
      but: a lane with a known error: others that have the same, of the same index, are left out.
    """
    lanes = np.flatnonzero(np.any([*error._pred.values()], axis=0))
    wrong = {int(lane): jax.tree.map(lambda leaf, lane=lane: leaf[lane].tolist(), error) for lane in lanes}
    known = jax.tree.leaves(wrong.pop(but, None))
    return {lane: one.get().strip() for lane, one in wrong.items() if jax.tree.leaves(one) != known}


# --- BlackJAX ------------------------------------------------------------------------------------------


def warmup_schedule(num_warmup: int, *lengths: int) -> tuple[np.ndarray, np.ndarray]:
    """Return, for every iteration of a warm-up, its stage (1 in windows of the mass matrix) and whether a window ends.

    API: blackjax.adaptation.window_adaptation.build_schedule, undocumented: rows of (stage, is last of a window).
    Without it: `cs.nuts`, `cs.hmc`, `cs.mala` and `cs.dmala` cannot tune themselves (samplers/adaptation.py).

    Args:
      lengths: iterations in the first buffer, the last buffer and the first window; BlackJAX's own where left out.
    """
    from blackjax.adaptation.window_adaptation import build_schedule

    stage, ends = np.asarray(build_schedule(num_warmup, *lengths)).T
    return stage, ends


def dual_averaging(target_acceptance: Any) -> tuple[Callable, Callable, Callable]:
    """Return functions init(step_size), update(state, acceptance), final(state) that adapt a step size.

    API: blackjax.adaptation.step_size.dual_averaging_adaptation, and the fields log_step_size and log_step_size_avg of
    its state.
    Without it: as without `warmup_schedule`.
    """
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    return dual_averaging_adaptation(target_acceptance)


def mass_matrix_estimation(dense: bool) -> tuple[Callable, Callable, Callable]:
    """Return functions init(dimension), update(state, position), final(state) that estimate one window's mass matrix.

    API: blackjax.adaptation.mass_matrix.mass_matrix_adaptation, and the field inverse_mass_matrix of its state.
    Without it: as without `warmup_schedule`.
    """
    from blackjax.adaptation.mass_matrix import mass_matrix_adaptation

    return mass_matrix_adaptation(is_diagonal_matrix=not dense)


# --- NumPyro -------------------------------------------------------------------------------------------


def inputs_of(function: Callable[..., Any], **arguments: Any) -> Any:
    """Return the set of arguments that each part of the result of `function` depends on, in the form of that result.

    API: numpyro.ops.provenance.eval_provenance, which reads jaxprs in ways that jax does not promise either.
    Without it: it cannot be told which sites of a NumPyro model are prior and which likelihood
    (model/numpyro_sites.py), nor which columns a prediction needs (model/numpyro.py).
    """
    from numpyro.ops.provenance import eval_provenance

    return eval_provenance(function, **arguments)


def observation_and_key(site: Mapping[str, Any]) -> tuple[Any, jax.Array]:
    """Return what was observed at a NumPyro site under `uncondition`, and the random key to draw it anew.

    API: the entries that NumPyro's handlers leave in a message: site["infer"]["obs"], site["kwargs"]["rng_key"].
    Without it: NumPyro models have no posterior predictive draws (model/numpyro.py).
    """
    return site["infer"]["obs"], site["kwargs"]["rng_key"]


def mask_of(fn: Any) -> jax.Array:
    """Return which elements of a NumPyro distribution's batch no mask leaves out, broadcastable to its batch shape.

    API: the attributes `_mask` and `base_dist` of distributions, and that `Independent` has `reinterpreted_batch_ndims`
    last axes of its base's batch in its events.
    Without it: rows that a mask leaves out are counted as observations (model/numpyro.py).
    """
    from numpyro import distributions as dist

    if isinstance(fn, dist.Unit) or not hasattr(fn, "base_dist"):
        return jnp.array(True)
    inner = mask_of(fn.base_dist)
    if isinstance(fn, dist.MaskedDistribution):
        return inner & jnp.asarray(fn._mask)
    if isinstance(fn, dist.Independent):
        inner = jnp.broadcast_to(inner, fn.base_dist.batch_shape)
        return inner.any(axis=tuple(range(inner.ndim - fn.reinterpreted_batch_ndims, inner.ndim)))
    return inner


# --- ArviZ ---------------------------------------------------------------------------------------------


def array_stats() -> Any:
    """Return ArviZ's figures of plain arrays: ess, mcse, rhat, bfmi, loo with chain_axis and draw_axis; kde, psislw.

    API: arviz_stats.base.array_stats, the layer below the documented functions, which want labelled arrays; that psislw
    takes log-likelihoods, and returns the logarithms of the weights that leave a row out.
    Without it: no summary has an R-hat, an effective sample size or a standard error (results/diagnostics.py), no run a
    leave-one-out cross-validation (results/loo_rows.py), and no report a LOO-PIT (results/checks.py).
    """
    return require("arviz_stats.base", "report").array_stats


@cache
def elpd_ddof() -> int:
    """Return what ArviZ takes off n where it divides the variance of elpd by n - ddof, for the standard error of a sum.

    API: loo_summary of arviz_stats.base.array_stats, whose divisor is nowhere documented: n up to 0.8, n - 1 from 1.3
    on. That of a difference of two models, `dse` of arviz_stats.compare, is n in both.
    Without it: the standard errors of run.loo, cs.compare and `consilience compare` are not those that the installed
    ArviZ has for the same rows (results/loo_sums.py).
    """
    _, se, _, _ = array_stats().loo_summary(np.array([-1.0, 1.0]), np.zeros(2))  # se² = 2 · 2 / (2 - ddof)
    return round(2 - 4 / se**2)


# --- zarr ----------------------------------------------------------------------------------------------


@cache
def zarr_store_written_by(write: Callable[[Path, Any], None]) -> Any:
    """Return a class of zarr stores in a folder, every file of which is written by write(path, bytes).

    API: zarr.storage.LocalStore as a base class: that all is written by `set`, `set_if_not_exists` or, in the fused
    pipeline of zarr 3.4, `set_sync`; its attribute `root`; that values have as_buffer_like().
    Without it: draws are not on the disk when a checkpoint says that they are, and after a power cut a run that goes
    on has holes in it (store/files.py).
    """
    storage = require("zarr", "store").storage

    class DurableStore(storage.LocalStore):  # type: ignore[name-defined, misc]
        async def set(self, key: str, value: Any) -> None:
            await asyncio.to_thread(self.set_sync, key, value)

        async def set_if_not_exists(self, key: str, value: Any) -> None:
            if not (self.root / key).exists():
                await self.set(key, value)

        def set_sync(self, key: str, value: Any) -> None:
            write(self.root / key, value.as_buffer_like())

    return DurableStore


# --- Zenoh ---------------------------------------------------------------------------------------------

_ZENOH_REFUSALS = "off,zenoh_link_tls::unicast=warn,zenoh::net::routing::interceptor::access_control=info"
_ZENOH_REFUSAL = re.compile("zenoh_link_tls|access_control")
_ZENOH_NOISE = re.compile(r"^\S+\s+[A-Z]+\s.*?(?=zenoh)|\. Hint: increase the system open file limit\.")


def log_zenoh_refusals() -> None:
    """Make Zenoh write to stdout whom it refuses, for the rest of the process, unless RUST_LOG says otherwise.

    API: zenoh.init_log_from_env_or, the names of modules inside of Zenoh, and that NO_COLOR makes its lines plain.
    Without it: nobody learns that a stranger, or an agent with an expired certificate, tries to connect (cli/peer.py).
    """
    os.environ.setdefault("NO_COLOR", "1")
    require("zenoh", "peers").init_log_from_env_or(_ZENOH_REFUSALS)


def zenoh_refusal(line: str) -> str | None:
    """Return what a line of Zenoh's log says of somebody who was refused; None if it is about something else.

    API: the text of Zenoh's log.
    Without it: as without `log_zenoh_refusals`.
    """
    return _ZENOH_NOISE.sub("", line).strip() if _ZENOH_REFUSAL.search(line) else None
