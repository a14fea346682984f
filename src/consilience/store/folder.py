"""Writing of a run's folder: by one process, by hosts that share it, or by a peer, while the run is sampled.

A chunk's draws are written before the checkpoint that counts them, and every file is replaced whole. So whatever moment
a process is killed at, the checkpoint's draws are there; what came after them is drawn again, to the same bits. Nothing
of a run that is there is removed before it is known to be this one.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np

from .._extras import check_installed, require
from .._refused import Refused
from ..engine import Chunk, Hosts
from ..model import KeptOwn, Layout
from ..network import Network
from .arrays import PATIENCE, POLL, DrawsFolder, Part
from .checkpoints import CHECKPOINTS, Checkpoints, Progress, State
from .files import locked, npz, refusal, remove_partial, shown, write_whole
from .identity import FREE, Table, differences
from .reading import DRAWS, NETWORK, POSTERIOR, RUN, STATS, disk_draws, own_group, read_checkpoint, read_run

LONGEST_NAME = 200  # bytes
SAMPLING_SHARE = 9  # seconds of sampling, at least, for each second that saving the state takes
PARTS_PATIENCE = 5  # seconds to wait for the other hosts' parts; after that, progress is reported later
SIGHT_PATIENCE = 30  # seconds until a host must see what another has made
UNSEEN = -1


class RunFolder:
    """Sink that writes a run to a folder while it is sampled, by itself or with other hosts that see the same folder.

    Hosts open it together; all else each does in its own time, the first one what all have alike.

    Args:
      folder: where to write: empty or not there yet, or, where `resume`, with the same run.
      identity: record of this run, as `describe` gives it.
      kept: layout of what is kept of a draw.
      part: what this process writes of it.
      hosts: those that share the folder; `Hosts()` is this process alone.
      group: name of the group in draws.zarr that the draws go to.
      own: what is kept of variables that stay with their owner; None: there are none.

    Attributes:
      progress: how far the run had come when it was saved last.
      snapshot: the state to go on from; None at the start.
      is_saving: whether a state has been taken that is yet to be saved.
    """

    def __init__(
        self,
        folder: Path,
        identity: Table,
        network: Network,
        kept: Layout,
        part: Part,
        hosts: Hosts,
        group: str = POSTERIOR,
        resume: bool = False,
        own: KeptOwn | None = None,
    ) -> None:
        for module in ("zarr", "tomli_w"):
            check_installed(module, "store")
        self.folder, self.identity, self.kept, self.group = folder, identity, kept, group
        self.progress = Progress()
        self.snapshot: State | None = None
        self.is_saving = False
        self._part, self._hosts, self._own = part, hosts, own
        self._thin, self._planned = identity["run"]["thin"], identity["run"]["num_samples"]
        self._checkpoints = Checkpoints(folder, part.size)
        self._draws = DrawsFolder(folder, part, hosts, self._planned)
        self._saved_at, self._cost = -np.inf, 0.0
        self._open(network, resume)

    # --- how far the run has come ------------------------------------------------------------------------

    @property
    def saved(self) -> int:
        """Iteration of the last checkpoint that this process has saved, or goes on from."""
        return self.progress.iterations(self._thin)

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Iterations of the whole checkpoints on disk, in order; 0 is the start."""
        return self._checkpoints.whole()

    @property
    def is_due(self) -> bool:
        """Tell whether saving now takes at most a tenth of the time, as far as this process is concerned."""
        return not self.is_saving and time.perf_counter() - self._saved_at >= SAMPLING_SHARE * self._cost

    def save(self, progress: Progress, state: State | None) -> bool:
        """Save how far the run has come if its state was taken; return whether all parts of that are there now."""
        if state is None:
            return False
        began, is_whole = time.perf_counter(), True
        if self._part.is_written:
            iteration = progress.iterations(self._thin)
            self._checkpoints.write(iteration, self._part.copies, progress, state)
            is_whole = self._wait_until_whole(iteration)
            if self._hosts.is_first and not self._part.goes_back:
                self.forget(self._checkpoints.oldest_kept())
        self.progress = progress  # now that it has been saved
        self._saved_at = time.perf_counter()
        self._cost = self._saved_at - began
        return is_whole

    def _wait_until_whole(self, iteration: int) -> bool:
        """Tell whether the other hosts have saved their parts too, after a short wait: they are about to."""
        deadline = time.monotonic() + PARTS_PATIENCE
        while self.checkpoints[-1:] < (iteration,):  # of those that this host sees, perhaps none
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL)
        return True

    def back_to(self, iteration: int) -> None:
        """Go back to the checkpoint of an iteration, or to the start, 0; what came after it is drawn again."""
        if iteration not in self.checkpoints:
            there = ", ".join(map(str, self.checkpoints))
            reason = f"it has no checkpoint of iteration {iteration}, but of {there}"
            raise refusal(self.folder, reason, "Put the folder back as it was.")
        self._checkpoints.drop(lambda other: other > iteration)
        self.progress, self.snapshot = self._checkpoints.read(iteration)

    def forget(self, before: int) -> None:
        """Drop the checkpoints before an iteration, which nobody will go back to."""
        with suppress(OSError):  # network file systems keep the name of a file that somebody reads, a while longer
            self._checkpoints.drop(lambda iteration: iteration < before)

    # --- draws -------------------------------------------------------------------------------------------

    def append(self, chunk: Chunk, first: int) -> None:
        """Write a chunk's draws and figures as draws `first` and on."""
        if self._part.is_written:
            self._write(self.group, chunk.positions, self.kept, first, chunk.first)
            for name, values in chunk.stats.items():
                self._draws.put(f"{STATS}/{name}", values, first, chunk.first)
            if self._own is not None and chunk.own is not None:
                for agent, layout, values in self._own.parts(chunk.own):
                    self._write(own_group(agent), values, layout, first)

    def own_draws(self) -> np.ndarray:
        """Read all draws that have been appended into memory."""
        return disk_draws(self.folder, self.kept, self.progress.drawn, (1, 1), self.group)[:]

    def put(self, values: np.ndarray, layout: Layout) -> None:
        """Write the posterior's draws, beside what has been appended."""
        self._write(POSTERIOR, values, layout)

    def _write(self, group: str, values: np.ndarray, layout: Layout, first: int = 0, copy: int = 0) -> None:
        """Write vectors (draw, chain, copy, number) to their parameters' arrays."""
        for name, leaf in layout.leaves(values):
            self._draws.put(f"{group}/{name}", leaf, first, copy)

    # --- from opening to the end -------------------------------------------------------------------------

    def _open(self, network: Network, resume: bool) -> None:
        """Open the folder on the first host, and see on all of them that they see the same there."""
        hosts, is_new = self._hosts, not (self.folder / RUN).exists()
        hosts.together(lambda: self._begin(network, resume) if hosts.is_first else None)
        created = hosts.gather(self.identity["created"])[0]
        try:
            self._agree_where_it_stands(created)
        except BaseException:
            self.finish("interrupted")
            if is_new and hosts.is_first:
                (self.folder / RUN).unlink()  # or the same call, once corrected, would be refused
            raise

    def _begin(self, network: Network, resume: bool) -> None:
        _check_folder(self.folder, [*self.kept.names, *([] if self._own is None else self._own.variables.one.names)])
        self._lock = locked(self.folder)
        try:
            if (self.folder / RUN).exists():
                self._go_on(resume)
            else:
                self._checkpoints.drop(lambda _: True)  # one begun by a process that was killed, of other parts perhaps
                self._checkpoints.write(0, range(self._part.size), Progress(), {})
            remove_partial(self.folder)
            edges = np.array(network.edges, dtype=int).reshape(-1, 2)
            write_whole(self.folder / NETWORK, npz({"edges": edges, "weights": network.edge_weights}))
            self._say("running")  # last: a folder with a run.toml can be read
        except BaseException:
            self._lock.close()
            raise

    def _go_on(self, resume: bool) -> None:
        """Read how far the run that is there has come, and refuse it where it is another."""
        there = read_run(self.folder)
        if not resume:
            raise refusal(self.folder, "it already holds a run", "Write resume=True to go on with it, or another out=.")
        if lines := differences({"there": there, "here": self.identity}, FREE):
            if self._part.goes_back and self.checkpoints == (0,):  # nothing was saved that could be mixed up
                if (self.folder / DRAWS).exists():
                    shutil.rmtree(self.folder / DRAWS)
                return
            reason = "".join(
                ["it holds another run; going on would mix the two:\n", *(f"  {line}\n" for line in lines)]
            )
            fix = "Write the call as it was there, or start a new run with another out=."
            raise refusal(self.folder, reason, fix)
        self.identity = {**self.identity, "created": there["created"]}
        self.progress, self.snapshot = read_checkpoint(self.folder, there)
        drawn = self.progress.drawn
        if self._planned < drawn:
            reason = f"it has {drawn} draws, more than num_samples = {self._planned}"
            fix = f"Write num_samples={drawn} or more, or cs.load({str(shown(self.folder))!r})."
            raise refusal(self.folder, reason, fix)
        disk_draws(self.folder, self.kept, drawn, (1, 1), self.group)  # refuses a folder without
        self._draws.check_files()
        # What those after it hold will be drawn again, perhaps in other parts.
        self._checkpoints.drop(lambda iteration: iteration > self.saved)

    def _agree_where_it_stands(self, created: str) -> None:
        """Wait until all hosts see one run and checkpoint: network file systems may show them to some a while later."""
        hosts, began = self._hosts, time.monotonic()
        while len(set(hosts.gather(seen := hosts.together(partial(self._look, created))))) > 1:
            waited = hosts.of_first(int(time.monotonic() - began))
            hosts.together(partial(self._check_sight, seen, waited))
            time.sleep(1)

    def _look(self, created: str) -> int:
        """Return the iteration that this host sees, after reading it; UNSEEN of a run that is not the first host's."""
        if not self._hosts.is_first:
            if not (self.folder / RUN).exists() or read_run(self.folder)["created"] != created:
                return UNSEEN
            self.progress, self.snapshot = self._checkpoints.newest() or (Progress(), None)
        return self.saved

    def _check_sight(self, seen: int, waited: int) -> None:
        """Refuse a folder that hosts see differently after they have waited so many seconds."""
        if seen == UNSEEN and waited >= SIGHT_PATIENCE:
            reason = "it is not the folder that the first host sees under this name"
            raise refusal(self.folder, reason, "Name one that all hosts share.")
        if waited >= PATIENCE:
            reason = f"the hosts see different checkpoints in it, this one that of iteration {seen}"
            raise refusal(self.folder, reason, "Start them again when the file system has settled.")

    def finish(self, status: str) -> None:
        """Record how the run ended, and unlock the folder."""
        if self._hosts.is_first:
            try:
                self._say(status)
            finally:
                self._lock.close()

    def _say(self, status: str) -> None:
        self.identity = {**self.identity, "status": status}
        write_whole(self.folder / RUN, require("tomli_w", "store").dumps(self.identity).encode())


def _check_folder(folder: Path, names: Sequence[str]) -> None:
    """Refuse a folder with files of somebody else's, and parameters whose names cannot be those of folders."""
    if folder.is_dir() and not (folder / RUN).exists():
        others = [path for path in folder.iterdir() if not path.name.startswith(".") and not _is_of_a_start(path)]
        if others:
            place = str(shown(folder) / "run")
            raise refusal(folder, "it holds other files", f"Name a new folder: out={place!r}.")
    for name in names:
        if name.startswith((".", "__")) or name == "zarr.json" or "\0" in name or len(name.encode()) > LONGEST_NAME:
            raise Refused(
                f"the parameter {name[:40]!r}", "it cannot be a folder's name", "Rename it, or leave out out=."
            )


def _is_of_a_start(path: Path) -> bool:
    """Tell whether a process that is killed while it starts may leave this in a folder without a run."""
    is_start = path.name == CHECKPOINTS and {inside.name for inside in path.iterdir()} <= {"0"}
    return is_start or path.name == NETWORK
