"""Consensus among agents: rounds of gossip over the edges of a network, exact sums over a tree."""

from .alone import Alone
from .edges import EdgeLists, edge_lists, no_edges
from .gossip import gossip, relaxed_gossip
from .neighbors import Neighbors, Repeated, message_bytes
from .projection import projection

__all__ = [
    "Alone",
    "EdgeLists",
    "Neighbors",
    "Repeated",
    "edge_lists",
    "gossip",
    "message_bytes",
    "no_edges",
    "projection",
    "relaxed_gossip",
]
