"""What takes draws while they are drawn: the interface, and `Memory`, its twin of `RunFolder` without a disk."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from ..engine import Chunk
from ..model import KeptOwn, Layout
from .checkpoints import Progress, State


class Sink(Protocol):
    """Destination of a run's draws, which takes chunks in order and knows how far the run has come.

    Attributes:
      progress: how far the run had come when it was saved last.
      snapshot: the state to go on from, where there is one.
      is_saving: whether a state has been taken that is yet to be saved; the writer says so.
    """

    progress: Progress
    snapshot: State | None
    is_saving: bool

    def append(self, chunk: Chunk, first: int) -> None:
        """Write a chunk's draws and figures as draws `first` and on."""

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Return the iterations that a later process could go on from, in order."""

    @property
    def is_due(self) -> bool:
        """Tell whether saving now would cost little, as far as this process is concerned."""

    def save(self, progress: Progress, state: State | None) -> bool:
        """Save how far the run has come, and the state, if it was taken; return whether that is safe now."""

    def own_draws(self) -> np.ndarray:
        """Return all draws that have been appended."""

    def put(self, values: np.ndarray, layout: Layout) -> None:
        """Write the posterior's draws, where those that were appended are not the posterior's."""

    def finish(self, status: str) -> None:
        """Record how the run has ended."""


class Memory:
    """Sink that keeps the draws of a run in memory while it is sampled, in one array for all planned draws."""

    is_due = False  # a state to go on from would not outlive the process
    is_saving = False
    checkpoints = ()

    def __init__(self, planned: int, own: KeptOwn | None = None) -> None:
        self.planned, self._own = planned, own
        self.own: dict[int, np.ndarray] = {}  # by the agents' numbers: what is kept of their own variables
        self.progress = Progress()
        self.snapshot: State | None = None
        self.kept: np.ndarray | None = None
        self._stats: dict[str, list[np.ndarray]] = defaultdict(list)

    def append(self, chunk: Chunk, first: int) -> None:
        if self.kept is None:
            self.kept = np.empty((self.planned, *chunk.positions.shape[1:]), chunk.positions.dtype)
        self.kept[first : first + len(chunk.positions)] = chunk.positions
        for name, values in chunk.stats.items():
            self._stats[name].append(values)
        if self._own is not None and chunk.own is not None:
            for agent, _, values in self._own.parts(chunk.own):
                if agent not in self.own:
                    self.own[agent] = np.empty((self.planned, *values.shape[1:]), values.dtype)
                self.own[agent][first : first + len(values)] = values

    def save(self, progress: Progress, state: State | None) -> bool:
        self.progress = progress
        return True

    def own_draws(self) -> np.ndarray:
        """Return what has been appended."""
        assert self.kept is not None
        return self.kept

    def put(self, values: np.ndarray, layout: Layout) -> None:
        """Put the posterior's draws in place of what has been appended."""
        self.kept = values

    def finish(self, status: str) -> None:
        pass

    @property
    def stats(self) -> Mapping[str, np.ndarray]:
        return {name: np.concatenate(chunks) for name, chunks in self._stats.items()}
