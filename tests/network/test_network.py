"""Graphs, weights, spectra: facts that are known, and bad input that is refused with its fix."""

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_array

import consilience as cs
from consilience._refused import Refused
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


# Edges in no order, degrees 1 to 4: metropolis and max-degree differ, and a weight on the wrong edge shows.
LOPSIDED = nx.Graph([(4, 2), (0, 5), (2, 0), (3, 2), (1, 2), (5, 1)])


@pytest.mark.parametrize("rule", ["metropolis", "max-degree"])
def test_rules_entry_by_entry_on_a_lopsided_graph(rule):
    graph = nx.Graph()
    graph.add_nodes_from(range(6))
    graph.add_edges_from(LOPSIDED.edges)
    degree = dict(graph.degree)
    expected = np.zeros((6, 6))
    for i, j in graph.edges:
        expected[i, j] = expected[j, i] = 1 / (1 + (max(degree[i], degree[j]) if rule == "metropolis" else 4))
    np.fill_diagonal(expected, 1 - expected.sum(axis=1))
    np.testing.assert_allclose(cs.Network.from_networkx(graph, weights=rule).weights, expected)


@pytest.mark.parametrize(
    "wrap", [np.asarray, lambda W: W.astype(np.float32), csr_array], ids=["numpy", "float32", "sparse"]
)
def test_a_given_matrix_is_taken_entry_by_entry(wrap):
    graph = nx.Graph()
    graph.add_nodes_from(range(6))
    graph.add_edges_from(LOPSIDED.edges)
    W = np.zeros((6, 6))
    for k, (i, j) in enumerate(graph.edges):
        W[i, j] = W[j, i] = 0.05 + 0.02 * k
    np.fill_diagonal(W, 1 - W.sum(axis=1))
    network = cs.Network.from_networkx(graph, weights=wrap(W))
    np.testing.assert_allclose(network.weights, W, atol=1e-6)
    assert network.rule == "given"


BUILT = {
    "path": (cs.Network.path(4), nx.path_graph(4)),
    "star": (cs.Network.star(5), nx.star_graph(4)),
    "grid": (cs.Network.grid(2, 3), nx.Graph([(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)])),
    "hypercube": (cs.Network.hypercube(2), nx.Graph([(0, 1), (0, 2), (1, 3), (2, 3)])),
    "exponential": (
        cs.Network.exponential(6),
        nx.Graph([(i, (i + hop) % 6) for i in range(6) for hop in (1, 2, 4)]),
    ),
    "torus": (
        cs.Network.torus(3, 3),
        nx.Graph(
            [(3 * r + c, 3 * r + (c + 1) % 3) for r in range(3) for c in range(3)]
            + [(3 * r + c, 3 * ((r + 1) % 3) + c) for r in range(3) for c in range(3)]
        ),
    ),
}


@pytest.mark.parametrize(("network", "graph"), BUILT.values(), ids=BUILT)
def test_builders_link_whom_they_say(network, graph):
    assert set(network.edges) == {tuple(sorted(edge)) for edge in graph.edges}


def test_random_graphs_have_the_degree_and_density_asked_for():
    assert set(cs.Network.random_regular(20, 4).degrees) == {4}
    assert 0.3 < len(cs.Network.erdos_renyi(40, 0.4).edges) / (40 * 39 / 2) < 0.5


def test_a_matrix_without_self_weights_is_fine_where_it_mixes():
    network = cs.Network.complete(6, weights=(1 - np.eye(6)) / 5)
    assert network.beta == pytest.approx(0.2)
    assert network.diameter == 1


def test_scipy_sparse_adjacency_is_an_adjacency():
    assert cs.Network.from_adjacency(nx.adjacency_matrix(nx.cycle_graph(5))).edges == cs.Network.ring(5).edges


def test_lanczos_sees_a_large_network_that_never_mixes():
    cycle = np.roll(np.eye(2100), 1, axis=0)
    with pytest.raises(ValueError, match=r"bipartite .*Use \(I \+ W\)/2"):
        cs.Network.ring(2100, weights=(cycle + cycle.T) / 2)


