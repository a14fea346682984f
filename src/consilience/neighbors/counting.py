"""Counting of collectives while compiled code is traced: what is inside of a loop is traced once and run often."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._compat import trace_state
from .protocol import message_bytes
from .traffic import Kind


class Exchange(NamedTuple):
    """A call of a collective: its kind, how often it is run, and the size of a message."""

    kind: Kind
    times: int | jax.Array  # a number, or one for each of the stages that chains go through side by side
    message_bytes: int
    is_common: bool = False  # whether one message serves all chains


class Counted:
    """Base of the links to other agents, which counts their collectives in the code where a link was made.

    Attributes:
      secret: numbers that this agent alone knows: none, unless it is a process of its own.
      exchanges: the collectives so far, for the runtime to count.
    """

    secret: Sequence[int | jax.Array] = ()

    def __init__(self) -> None:
        self._trace = trace_state()
        self._open: list[CountedLoop] = []
        self.exchanges: list[Exchange] = []

    def repeated(self, sums: int | None = None) -> CountedLoop:
        return CountedLoop(self, sums)

    @property
    def _is_outside(self) -> bool:
        """Tell whether the code that is traced now is run once, as it is in no loop or branch."""
        return bool(trace_state() == self._trace)

    def _count(self, kind: Kind, x: object, times: int | jax.Array, way: str = "") -> None:
        exchange = Exchange(kind, times, message_bytes(x))
        if self._is_outside:
            self.exchanges.append(exchange)
        elif self._open and isinstance(times, int):
            self._open[-1].found[exchange, way] = None
        else:
            raise RuntimeError(
                "a collective inside lax control flow cannot be counted: call it outside, or within "
                "`with repeated:` of repeated = neighbors.repeated(), and say repeated.times(count) after the loop."
            )

    def _count_sum(self, x: Any, at: jax.Array | None) -> None:
        self._count("sum", x, 1)
        if at is not None:
            self._count_marks(jnp.zeros(2, at.dtype), "at")

    def _count_follow(self, x: Any, digest: Any, after: CountedLoop | None) -> None:
        """Count what follows the root: alone, or where the sums before it are known with the last of them."""
        if jax.tree.leaves(digest):
            self._count_marks(digest, "digest")
        self._count("pass" if after is None or after.sums is None else "rider", x, 1)

    def _count_marks(self, marks: jax.Array, way: str) -> None:
        """Count marks: their greatest and least go up with a sum, and the verdict comes down with it."""
        self._count("mark", marks, 1, way)
        self._count("rider", jnp.zeros(marks.size // 2, bool), 1, way)

    def _count_loop(self, loop: CountedLoop, count: int | jax.Array, after: Any, is_common: bool) -> None:
        """Count the collectives of a loop that has run so many times, and has returned `after`."""
        self.exchanges += [
            exchange._replace(times=exchange.times * count, is_common=is_common) for exchange, _ in loop.found
        ]


class CountedLoop:
    """Collectives in a piece of code inside of a loop: it may be traced more than once, so equal ones count as one.

    Attributes:
      sums: how many exact sums it makes each time round, where that is known beforehand.
      rider: the forms of what comes from the root with the last of these, once that has been traced.
    """

    def __init__(self, neighbors: Counted, sums: int | None = None) -> None:
        self._neighbors, self.sums = neighbors, sums
        self.rider: tuple[jax.ShapeDtypeStruct, ...] = ()
        self.found: dict[tuple[Exchange, str], None] = {}

    def __enter__(self) -> CountedLoop:
        self._neighbors._open.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._neighbors._open.remove(self)

    def times(self, count: int | jax.Array, after: Any = None, is_common: bool = False) -> None:
        self._neighbors._count_loop(self, count, after, is_common)
