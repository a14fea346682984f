"""Progress of a run: how far it has come, and what that has cost."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..neighbors import Traffic


@dataclass(frozen=True)
class Progress:
    """Progress of a run after some chunks: warm-up iterations and kept draws, and what they have cost.

    Attributes:
      warmed: number of warm-up iterations.
      drawn: number of kept draws.
      seconds: time spent sampling, interruptions left out.
      redone: iterations redone because agents fell out of step, of `watched` chain iterations.
      attempt: how often agents that were out of step have gone back and taken other random numbers.
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
    attempt: int = 0
    combined: int = 0

    @property
    def traffic(self) -> Traffic:
        return Traffic(self.rounds, self.messages, self.bytes)

    def iterations(self, thin: int) -> int:
        """Count the iterations of the warm-up and those behind the kept draws."""
        return self.warmed + self.drawn * thin

    def sent(self, traffic: Traffic) -> Progress:
        """Return this progress with more traffic."""
        total = self.traffic + traffic
        return replace(self, rounds=total.rounds, messages=total.messages, bytes=total.bytes)
