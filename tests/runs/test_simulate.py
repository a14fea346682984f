"""The simulate runtime: repeatable, indifferent to how a run is cut up, compiled once, and honest about its cost."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import consilience as cs
from consilience.engine import compiling
from consilience.neighbors import AGENTS, Alone, LaneNeighbors, Traffic, edge_lists
from consilience.runs import simulation as lanes

from ..halves import checkerboard
from ..samplers.harness import simulation
from ..targets import ONE_CHAIN, linear_regression

RING = cs.Network.ring(5)
TARGET = linear_regression(5)
ALONE = cs.Network.complete(1)
SAMPLERS = {
    "published": (cs.published(0.05, rounds={0: 1, 30: 3}), RING),
    "dula": (cs.dula(0.01), RING),
    "desgld": (cs.desgld(0.001), RING),
    "desghmc": (cs.desghmc(0.01, friction=5.0), RING),
    "diging": (cs.diging(0.001), RING),
    "extra": (cs.extra(0.001), RING),
    "dmala": (cs.dmala(0.1, inverse_mass_matrix=1.0), RING),
    "nuts": (cs.nuts(0.1, inverse_mass_matrix=1.0), RING),
    "hmc": (cs.hmc(0.1, inverse_mass_matrix=1.0, num_integration_steps=3), RING),
    "mala": (cs.mala(0.1, inverse_mass_matrix=1.0), RING),
    "centralized_hmc": (cs.centralized_hmc(0.2, num_integration_steps=3), ALONE),
}


def sample(sampler, network, **options):
    options = {"init": np.zeros(3, np.float32), "num_samples": 40, "progress": False, **options}
    shards = TARGET.shards if network.size > 1 else cs.pool(TARGET.shards)
    return cs.sample(TARGET.posterior, shards, network, sampler, **(ONE_CHAIN | options))


# What these carry from one iteration to the next, others that are tried carry too: diging more, nuts the same.
LIKE_OTHERS = ("desghmc", "extra", "hmc", "mala")


def half(first):
    """Try every second sampler, from this one on; in make soak the rest, and those that are like others."""
    ours = [name for name in SAMPLERS if name not in LIKE_OTHERS]
    others = [pytest.param(name, marks=pytest.mark.soak) for name in LIKE_OTHERS]
    return pytest.mark.parametrize("name", [*checkerboard(ours, first=first), *others])


@pytest.fixture
def sampler(name):
    return SAMPLERS[name][0]


@pytest.fixture
def network(name):
    return SAMPLERS[name][1]


class TestDraws:
    @half(0)
    def test_the_same_seed_gives_the_same_draws_and_another_does_not(self, sampler, network):
        one, same, other = (sample(sampler, network, num_chains=2, seed=s).draws for s in (3, 3, 4))
        np.testing.assert_array_equal(one, same)
        assert not np.array_equal(one, other)
        assert not np.array_equal(one[:, 0], one[:, 1])  # chains differ

    @pytest.mark.parametrize("name", SAMPLERS)
    def test_however_a_run_is_cut_up_its_draws_are_the_same_to_the_bit(self, sampler, network):
        whole = simulation(TARGET, network, sampler, chains=2).advance(230, 1)
        cut = simulation(TARGET, network, sampler, chains=2)
        chunks = [cut.advance(n, 1) for n in (1, 7, 100, 99, 23)]
        np.testing.assert_array_equal(np.concatenate([c.positions for c in chunks]), whole.positions)
        for name, values in whole.stats.items():
            np.testing.assert_array_equal(np.concatenate([c.stats[name] for c in chunks]), values)
        assert sum((c.traffic for c in chunks), Traffic()) == whole.traffic

    @half(0)
    def test_thinning_and_warm_up_drop_draws_and_change_none(self, sampler, network):
        every = sample(sampler, network, num_samples=50)
        some = sample(sampler, network, num_samples=8, num_warmup=10, thin=5)
        np.testing.assert_array_equal(some.draws, every.draws[:, :, 14::5])
        assert some.iterations == every.iterations == 50
        assert some.traffic == every.traffic
        for name, values in some.stats.items():
            kept = every.stats[name][:, :, 10:].reshape(*values.shape, 5)
            expected = kept[..., -1] if name == "disagreement" else kept.mean(axis=-1)  # that is of the draw itself
            np.testing.assert_allclose(values, expected, rtol=1e-5)

    @half(1)
    def test_a_chain_does_not_depend_on_how_many_run_beside_it(self, sampler, network):
        two = sample(sampler, network, num_chains=2).draws
        three = sample(sampler, network, num_chains=3).draws
        np.testing.assert_allclose(two, three[:, :2], rtol=1e-4, atol=1e-5)

    @half(0)
    def test_neither_length_nor_settings_nor_seed_compile_anything_anew(self, sampler, network, compilations):
        sample(sampler, network, num_warmup=1)
        compilations.clear()
        sample(sampler, network, num_samples=77, num_warmup=5, thin=2, seed=9)
        other = replace(sampler, step_size=sampler.step_size / 2)
        sample(other, network if network.size == 1 else cs.Network.ring(5, weights="max-degree"))
        assert compilations == []
        sample(sampler, network, num_chains=7)
        assert compilations  # the listener listens

    @half(1)
    def test_ranks_and_dtypes_are_not_promoted_silently(self, sampler, network):
        blackjax_s = sampler.replicated  # and not strict with itself
        strict = nullcontext() if blackjax_s else jax.numpy_dtype_promotion("strict")
        with jax.numpy_rank_promotion("raise"), strict:
            run = sample(sampler, network, num_chains=2)
        assert run.draws.dtype == np.float32

    @half(0)
    def test_a_kernel_is_blackjax_s_pair(self, sampler, network):
        """init and step, for one agent, without any runtime."""
        shard = jax.tree.map(lambda leaf: leaf[0], simulation(TARGET, network, sampler).inputs.shards)
        position = jnp.ones(3)
        kernel = sampler.resolve(network, 3).build(
            lambda w: TARGET.posterior.local_logdensity(w, shard, network.size), Stub(network.size), position
        )
        state, info = kernel.step(jax.random.key(0), kernel.init(position))
        assert state.position.shape == position.shape
        assert state.iteration == 1
        assert all(jnp.ndim(value) == 0 for value in info)

    def test_an_energy_keeps_the_digits_it_was_computed_with(self):
        """Above 10⁷ float32 has no digits left behind the point."""
        far = cs.Posterior(lambda w: TARGET.posterior.log_prior(w) - 1e9, TARGET.posterior.log_likelihood)
        options = {"init": np.zeros(3), "num_samples": 40, "progress": False}
        with jax.enable_x64(True):
            near, away = (
                cs.sample(posterior, TARGET.shards, RING, cs.nuts(0.1, 1.0), **(ONE_CHAIN | options)).stats["energy"]
                for posterior in (TARGET.posterior, far)
            )
        np.testing.assert_allclose(away - 1e9, near, atol=1e-5)
        assert np.ptp(near) > 0.1

    @half(1)
    def test_float64_stays_float64(self, sampler, network):
        with jax.enable_x64(True):
            run = sample(sampler, network, init=np.zeros(3))
        assert run.draws.dtype == np.float64
        assert np.isfinite(run.draws).all()


class Stub(Alone):
    """Neighbors of an agent that hears only itself: a sampler runs without any runtime."""

    def __init__(self, size):
        self.size = size


class TestCompiledCodeIsFoundByWhatItComputes:
    """Never by the name of a function that has come to mean something else."""

    DATA: ClassVar = [{"z": np.ones(4, np.float32)}]

    def run(self, log_prior, **options):
        posterior = cs.Posterior(log_prior, lambda w, batch: -0.5 * (batch["z"] - w) ** 2)
        options = {"init": 0.5, "num_samples": 400, "progress": False, **options}
        return cs.sample(
            posterior,
            self.DATA,
            ALONE,
            cs.centralized_hmc(0.1, num_integration_steps=3),
            **(ONE_CHAIN | options),
        ).draws

    def test_a_global_that_changed(self):
        scale = 1.0

        def log_prior(w):
            return -0.5 * scale * w**2

        before = self.run(log_prior).mean()
        scale = 100.0
        assert abs(self.run(log_prior).mean()) < 0.2 < before

    def test_an_object_that_changed(self):
        class Model:
            scale = 1.0

            def log_prior(self, w):
                return -0.5 * self.scale * w**2

        model = Model()
        before = self.run(model.log_prior).mean()
        model.scale = 100.0
        assert abs(self.run(model.log_prior).mean()) < 0.2 < before

    @pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["plain", "jitted"])
    def test_a_captured_array_that_changed(self, wrap):
        scale = np.ones(3, np.float32)

        def make():
            return wrap(lambda w: -0.5 * jnp.sum(scale * w**2))

        before = self.run(make()).mean()
        scale *= 100
        assert abs(self.run(make()).mean()) < 0.2 < before

    def test_a_schedule_that_changed(self):
        count = 2
        sampler = cs.published(0.05, rounds=lambda t: count + 0 * t)
        assert sample(sampler, RING, num_samples=10).traffic.rounds == 2 * 2 * 10
        count = 5
        assert sample(sampler, RING, num_samples=10).traffic.rounds == 2 * 5 * 10

    def test_a_model_written_again_compiles_nothing(self, compilations):
        first = self.run(lambda w: -0.5 * jnp.square(w))
        compilations.clear()
        np.testing.assert_array_equal(self.run(lambda w: -0.5 * jnp.square(w)), first)
        assert compilations == []

    def test_code_once_compiled_does_not_follow_a_model_that_changes(self):
        """Two equal models; the first runs, changes, and jax forgets all it has traced: the second must not notice."""

        class Model:
            scale = 1.0

            def log_prior(self, w):
                return -0.5 * self.scale * w**2

        first, second = Model(), Model()
        before = self.run(first.log_prior)
        first.scale = 100.0
        jax.clear_caches()
        np.testing.assert_array_equal(self.run(second.log_prior), before)

    def test_callbacks_of_one_name_are_not_one(self):
        def prior_around(center):
            def pull(w):
                return np.asarray(center - w, w.dtype)

            @jax.custom_jvp
            def log_prior(w):
                return -0.5 * (center - w) ** 2

            @log_prior.defjvp
            def slope(primals, tangents):
                shape = jax.ShapeDtypeStruct(primals[0].shape, primals[0].dtype)
                pulled = jax.pure_callback(pull, shape, primals[0], vmap_method="expand_dims")
                return log_prior(primals[0]), pulled * tangents[0]

            return log_prior

        near, far = (self.run(prior_around(center), num_samples=50).mean() for center in (1.0, -3.0))
        assert far < near - 0.2

    def test_callables_need_no_hash(self):
        @dataclass
        class Prior:
            scale: float

            def __call__(self, w):
                return -0.5 * self.scale * w**2

        assert np.isfinite(self.run(Prior(2.0))).all()


def test_collectives_in_loops_are_refused_because_they_could_not_be_counted():
    def agent(x):
        neighbors = LaneNeighbors(edge_lists(RING))
        return jax.lax.fori_loop(0, 3, lambda _, v: neighbors.mix(v), x)

    with pytest.raises(RuntimeError, match="inside lax control flow cannot be counted"):
        jax.vmap(agent, axis_name=AGENTS)(jnp.zeros(5))


def test_more_draws_than_fit_are_refused_and_chunks_hold_no_buffer():
    run = simulation(TARGET, RING, cs.dula(0.01))
    with pytest.raises(ValueError, match="1025 draws at once do not fit into the buffer of 1024"):
        run.advance(1025, 1)
    chunk = run.advance(2, 1)
    assert all(array.base is None for array in (chunk.positions, *chunk.stats.values()))


def test_cost_is_counted_round_by_round():
    iterations, chains, d = 50, 3, 3
    run = sample(cs.published(0.05, rounds={0: 1, 30: 3}), RING, num_samples=20, num_warmup=30, num_chains=chains)
    per_exchange = 30 * 1 + 20 * 3
    assert run.traffic.rounds == 2 * per_exchange
    assert run.traffic.messages == 10 * 2 * per_exchange  # five edges, both ways
    assert run.traffic.bytes == 10 * per_exchange * chains * 4 * ((d + 1) + d)  # (g, ℵ), then ω
    silent = sample(cs.published(0.05, gradient_tracking=False, consensus_step=False), RING, num_samples=iterations)
    assert silent.traffic == Traffic(0, 0, 0)
    laplacian = sample(cs.dula(0.01), RING, num_samples=iterations)
    assert laplacian.traffic == Traffic(iterations, 10 * iterations, 10 * iterations * 4 * d)
    assert sample(cs.published(0.05), ALONE, num_samples=iterations).traffic == Traffic(0, 0, 0)


def test_a_function_of_the_iteration_is_a_schedule():
    run = sample(cs.published(0.05, rounds=lambda t: 1 + t // 10), RING, num_samples=30)
    assert run.traffic.rounds == 2 * 10 * (1 + 2 + 3)


def test_the_device_holds_a_bounded_number_of_draws():
    wide = cs.Posterior(lambda w: -0.5 * jnp.vdot(w, w), lambda w, batch: 0 * batch * w[0])
    from consilience.model import Layout, stack_shards

    layout = Layout.of(jnp.zeros(200_000))
    shards = stack_shards([np.ones(1, np.float32)] * 5, 5)
    sampler = cs.dula(1e-3).resolve(RING, layout.dimension)
    run = lanes(wide, layout, shards, RING, sampler, jnp.zeros((2, 200_000)), jax.random.key(0)).started()
    draw_bytes = 2 * 5 * 200_000 * 4
    assert run.program.buffer * draw_bytes <= compiling.BUFFER_BYTES
    assert draw_bytes > compiling.NOISE_BYTES_ON_CPU and run.program.block == 1
    sizes = [len(chunk.positions) for chunk in (run.advance(run.program.buffer, 1), run.advance(1, 1))]
    assert sum(sizes) == run.program.buffer + 1
    assert max(sizes) <= run.program.buffer


def test_a_chain_per_key_starts_where_init_says():
    run = sample(cs.published(1e-6), RING, num_samples=1, num_chains=4, init=lambda key: jax.random.normal(key, (3,)))
    starts = run.draws[0, :, 0]
    assert len(np.unique(starts)) == 12
    np.testing.assert_allclose(run.draws[1, :, 0], starts, atol=1e-4)  # all agents alike


def test_progress_is_reported_where_people_look(capsys):
    sample(cs.dula(0.01), RING, num_samples=25, num_warmup=5, progress=True)
    assert "dula: 30 of 30 iterations" in capsys.readouterr().err
    sample(cs.dula(0.01), RING)
    assert capsys.readouterr().err == ""
