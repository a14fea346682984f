"""The folder of a run: draws, checkpoints and identity, written while it is sampled and read at any moment."""

from ._shim import Part, RunFolder, differences
from .draws import Draws, blocks
from .files import locked, make_folder, shown, write_whole
from .folder import (
    DRAWS,
    POSTERIOR,
    RUN,
    SCORES,
    SUBPOSTERIORS,
    DiskStats,
    Store,
    disk_draws,
    read_checkpoint,
    read_network,
    read_run,
)
from .history import ATTEMPT, HistoryStore
from .identity import (
    CONSEQUENCES,
    Table,
    causes,
    describe,
    describe_data,
    describe_network,
    describe_sampler,
    flat,
    surroundings,
)
from .memory import Memory
from .progress import Progress
from .shared import SharedStore
from .sink import Sink
from .writer import Writer

__all__ = [
    "ATTEMPT",
    "CONSEQUENCES",
    "DRAWS",
    "POSTERIOR",
    "RUN",
    "SCORES",
    "SUBPOSTERIORS",
    "DiskStats",
    "Draws",
    "HistoryStore",
    "Memory",
    "Progress",
    "SharedStore",
    "Sink",
    "Store",
    "Table",
    "Writer",
    "blocks",
    "causes",
    "describe",
    "describe_data",
    "describe_network",
    "describe_sampler",
    "disk_draws",
    "flat",
    "locked",
    "make_folder",
    "read_checkpoint",
    "read_network",
    "read_run",
    "shown",
    "surroundings",
    "write_whole",
]
