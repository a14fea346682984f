"""Interface of what takes draws while they are drawn: into memory, or to disk."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..engine import Chunk
from ..model import Layout
from .checkpoints import State
from .progress import Progress


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
