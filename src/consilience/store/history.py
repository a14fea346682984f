"""Store that can go back to older checkpoints: they are kept until all agents are past them.

Agents on machines of their own save at the same iterations, but not at the same moment; after a failure they go back to
the last iteration that all of them have. So beside `checkpoint.npz`, the newest, there is a folder `checkpoints` with
one file for every iteration that somebody may still have to go back to.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np

from ..network import Network
from .files import make_folder, sync_folder
from .folder import CHECKPOINT, DRAWS, RUN, AgreedStore, read_checkpoint
from .progress import Progress

CHECKPOINTS = "checkpoints"
FORGOTTEN = "forgotten"  # a file that says that some checkpoints have been dropped
ATTEMPT = "attempt"  # in a checkpoint: how often agents that were out of step have started anew


class HistoryStore(AgreedStore):
    """Store of an agent on a machine of its own, which may have to go back to an older checkpoint."""

    @property
    def thin(self) -> int:
        return int(self.identity["run"]["thin"])

    @property
    def saved(self) -> int:
        """Iteration of the newest checkpoint."""
        return self.progress.iterations(self.thin)

    def _begin(self, network: Network, resume: bool) -> None:
        if not (self.folder / CHECKPOINT).exists():  # nothing was saved: there is nothing that could be mixed up
            (self.folder / RUN).unlink(missing_ok=True)
            shutil.rmtree(self.folder / DRAWS, ignore_errors=True)
        super()._begin(network, resume)

    @property
    def bases(self) -> tuple[int, ...]:
        """Iterations that the run can go back to: the start too, as long as no checkpoint has been dropped."""
        start = () if (self.folder / CHECKPOINTS / FORGOTTEN).exists() else (0,)
        return tuple(sorted({*start, *(int(path.stem) for path in self._kept()), self.saved}))

    def save(self, progress: Progress, state: dict[str, np.ndarray]) -> bool:
        super().save(progress, state)
        self._keep()
        return True

    def back_to(self, iteration: int) -> None:
        """Make the checkpoint of `iteration`, or the start, the newest; what came after it is drawn again."""
        self._keep()
        for path in self._kept():
            if int(path.stem) > iteration:
                path.unlink()
        if iteration == 0:
            (self.folder / CHECKPOINT).unlink(missing_ok=True)
        elif iteration != self.saved:
            _link(self._path(iteration), self.folder / CHECKPOINT)
        self.progress, self.snapshot = read_checkpoint(self.folder)
        if self.saved != iteration:
            raise ValueError(f"{self.folder} has no checkpoint of iteration {iteration}, only of {self.saved}.")

    def forget(self, before: int) -> None:
        """Drop the checkpoints before an iteration, which nobody will go back to."""
        for path in self._kept():
            if int(path.stem) < before:
                (self.folder / CHECKPOINTS / FORGOTTEN).touch()
                path.unlink(missing_ok=True)

    def _keep(self) -> None:
        """Keep the newest checkpoint under its own name too; a process may have been killed before it could."""
        if (self.folder / CHECKPOINT).exists() and not self._path(self.saved).exists():
            make_folder(self.folder / CHECKPOINTS)
            _link(self.folder / CHECKPOINT, self._path(self.saved))

    def _path(self, iteration: int) -> Path:
        return self.folder / CHECKPOINTS / f"{iteration}.npz"

    def _kept(self) -> list[Path]:
        return [path for path in (self.folder / CHECKPOINTS).glob("*.npz") if path.stem.isdigit()]


def _link(there: Path, here: Path) -> None:
    """Give the file `there` a second name, `here`, in place of a file that may have it."""
    partial = here.with_name(f".{here.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        os.link(there, partial)
    except OSError:  # some file systems have no hard links
        shutil.copyfile(there, partial)
    partial.replace(here)
    sync_folder(here.parent)
