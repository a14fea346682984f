"""Verdicts follow from the numbers, and from nothing else."""

import numpy as np
import pytest

from consilience.experiments.claims import (
    ACCURACY,
    NLL,
    Claim,
    Exact,
    at_least,
    better,
    both,
    judge,
    no_worse,
    similar,
)
from consilience.experiments.record import OURS, PAPER, PAPER_SCALE, MethodRow, Options


def row(name, **scores):
    values = {key: list(map(float, np.atleast_1d(value))) for key, value in scores.items()}
    return MethodRow(name, PAPER, "posterior", "nuts()", 10, 0, 1, 1, 1.0, 1.0, None, 0, 0.0, values)


def verdict(judged, *rows):
    return judged({one.name: one for one in rows})


def test_better_is_by_more_than_two_standard_errors():
    """Nine seeds of sd 0.03: the difference of two means has a standard error of 0.03 √(2/9) = 0.01414."""
    spread = 0.03 * np.array([-1, -1, -1, -1, 0, 1, 1, 1, 1])
    a = row("a", accuracy=0.9 + spread)
    ahead, near, behind, far = (row("b", accuracy=0.9 + gap + spread) for gap in (-0.0293, -0.0273, 0.02, 0.03))
    assert verdict(better(ACCURACY, "a", "b"), a, ahead).holds is True
    assert verdict(better(ACCURACY, "a", "b"), a, near).holds is None
    assert verdict(better(ACCURACY, "a", "b"), a, behind).holds is None  # up to 0.008 ahead, which counts
    assert verdict(better(ACCURACY, "a", "b"), a, far).holds is False


def test_low_is_good_where_it_is():
    a, b = row("a", NLL=[0.30, 0.31]), row("b", NLL=[0.50, 0.52])
    assert verdict(better(NLL, "a", "b"), a, b).holds
    assert not verdict(better(NLL, "b", "a"), a, b).holds


def test_better_than_each_is_not_better_than_one():
    rows = row("a", accuracy=[0.90, 0.91]), row("b", accuracy=[0.80, 0.81]), row("c", accuracy=[0.95, 0.96])
    assert verdict(better(ACCURACY, "a", "b"), *rows).holds
    found = verdict(better(ACCURACY, "a", "b", "c"), *rows)
    assert not found.holds
    assert found.measured == "accuracy: a 90.50 % ± 0.71 %, b 80.50 % ± 0.71 %, c 95.50 % ± 0.71 %"


def test_one_seed_has_to_differ_by_the_tolerance():
    a, near, far, ahead = (
        row(name, accuracy=value) for name, value in zip("abcd", (0.9, 0.896, 0.894, 0.901), strict=True)
    )
    assert verdict(better(ACCURACY, "a", "b"), a, near).holds is None
    assert verdict(better(ACCURACY, "a", "c"), a, far).holds is True
    assert verdict(better(ACCURACY, "a", "d"), a, ahead).holds is False


def test_what_seeds_leave_open_is_undecided():
    """Means 0.004 apart and tolerance 0.005, with standard errors that let the difference be above or below."""
    wide = 0.01 * np.array([-1, 1, -1, 1])
    a, b = row("a", accuracy=0.9 + wide), row("b", accuracy=0.904 + wide)
    assert verdict(similar(ACCURACY, "a", "b"), a, b).holds is None
    assert verdict(no_worse(ACCURACY, "a", "b"), a, b).holds is None
    assert verdict(similar(ACCURACY, "a", "b", 0.1), a, b).holds is True
    assert verdict(similar(ACCURACY, "a", "b"), a, row("b", accuracy=0.95 + wide)).holds is False


@pytest.mark.parametrize(("gap", "holds"), [(0.0049, True), (-0.0049, True), (0.0051, False), (-0.0051, False)])
def test_similar_is_within_the_tolerance_that_is_named(gap, holds):
    found = verdict(similar(ACCURACY, "a", "b"), row("a", accuracy=0.9), row("b", accuracy=0.9 + gap))
    assert found.holds is holds
    assert found.measured.endswith("similar is within 0.50 points")
    assert verdict(similar(ACCURACY, "a", "b", 0.01), row("a", accuracy=0.9), row("b", accuracy=0.9 + gap)).holds


@pytest.mark.parametrize(
    ("score", "gap", "holds"),
    [(ACCURACY, 0.1, True), (ACCURACY, -0.006, False), (NLL, -0.1, True), (NLL, 0.021, False)],
)
def test_no_worse_may_be_better(score, gap, holds):
    a, b = (row(name, **{score.name: value}) for name, value in (("a", 0.5 + gap), ("b", 0.5)))
    assert verdict(no_worse(score, "a", "b"), a, b).holds is holds


def test_the_worst_seed_decides_a_limit():
    a = row("a", accuracy=[0.97, 0.99], NLL=[0.05, 0.07])
    assert verdict(at_least(ACCURACY, "a", 0.97), a).holds
    assert not verdict(at_least(ACCURACY, "a", 0.98), a).holds
    assert verdict(at_least(NLL, "a", 0.07), a).holds
    assert not verdict(at_least(NLL, "a", 0.06), a).holds
    assert verdict(at_least(NLL, "a", 0.06), a).measured == "NLL: a 0.070, at most 0.060 is needed"


def test_both_need_all():
    a = row("a", accuracy=0.9, NLL=0.3)
    good, bad = at_least(ACCURACY, "a", 0.8), at_least(NLL, "a", 0.2)
    assert verdict(both(good, good), a).holds
    assert verdict(both(good, bad), a).holds is False
    open_question = better(ACCURACY, "a", "a")
    assert verdict(open_question, a).holds is None
    assert verdict(both(good, open_question), a).holds is None
    assert verdict(both(bad, open_question), a).holds is False


def test_claims_are_judged_at_their_scale_and_exact_scores_are_rows_too():
    claims = (
        Claim("always", PAPER, similar(ACCURACY, "a", "exact")),
        Claim("in full", OURS, at_least(ACCURACY, "a", 0.95), scales=(PAPER_SCALE,)),
    )
    rows = [row("a", accuracy=0.9), Exact("exact", {"accuracy": [0.901]})]
    assert [judged.claim for judged in judge(claims, rows, Options())] == ["always"]
    first, second = judge(claims, rows, Options(PAPER_SCALE))
    assert (first.verdict, second.verdict) == ("holds", "does not hold")
    assert (first.source, second.source) == (PAPER, OURS)
    assert [judged.verdict for judged in judge(claims, rows, Options(PAPER_SCALE, quick=True))] == ["undecided"] * 2
