"""Mixing along edges is multiplication by W, and costs edges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import consilience as cs
from consilience.neighbors import AGENTS, LaneNeighbors, edge_lists
from consilience.neighbors.edges import flow, take

from ..halves import checkerboard
from ..network.test_network import ALL


def on_lanes(network, function, *values):
    """`function(neighbors, x)` on every agent."""
    lists = edge_lists(network)
    return jax.vmap(lambda *x: function(LaneNeighbors(lists), *x), axis_name=AGENTS)(*values)


@pytest.mark.parametrize(("rounds", "network"), checkerboard({"1": 1, "3": 3, "7": 7}, ALL))
def test_rounds_are_powers_of_the_matrix(rounds, network):
    x = np.random.default_rng(0).standard_normal((network.size, 4)).astype(np.float32)
    mixed = on_lanes(network, lambda n, v: n.mix(v, rounds), x)
    np.testing.assert_allclose(mixed, np.linalg.matrix_power(network.weights, rounds) @ x, atol=2e-6)
    traced = jax.jit(lambda v, s: on_lanes(network, lambda n, w: n.mix(w, s), v))(x, rounds)
    np.testing.assert_allclose(traced, mixed, atol=2e-6)


@pytest.mark.parametrize("network", ALL.values(), ids=ALL)
def test_laplacian(network):
    x = np.random.default_rng(1).standard_normal((network.size, 2, 3)).astype(np.float32)
    laplacian = np.diag(network.degrees) - (network.weights - np.diag(np.diag(network.weights)) > 0)
    expected = np.einsum("ij,jab->iab", laplacian, x)
    np.testing.assert_allclose(on_lanes(network, lambda n, v: n.laplacian(v), x), expected, atol=1e-5)


def test_pytrees_travel_in_one_message():
    network = cs.Network.star(5)
    x = {"vector": jnp.arange(10.0).reshape(5, 2), "number": jnp.arange(5.0)}
    seen = []

    def mix(neighbors, value):
        mixed = neighbors.mix(value, 2)
        seen.extend(neighbors.exchanges)
        return mixed

    mixed = on_lanes(network, mix, x)
    W2 = network.weights @ network.weights
    np.testing.assert_allclose(mixed["number"], W2 @ np.arange(5.0), rtol=1e-6)
    np.testing.assert_allclose(mixed["vector"], W2 @ np.arange(10.0).reshape(5, 2), rtol=1e-6)
    assert seen == [("gossip", 2, 3 * 4, False)]  # a vector of two and a number


def test_what_all_agree_on_is_kept_to_the_bit_and_sums_do_not_drift():
    network = cs.Network.erdos_renyi(20, 0.4)
    same = np.full((20, 3), 0.1, np.float32)
    np.testing.assert_array_equal(on_lanes(network, lambda n, v: n.mix(v, 50), same), same)
    x = np.random.default_rng(2).standard_normal((20, 3)).astype(np.float32)
    mixed = np.asarray(jax.jit(lambda v: on_lanes(network, lambda n, w: n.mix(w, 5000), v))(x), float)
    np.testing.assert_allclose(mixed.mean(axis=0), x.mean(axis=0, dtype=float), atol=1e-6)


def sizes(jaxpr):
    """Elements of every intermediate value of a jaxpr, loops and calls included."""
    for equation in jaxpr.eqns:
        yield from (variable.aval.size for variable in equation.outvars)
        for parameter in jax.tree.leaves(equation.params, is_leaf=lambda p: hasattr(p, "eqns") or hasattr(p, "jaxpr")):
            inner = getattr(parameter, "jaxpr", parameter)
            if hasattr(inner, "eqns"):
                yield from sizes(inner)


@pytest.mark.parametrize(
    "network", [cs.Network.star(300), cs.Network.ring(300), cs.Network.random_regular(300, 4)], ids=repr
)
def test_no_intermediate_grows_faster_than_edges(network):
    dimension = 7
    lists = edge_lists(network)

    def one_round(lists, x):
        return jax.vmap(lambda v: LaneNeighbors(lists).mix(v), axis_name=AGENTS)(x)

    x = jnp.zeros((network.size, dimension))
    largest = max(sizes(jax.make_jaxpr(one_round)(lists, x).jaxpr))
    assert largest <= 2 * len(network.edges) * dimension
    assert largest < network.size**2
    assert sum(block.neighbors.size for block in lists.blocks) == 2 * len(network.edges)


def test_flow_rows_are_found_by_row():
    network = cs.Network.star(6)  # hub and leaves are two blocks: rows do not come in the agents' order
    lists = edge_lists(network)
    x = jnp.arange(6.0)[:, None]
    expected = network.weights @ x - x
    np.testing.assert_allclose(take(flow(lists, x, weighted=True), lists.row), expected, atol=1e-6)
    assert not np.array_equal(np.asarray(lists.row), np.arange(6))
