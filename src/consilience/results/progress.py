"""How far a run has come."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..runtimes.traffic import Traffic


@dataclass(frozen=True)
class Progress:
    """After some chunks: iterations of warm-up and kept draws, and what they have cost.

    Attributes:
      warmed: iterations of warm-up.
      drawn: kept draws.
      seconds: spent sampling, interruptions left out.
      redone: iterations redone because agents fell out of step, of `watched` chain iterations.
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
    combined: int = 0

    @property
    def traffic(self) -> Traffic:
        return Traffic(self.rounds, self.messages, self.bytes)

    def iterations(self, thin: int) -> int:
        """Of the warm-up, and behind the kept draws."""
        return self.warmed + self.drawn * thin

    def sent(self, traffic: Traffic) -> Progress:
        """With more traffic."""
        total = self.traffic + traffic
        return replace(self, rounds=total.rounds, messages=total.messages, bytes=total.bytes)
