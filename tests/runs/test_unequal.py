"""Agents with very unequal shards: the draws of padded shards, another way to compute them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import consilience as cs
from consilience.model import Layout, ShardsBySize, stack_by_size
from consilience.runs import simulation as lanes

from ..targets import ONE_CHAIN

DIMENSION = 3
LENGTHS = (4, 9, 150, 5, 60)
RING = cs.Network.ring(len(LENGTHS))
POSTERIOR = cs.Posterior(
    lambda w: -0.5 * w @ w,
    lambda w, batch: batch["y"] * (batch["x"] @ w) - jnp.logaddexp(0.0, batch["x"] @ w),
)
SAMPLERS = {
    "nuts": lambda: cs.nuts(0.1, 1.0),
    "nuts adapted": lambda: cs.nuts(),
    "hmc": lambda: cs.hmc(0.1, 1.0, num_integration_steps=3),
    "mala": lambda: cs.mala(0.1, 1.0),
    "dmala": lambda: cs.dmala(0.05, 1.0),
    "dula": lambda: cs.dula(0.01),
    "published": lambda: cs.published(0.05),
    "desgld": lambda: cs.desgld(0.001),
    "desgld minibatch": lambda: cs.desgld(0.001, batch_size=3),
    "diging minibatch": lambda: cs.diging(0.001, batch_size=3),
    "extra": lambda: cs.extra(0.001),
    "consensus_monte_carlo": lambda: cs.consensus_monte_carlo(0.1, 1.0),
}


def shard_of(agent, lengths=LENGTHS):
    random = np.random.default_rng(agent)
    x = random.standard_normal((lengths[agent], DIMENSION))
    return {"x": x, "y": (random.random(len(x)) < 0.5).astype(float)}


def sample(sampler, shards=shard_of, **options):
    options = {"init": jnp.zeros(DIMENSION), "num_samples": 40, "num_chains": 2, "progress": False, **options}
    return cs.sample(POSTERIOR, shards, RING, sampler, **(ONE_CHAIN | options))


def simulation(sampler, lengths=LENGTHS, **options):
    shards = stack_by_size([shard_of(agent, lengths) for agent in range(len(lengths))])
    layout = Layout.of(jnp.zeros(DIMENSION))
    network = cs.Network.ring(len(lengths))
    positions = jnp.zeros((1, DIMENSION))
    return lanes(POSTERIOR, layout, shards, network, sampler, positions, jax.random.key(0), **options).started()


@pytest.fixture
def double():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def padded(monkeypatch):
    """A function after whose call all shards are padded to one length."""
    return lambda: monkeypatch.setattr("consilience.model.shards.MOST_PADDED", np.inf)


def assert_same(found, right):
    np.testing.assert_allclose(found.kept, right.kept, rtol=0, atol=1e-9)
    for name, values in right.raw_stats.items():
        np.testing.assert_allclose(found.raw_stats[name], values, rtol=0, atol=1e-7, err_msg=name)
    assert found.traffic == right.traffic


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_draws_are_those_of_padded_shards(double, name, padded):
    warm_up = {"num_warmup": 30} if name == "nuts adapted" else {}
    found = sample(SAMPLERS[name](), **warm_up)
    padded()
    assert_same(found, sample(SAMPLERS[name](), **warm_up))


def test_agents_with_a_copy_each_draw_the_one_chain(double):
    one, each = (simulation(cs.mala(0.1, 1.0), one_copy=one_copy).advance(20, 1) for one_copy in (True, False))
    np.testing.assert_allclose(each.positions, np.broadcast_to(one.positions, each.positions.shape), atol=1e-9)


@pytest.mark.parametrize("name", ["nuts", "published"])
def test_how_rows_are_stacked_is_no_part_of_what_a_run_is(double, name, padded, tmp_path):
    """A run that began with padded shards goes on with others, and on a mesh; its record is the same."""
    sampler = SAMPLERS[name]()
    whole = sample(sampler, num_samples=30)
    sample(sampler, num_samples=10, out=tmp_path / "run")
    sample(sampler, num_samples=20, out=tmp_path / "run", resume=True, runtime=cs.Devices(2))
    padded()
    assert_same(sample(sampler, num_samples=30, out=tmp_path / "run", resume=True), whole)


@pytest.mark.parametrize("name", ["nuts", "dmala", "published"])
def test_a_mesh_draws_the_same(double, name):
    assert_same(sample(SAMPLERS[name](), runtime=cs.Devices(2)), sample(SAMPLERS[name]()))


def test_neither_length_nor_seed_nor_other_rows_compile_anything_anew(compilations):
    sample(cs.dmala(0.05, 1.0))
    compilations.clear()
    sample(cs.dmala(0.03, 1.0), seed=4, num_samples=77)
    sample(cs.dmala(0.03, 1.0), shards=lambda agent: shard_of(4 - agent))  # as many agents of each size, elsewhere
    assert compilations == []


@pytest.mark.parametrize("one", range(len(LENGTHS)))
def test_the_agent_that_cannot_start_is_named(one):
    def spoiled(agent):
        return shard_of(agent) | ({"y": np.full(LENGTHS[agent], np.inf)} if agent == one else {})

    with pytest.raises(ValueError, match=f"agent {one}: the log-likelihood is"):
        sample(cs.dula(0.01), spoiled, init=jnp.ones(DIMENSION))


def test_rows_are_neither_padded_nor_copied_on_their_way():
    run = simulation(cs.nuts(0.1, 1.0))
    assert isinstance(run.inputs.shards, ShardsBySize)
    rows = sum(part.batch["y"].size for part in run.inputs.shards.classes)
    assert rows <= 1.25 * sum(LENGTHS)
    memory = simulation(cs.nuts(0.1, 1.0), lengths=[50] * 19 + [20_000])._compiled.advance.memory_analysis()
    data = 4 * (DIMENSION + 1) * 20_950
    assert memory.argument_size_in_bytes < 1.1 * data
    assert memory.temp_size_in_bytes < 4 * data  # padded shards would have 19 times as many rows
