"""Networks of agents: who may talk to whom, mixing weights, spectra, and what it costs to agree."""

from .network import Network
from .plan import Plan
from .polynomial import Averaging, averaging, averaging_with, chebyshev_contraction
from .spec import network_from_spec
from .tree import Tree, spanning_tree

__all__ = [
    "Averaging",
    "Network",
    "Plan",
    "Tree",
    "averaging",
    "averaging_with",
    "chebyshev_contraction",
    "network_from_spec",
    "spanning_tree",
]
