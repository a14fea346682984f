"""Where draws go while they are drawn: into memory, or to disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from ..posterior import Layout
from ..runtimes import Chunk
from .progress import Progress


class Sink(Protocol):
    """Takes chunks in order, and knows how far the run has come.

    Attributes:
      progress: as it was saved last.
      snapshot: the state to go on from, where there is one.
    """

    progress: Progress
    snapshot: Mapping[str, np.ndarray] | None

    def append(self, chunk: Chunk, first: int) -> None:
        """A chunk's draws and figures, as draws `first` and on."""

    def state(
        self, snapshot: Callable[[], dict[str, np.ndarray]], at_once: bool = False
    ) -> dict[str, np.ndarray] | None:
        """What to save of the state now; None: it is too early to save anything."""

    def save(self, progress: Progress, state: dict[str, np.ndarray]) -> bool:
        """How far the run has come, and the state to go on from. Returns whether that is safe now."""

    def own_draws(self) -> np.ndarray:
        """All that has been appended."""

    def put(self, values: np.ndarray, layout: Layout) -> None:
        """The posterior's draws, where those that were appended are not."""

    def finish(self, status: str) -> None:
        """The run has ended."""
