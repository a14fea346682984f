"""What more chains would gain: a message carries all chains, so that they share rounds, which is what takes time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .run import Run

MANY = 64  # chains
FEWEST_ROUNDS = 10_000  # that are worth a sentence: minutes, where an answer takes 20 ms
MOST_BYTES = 100_000  # of a message, which many links send in about the time that an answer takes
MOST_ROUNDS = 4.0  # times the rounds, of 64 chains: more is no gain to speak of
STEPS = "num_integration_steps"


def more_chains(run: Run) -> str | None:
    """Return what 64 chains would take and give in place of a run's, in words; None where that is not worth saying."""
    traffic, chains = run.traffic, run.num_chains
    if 2 * chains > MANY or traffic.rounds < FEWEST_ROUNDS:
        return None
    if traffic.bytes / traffic.messages * MANY / chains > MOST_BYTES:
        return None
    steps = np.ravel(run.raw_stats.get(STEPS, np.ones(1)))
    varies = np.ptp(steps) > 0 if len(steps) else True
    if varies and (run.thin > 1 or not len(steps)):  # averages over iterations say little of the longest
        return None
    ratio = mean_of_longest(steps, MANY) / mean_of_longest(steps, chains) if varies else 1.0
    if ratio > MOST_ROUNDS:
        return None
    rounds = "as many rounds as" if ratio < 1.05 else f"about {ratio:.1f} × the rounds of"
    return f"{MANY} would take {rounds} {chains}, and give {MANY / chains:.3g} × the draws"


def mean_of_longest(lengths: np.ndarray, chains: int) -> float:
    """Return the mean of the longest of so many trajectories, if each has a length as likely as those observed.

    Of n ordered lengths x_(k) it is Σ_k x_(k) [(k/n)^c - ((k-1)/n)^c], c = `chains`: all agents wait for the longest.
    """
    shares = np.arange(len(lengths) + 1) / len(lengths)
    return float(np.sort(lengths) @ np.diff(shares**chains))
