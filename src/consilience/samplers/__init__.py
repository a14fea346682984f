"""Samplers of the posterior, each written once from one agent's point of view."""

from .base import Kernel, Sampler, SecondStage
from .centralized_hmc import CentralizedHMC
from .consensus_monte_carlo import ConsensusMonteCarlo
from .decentralize import Decentralized, decentralize
from .dmala import DMALA
from .dula import DULA
from .fitting import CROWD, MANY, SECOND_MODE_LIMIT, number_of_points, number_of_starts, number_of_trials
from .gossip_langevin import DESGHMC, DESGLD, EXTRA, DIGing
from .hamiltonian import HMC, MALA, NUTS
from .proposals import FORGETTING_LIMIT, R_HAT_LIMIT
from .published import Published, gradient_and_curvature
from .starting import start_spread_limit
from .surrogate import LEAST_LOG_WEIGHT, Surrogate
from .weights import SHARE_LIMIT, are_flat, pareto_k_limit

__all__ = [
    "CROWD",
    "DESGHMC",
    "DESGLD",
    "DMALA",
    "DULA",
    "EXTRA",
    "FORGETTING_LIMIT",
    "HMC",
    "LEAST_LOG_WEIGHT",
    "MALA",
    "MANY",
    "NUTS",
    "R_HAT_LIMIT",
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
    "number_of_points",
    "number_of_starts",
    "number_of_trials",
    "pareto_k_limit",
    "start_spread_limit",
]
