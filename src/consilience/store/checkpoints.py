"""Checkpoints of a run: how far it had come at some iterations, its `Progress`, and the states to go on from.

    checkpoints/<iteration>/<first>-<last>.npz

Every process that writes to a folder saves the state of its own copies of the chain, those of its agents, as one part.
A checkpoint counts when it is *whole*, all its parts are there, whatever processes wrote them and read them now. That
of iteration 0, without a state, is written before anything else: a folder that has none at all has lost them.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np

from .._refused import Refused
from ..neighbors import Traffic
from .files import make_folder, npz, refusal, shown, sync_folder, write_whole

CHECKPOINTS = "checkpoints"
LAST_KEPT = 2  # whole ones: if the newest is damaged, a run can be gone on with from the one before it
PART = re.compile(r"(\d+)-(\d+)\.npz")

State = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Progress:
    """Progress of a run after some chunks: warm-up iterations and kept draws, and what they have cost.

    Attributes:
      warmed: number of warm-up iterations.
      drawn: number of kept draws.
      seconds: time spent sampling, interruptions left out.
      redone: iterations redone because agents fell out of step, of `watched` chain iterations.
      attempt: how often agents that were out of step have gone back and taken other random numbers.
      combined: draws that have been put together from the agents' own, where a sampler does that at the end.
    """

    warmed: int = 0
    drawn: int = 0
    rounds: int = 0
    messages: int = 0
    bytes: int = 0
    seconds: float = 0.0
    redone: int = 0
    watched: int = 0
    attempt: int = 0
    combined: int = 0

    @property
    def traffic(self) -> Traffic:
        return Traffic(self.rounds, self.messages, self.bytes)

    def iterations(self, thin: int) -> int:
        """Count the iterations of the warm-up and those behind the kept draws."""
        return self.warmed + self.drawn * thin

    def sent(self, traffic: Traffic) -> Progress:
        """Return this progress with more traffic."""
        total = self.traffic + traffic
        return replace(self, rounds=total.rounds, messages=total.messages, bytes=total.bytes)


class Checkpoints(NamedTuple):
    """Checkpoints in a run's folder, of so many copies of the chain."""

    folder: Path
    size: int

    def whole(self) -> tuple[int, ...]:
        """Return the iterations of all whole checkpoints, in order.

        Others may be writing and removing meanwhile: a look may come too early to find the newer of two whole, and then
        too late for the older one. So none is returned only when a second look sees the same.
        """
        seen: dict[int, list[str]] | None = None
        while True:
            found = {iteration: _parts(self._place(iteration)) for iteration in self._all()}
            whole = tuple(iteration for iteration, parts in found.items() if self._is_whole(parts))
            if whole or found == seen:
                return whole
            seen = found

    def newest(self) -> tuple[Progress, State | None] | None:
        """Read the last whole checkpoint; return None if there is none, and refuse one that is damaged."""
        while whole := self.whole():
            try:
                return self.read(whole[-1])
            except Refused:
                if self.whole()[-1:] == whole[-1:]:  # no newer one has taken its place
                    raise
        return None

    def read(self, iteration: int) -> tuple[Progress, State | None]:
        """Read a whole checkpoint: arrays (chain, copy, ...), and numbers that are the same in all its parts."""
        place = self._place(iteration)
        older = [other for other in self.whole() if other < iteration]
        fix = f"Delete the folder {shown(place)} to go on from iteration {older[-1]}. " if older else ""
        parts, fix = _parts(place), f"{fix}All draws are in draws.zarr."
        if not self._is_whole(parts):
            raise refusal(place, "it is not whole", fix)
        found = [_read_part(place / name, fix) for name in parts]
        progress, first = found[0]
        if len(found) == 1:
            return progress, first or None
        return progress, {
            name: np.concatenate([part[name] for _, part in found], axis=1) if values.ndim else values
            for name, values in first.items()
        }

    def write(self, iteration: int, copies: range, progress: Progress, state: State) -> None:
        """Write one process's part of a checkpoint, that of its own `copies`."""
        make_folder(self._place(iteration))
        facts = np.frombuffer(json.dumps(asdict(progress)).encode(), np.uint8)
        content = npz({"progress": facts, **state})
        write_whole(self._place(iteration) / f"{copies[0]}-{copies[-1]}.npz", content)

    def oldest_kept(self) -> int:
        """Return the iteration of the oldest checkpoint that one process, or hosts, keep."""
        return self.whole()[-LAST_KEPT:][0]

    def drop(self, is_dropped: Callable[[int], bool]) -> None:
        """Remove the checkpoints of some iterations, whole or not, the last ones first."""
        dropped = [iteration for iteration in self._all() if is_dropped(iteration)]
        for iteration in reversed(dropped):
            shutil.rmtree(self._place(iteration))
        if dropped:
            sync_folder(self.folder / CHECKPOINTS)

    def _place(self, iteration: int) -> Path:
        return self.folder / CHECKPOINTS / str(iteration)

    def _all(self) -> list[int]:
        return sorted(int(name) for name in _names(self.folder / CHECKPOINTS) if name.isdecimal())

    def _is_whole(self, parts: Sequence[str]) -> bool:
        """Tell whether the parts go from the first copy to the last."""
        reached = 0
        for part in parts:
            first, last = _copies(part)
            if first != reached:
                return False
            reached = last + 1
        return reached == self.size


def _copies(part: str) -> tuple[int, int]:
    first, last = re.findall(r"\d+", part)
    return int(first), int(last)


def _parts(place: Path) -> list[str]:
    """Return the names of a checkpoint's parts, in the order of the copies."""
    return sorted(filter(PART.fullmatch, _names(place)), key=_copies)


def _names(folder: Path) -> list[str]:
    """Return the names of what is in a folder: none where another host has just removed it."""
    try:
        return [path.name for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _read_part(path: Path, fix: str) -> tuple[Progress, dict[str, np.ndarray]]:
    try:
        with path.open("rb") as file:
            arrays = dict(np.load(file))
        return Progress(**json.loads(arrays.pop("progress").tobytes())), arrays
    except (ValueError, KeyError, TypeError, OSError, EOFError, BadZipFile) as error:
        raise refusal(path, f"it is damaged: {error}", fix) from None
