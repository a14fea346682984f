"""Checkpoints in parts: every host saves the state of its own agents.

    parts/<draws and iterations>/<first agent>-<last agent>-of-<agents>.npz

A checkpoint counts once all its parts are there. Hosts do not wait for each other: each writes its part after the draws
that it counts. The first host removes older checkpoints when a newer one is whole.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .files import make_folder, write_whole
from .progress import Progress

PARTS = "parts"
NAME = re.compile(r"(\d+)-(\d+)-of-(\d+)\.npz")


def count(progress: Progress) -> int:
    """Count warm-up iterations and kept draws, which grow from checkpoint to checkpoint."""
    return progress.warmed + progress.drawn


def write_part(folder: Path, progress: Progress, agents: range, size: int, content: bytes) -> None:
    """Write one host's part of a checkpoint, that of its own `agents`."""
    place = folder / PARTS / str(count(progress))
    make_folder(place)
    write_whole(place / f"{agents[0]}-{agents[-1]}-of-{size}.npz", content)


class Saved(NamedTuple):
    """Checkpoint on disk, and the parts of it that are there, in the order of the agents."""

    done: int
    parts: tuple[Path, ...]


def newest(folder: Path) -> Saved | None:
    """Return the last whole checkpoint, or None.

    Hosts may be writing and removing meanwhile: a look may come too early to find the newer of two checkpoints whole,
    and then too late for the older one. So None is returned only when a second look sees the same.
    """
    seen: list[Saved] | None = None
    while True:
        found = [Saved(int(place.name), tuple(_in_order(place))) for place in _all(folder)]
        whole = [each for each in found if _is_whole(each.parts)]
        if whole or found == seen:
            return max(whole, default=None)
        seen = found


def drop_older(folder: Path) -> None:
    """Remove the checkpoints that a newer one has made useless: for one of the hosts to do."""
    whole = newest(folder)
    for place in _all(folder):
        if whole is not None and int(place.name) < whole.done:
            shutil.rmtree(place, ignore_errors=True)


def drop_unfinished(folder: Path) -> None:
    """Remove checkpoints after the last whole one: what they hold will be drawn again, perhaps in other parts."""
    whole = newest(folder)
    for place in _all(folder):
        if whole is None or int(place.name) > whole.done:
            shutil.rmtree(place)


def read_parts(
    parts: Sequence[Path], read: Callable[[Path], tuple[Progress, dict[str, np.ndarray]]]
) -> tuple[Progress, dict[str, np.ndarray]]:
    """Read a whole checkpoint from its parts: arrays (chain, agent, ...), and numbers that all agents have alike."""
    found = [read(path) for path in parts]
    progress, first = found[0]
    states = [state for _, state in found]
    return progress, {
        name: np.concatenate([state[name] for state in states], axis=1) if first[name].ndim else first[name]
        for name in first
    }


def _all(folder: Path) -> list[Path]:
    return sorted(folder / PARTS / name for name in _names(folder / PARTS) if name.isdigit())


def _names(folder: Path) -> list[str]:
    """Return the names of what is in a folder: none where another host has just removed it."""
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []


def _in_order(place: Path) -> list[Path]:
    names = filter(NAME.fullmatch, _names(place))
    return [place / name for name in sorted(names, key=lambda name: int(name.split("-")[0]))]


def _is_whole(parts: Sequence[Path]) -> bool:
    """Tell whether the parts go from the first agent to the last."""
    reached, size = 0, 1
    for path in parts:
        first, last, size = map(int, re.findall(r"\d+", path.stem))
        if first != reached:
            return False
        reached = last + 1
    return reached == size
