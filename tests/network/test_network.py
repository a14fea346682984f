"""Graphs, weights, spectra: facts that are known, and bad input that is refused with its fix."""

import networkx as nx
import numpy as np
import pytest

import consilience as cs
from consilience.network import weights as weights_module

RING5 = nx.to_numpy_array(nx.cycle_graph(5))
ALL = {
    "complete": cs.Network.complete(4),
    "one agent": cs.Network.complete(1),
    "two agents": cs.Network.path(2),
    "path": cs.Network.path(5),
    "star": cs.Network.star(6),
    "ring": cs.Network.ring(5),
    "grid": cs.Network.grid(2, 3),
    "torus": cs.Network.torus(3, 4),
    "hypercube": cs.Network.hypercube(3),
    "exponential": cs.Network.exponential(8),
    "random_regular": cs.Network.random_regular(10, 3),
    "erdos_renyi": cs.Network.erdos_renyi(12, 0.5),
    "adjacency": cs.Network.from_adjacency(RING5),
    "networkx": cs.Network.from_networkx(nx.petersen_graph()),
}


@pytest.mark.parametrize("network", ALL.values(), ids=ALL)
def test_mixing_matrix_is_what_the_definition_asks_for(network):
    W = network.weights
    linked = nx.to_numpy_array(network.graph, weight=None) > 0
    np.testing.assert_allclose(W, W.T)
    np.testing.assert_allclose(W.sum(axis=1), 1)
    assert (W >= -1e-12).all()
    assert (W[~linked & ~np.eye(network.size, dtype=bool)] == 0).all()
    magnitudes = np.sort(np.abs(np.linalg.eigvalsh(W)))
    expected = magnitudes[-2] if network.size > 1 else 0.0
    assert network.beta == pytest.approx(expected, abs=1e-12)
    assert network.beta < 1
    assert network.spectral_gap == pytest.approx(1 - expected)
    assert network.diameter == nx.diameter(network.graph)
    laplacian = nx.laplacian_matrix(network.graph, weight=None).toarray().astype(float)
    assert network.laplacian_norm == pytest.approx(np.linalg.eigvalsh(laplacian)[-1], abs=1e-9)
    for agent in range(network.size):
        assert network.neighbors(agent) == tuple(np.flatnonzero(linked[agent]))


@pytest.mark.parametrize("rule", ["metropolis", "uniform", "max-degree"])
def test_on_a_ring_all_rules_give_thirds(rule):
    np.testing.assert_allclose(cs.Network.ring(5, weights=rule).weights, (np.eye(5) + RING5) / 3)


def test_known_rates():
    assert cs.Network.complete(7).beta == 0
    assert cs.Network.ring(5).beta == pytest.approx((1 + 2 * np.cos(2 * np.pi / 5)) / 3)
    assert cs.Network.star(10).laplacian_norm == pytest.approx(10)


def test_metropolis_and_max_degree_differ_on_a_path():
    assert cs.Network.path(3).weights[0, 1] == pytest.approx(1 / 3)
    assert cs.Network.star(4, weights="max-degree").weights[1, 1] == pytest.approx(3 / 4)


def test_a_given_matrix_is_taken_as_it_is():
    W = 0.2 * RING5 + 0.6 * np.eye(5)
    network = cs.Network.ring(5, weights=W)
    np.testing.assert_allclose(network.weights, W)
    assert network.rule == "given"


def test_lanczos_finds_what_dense_algebra_finds(monkeypatch):
    network = cs.Network.random_regular(200, 4)
    dense = network.beta
    monkeypatch.setattr(weights_module, "DENSE_LIMIT", 10)
    assert weights_module.mixing_rate(network._sparse_weights) == pytest.approx(dense, abs=1e-9)


def test_repr_and_edges_read_well():
    network = cs.Network.ring(5)
    assert repr(network) == "Network(ring of 5: 5 edges, diameter 2, metropolis weights, β = 0.539)"
    assert network.edges == ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4))
    assert "β = 1 - 1." in repr(cs.Network.ring(1000))
    with pytest.raises(IndexError, match=r"agent 5 is not one of 0 \.\.\. 4"):
        network.neighbors(5)


def test_seeds_make_random_graphs_repeatable():
    assert cs.Network.random_regular(20, 3, seed=4).edges == cs.Network.random_regular(20, 3, seed=4).edges
    assert cs.Network.random_regular(20, 3, seed=4).edges != cs.Network.random_regular(20, 3, seed=5).edges


