"""What a sampler is said to ask for, against what real runs were charged."""

import jax.numpy as jnp
import numpy as np
import pytest

import consilience as cs
from consilience.planning import demand_of

from ..halves import checkerboard

DIMENSION = 3
POSTERIOR = cs.Posterior(lambda w: -0.5 * w @ w, lambda w, x: -0.5 * (x - w.sum()) ** 2)
SAMPLERS = [
    cs.mala(0.1, inverse_mass_matrix=1.0),
    cs.hmc(0.1, inverse_mass_matrix=1.0, num_integration_steps=4),
    cs.dmala(0.05, inverse_mass_matrix=1.0),
    cs.dmala(0.05, inverse_mass_matrix=1.0, energy="trapezoid"),
    cs.published(0.01, rounds=3),
    cs.desgld(1e-3),
    cs.diging(1e-3),
]


def run_of(network, sampler, num_samples, num_chains):
    shards = [np.linspace(-1, 1, 4, dtype=np.float32) + agent for agent in range(network.size)]
    start = jnp.zeros(DIMENSION)
    return cs.sample(
        POSTERIOR,
        shards,
        network,
        sampler,
        init=start,
        num_samples=num_samples,
        num_warmup=0,
        num_chains=num_chains,
        progress=False,
    )


@pytest.mark.parametrize(("sampler", "network"), checkerboard(SAMPLERS, [cs.Network.ring(5), cs.Network.grid(2, 3)]))
def test_a_draw_is_what_runs_are_charged_for_one(sampler, network):
    chains = 2
    short, longer = (run_of(network, sampler, draws, chains).traffic for draws in (3, 8))
    found = demand_of(sampler, network, DIMENSION, chains).traffic(network)
    charged = [longer.rounds - short.rounds, longer.messages - short.messages, longer.bytes - short.bytes]
    assert [5 * number for number in found] == charged


def test_nuts_is_what_its_number_of_gradients_makes_it():
    network = cs.Network.ring(4)
    sampler = cs.nuts(0.3, inverse_mass_matrix=1.0)
    run = run_of(network, sampler, 40, 1)
    steps = float(run.raw_stats["num_integration_steps"].mean())
    first = run_of(network, sampler, 1, 1)
    found = demand_of(sampler, network, DIMENSION, 1, steps).traffic(network)
    before = demand_of(sampler, network, DIMENSION, 1, float(first.raw_stats["num_integration_steps"].mean()))
    start = np.array([first.traffic.rounds, first.traffic.messages, first.traffic.bytes]) - before.traffic(network)
    charged = np.array([run.traffic.rounds, run.traffic.messages, run.traffic.bytes]) - start
    assert steps > 1.5
    np.testing.assert_allclose(40 * np.array(found), charged, rtol=1e-6)


def test_messages_grow_with_the_model_and_the_chains():
    network = cs.Network.ring(4)
    small, wide, many = (demand_of(cs.mala(), network, *size) for size in ((10, 1), (1010, 1), (10, 3)))
    assert [each.times for each in small.collectives] == [each.times for each in wide.collectives]
    assert wide.collectives[0].message_bytes - small.collectives[0].message_bytes == 4 * 1000
    assert [each.message_bytes for each in many.collectives] == [3 * each.message_bytes for each in small.collectives]


def test_gradients_are_counted():
    network = cs.Network.ring(4)
    assert demand_of(cs.mala(), network, 5).evaluations == 1
    assert demand_of(cs.hmc(num_integration_steps=7), network, 5).evaluations == 7
    assert demand_of(cs.dmala(), network, 5).evaluations == 1


def test_what_has_no_rounds_is_refused():
    with pytest.raises(ValueError, match="no rounds to plan"):
        demand_of(cs.consensus_monte_carlo(), cs.Network.ring(4), 5)
    with pytest.raises(ValueError, match="surrogate: it asks the network at the start and then once in many draws"):
        demand_of(cs.surrogate(), cs.Network.ring(4), 5)
    with pytest.raises(ValueError, match="evaluations=15"):
        demand_of(cs.nuts(), cs.Network.ring(4), 5)
