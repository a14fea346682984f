"""Claims about methods, and how measurements decide them.

Over the seeds k = 1..n, a score of a method has mean s̄ and sd σ. Of two methods a and b,

    a is better than b    ⇔  s̄_a - s̄_b > 2 √(σ_a²/n_a + σ_b²/n_b)      (for scores where higher is better)
    a and b are similar   ⇔  |s̄_a - s̄_b| ≤ a tolerance, which is named with the claim
    a is no worse than b  ⇔  s̄_b - s̄_a ≤ that tolerance

With one seed there is no σ: then a is better where it is by more than the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .reproduction import SCALES, Judged, Row

STANDARD_ERRORS = 2


class Score(NamedTuple):
    """How a score is compared and written.

    Attributes:
      tolerance: below which a difference is of no account.
    """

    name: str
    tolerance: float
    higher_is_better: bool
    decimals: int
    percent: bool = False

    def written(self, value: float) -> str:
        return f"{100 * value:.{self.decimals}f} %" if self.percent else f"{value:.{self.decimals}f}"


ACCURACY = Score("accuracy", 0.005, True, 2, percent=True)
NLL = Score("NLL", 0.02, False, 3)
MSE = Score("MSE", 0.01, False, 4)


class Evidence(NamedTuple):
    measured: str
    holds: bool


class Exact(NamedTuple):
    """Scores that are known: something to compare a method with."""

    name: str
    scores: dict[str, list[float]]

    def mean(self, score: str) -> float:
        return self.scores[score][0]

    def sd(self, score: str) -> float:
        return float("nan")


Rows = Mapping[str, Row | Exact]
Judge = Callable[[Rows], Evidence]


@dataclass(frozen=True)
class Claim:
    """What is said, by whom, and how to find out."""

    text: str
    source: str
    judge: Judge
    scales: tuple[str, ...] = SCALES  # at which it is made


def judge(claims: tuple[Claim, ...], rows: Sequence[Row | Exact], scale: str) -> list[Judged]:
    """What the rows say of the claims."""
    by_name = {row.name: row for row in rows}
    return [Judged(claim.text, claim.source, *claim.judge(by_name)) for claim in claims if scale in claim.scales]


def better(score: Score, one: str, *others: str) -> Judge:
    """Whether `one` is better than each of the others, beyond what seeds explain."""

    def decide(rows: Rows) -> Evidence:
        first, rest = rows[one], [rows[other] for other in others]
        return Evidence(beside(score, first, *rest), all(_is_better(score, first, row) for row in rest))

    return decide


def _is_better(score: Score, a: Row | Exact, b: Row | Exact) -> bool:
    ahead = (a.mean(score.name) - b.mean(score.name)) * (1 if score.higher_is_better else -1)
    return bool(ahead > STANDARD_ERRORS * _error(score, a, b))


def similar(score: Score, one: str, other: str, tolerance: float | None = None) -> Judge:
    """Whether the two differ by no more than the score's tolerance, or another."""
    limit = score.tolerance if tolerance is None else tolerance

    def decide(rows: Rows) -> Evidence:
        a, b = rows[one], rows[other]
        within = f"; similar is within {score.written(limit)}"
        return Evidence(beside(score, a, b) + within, bool(abs(a.mean(score.name) - b.mean(score.name)) <= limit))

    return decide


def no_worse(score: Score, one: str, other: str) -> Judge:
    """Whether `one` falls behind `other` by no more than the score's tolerance."""

    def decide(rows: Rows) -> Evidence:
        a, b = rows[one], rows[other]
        behind = (b.mean(score.name) - a.mean(score.name)) * (1 if score.higher_is_better else -1)
        return Evidence(beside(score, a, b), bool(behind <= score.tolerance))

    return decide


def at_least(score: Score, one: str, limit: float) -> Judge:
    """Whether the worst seed reaches `limit`: it has to be at most that, where lower is better."""

    def decide(rows: Rows) -> Evidence:
        values = rows[one].scores[score.name]
        worst = min(values) if score.higher_is_better else max(values)
        return Evidence(
            f"{score.name}: {one} {score.written(worst)}",
            bool(worst >= limit if score.higher_is_better else worst <= limit),
        )

    return decide


def both(*parts: Judge) -> Judge:
    """All of them."""

    def decide(rows: Rows) -> Evidence:
        found = [part(rows) for part in parts]
        return Evidence(". ".join(e.measured for e in found), all(e.holds for e in found))

    return decide


def beside(score: Score, *rows: Row | Exact) -> str:
    """The methods' figures, with their spread over seeds."""
    return f"{score.name}: " + ", ".join(f"{row.name} {with_spread(score, row)}" for row in rows)


def with_spread(score: Score, row: Row | Exact) -> str:
    spread = row.sd(score.name)
    return score.written(row.mean(score.name)) + ("" if np.isnan(spread) else f" ± {score.written(spread)}")


def _error(score: Score, a: Row | Exact, b: Row | Exact) -> float:
    """Of the difference of two means; with one seed, what makes a difference of a tolerance the least that counts."""
    variances = [row.sd(score.name) ** 2 / len(row.scores[score.name]) for row in (a, b)]
    return float(np.sqrt(sum(variances))) if not np.isnan(variances).any() else score.tolerance / STANDARD_ERRORS
