"""Samplers of the posterior, each written once from one agent's point of view."""

from .base import Kernel, Sampler, SecondStage
from .centralized_hmc import CentralizedHMC
from .consensus_monte_carlo import ConsensusMonteCarlo
from .decentralize import Decentralized, decentralize
from .dmala import DMALA
from .dula import DULA
from .fitting import FORGETTING_LIMIT, SECOND_MODE_LIMIT
from .gossip_langevin import DESGHMC, DESGLD, EXTRA, DIGing
from .hamiltonian import HMC, MALA, NUTS
from .published import Published, gradient_and_curvature
from .starting import spread_limit as start_spread_limit
from .surrogate import Surrogate
from .weights import SHARE_LIMIT, pareto_k_limit

__all__ = [
    "DESGHMC",
    "DESGLD",
    "DMALA",
    "DULA",
    "EXTRA",
    "FORGETTING_LIMIT",
    "HMC",
    "MALA",
    "NUTS",
    "SECOND_MODE_LIMIT",
    "SHARE_LIMIT",
    "CentralizedHMC",
    "ConsensusMonteCarlo",
    "DIGing",
    "Decentralized",
    "Kernel",
    "Published",
    "Sampler",
    "SecondStage",
    "Surrogate",
    "decentralize",
    "gradient_and_curvature",
    "pareto_k_limit",
    "start_spread_limit",
]
