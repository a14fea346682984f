"""Mixing weights: how much of each neighbour's value an agent takes over in a round.

A mixing matrix W is symmetric and doubly stochastic, W_ij = 0 unless i = j or (i, j) is an edge, and
β = max(|λ_2|, |λ_m|) < 1. Then repeated mixing drives every agent to the network mean, at rate β a round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import check_one_of
from .._lazy import LazyModule
from .._refused import Refused

if TYPE_CHECKING:
    import networkx as nx
    from scipy import sparse
    from scipy.sparse import linalg as sparse_linalg
else:
    nx, sparse, sparse_linalg = map(LazyModule, ("networkx", "scipy.sparse", "scipy.sparse.linalg"))

TOLERANCE = 1e-6  # entries of a given matrix may come from float32
BETA_LIMIT = 1 - 1e-10
DENSE_LIMIT = 2048  # above, the extreme eigenvalues come from Lanczos iterations
DENSE_SHARE = 0.05  # share of non-zero entries; with more of them, dense algebra at any size
SHIFT = 1e-7
RULES = ("metropolis", "uniform", "max-degree")


def edge_weights(graph: nx.Graph, rule: Any) -> tuple[str, np.ndarray]:
    """Return the name of the rule and one weight per edge of `graph`, in the order of `graph.edges`.

    - "metropolis": W_ij = 1 / (1 + max(d_i, d_j)), needs only the two degrees;
    - "uniform": W = (I + A) / (d + 1), on regular graphs;
    - "max-degree": W = I - L / (d_max + 1);
    - a matrix: checked by `check_mixing_matrix`.
    """
    degree = dict(graph.degree)
    if not isinstance(rule, str):
        try:
            matrix = np.asarray(rule.toarray() if hasattr(rule, "toarray") else rule, dtype=float)
        except (TypeError, ValueError):
            raise Refused("weights", "a name or a square matrix of numbers is needed") from None
        check_mixing_matrix(matrix, graph)
        return "given", np.array([(matrix[i, j] + matrix[j, i]) / 2 for i, j in graph.edges])
    if rule == "metropolis":
        return rule, np.array([1 / (1 + max(degree[i], degree[j])) for i, j in graph.edges])
    if rule == "uniform":
        low, high = min(degree, key=degree.__getitem__), max(degree, key=degree.__getitem__)
        if degree[low] != degree[high]:
            raise Refused(
                'weights="uniform"',
                f"it is (I + A)/(d + 1) and needs every agent to have the same degree d, but agent {low} has "
                f"{degree[low]} and agent {high} has {degree[high]} neighbours",
                'Write weights="metropolis".',
            )
    else:
        check_one_of("weights", rule, RULES, " or a matrix")
    return rule, np.full(graph.number_of_edges(), 1 / (1 + max(degree.values())))


def check_connected(graph: nx.Graph) -> None:
    """Refuse a graph in which some agents cannot reach each other, naming an edge that would join them."""
    components = sorted((sorted(c) for c in nx.connected_components(graph)), key=len)
    if len(components) > 1:
        smallest, largest = components[0], components[-1]
        others = graph.number_of_nodes() - len(smallest)
        reason = f"agents {_listed(smallest)} cannot reach the other {others}"
        fix = f"Add an edge, for example ({smallest[0]}, {largest[0]})."
        raise Refused("the network is disconnected", reason, fix)


def check_mixing_matrix(matrix: np.ndarray, graph: nx.Graph) -> None:
    """Refuse a matrix that is not a mixing matrix, naming the row or the edge at fault and the fix."""
    size = graph.number_of_nodes()
    if matrix.shape != (size, size):
        reason = f"the matrix has shape {matrix.shape}, the network has {size} agents: {(size, size)} is needed"
        raise Refused("weights", reason)
    linked = nx.to_numpy_array(graph, nodelist=range(size), weight=None) + np.eye(size) > 0
    negative = "W is not doubly stochastic: W[{i}, {j}] = {ij:.4g} is negative"
    for bad, reason, fix in (
        (~np.isfinite(matrix), "W[{i}, {j}] = {ij} is not a number", ""),
        (
            ~linked & (np.abs(matrix) > TOLERANCE),
            "W[{i}, {j}] = {ij:.4g}, but agents {i} and {j} are not neighbours",
            "Set the entry to zero or add the edge ({i}, {j}).",
        ),
        (
            np.abs(matrix - matrix.T) > TOLERANCE,
            "W is not symmetric: W[{i}, {j}] = {ij:.4g}, W[{j}, {i}] = {ji:.4g}",
            'Use (W + W.T)/2 where its rows still sum to one, or weights="metropolis".',
        ),
        ((matrix < -TOLERANCE) & np.eye(size, dtype=bool), negative, "Use (1 - t) I + t W with t small enough."),
        (matrix < -TOLERANCE, negative, 'Use weights="metropolis".'),
    ):
        refuse_first("weights", matrix, bad, reason, fix)
    _check_rows(matrix.sum(axis=1), graph)
    _check_beta(matrix, graph)


def refuse_first(subject: str, matrix: np.ndarray, bad: np.ndarray, reason: str, fix: str) -> None:
    """Refuse a matrix with bad entries; texts may use the first one's indices i, j and its values ij and ji."""
    for i, j in np.argwhere(bad)[:1]:
        entry = {"i": i, "j": j, "ij": matrix[i, j], "ji": matrix[j, i]}
        raise Refused(subject, reason.format(**entry), fix.format(**entry))


