"""How neighbours agree: rounds of gossip over the edges of a network."""

from .edges import EdgeLists, edge_lists
from .gossip import gossip
from .neighbors import Neighbors

__all__ = ["EdgeLists", "Neighbors", "edge_lists", "gossip"]
