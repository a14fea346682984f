"""Closed forms against networks that are built."""

from functools import partial

import pytest

import consilience as cs
from consilience.network import averaging, network_from_spec
from consilience.planning import Constants, CostModel, LinkSpeeds, demand_of
from consilience.planning.prediction import BETWEEN_CHUNKS, per_draw
from consilience.planning.sizes import FAMILIES, SIZES, predict_size

from ..halves import checkerboard


@pytest.mark.parametrize("agents", [16, 64, 256])
@pytest.mark.parametrize("family", FAMILIES)
def test_closed_forms_are_those_of_the_network(family, agents):
    size = FAMILIES[family](agents)
    network = network_from_spec(size.spec)
    tree = network.tree
    assert network.size == size.agents == agents
    assert (tree.depth, len(tree.children(tree.root))) == (size.depth, size.children)
    assert network.diameter == size.diameter
    assert network.degrees.max() == size.degree
    assert max(network.degrees[i] + network.degrees[j] for i, j in network.edges) == size.ends
    assert network.beta == pytest.approx(size.beta, abs=1e-9)


@pytest.mark.parametrize(
    "family", ["torus", *(pytest.param(name, marks=pytest.mark.soak) for name in ("hypercube", "exponential"))]
)
def test_rounds_of_an_average_are_the_library_s_where_it_does_not_look_for_the_best(family):
    size = FAMILIES[family](4096)
    assert size.averaging_rounds == averaging(network_from_spec(size.spec)).rounds


def test_the_largest_has_a_million_agents():
    assert SIZES[-1] > 1e6
    assert FAMILIES["ring"](SIZES[-1]).averaging_rounds > SIZES[-1] / 2


@pytest.mark.parametrize(("family", "sampler"), checkerboard([*FAMILIES], [cs.mala(), cs.dmala()]))
def test_a_draw_costs_what_it_does_agent_by_agent(family, sampler):
    """Nearly: agents below the root have children, too. Messages are too short to wait for TCP."""
    latency, bandwidth, gradient = 0.005, 20e6, 1e-3
    constants = Constants(hop=5e-4, hop_byte=2e-9, message=1e-4, message_byte=2e-9, room_byte=1e-10, noise_byte=3e-9)
    size = FAMILIES[family](64)
    network = network_from_spec(size.spec)
    demand = demand_of(sampler, network, 1000)
    model = CostModel(network, LinkSpeeds.alike(network, latency, bandwidth), constants)
    iteration, agreement = model.iteration_cost(demand, gradient), model.collective_cost(*BETWEEN_CHUNKS)
    exact, _ = per_draw(iteration, agreement, partial(constants.chunk, demand), demand.draws_of_a_chunk)
    closed = predict_size(size, demand, latency, bandwidth, gradient, constants)
    assert closed.seconds == pytest.approx(exact.seconds, rel=0.1)
