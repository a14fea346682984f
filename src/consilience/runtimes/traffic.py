"""What a run sends: rounds, messages, bytes, counted where they happen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Traffic:
    """The communication of a run, all agents and chains together.

    A round is one message from every agent to each neighbour; one message carries all chains.
    """

    rounds: int = 0
    messages: int = 0
    bytes: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.rounds + other.rounds, self.messages + other.messages, self.bytes + other.bytes)
