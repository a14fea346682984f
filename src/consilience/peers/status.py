"""Status of a run, as one agent knows it, for people and for `consilience status`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ..engine import Chunk
from .board import Board
from .card import Card
from .session import Place


class Meter:
    """This agent's progress, pace and traffic, for its report."""

    def __init__(self, total: int) -> None:
        self.total, self.iteration = total, 0
        self._acceptance: float | None = None
        self._rate = self._rounds_per_second = 0.0
        self._bytes = self._messages = 0
        self._last: tuple[float, int, int] | None = None

    def begin(self, iteration: int) -> None:
        self.iteration, self._last = iteration, None

    def count(self, iteration: int, chunk: Chunk, messages: int, size: int, rounds: int) -> None:
        now = time.monotonic()
        if self._last is not None and now > self._last[0]:
            then, before, rounds_before = self._last
            self._rate = (iteration - before) / (now - then)
            self._rounds_per_second = (rounds - rounds_before) / (now - then)
        self._last, self.iteration = (now, iteration, rounds), iteration
        self._messages, self._bytes = messages, size
        accepted = chunk.stats.get("acceptance_rate", chunk.stats.get("is_accepted"))
        self._acceptance = None if accepted is None else float(accepted.mean())

    def report(self) -> dict[str, Any]:
        return {
            "iteration": self.iteration,
            "total": self.total,
            "acceptance": self._acceptance,
            "iterations_per_second": round(self._rate, 2),
            "rounds_per_second": round(self._rounds_per_second, 1),
            "megabytes": round(self._bytes / 1e6, 3),
            "messages": self._messages,
        }


def status_of(place: Place, own: Card, board: Board) -> dict[str, Any]:
    """Return the status of all agents, as this one knows it."""
    cards = {**board.cards, own.name: own}
    return {
        "run": place.run_id,
        "told_by": place.name,
        "agents": {
            name: {
                **cards[name].report,
                "phase": cards[name].phase,
                "epoch": cards[name].epoch,
                "attempt": cards[name].attempt,
                "stop": cards[name].stop,
                "seconds_ago": 0.0 if name == own.name else round(board.silence(name), 1),
            }
            if name in cards
            else {"phase": "not heard of"}
            for name in place.names
        },
    }


def described(status: Mapping[str, Any]) -> str:
    """Describe an agent's status in one line."""
    parts = [f"{status['iteration']:,} of {status['total']:,}" if "iteration" in status else status["phase"]]
    if status.get("acceptance") is not None:
        parts.append(f"accepts {status['acceptance']:.2f}")
    if status.get("rounds_per_second"):
        parts.append(f"{status['rounds_per_second']:,.0f} rounds/s")
    if status.get("megabytes"):
        parts.append(f"{status['megabytes']:,.1f} MB sent")
    if status.get("attempt"):
        parts.append(f"out of step {status['attempt']} time{'s' * (status['attempt'] != 1)}")
    if status.get("waiting_for"):
        parts.append(f"waiting for {', '.join(status['waiting_for'])}")
    if status.get("refused"):
        parts.append(f"{status['refused']} refused")
    return ", ".join(parts)
