"""Networks of agents: who may talk to whom, mixing weights, spectra, and what it costs to agree."""

from .gathering import CONSENSUS, MOST_AGENTS, is_gathered
from .network import Network
from .plan import GOSSIP, WORD_BYTES, Plan
from .polynomial import Averaging, averaging, averaging_with, chebyshev_contraction, chebyshev_rounds
from .spec import EXAMPLES, network_from_spec
from .tree import Tree, spanning_tree
from .weights import DENSE_LIMIT, RULES, assemble
