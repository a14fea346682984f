"""Writing in the background: a chunk goes to its place while the next one is drawn."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from ..engine import Chunk
from .checkpoints import Progress, State
from .sink import Sink


class Writer:
    """Background thread that writes chunks, at most one behind. What is reported has been saved before.

    Args:
      sink: destination of the chunks.
      report: called with the number of iterations that are safe since it was called last.
    """

    def __init__(self, sink: Sink, report: Callable[[int], None]) -> None:
        self._sink, self._report = sink, report
        self._thread = ThreadPoolExecutor(1)
        self._pending: Future[bool] | None = None
        self._unsaved = 0

    def put(self, chunk: Chunk, first: int | None, done: Progress, state: State | None) -> None:
        """Write a chunk as draws `first` and on, or none of its draws where that is None, and save the state after it.

        Args:
          done: the progress after it.
          state: a copy of the state, since the next iteration will use its memory; None: it is too early to save it.
        """
        self.wait()
        self._unsaved += chunk.iterations
        self._sink.is_saving = state is not None
        self._pending = self._thread.submit(self._write, chunk, first, done, state)

    def wait(self) -> None:
        """Wait until the last chunk is where it belongs, and report it if it is safe."""
        pending, self._pending = self._pending, None
        if pending is not None and pending.result():
            self._report(self._unsaved)
            self._unsaved = 0

    def _write(self, chunk: Chunk, first: int | None, done: Progress, state: State | None) -> bool:
        """Write a chunk and the progress after it; return whether the run is safe up to here."""
        try:
            if first is not None:
                self._sink.append(chunk, first)
            return self._sink.save(done, state)
        finally:
            self._sink.is_saving = False

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            if kind is None:
                self.wait()
        finally:
            self._thread.shutdown()
