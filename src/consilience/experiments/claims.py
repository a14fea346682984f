"""Claims about methods, and how measurements decide them.

Over the seeds k = 1..n, a score of a method has mean s̄ and sd σ. Of two methods a and b, d = s̄_a - s̄_b (or -d, where
lower is better) is known up to e = 2 √(σ_a²/n_a + σ_b²/n_b). With a tolerance t, below which no difference counts,

    a is better than b      ⇔  d - e > 0       and is not  ⇔  d + e < t
    a and b are similar     ⇔  |d| + e ≤ t     and are not ⇔  |d| - e > t
    a is no worse than b    ⇔  -d + e ≤ t      and is      ⇔  -d - e > t

and whatever is neither is undecided. With one seed there is no σ, and e is what makes d > t the least that is better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .record import Judged, Row
from .reproduction import SCALES, Options

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

    def difference(self, value: float) -> str:
        return f"{100 * value:.{self.decimals}f} points" if self.percent else self.written(value)


ACCURACY = Score("accuracy", 0.005, True, 2, percent=True)
NLL = Score("NLL", 0.02, False, 3)
MSE = Score("MSE", 0.01, False, 4)


class Evidence(NamedTuple):
    measured: str
    holds: bool | None  # None: it cannot be told


class Exact(NamedTuple):
    """Something to compare a method with: scores that are known, or measured otherwise."""

    name: str
    scores: dict[str, list[float]]

    def mean(self, score: str) -> float:
        return float(np.mean(self.scores[score]))

    def sd(self, score: str) -> float:
        """Zero where the score is known."""
        return float(np.std(self.scores[score], ddof=1)) if len(self.scores[score]) > 1 else 0.0


Rows = Mapping[str, Row | Exact]
Judge = Callable[[Rows], Evidence]


@dataclass(frozen=True)
class Claim:
    """What is said, by whom, and how to find out."""

    text: str
    source: str
    judge: Judge
    scales: tuple[str, ...] = SCALES  # at which it is made


def judge(claims: Sequence[Claim], rows: Sequence[Row | Exact], options: Options) -> list[Judged]:
    """What the rows say of the claims; nothing is decided by a quick look."""
    by_name = {row.name: row for row in rows}
    found = [(claim, claim.judge(by_name)) for claim in claims if options.scale in claim.scales]
    return [
        Judged(claim.text, claim.source, evidence.measured, None if options.quick else evidence.holds)
        for claim, evidence in found
    ]


def better(score: Score, one: str, *others: str) -> Judge:
    """Whether `one` is better than each of the others, beyond what seeds explain."""

    def than(a: Row | Exact, b: Row | Exact) -> bool | None:
        ahead, error = _ahead(score, a, b), _error(score, a, b)
        return _decided(ahead - error > 0, ahead + error < score.tolerance)

    def decide(rows: Rows) -> Evidence:
        first, rest = rows[one], [rows[other] for other in others]
        return Evidence(beside(score, first, *rest), _all(than(first, row) for row in rest))

    return decide


def similar(score: Score, one: str, other: str, tolerance: float | None = None) -> Judge:
    """Whether the two differ by no more than the score's tolerance, or another."""
    limit = score.tolerance if tolerance is None else tolerance

    def decide(rows: Rows) -> Evidence:
        a, b = rows[one], rows[other]
        apart, error = abs(_ahead(score, a, b)), _error(score, a, b, unknown=0.0)
        measured = f"{beside(score, a, b)}; similar is within {score.difference(limit)}"
        return Evidence(measured, _decided(apart + error <= limit, apart - error > limit))

    return decide


def no_worse(score: Score, one: str, other: str) -> Judge:
    """Whether `one` falls behind `other` by no more than the score's tolerance."""

    def decide(rows: Rows) -> Evidence:
        a, b = rows[one], rows[other]
        behind, error = -_ahead(score, a, b), _error(score, a, b, unknown=0.0)
        return Evidence(
            beside(score, a, b), _decided(behind + error <= score.tolerance, behind - error > score.tolerance)
        )

    return decide


def at_least(score: Score, one: str, limit: float) -> Judge:
    """Whether the worst seed reaches `limit`: it has to be at most that, where lower is better."""

    def decide(rows: Rows) -> Evidence:
        values = rows[one].scores[score.name]
        worst = min(values) if score.higher_is_better else max(values)
        needed = f"{'at least' if score.higher_is_better else 'at most'} {score.written(limit)} is needed"
        reached = worst >= limit if score.higher_is_better else worst <= limit
        return Evidence(f"{score.name}: {one} {score.written(worst)}, {needed}", bool(reached))

    return decide


def both(*parts: Judge) -> Judge:
    """All of them."""

    def decide(rows: Rows) -> Evidence:
        found = [part(rows) for part in parts]
        return Evidence(". ".join(e.measured for e in found), _all(e.holds for e in found))

    return decide


def beside(score: Score, *rows: Row | Exact) -> str:
    """The methods' figures, with their spread over seeds."""
    return f"{score.name}: " + ", ".join(f"{row.name} {with_spread(score, row)}" for row in rows)


def with_spread(score: Score, row: Row | Exact) -> str:
    known = len(row.scores[score.name]) == 1
    return score.written(row.mean(score.name)) + ("" if known else f" ± {score.written(row.sd(score.name))}")


def _ahead(score: Score, a: Row | Exact, b: Row | Exact) -> float:
    """By how much the first is better."""
    return (a.mean(score.name) - b.mean(score.name)) * (1 if score.higher_is_better else -1)


def _error(score: Score, a: Row | Exact, b: Row | Exact, unknown: float | None = None) -> float:
    """Of the difference of two means, so many standard errors; `unknown`, or the tolerance, where there is one seed."""
    error = STANDARD_ERRORS * np.sqrt(sum(row.sd(score.name) ** 2 / len(row.scores[score.name]) for row in (a, b)))
    return float(error) if not np.isnan(error) else score.tolerance if unknown is None else unknown


def _decided(yes: bool, no: bool) -> bool | None:
    return True if yes else False if no else None


def _all(verdicts: Iterable[bool | None]) -> bool | None:
    """Whether all hold; that one does not decides, that one is undecided leaves it open."""
    found = list(verdicts)
    return False if False in found else None if None in found else True
