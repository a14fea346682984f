"""The folder of a run: draws, checkpoints and identity, written while it is sampled and read at any moment."""

from .arrays import Part
from .draws import Draws, blocks
from .files import check_folder, locked, make_folder, refusal, shown, write_whole
from .folder import RunFolder
from .identity import (
    FORMAT,
    Table,
    describe,
    describe_data,
    describe_network,
    describe_sampler,
    differences,
    flat,
    surroundings,
)
from .memory import Memory
from .progress import Progress
from .reading import (
    DRAWS,
    POSTERIOR,
    RUN,
    SCORES,
    SUBPOSTERIORS,
    DiskStats,
    check_format,
    disk_draws,
    read_checkpoint,
    read_network,
    read_run,
)
from .sink import Sink
from .writer import Writer

__all__ = [
    "DRAWS",
    "FORMAT",
    "POSTERIOR",
    "RUN",
    "SCORES",
    "SUBPOSTERIORS",
    "DiskStats",
    "Draws",
    "Memory",
    "Part",
    "Progress",
    "RunFolder",
    "Sink",
    "Table",
    "Writer",
    "blocks",
    "check_folder",
    "check_format",
    "describe",
    "describe_data",
    "describe_network",
    "describe_sampler",
    "differences",
    "disk_draws",
    "flat",
    "locked",
    "make_folder",
    "read_checkpoint",
    "read_network",
    "read_run",
    "refusal",
    "shown",
    "surroundings",
    "write_whole",
]