@pytest.mark.parametrize("network", [cs.Network.ring(5), cs.Network.complete(1), cs.Network.grid(8, 9)], ids=repr)
def test_plot_draws_every_agent_and_edge(network, tmp_path):
    ax = network.plot()
    lines, discs = ax.collections[0], ax.collections[-1]
    assert len(discs.get_offsets()) == network.size
    if network.edges:
        assert len(lines.get_paths()) == len(network.edges)
    ax.figure.savefig(tmp_path / "network.png")


def swapped(i, j, value):
    W = (np.eye(5) + RING5) / 3
    W[i, j] += value
    return W


REFUSED = {
    "the paper's ring matrix": (
        lambda: cs.Network.ring(5, weights=(np.eye(5) + RING5) / 5),
        r"row 0 sums to 0\.6, not 1\. .*weights=\"uniform\" is \(I \+ A\)/3",
    ),
    "asymmetric": (lambda: cs.Network.ring(5, weights=swapped(0, 1, 0.1)), r"W\[0, 1\] = 0\.4333, W\[1, 0\] = 0\.3333"),
    "one row off": (lambda: cs.Network.ring(5, weights=swapped(3, 3, 0.2)), r"row 3 sums to 1\.2, not 1.*diagonal"),
    "non-edge": (lambda: cs.Network.ring(5, weights=np.full((5, 5), 0.2)), r"agents 0 and 2 are not neighbours"),
    "negative": (lambda: cs.Network.ring(5, weights=1.2 * np.eye(5) - 0.1 * RING5), r"W\[0, 1\] = -0\.1 is negative"),
    "negative diagonal": (
        lambda: cs.Network.ring(5, weights=0.6 * RING5 - 0.2 * np.eye(5)),
        r"W\[0, 0\] = -0\.2 is negative.*\(1 - t\) I",
    ),
    "NaN": (lambda: cs.Network.ring(5, weights=np.full((5, 5), np.nan)), r"W\[0, 0\] = nan is not a number"),
    "wrong shape": (lambda: cs.Network.ring(5, weights=np.eye(4)), r"shape \(4, 4\).*5 agents"),
    "not a matrix": (lambda: cs.Network.ring(5, weights=[[1, 2], [3]]), r"a name or a square matrix"),
    "bipartite": (
        lambda: cs.Network.ring(4, weights=nx.to_numpy_array(nx.cycle_graph(4)) / 2),
        r"bipartite .*Use \(I \+ W\)/2",
    ),
    "zero weights": (lambda: cs.Network.ring(5, weights=np.eye(5)), r"Give edge \(0, 1\) a positive weight"),
    "disconnected": (
        lambda: cs.Network.from_adjacency(np.kron(np.eye(2), [[0, 1], [1, 0]])),
        r"agents \{0, 1\} cannot reach the other 2\. Add an edge, for example \(0, 2\)",
    ),
    "uniform on a star": (lambda: cs.Network.star(4, weights="uniform"), r"agent 1 has 1 and agent 0 has 3"),
    "unknown rule": (lambda: cs.Network.ring(5, weights="metropoli"), r"not one of 'metropolis', 'uniform'"),
    "self-loop": (lambda: cs.Network.from_adjacency(np.eye(3)), r"A\[0, 0\] = 1 links agent 0 to itself"),
    "one-way link": (lambda: cs.Network.from_adjacency([[0, 1], [0, 0]]), r"A\[0, 1\] = 1 but A\[1, 0\] = 0"),
    "weights as adjacency": (lambda: cs.Network.from_adjacency(RING5 / 3), r"neither 0 nor 1"),
    "not square": (lambda: cs.Network.from_adjacency(np.ones((2, 3))), r"square matrix"),
    "directed": (lambda: cs.Network.from_networkx(nx.DiGraph([(0, 1)])), r"nx\.Graph\(graph\)"),
    "networkx self-loop": (lambda: cs.Network.from_networkx(nx.Graph([(0, 1), (1, 1)])), r"node 1 is linked to itself"),
    "no agents": (lambda: cs.Network.from_networkx(nx.Graph()), r"at least one agent"),
    "ring of two": (lambda: cs.Network.ring(2), r"size = 2: a whole number of at least 3"),
    "ring of half": (lambda: cs.Network.ring(2.5), r"size = 2\.5"),
    "odd regular": (lambda: cs.Network.random_regular(5, 3), r"random_regular\(6, 3\)"),
    "sparse random": (lambda: cs.Network.erdos_renyi(20, 0.05), r"disconnected.*another seed.*0\.15"),
    "probability": (lambda: cs.Network.erdos_renyi(20, 1.5), r"probability = 1\.5"),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_refused_with_the_place_and_the_fix(make, message):
    with pytest.raises(ValueError, match=message):
        make()
