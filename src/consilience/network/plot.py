"""Plot of a network with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._extras import require
from .._lazy import LazyModule

if TYPE_CHECKING:
    from .network import Network

nx: Any = LazyModule("networkx")

CROWDED = 60  # above this many agents, numbers would overlap
LARGE = 200  # above this many, the better layout takes too long
LEAST_SHAPE = 0.5  # least height over width, and width over height: agents on one line need room as well


def plot_network(network: Network, ax: Any = None) -> Any:
    """Draw agents as numbered discs, and links as lines whose width shows the mixing weight."""
    plt = require("matplotlib.pyplot", "report")
    if ax is None:
        ax = plt.figure(figsize=(4, 4), layout="constrained").add_subplot()
    graph = network.graph
    if network.size <= LARGE:  # a ring-like start keeps rings round and grids flat
        place = nx.kamada_kawai_layout(graph, pos=nx.circular_layout(graph), weight=None)
    else:
        place = nx.spectral_layout(graph, weight=None)
    strongest = network.edge_weights.max(initial=1e-12)
    crowded = network.size > CROWDED
    boldest = 0.8 if crowded else 2.5
    widths = 0.5 + boldest * np.array([graph[i][j]["weight"] for i, j in graph.edges]) / strongest
    nx.draw_networkx_edges(graph, place, ax=ax, width=widths, edge_color="#8a94a6")
    nx.draw_networkx_nodes(graph, place, ax=ax, node_size=20 if crowded else 340, node_color="#2f6fb0")
    if not crowded:
        nx.draw_networkx_labels(graph, place, ax=ax, font_color="white", font_size=9)
    ax.set_title(f"{network.name}\nβ = {network.rate_text}, diameter {network.diameter}", fontsize=10)
    ax.set_axis_off()
    for artist in (*ax.collections, *ax.texts):
        artist.set_clip_on(False)
    ax.update_datalim(_room(np.array(list(place.values()))))
    ax.set_aspect("equal")
    ax.margins(0.12)
    return ax


def _room(places: np.ndarray) -> np.ndarray:
    """Return two corners of the least area to show, so that agents on one line, or one agent, give no flat picture."""
    low, high = places.min(axis=0), places.max(axis=0)
    longest = (high - low).max()
    half = np.maximum(high - low, LEAST_SHAPE * longest if longest > 0 else 1.0) / 2
    return np.stack([(low + high) / 2 - half, (low + high) / 2 + half])
