"""The spanning tree: valid, shallow, and the same wherever it is built."""

import subprocess
import sys

import networkx as nx
import numpy as np
import pytest

import consilience as cs
from consilience._refused import Refused
from consilience.network import Tree, spanning_tree
from consilience.network import tree as tree_module

GRAPHS = {
    "one agent": nx.empty_graph(1),
    "two agents": nx.path_graph(2),
    "path": nx.path_graph(8),
    "ring": nx.cycle_graph(9),
    "star": nx.star_graph(6),
    "complete": nx.complete_graph(7),
    "grid": nx.grid_2d_graph(4, 7),
    "barbell": nx.barbell_graph(5, 4),
    "lollipop": nx.lollipop_graph(6, 9),
    "petersen": nx.petersen_graph(),
    **{f"regular {seed}": nx.random_regular_graph(3, 24, seed=seed) for seed in range(4)},
    **{f"tree {seed}": nx.random_labeled_tree(40, seed=seed) for seed in range(4)},
    **{f"shuffled grid {seed}": nx.Graph() for seed in range(3)},
}
for shuffle in range(3):
    numbers = np.random.default_rng(shuffle).permutation(30).tolist()
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(5, 6))
    GRAPHS[f"shuffled grid {shuffle}"].add_nodes_from(range(30))
    GRAPHS[f"shuffled grid {shuffle}"].add_edges_from((numbers[i], numbers[j]) for i, j in grid.edges)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_it_spans_the_network_along_shortest_paths_from_a_centre(graph):
    network = cs.Network.from_networkx(graph)
    tree = network.tree
    assert tree.parent[tree.root] == -1
    assert tree.root == min(nx.center(network.graph))
    assert tree.depth == nx.radius(network.graph)
    links = [(agent, parent) for agent, parent in enumerate(tree.parent) if agent != tree.root]
    assert all(network.graph.has_edge(*link) for link in links)
    spanned = nx.Graph(links)
    spanned.add_nodes_from(range(network.size))
    assert nx.is_tree(spanned)
    hops = nx.single_source_shortest_path_length(network.graph, tree.root)
    assert nx.single_source_shortest_path_length(spanned, tree.root) == hops
    assert [sorted(a for a in hops if hops[a] == k) for k in range(tree.depth + 1)] == [list(x) for x in tree.levels]
    for agent in range(network.size):
        assert tree.children(agent) == tuple(a for a, parent in enumerate(tree.parent) if parent == agent)
    assert (tree.rounds, tree.messages) == (2 * tree.depth, 2 * len(links))


def test_known_trees():
    assert cs.Network.star(5).tree == Tree(0, (-1, 0, 0, 0, 0), 1)
    assert cs.Network.path(5).tree == Tree(2, (1, 2, -1, 2, 3), 2)
    assert cs.Network.path(4).tree.root == 1
    assert cs.Network.ring(5).tree == Tree(0, (-1, 0, 1, 4, 0), 2)
    assert cs.Network.complete(1).tree == Tree(0, (-1,), 0)


def test_every_agent_adds_up_the_same_bits():
    """What a run over the tree would do, level by level."""
    network = cs.Network.random_regular(30, 3)
    total = np.random.default_rng(0).standard_normal(30).astype(np.float32)
    values = total.copy()
    for level in reversed(network.tree.levels):
        for agent in level:
            for child in network.tree.children(agent):
                total[agent] += total[child]
    assert total[network.tree.root] == pytest.approx(values.sum(), abs=1e-5)


def test_the_same_tree_in_another_process_and_from_edges_in_another_order():
    code = "import consilience as cs; print(cs.Network.random_regular(40, 4, seed=3).tree.parent)"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    network = cs.Network.random_regular(40, 4, seed=3)
    assert other.stdout.strip() == str(network.tree.parent)
    turned = nx.Graph()
    turned.add_nodes_from(range(40))
    turned.add_edges_from((j, i) for i, j in reversed(network.edges))
    assert cs.Network.from_networkx(turned).tree == network.tree


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_a_double_sweep_finds_nearly_the_centre(graph, monkeypatch):
    monkeypatch.setattr(tree_module, "EXACT_CENTRE_LIMIT", 0)
    network = cs.Network.from_networkx(graph)
    tree = spanning_tree(network)
    best = nx.radius(network.graph)
    assert best <= tree.depth <= (best if nx.is_tree(network.graph) else best + 3)


def test_a_large_network_has_a_tree_without_the_distances_of_all_pairs():
    network = cs.Network.path(2500)
    assert network.tree.depth == 1250
    assert "eccentricities" not in vars(network)


def test_who_is_not_an_agent_has_no_children():
    for agent in (-1, 5):
        with pytest.raises(Refused, match=f"agent = {agent}: a whole number from 0 to 4"):
            cs.Network.ring(5).tree.children(agent)
