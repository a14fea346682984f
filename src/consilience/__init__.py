"""consilience: organisations that may not pool their data sample one Bayesian posterior together."""

from .network import Network
from .posterior import Posterior, pool, shard
from .results import Run, Summary
from .samplers import DULA as dula  # noqa: N811
from .samplers import CentralizedHMC as centralized_hmc  # noqa: N813
from .samplers import Published as published  # noqa: N813
from .sampling import sample

__version__ = "0.1.0"

__all__ = [
    "Network",
    "Posterior",
    "Run",
    "Summary",
    "centralized_hmc",
    "dula",
    "pool",
    "published",
    "sample",
    "shard",
]