@pytest.mark.parametrize(
    "network", [cs.Network.random_regular(200, 4), cs.Network.ring(300), cs.Network.star(200)], ids=repr
)
def test_lanczos_finds_what_dense_algebra_finds(network, monkeypatch):
    dense = network.beta
    monkeypatch.setattr(weights_module, "DENSE_LIMIT", 10)
    monkeypatch.setattr(weights_module, "DENSE_SHARE", 1)
    assert weights_module.mixing_rate(network._sparse_weights) == pytest.approx(dense, abs=1e-9)


def test_repr_and_edges_read_well():
    network = cs.Network.ring(5)
    assert repr(network) == "Network(ring of 5: 5 edges, diameter 2, metropolis weights, β = 0.539)"
    assert network.edges == ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4))
    assert "β = 1 - 1." in repr(cs.Network.ring(1000))
    with pytest.raises(Refused, match="agent = 5: a whole number from 0 to 4"):
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


@pytest.mark.parametrize("network", [cs.Network.complete(1), cs.Network.complete(2), cs.Network.path(5)], ids=repr)
def test_agents_on_one_line_have_a_picture_with_height_and_width(network):
    ax = network.plot()
    ax.figure.draw_without_rendering()
    area = ax.get_window_extent()
    assert min(area.width, area.height) > 0.4 * max(area.width, area.height)
    assert min(np.ptp(ax.get_xlim()), np.ptp(ax.get_ylim())) > 0.4
    assert not any(artist.get_clip_on() for artist in (*ax.collections, *ax.texts))


def swapped(i, j, value):
    W = (np.eye(5) + RING5) / 3
    W[i, j] += value
    return W


def lazy(size):
    path = nx.to_numpy_array(nx.path_graph(size))
    return np.eye(size) + 2e-6 * (path - np.diag(path.sum(axis=1)))


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
    "multigraph": (lambda: cs.Network(nx.MultiGraph([(0, 1)])), r"nx\.Graph\(graph\)"),
    "self-loop, constructed": (lambda: cs.Network(nx.Graph([(0, 1), (1, 1)])), r"node 1 is linked to itself"),
    "barely mixing": (
        lambda: cs.Network.ring(5, weights=np.eye(5) + 1e-13 * (RING5 - 2 * np.eye(5))),
        r"Give edge \(0, 1\) a positive weight",
    ),
    "lazy": (
        lambda: cs.Network.path(600, weights=lazy(600)),
        r"β = 1 - .*: agents keep so much of their own value that nothing spreads",
    ),
    "bool": (lambda: cs.Network.complete(True), r"size = True"),
    "odd degree": (lambda: cs.Network.random_regular(6, 2.0), r"degree = 2\.0"),
    "disconnected regular": (
        lambda: cs.Network.random_regular(10, 2, seed=3),
        r"another seed, or a degree of at least 3",
    ),
    "networkx self-loop": (lambda: cs.Network.from_networkx(nx.Graph([(0, 1), (1, 1)])), r"node 1 is linked to itself"),
    "no agents": (lambda: cs.Network.from_networkx(nx.Graph()), r"at least one agent"),
    "ring of two": (lambda: cs.Network.ring(2), r"ring\(2\): a ring has three agents or more"),
    "ring of half": (lambda: cs.Network.ring(2.5), r"size = 2\.5"),
    "odd regular": (lambda: cs.Network.random_regular(5, 3), r"random_regular\(6, 3\)"),
    "sparse random": (
        lambda: cs.Network.erdos_renyi(20, 0.05),
        r"disconnected\. Take another seed, or a probability well above .* 0\.15",
    ),
    "probability": (lambda: cs.Network.erdos_renyi(20, 1.5), r"probability = 1\.5"),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_refused_with_the_place_and_the_fix(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_what_is_no_graph_is_refused():
    with pytest.raises(Refused, match=r"a networkx graph is needed, this is a ndarray"):
        cs.Network.from_networkx(np.eye(3))
