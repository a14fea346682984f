"""The folder of a run: draws, checkpoints and identity, written while it is sampled and read at any moment."""

from .arrays import Part
from .checkpoints import Progress
from .draws import Draws, blocks
from .files import check_folder, locked, make_folder, refusal, shown, write_whole
from .folder import RunFolder
from .identity import (
    FORMAT,
    Table,
    describe,
    describe_data,
    describe_network,
    describe_own,
    describe_sampler,
    differences,
    flat,
    surroundings,
)
from .reading import (
    DRAWS,
    OWN,
    POSTERIOR,
    RUN,
    SCORES,
    SUBPOSTERIORS,
    DiskStats,
    check_format,
    disk_draws,
    own_group,
    read_checkpoint,
    read_network,
    read_run,
)
from .sink import Memory, Sink
from .writer import Writer
