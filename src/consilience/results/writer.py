"""Writing behind the sampler's back: a chunk goes to its place while the next one is drawn."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

import numpy as np

from ..runtimes import Chunk
from .progress import Progress
from .sink import Sink

Snapshot = Callable[[], dict[str, np.ndarray]]


class Writer:
    """One thread, at most one chunk behind. What is reported has been saved before.

    Args:
      sink: where chunks go.
      report: called with the number of iterations that are safe since it was called last.
    """

    def __init__(self, sink: Sink, report: Callable[[int], None]) -> None:
        self._sink, self._report = sink, report
        self._thread = ThreadPoolExecutor(1)
        self._pending: Future[bool] | None = None
        self._unsaved = 0

    def put(self, chunk: Chunk, first: int | None, done: Progress, snapshot: Snapshot, is_last: bool) -> None:
        """Write a chunk, as draws `first` and on, or none of it where that is None, and where the run stands after it.

        The state is taken here and now: the next iteration will use its memory.
        """
        self.wait()
        state = self._sink.state(snapshot, at_once=is_last)
        self._unsaved += chunk.iterations
        self._pending = self._thread.submit(self._write, chunk, first, done, state)

    def wait(self) -> None:
        """Until the last chunk is where it belongs."""
        pending, self._pending = self._pending, None
        if pending is not None and pending.result():
            self._report(self._unsaved)
            self._unsaved = 0

    def _write(self, chunk: Chunk, first: int | None, done: Progress, state: dict[str, np.ndarray] | None) -> bool:
        """Returns whether the run is safe up to here."""
        if first is not None:
            self._sink.append(chunk, first)
        if state is None:
            return False
        return self._sink.save(done, state)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            if kind is None:
                self.wait()
        finally:
            self._thread.shutdown()
