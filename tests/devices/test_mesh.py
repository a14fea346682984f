"""One seed, one chain: as lanes of one array, and on meshes of one, two and five devices."""

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

import consilience as cs
from consilience.engine import Accumulated
from consilience.engine.moments import nothing_accumulated
from consilience.runs.arrays import MeshArrays

from ..halves import checkerboard
from ..targets import ONE_CHAIN
from .problem import DIMENSION, POSTERIOR, sample, shard_of

# Seven agents: four and three on two devices, two and one on five. Degrees one to four.
UNEVEN = cs.Network.from_networkx(
    nx.Graph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 0), (0, 3), (0, 4), (2, 5)])
)
NETWORKS = {"uneven": UNEVEN, "star": cs.Network.star(5), "grid": cs.Network.grid(2, 5), "pair": cs.Network.path(2)}
COUNTS = (1, 2, 5)


@pytest.fixture
def double():
    with jax.enable_x64(True):
        yield


def assert_same(found, right):
    np.testing.assert_allclose(found.kept, right.kept, rtol=0, atol=1e-8)
    for name, values in right.raw_stats.items():
        np.testing.assert_allclose(found.raw_stats[name], values, rtol=0, atol=1e-6, err_msg=name)
    assert found.traffic == right.traffic


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("nuts", [5]),
        ("dmala", COUNTS),
        ("published", [5]),
        *(pytest.param(name, [1, 2], marks=pytest.mark.soak) for name in ("nuts", "published")),
    ],
    ids=str,
)
def test_the_chain_is_that_of_simulate(double, name, counts):
    right = sample(name, UNEVEN)
    for count in counts:
        assert_same(sample(name, UNEVEN, runtime=cs.Devices(count)), right)


@pytest.mark.parametrize(("name", "network"), checkerboard(["extra", "mala"], ["star", "grid", "pair"]))
def test_on_other_networks(double, name, network):
    right = sample(name, NETWORKS[network])
    assert_same(sample(name, NETWORKS[network], runtime=cs.Devices(5)), right)


def test_momentum_too(double):
    assert_same(sample("desghmc", UNEVEN, runtime=cs.Devices(2)), sample("desghmc", UNEVEN))


def test_all_that_is_seen_of_draws(double):
    def seen(runtime):
        return sample(
            "dmala",
            UNEVEN,
            runtime=runtime,
            num_warmup=7,
            thin=3,
            keep=lambda w: {"sum": w.sum()},
            moments=True,
            watch=lambda mean: {"first": mean[0]},
        )

    right, found = seen(None), seen(cs.Devices(2))
    assert_same(found, right)
    assert found.kept.shape == (100, 2, 7, 1)
    np.testing.assert_allclose(found.moments.mean, right.moments.mean, atol=1e-8)
    np.testing.assert_allclose(found.moments.variance, right.moments.variance, atol=1e-8)


def test_adaptation_runs_alike_on_all_devices():
    run = cs.sample(
        POSTERIOR,
        [shard_of(agent) for agent in range(7)],
        UNEVEN,
        cs.nuts(),
        num_warmup=200,
        num_samples=50,
        num_chains=1,
        init=jnp.zeros(DIMENSION),
        runtime=cs.Devices(5),
        progress=False,
    )
    assert not run.raw_stats["redone"].any() and np.isfinite(run.kept).all()


@pytest.mark.filterwarnings("ignore:consensus_monte_carlo")  # so few draws cannot settle
def test_draws_combined_at_the_end(double):
    sampler = cs.consensus_monte_carlo(step_size=0.3)
    options = {"num_samples": 20, "init": jnp.zeros(DIMENSION), "progress": False}
    right = cs.sample(POSTERIOR, shard_of, UNEVEN, sampler, **(ONE_CHAIN | options))
    found = cs.sample(POSTERIOR, shard_of, UNEVEN, sampler, **(ONE_CHAIN | options), runtime=cs.Devices(2))
    np.testing.assert_allclose(found.kept, right.kept, atol=1e-8)


@pytest.mark.parametrize("name", ["dmala", "nuts"])
def test_a_run_goes_on_on_another_mesh(double, name, tmp_path):
    right = sample(name, UNEVEN, 60)
    places = [cs.Devices(5), None, cs.Devices(2)]
    for draws, place in zip((20, 40, 60), places, strict=True):
        found = sample(name, UNEVEN, draws, place, out=tmp_path / "run", resume=True, moments=True)
    np.testing.assert_allclose(found.kept[:], right.kept, atol=1e-8)
    assert found.moments.draws == 60
    np.testing.assert_allclose(found.moments.mean, right.draws.mean(axis=2), atol=1e-8)


def test_a_second_run_on_a_mesh_compiles_nothing(compilations):
    sample("dmala", UNEVEN, 10, cs.Devices(2))
    before = len(compilations)
    sample("dmala", UNEVEN, 25, cs.Devices(2), seed=3)
    assert len(compilations) == before


def test_more_devices_than_agents_are_left_alone(double):
    network = cs.Network.path(2)
    assert_same(sample("dmala", network, runtime=cs.Devices()), sample("dmala", network))


def test_one_agent_alone(double):
    network = cs.Network.complete(1)
    assert_same(sample("dmala", network, runtime=cs.Devices(5)), sample("dmala", network))


@pytest.mark.parametrize(
    ("runtime", "message"),
    [(cs.Devices(6), "jax has 5 here"), ("devices", r"runtime=cs.Devices\(\)")],
)
def test_refusals(runtime, message):
    with pytest.raises((ValueError, TypeError), match=message):
        sample("dmala", UNEVEN, runtime=runtime)


@pytest.mark.parametrize("devices", [0, True, 2.0, "2", [], [0], jax.devices()[0], [jax.devices()[0]] * 2])
def test_no_devices_at_all(devices):
    with pytest.raises(ValueError, match="devices = "):
        cs.Devices(devices)


def test_the_agent_that_cannot_start_is_named():
    def shards(agent):
        shard = shard_of(agent)
        return {**shard, "y": shard["y"] + (np.inf if agent == 6 else 0)}

    with pytest.raises(ValueError, match="agent 6: the log-likelihood is"):
        sample("dmala", UNEVEN, runtime=cs.Devices(2), shards=shards)


def test_a_function_that_gives_an_agent_nothing():
    with pytest.raises(ValueError, match="agent 3: it has no examples"):
        sample("dmala", UNEVEN, shards=lambda agent: {k: v[: 5 * (agent != 3)] for k, v in shard_of(agent).items()})


def test_moments_begin_where_they_stay():
    """Zeros of all agents on one device would need the room that a mesh is there to do without."""
    arrays = MeshArrays(tuple(jax.devices()[:5]), 7)
    by_agent = arrays.form(jax.ShapeDtypeStruct((2, 7, 3), jnp.float32), 1)
    found = nothing_accumulated(Accumulated(arrays.form(jax.ShapeDtypeStruct((), jnp.int32), None), by_agent, by_agent))
    for values in (found.mean, found.squares):
        assert values.shape == (2, 10, 3) and not np.asarray(values).any()
        assert {shard.data.shape for shard in values.addressable_shards} == {(2, 2, 3)}
