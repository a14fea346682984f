"""Samplers of the posterior, each written once from one agent's point of view."""

from .base import Kernel, Sampler, SecondStage
from .centralized_hmc import CentralizedHMC
from .consensus_monte_carlo import ConsensusMonteCarlo
from .decentralize import Decentralized, decentralize
from .dmala import DMALA
from .dula import DULA
from .gossip_langevin import DESGHMC, DESGLD, EXTRA, DIGing
from .hamiltonian import HMC, MALA, NUTS
from .published import Published, gradient_and_curvature
from .surrogate import Surrogate

__all__ = [
    "DESGHMC",
    "DESGLD",
    "DMALA",
    "DULA",
    "EXTRA",
    "HMC",
    "MALA",
    "NUTS",
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
]
