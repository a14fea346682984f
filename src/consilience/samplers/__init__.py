"""How the posterior is sampled, written once from one agent's point of view."""

from .base import Kernel, Sampler
from .centralized_hmc import CentralizedHMC
from .dula import DULA
from .published import Published

__all__ = ["DULA", "CentralizedHMC", "Kernel", "Published", "Sampler"]
