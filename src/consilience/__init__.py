"""Decentralized Bayesian sampling: organisations that may not pool their data sample one posterior together."""

from .model import Classification, Posterior, Regression, pool, shard
from .network import Network
from .results import Comparison, Loo, Run, Summary, compare, load
from .runs import Devices, Peer, sample
from .samplers import DESGHMC as desghmc  # noqa: N811
from .samplers import DESGLD as desgld  # noqa: N811
from .samplers import DMALA as dmala  # noqa: N811
from .samplers import DULA as dula  # noqa: N811
from .samplers import EXTRA as extra  # noqa: N811
from .samplers import HMC as hmc  # noqa: N811
from .samplers import MALA as mala  # noqa: N811
from .samplers import NUTS as nuts  # noqa: N811
from .samplers import CentralizedHMC as centralized_hmc  # noqa: N813
from .samplers import ConsensusMonteCarlo as consensus_monte_carlo  # noqa: N813
from .samplers import DIGing as diging  # noqa: N813
from .samplers import Published as published  # noqa: N813
from .samplers import decentralize

__version__ = "0.1.0"

__all__ = [
    "Classification",
    "Comparison",
    "Devices",
    "Loo",
    "Network",
    "Peer",
    "Posterior",
    "Regression",
    "Run",
    "Summary",
    "centralized_hmc",
    "compare",
    "consensus_monte_carlo",
    "decentralize",
    "desghmc",
    "desgld",
    "diging",
    "dmala",
    "dula",
    "extra",
    "hmc",
    "load",
    "mala",
    "nuts",
    "pool",
    "published",
    "sample",
    "shard",
]
