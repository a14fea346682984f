"""The rule for the step sizes of samplers that do not tune themselves.

In its kept iterations a chain's slowest direction is to turn over a given number of times. Where that is too fast to be
stable the speed is halved until it is not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import consilience as cs

from .targets import Truth

STABLE_MARGIN = 4  # a sampler is stable if it is so at this many times its speed
MOST_HALVINGS = 20
RUN_AWAY = 30.0  # posterior sds
LEAST_ACCEPTANCE = 0.5  # of an untuned sampler with a Metropolis step


class Situation(NamedTuple):
    """What the settings of a sampler depend on."""

    target: str
    agents: int
    variance: float  # of the slowest direction, the one of largest variance
    rate: float  # turnovers of that direction per iteration
    first: int  # of the kept iterations
    last: int

    @property
    def langevin(self) -> float:
        """h of ω ← ω + h ∇log π + √(2h) ξ."""
        return self.rate * self.variance

    def slowed(self, factor: float) -> Situation:
        return self._replace(rate=self.rate / factor)


def dula(here: Situation, noise: str) -> Any:
    """The steps decay: their mean over the kept iterations is h."""
    decay = (np.arange(here.first, here.last) + 230.0) ** -0.55
    return cs.dula(float(here.langevin / decay.mean()), noise=noise)


def desghmc(here: Situation) -> Any:
    """Critically damped in the slowest direction, which then turns over once in τ."""
    tau = (here.agents * here.variance) ** 0.5
    return cs.desghmc(here.rate * tau, friction=2 / tau)


def fitting_halvings(pilot: Callable[[float], cs.Run], truth: Truth) -> int:
    """How often to halve the speed: until pilots stay near at `STABLE_MARGIN` times it, and accept at it.

    `pilot` runs so many times slower than the rule has it.
    """
    for halvings in range(MOST_HALVINGS):
        with warnings.catch_warnings(action="ignore"):  # a pilot may diverge
            fast = pilot(2**halvings / STABLE_MARGIN)
            if is_near(fast.positions[-1], truth) and (
                fast.acceptance is None or pilot(2**halvings).acceptance >= LEAST_ACCEPTANCE
            ):
                return halvings
    raise RuntimeError(f"no step will do: it was halved {MOST_HALVINGS} times.")


def is_near(positions: np.ndarray, truth: Truth) -> bool:
    with np.errstate(all="ignore"):
        distance = np.abs(positions - truth.mean) / np.sqrt(truth.variance)
    return bool(np.isfinite(distance).all() and distance.max() < RUN_AWAY)