def _check_rows(sums: np.ndarray, graph: nx.Graph) -> None:
    worst = int(np.argmax(np.abs(sums - 1)))
    if abs(sums[worst] - 1) <= TOLERANCE:
        return
    fix = 'Put what is missing on the diagonal, or write weights="metropolis".'
    if np.ptp(sums) <= TOLERANCE and sums[0] > 0:
        degrees = {d for _, d in graph.degree}
        fix = f"Divide W by {sums[0]:.4g}."
        if len(degrees) == 1:
            fix += f' On this graph weights="uniform" is (I + A)/{degrees.pop() + 1}, whose rows sum to 1.'
    raise Refused("weights", f"W is not doubly stochastic: row {worst} sums to {sums[worst]:.4g}, not 1", fix)


def _check_beta(matrix: np.ndarray, graph: nx.Graph) -> None:
    if mixing_rate(matrix) < BETA_LIMIT:
        return
    used = nx.Graph()
    used.add_nodes_from(graph)
    used.add_edges_from((i, j) for i, j in graph.edges if matrix[i, j] > TOLERANCE)
    components = sorted((sorted(c) for c in nx.connected_components(used)), key=len)
    if len(components) > 1:
        i, j = next(e for e in graph.edges if (e[0] in components[0]) != (e[1] in components[0]))
        never = f"every edge between agents {_listed(components[0])} and the others has weight zero"
        fix = f"Give edge ({i}, {j}) a positive weight."
        raise Refused("weights", f"β = 1, values never spread: {never}", fix)
    if np.diag(matrix).max() > TOLERANCE or not nx.is_bipartite(used):
        rate = f"β = 1 - {1 - mixing_rate(matrix):.1e}"
        fix = 'Give the edges larger weights, or write weights="metropolis".'
        raise Refused("weights", f"{rate}: agents keep so much of their own value that nothing spreads", fix)
    side = sorted(node for node, colour in nx.bipartite.color(used).items() if colour == 0)
    graph_is = (
        f"the graph is bipartite (agents {_listed(side)} against the others) and no agent keeps a weight for itself"
    )
    raise Refused("weights", f"β = 1, values swap sides for ever: {graph_is}", "Use (I + W)/2.")


def mixing_rate(matrix: Any) -> float:
    """Compute β = max(|λ_2|, |λ_m|) of a symmetric stochastic matrix, dense or sparse."""
    if matrix.shape[0] == 1:
        return 0.0
    rate = max(map(abs, extreme_eigenvalues(matrix)))
    return 0.0 if rate < 1e-12 else rate


def extreme_eigenvalues(matrix: Any) -> tuple[float, float]:
    """Compute λ_2 and λ_m, the second largest and the smallest eigenvalue, of a symmetric stochastic matrix."""
    compressed = sparse.csc_array(matrix)
    if matrix.shape[0] > DENSE_LIMIT and compressed.nnz < DENSE_SHARE * matrix.shape[0] ** 2:
        # λ_2 of a long ring is within 1e-6 of λ_1: only the inverse of W - σI, σ just outside, tells them apart.
        start = np.random.default_rng(0).standard_normal(matrix.shape[0])
        options = {"which": "LM", "v0": start, "return_eigenvectors": False}
        return (
            float(min(sparse_linalg.eigsh(compressed, k=2, sigma=1 + SHIFT, **options))),
            float(sparse_linalg.eigsh(compressed, k=1, sigma=-1 - SHIFT, **options)[0]),
        )
    dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    values = np.linalg.eigvalsh(dense)
    return float(values[-2]), float(values[0])


def assemble(size: int, edges: np.ndarray, weights: np.ndarray) -> sparse.coo_array:
    """Build the sparse W: `weights` on the `edges`, and a diagonal that makes every row sum to one."""
    i, j = edges.T
    diagonal = 1 - np.bincount(i, weights, size) - np.bincount(j, weights, size)
    agents = np.arange(size)
    rows, columns = np.concatenate([i, j, agents]), np.concatenate([j, i, agents])
    return sparse.coo_array((np.concatenate([weights, weights, diagonal]), (rows, columns)), shape=(size, size))


def _listed(agents: list[int], most: int = 6) -> str:
    shown = ", ".join(map(str, agents[:most]))
    return f"{{{shown}, … {len(agents)} in all}}" if len(agents) > most else f"{{{shown}}}"
