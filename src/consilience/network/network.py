"""`Network`: the graph of who may talk to whom, and the weights with which values are mixed."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import check, refuse_unknown_keywords_of_methods, whole_number
from .._lazy import LazyModule
from .._refused import Refused
from .gathering import Gathering, gathering
from .plan import Plan, plan_network
from .plot import plot_network
from .tree import Tree, spanning_tree
from .weights import (
    DENSE_LIMIT,
    assemble,
    check_connected,
    edge_weights,
    extreme_eigenvalues,
    mixing_rate,
    refuse_first,
)

if TYPE_CHECKING:
    import networkx as nx
else:
    nx = LazyModule("networkx")

csgraph: Any = LazyModule("scipy.sparse.csgraph")

Weights = str | np.ndarray | Sequence[Sequence[float]]

SOURCES_AT_ONCE = 256


@refuse_unknown_keywords_of_methods("cs.Network")
class Network:
    """A connected undirected graph of `size` agents and its mixing matrix W.

    Build one by name (`Network.ring(5)`, `Network.grid(3, 4)`, ...), from a 0/1 matrix
    (`Network.from_adjacency`) or from networkx (`Network.from_networkx`). Every builder takes `weights`:
    "metropolis" (the default, good on any graph), "uniform" ((I + A)/(d + 1), regular graphs only),
    "max-degree", or a matrix of your own, which must be symmetric, doubly stochastic, zero off the edges,
    and have β < 1.

    Nothing is stored that grows faster than the number of edges; `weights` builds the dense matrix on demand.

    Attributes:
      names: names of the agents, in order; empty where they have none. Nodes of a networkx graph that are texts are
        names, and so are those under which `cs.sample` gets the agents' data.
    """

    def __init__(self, graph: nx.Graph, weights: Weights = "metropolis", name: str | None = None) -> None:
        self.names: tuple[str, ...] = _names(graph)
        graph = _numbered(graph)
        check_connected(graph)
        self.size: int = graph.number_of_nodes()
        self.name: str = name or f"graph of {self.size}"
        self.rule, values = edge_weights(graph, weights)
        edges = np.array([sorted(e) for e in graph.edges], dtype=int).reshape(-1, 2)
        order = np.lexsort((edges[:, 1], edges[:, 0]))
        self.edges: tuple[tuple[int, int], ...] = tuple((int(i), int(j)) for i, j in edges[order])
        self.edge_weights: np.ndarray = values[order]

    # --- facts -------------------------------------------------------------------------------------

    def named(self, names: Sequence[str]) -> Network:
        """Return this network with names for its agents, one for each, in their order."""
        other = copy.copy(self)
        other.names = tuple(names)
        return other

    def called(self, agent: int) -> str:
        """Return what messages call an agent: by its name, or by its number where it has none."""
        return f"agent {self.names[agent] if self.names else agent}"

    def neighbors(self, agent: int) -> tuple[int, ...]:
        """Return the agents that `agent` may talk to, in ascending order."""
        whole_number("agent", agent, 0, self.size - 1)
        return tuple(sorted(self.graph[agent]))

    @cached_property
    def graph(self) -> nx.Graph:
        """The network as a networkx graph: agents 0 ... size - 1, W_ij as edge attribute `weight`."""
        graph = nx.Graph()
        graph.add_nodes_from(range(self.size))
        graph.add_weighted_edges_from((i, j, w) for (i, j), w in zip(self.edges, self.edge_weights, strict=True))
        return graph

    @cached_property
    def _sparse_weights(self) -> Any:
        return assemble(self.size, np.array(self.edges, dtype=int).reshape(-1, 2), self.edge_weights)

    @property
    def weights(self) -> np.ndarray:
        """The mixing matrix W, dense (size, size)."""
        return self._sparse_weights.toarray()

    @cached_property
    def degrees(self) -> np.ndarray:
        """Number of neighbours of each agent."""
        return np.bincount(np.array(self.edges, dtype=int).ravel(), minlength=self.size)

    @cached_property
    def beta(self) -> float:
        """Mixing rate β = max(|λ_2|, |λ_m|): the factor by which one round shrinks disagreement, at worst."""
        return mixing_rate(self._sparse_weights)

    @property
    def rate_text(self) -> str:
        """β as text: three decimals, or where it is close to one its distance from it, as in "1 - 2.0e-04"."""
        return f"{self.beta:.3f}" if self.beta < 0.999 else f"1 - {self.spectral_gap:.1e}"

    @property
    def spectral_gap(self) -> float:
        """Spectral gap 1 - β."""
        return 1 - self.beta

    @cached_property
    def spectrum(self) -> np.ndarray | None:
        """All eigenvalues of W, ascending, the last is 1. None above 2048 agents, too many for dense algebra."""
        return None if self.size > DENSE_LIMIT else np.linalg.eigvalsh(self.weights)

    @cached_property
    def eccentricities(self) -> np.ndarray:
        """Number of hops from each agent to the agent farthest from it."""
        links = nx.to_scipy_sparse_array(self.graph, weight=None, format="csr")
        farthest = np.zeros(self.size, dtype=int)
        for first in range(0, self.size, SOURCES_AT_ONCE):  # m × m distances are never held at once
            sources = range(first, min(first + SOURCES_AT_ONCE, self.size))
            farthest[sources] = csgraph.dijkstra(links, unweighted=True, indices=sources).max(axis=1)
        return farthest

    @property
    def diameter(self) -> int:
        """Number of hops between the two agents that are farthest apart."""
        return int(self.eccentricities.max())

    @cached_property
    def tree(self) -> Tree:
        """The spanning tree over which exact sums travel: breadth-first from a centre."""
        return spanning_tree(self)

    @cached_property
    def gathering(self) -> Gathering:
        """The schedule by which every agent's numbers reach every agent, where sums are gathered."""
        return gathering(self)

    @cached_property
    def laplacian_norm(self) -> float:
        """Largest eigenvalue λ_max of the graph Laplacian L = D - A, which bounds a step along -L."""
        if self.size == 1:
            return 0.0
        # L = c(I - W) for the max-degree weights, so its largest eigenvalue is one of a mixing matrix.
        scale = self.degrees.max() + 1
        edges = np.array(self.edges, dtype=int)
        matrix = assemble(self.size, edges, np.full(len(edges), 1 / scale))
        return float(scale * (1 - extreme_eigenvalues(matrix)[1]))

    @property
    def messages_per_round(self) -> int:
        """Number of messages in a round of gossip: every agent sends one to each neighbour."""
        return 2 * len(self.edges)

    @property
    def facts(self) -> str:
        """Name, number of edges, diameter, weights and β in one line of text."""
        return (
            f"{self.name}: {len(self.edges)} edge{'' if len(self.edges) == 1 else 's'}, "
            f"diameter {self.diameter}, {self.rule} weights, β = {self.rate_text}"
        )

    def __repr__(self) -> str:
        return f"Network({self.facts})"

    def plan(self, tolerance: float = 1e-6) -> Plan:
        """Return what it costs to agree on this network by each method, and which one is taken; print it."""
        return plan_network(self, tolerance)

    def plot(self, ax: Any = None) -> Any:
        """Draw the network and return the matplotlib axes. Edge widths show the weights."""
        return plot_network(self, ax)

    # --- builders ----------------------------------------------------------------------------------

    @classmethod
    def complete(cls, size: int, weights: Weights = "metropolis") -> Network:
        """Build a network in which all agents are linked. `complete(1)` is one agent alone, for runs on pooled data."""
        return cls(nx.complete_graph(whole_number("size", size, 1)), weights, f"complete graph of {size}")

    @classmethod
    def path(cls, size: int, weights: Weights = "metropolis") -> Network:
        """Build a path: a line of agents."""
        return cls(nx.path_graph(whole_number("size", size, 1)), weights, f"path of {size}")

    @classmethod
    def star(cls, size: int, weights: Weights = "metropolis") -> Network:
        """Build a star: agent 0 in the middle, linked to each of the others."""
        return cls(nx.star_graph(whole_number("size", size, 2) - 1), weights, f"star of {size}")

    @classmethod
    def ring(cls, size: int, weights: Weights = "metropolis") -> Network:
        """Build a ring: a line of agents whose ends are joined."""
        if size in (1, 2):
            other = {1: "complete(1), an agent alone", 2: "path(2), two agents that are linked"}[size]
            raise Refused(f"ring({size})", "a ring has three agents or more", f"Write Network.{other}.")
        return cls(nx.cycle_graph(whole_number("size", size, 3)), weights, f"ring of {size}")

    @classmethod
    def grid(cls, rows: int, columns: int, weights: Weights = "metropolis") -> Network:
        """Build a rectangular grid, each agent linked to those above, below and beside it; numbered row by row."""
        graph = nx.grid_2d_graph(whole_number("rows", rows, 1), whole_number("columns", columns, 1))
        return cls(graph, weights, f"grid of {rows} × {columns}")

    @classmethod
    def torus(cls, rows: int, columns: int, weights: Weights = "metropolis") -> Network:
        """Build a grid whose opposite sides are joined: every agent has four neighbours."""
        graph = nx.grid_2d_graph(whole_number("rows", rows, 3), whole_number("columns", columns, 3), periodic=True)
        return cls(graph, weights, f"torus of {rows} × {columns}")

    @classmethod
    def hypercube(cls, dimension: int, weights: Weights = "metropolis") -> Network:
        """Build a hypercube: 2^dimension agents, linked where their numbers differ in one bit."""
        graph = nx.hypercube_graph(whole_number("dimension", dimension, 1))
        return cls(graph, weights, f"hypercube of {2**dimension}")

    @classmethod
    def exponential(cls, size: int, weights: Weights = "metropolis") -> Network:
        """Build a graph with agent i linked to i ± 1, 2, 4, ... (mod size): log-many neighbours, log diameter."""
        hops = [2**k for k in range(math.ceil(math.log2(whole_number("size", size, 2))))]
        return cls(nx.circulant_graph(size, hops), weights, f"exponential graph of {size}")

    @classmethod
    def random_regular(cls, size: int, degree: int, seed: int = 0, weights: Weights = "metropolis") -> Network:
        """Draw a random graph in which every agent has `degree` neighbours."""
        whole_number("size", size, 2), whole_number("degree", degree, 1)
        if degree >= size or size * degree % 2:
            example = f"For example random_regular({size + size % 2}, {min(degree, size - 1)})."
            reason = "it needs degree < size and an even size × degree"
            raise Refused(f"random_regular({size}, {degree})", reason, example)
        graph = nx.random_regular_graph(degree, size, seed=seed)
        return cls._random(graph, weights, f"random {degree}-regular graph of {size}", seed, "a degree of at least 3")

    @classmethod
    def erdos_renyi(cls, size: int, probability: float, seed: int = 0, weights: Weights = "metropolis") -> Network:
        """Link each pair at random with `probability`. A disconnected draw is refused: raise it, or the seed."""
        check("probability", probability, 0 < probability <= 1, "a number above 0 and up to 1")
        graph = nx.erdos_renyi_graph(whole_number("size", size, 1), probability, seed=seed)
        enough = f"a probability well above ln(size)/size = {math.log(size) / size:.3g}"
        return cls._random(graph, weights, f"Erdős-Rényi graph of {size}", seed, enough)

    @classmethod
    def _random(cls, graph: nx.Graph, weights: Weights, name: str, seed: int, enough: str) -> Network:
        if not nx.is_connected(graph):
            raise Refused(f"{name}, seed={seed}", "this draw is disconnected", f"Take another seed, or {enough}.")
        return cls(graph, weights, name)

    @classmethod
    def from_adjacency(cls, adjacency: Any, weights: Weights = "metropolis") -> Network:
        """Build a network from a symmetric 0/1 matrix with a zero diagonal."""
        matrix = np.asarray(adjacency.toarray() if hasattr(adjacency, "toarray") else adjacency)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
            raise Refused("from_adjacency", f"a square matrix is needed, this one has shape {matrix.shape}")
        for bad, reason, fix in (
            (
                (matrix != 0) & (matrix != 1),
                "A[{i}, {j}] = {ij} is neither 0 nor 1",
                "Weights go into weights=: from_adjacency(W > 0, weights=W), with a zero diagonal in the first.",
            ),
            (
                matrix != matrix.T,
                "A[{i}, {j}] = {ij} but A[{j}, {i}] = {ji}: links carry messages both ways",
                "Use np.maximum(A, A.T).",
            ),
            (
                np.eye(len(matrix)) * matrix != 0,
                "A[{i}, {i}] = 1 links agent {i} to itself",
                "Leave the diagonal zero: what an agent keeps of its own value follows from weights=.",
            ),
        ):
            refuse_first("from_adjacency", matrix, bad, reason, fix)
        return cls(nx.from_numpy_array(matrix.astype(bool)), weights)

    @classmethod
    def from_networkx(cls, graph: nx.Graph, weights: Weights = "metropolis") -> Network:
        """Build a network from an undirected networkx graph, numbered as in `graph.nodes`; its weights are ignored.

        Nodes that are texts are the agents' names.
        """
        return cls(graph, weights, getattr(graph, "name", None) or None)


def _names(graph: Any) -> tuple[str, ...]:
    """Return the nodes of a networkx graph if all of them are texts."""
    nodes = tuple(graph) if isinstance(graph, nx.Graph) else ()
    return nodes if all(isinstance(node, str) for node in nodes) else ()


def _numbered(graph: nx.Graph) -> nx.Graph:
    """Return the graph with its agents numbered 0 ... m - 1; refuse what is not a simple undirected graph."""
    if not isinstance(graph, nx.Graph):
        reason = f"a networkx graph is needed, this is a {type(graph).__name__}"
        raise Refused("the graph", reason, "See Network.from_adjacency.")
    if graph.number_of_nodes() == 0:
        raise Refused("the graph", "a network needs at least one agent")
    if graph.is_directed() or graph.is_multigraph():
        raise Refused("the graph", "links carry messages both ways, once", "Pass nx.Graph(graph).")
    for node in nx.nodes_with_selfloops(graph):
        fix = "Remove it: graph.remove_edges_from(nx.selfloop_edges(graph))."
        raise Refused("the graph", f"node {node!r} is linked to itself", fix)
    return nx.convert_node_labels_to_integers(graph)
