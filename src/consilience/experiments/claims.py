"""Claims about methods, and how measurements decide them.

Over the seeds k = 1..n, a score of a method has mean s̄ and sd σ. Of two methods a and b, d = s̄_a - s̄_b (or -d, where
lower is better) is known up to e = 2 √(σ_a²/n_a + σ_b²/n_b). With a tolerance t, below which no difference counts,

    a is better than b      ⇔  d - e > 0       and is not  ⇔  d + e < t
    a and b are similar     ⇔  |d| + e ≤ t     and are not ⇔  |d| - e > t
    a is no worse than b    ⇔  -d + e ≤ t      and is      ⇔  -d - e > t

and whatever is neither is undecided. With one seed there is no σ: e is then t in the first line, and 0 in the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .record import SCALES, Judged, Options, Scored

STANDARD_ERRORS = 2


class Score(NamedTuple):
    """A score by name: how its values are compared and written.

    Attributes:
      tolerance: size below which a difference does not count.
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
    holds: bool | None  # None: undecided


@dataclass(frozen=True)
class Exact(Scored):
    """Reference scores to compare a method with: known exactly, or measured in another way."""

    name: str
    scores: dict[str, list[float]]

    def sd(self, score: str) -> float:
        """Return a score's sd over its values; zero where there is one value, which is known exactly."""
        return super().sd(score) if len(self.scores[score]) > 1 else 0.0


Rows = Mapping[str, Scored]
Judge = Callable[[Rows], Evidence]


@dataclass(frozen=True)
class Claim:
    """A statement about methods, its source, and the rule that decides it."""

    text: str
    source: str
    judge: Judge
    scales: tuple[str, ...] = SCALES  # scales at which the claim is made


def judge(claims: Sequence[Claim], rows: Sequence[Scored], options: Options) -> list[Judged]:
    """Decide the claims from the rows; all are undecided with `options.quick`."""
    by_name = {row.name: row for row in rows}
    found = [(claim, claim.judge(by_name)) for claim in claims if options.scale in claim.scales]
    return [
        Judged(claim.text, claim.source, evidence.measured, None if options.quick else evidence.holds)
        for claim, evidence in found
    ]


def better(score: Score, one: str, *others: str) -> Judge:
    """Return a rule that tells whether `one` is better than each of the others, beyond what seeds explain."""

    def decide(rows: Rows) -> Evidence:
        first, rest = rows[one], [rows[other] for other in others]
        found = [_difference(score, first, row, unknown=score.tolerance) for row in rest]
        return Evidence(
            beside(score, first, *rest), _all(_decided(d - e > 0, d + e < score.tolerance) for d, e in found)
        )

    return decide


def similar(score: Score, one: str, other: str, tolerance: float | None = None) -> Judge:
    """Return a rule that tells whether two methods differ by no more than the score's tolerance, or `tolerance`."""
    limit = score.tolerance if tolerance is None else tolerance

    def decide(rows: Rows) -> Evidence:
        ahead, error = _difference(score, rows[one], rows[other])
        measured = f"{beside(score, rows[one], rows[other])}; similar is within {score.difference(limit)}"
        return Evidence(measured, _decided(abs(ahead) + error <= limit, abs(ahead) - error > limit))

    return decide


def no_worse(score: Score, one: str, other: str) -> Judge:
    """Return a rule that tells whether `one` falls behind `other` by no more than the score's tolerance."""

    def decide(rows: Rows) -> Evidence:
        ahead, error = _difference(score, rows[one], rows[other])
        holds = _decided(error - ahead <= score.tolerance, -ahead - error > score.tolerance)
        return Evidence(beside(score, rows[one], rows[other]), holds)

    return decide


def at_least(score: Score, one: str, limit: float) -> Judge:
    """Return a rule that tells whether the worst seed reaches `limit`: at most that, where lower is better."""

    def decide(rows: Rows) -> Evidence:
        values = rows[one].scores[score.name]
        worst = min(values) if score.higher_is_better else max(values)
        needed = f"{'at least' if score.higher_is_better else 'at most'} {score.written(limit)} is needed"
        reached = worst >= limit if score.higher_is_better else worst <= limit
        return Evidence(f"{score.name}: {one} {score.written(worst)}, {needed}", bool(reached))

    return decide


def both(*parts: Judge) -> Judge:
    """Return a rule that tells whether all of `parts` hold."""

    def decide(rows: Rows) -> Evidence:
        found = [part(rows) for part in parts]
        return Evidence(". ".join(e.measured for e in found), _all(e.holds for e in found))

    return decide


def beside(score: Score, *rows: Scored) -> str:
    """Return the methods' mean scores, with their sds over seeds, as text."""
    return f"{score.name}: " + ", ".join(f"{row.name} {with_spread(score, row)}" for row in rows)


def with_spread(score: Score, row: Scored) -> str:
    known = len(row.scores[score.name]) == 1
    return score.written(row.mean(score.name)) + ("" if known else f" ± {score.written(row.sd(score.name))}")


def _difference(score: Score, a: Scored, b: Scored, unknown: float = 0.0) -> tuple[float, float]:
    """Return by how much `a` is better than `b`, and STANDARD_ERRORS times that difference's error, or `unknown`."""
    ahead = (a.mean(score.name) - b.mean(score.name)) * (1 if score.higher_is_better else -1)
    error = STANDARD_ERRORS * np.sqrt(sum(row.sd(score.name) ** 2 / len(row.scores[score.name]) for row in (a, b)))
    return ahead, unknown if np.isnan(error) else float(error)


def _decided(yes: bool, no: bool) -> bool | None:
    return True if yes else False if no else None


def _all(verdicts: Iterable[bool | None]) -> bool | None:
    """Tell whether all verdicts hold: False if one is False, else None if one is undecided."""
    found = list(verdicts)
    return False if False in found else None if None in found else True
