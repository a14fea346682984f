"""Samplers of the posterior, each written once from one agent's point of view."""

from .base import Kernel, Sampler, SecondStage
from .centralized_hmc import CentralizedHMC
from .consensus_monte_carlo import ConsensusMonteCarlo
from .decentralize import Decentralized, decentralize
from .dmala import DMALA
from .dula import DULA
from .fitting import SECOND_MODE_LIMIT
from .gossip_langevin import DESGHMC, DESGLD, EXTRA, DIGing
from .hamiltonian import HMC, MALA, NUTS
from .proposals import FORGETTING_LIMIT
from .published import Published, gradient_and_curvature
from .surrogate import Surrogate
from .weights import SHARE_LIMIT, are_flat, pareto_k_limit

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
    "are_flat",
    "decentralize",
    "gradient_and_curvature",
    "pareto_k_limit",
]
