"""Scores of a run's posterior predictive on held-out data.

The predictive of an agent is the average over its draws ω_k, k = 1..K, of all chains:

    classification    p(c | x) = (1/K) Σ_k probabilities(ω_k, x)[c]
    regression        p(y | x) = (1/K) Σ_k N(y; mean(ω_k, x), sd(ω_k)²)

Draws are read once, block by block, and every sum over them is kept in float64. In memory are those sums, 8 bytes for
each (copy, row, class) or 24 for each (copy, row), and what `expectation.pieces` holds, a few times over: never all
draws, nor a function of all draws. A chain that all agents hold is a single copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import whole_number
from .._lazy import LazyModule
from .._refused import Refused
from .._types import Batch, Params
from ..model import Classification, Regression, Task
from . import held_out, scores
from .expectation import in_rows, pieces, value_shape
from .predictions import ROWS_AT_ONCE
from .scores import ClassificationScores, RegressionScores

if TYPE_CHECKING:
    from .run import Run

special: Any = LazyModule("scipy.special")

SUM_TOLERANCE = 1e-2  # how nearly probabilities in half precision add up to 1
Function = Callable[[Params, Any], jax.Array]


def evaluate(
    run: Run,
    test: Batch,
    *,
    task: Task | None = None,
    ood: Batch | None = None,
    seen: Sequence[Sequence[int]] | None = None,
    points: int = 30,
    rows_at_once: int = ROWS_AT_ONCE,
) -> ClassificationScores | RegressionScores:
    """Score every agent's predictions of held-out data; see `Run.evaluate`."""
    task = held_out.task_of(run, task)
    held_out.check_drawn(run)
    whole_number("points", points, 1)
    whole_number("rows_at_once", rows_at_once, 1)
    x, outcomes = held_out.test_rows(run, task, test)
    stops = np.unique(np.geomspace(run.num_draws, 1, points).round().astype(int))
    if isinstance(task, Regression):
        for name, value in (("ood", ood), ("seen", seen)):
            if value is not None:
                raise Refused(f"{name} is for classes", "this task is a regression", f"Leave out {name}=.")
        return replace(_regression(run, task, x, outcomes, stops, rows_at_once), agents=_names(run))
    strange = None if ood is None else held_out.strange_rows(run, task, ood, x)
    return replace(_classification(run, task, x, outcomes, strange, seen, stops, rows_at_once), agents=_names(run))


def _names(run: Run) -> tuple[str, ...]:
    """Return the agents' names where they were given some."""
    return run.agent_names if run.names or (run.owner is not None and run.agents == 1) else ()


class _Sums(Protocol):
    """Sums over draws of what the scores need, for every copy and row."""

    def add(self, where: slice, values: np.ndarray) -> None:
        """Add the values of a few draws, (draws, chains, copies, rows, ...), for the rows `where`."""

    def tally(self, where: slice, draws: int) -> Sequence[np.ndarray]:
        """Return two scores of the rows `where` after `draws` draws of all chains, each (copies, rows)."""


def _fold(
    run: Run, function: Function, x: Batch, sums: _Sums, test_rows: int, stops: np.ndarray, at_once: int
) -> np.ndarray:
    """Add up all draws, and return the mean of both tallies over the test rows at every stop: (points, 2, agent).

    Rows come in parts and scores are sums over rows, so that those of a part are added as soon as its draws reach a
    stop: no predictive of the past is kept.
    """
    tallies = np.zeros((len(stops), 2, run.copies))
    for piece in pieces(run, function, in_rows(x, at_once)):
        known = slice(piece.rows.start, min(piece.rows.stop, test_rows))  # rows beyond are out of distribution
        last = piece.first + len(piece.values)
        start = piece.first
        for end in (*stops[(start < stops) & (stops < last)], last):
            sums.add(piece.rows, piece.values[start - piece.first : end - piece.first])
            start = end
            if end in stops and known.start < known.stop:
                both = sums.tally(known, int(end) * run.num_chains)
                tallies[np.searchsorted(stops, end)] += [score.sum(axis=-1) for score in both]
    return np.broadcast_to(tallies / test_rows, (len(stops), 2, run.agents))


class _Probabilities(_Sums):
    def __init__(self, copies: int, count: int, classes: int, labels: np.ndarray) -> None:
        self.total = np.zeros((copies, count, classes))
        self.labels = labels

    def add(self, where: slice, values: np.ndarray) -> None:
        sums, least = values.sum(axis=-1), values.min()
        if least < 0 or (np.abs(sums - 1) > SUM_TOLERANCE).any():
            span = f"between {sums.min():.3g} and {sums.max():.3g}"
            raise Refused(
                "task.probabilities(params, x) must give probabilities",
                f"rows of it add up to {span}, and the least entry is {least:.3g}",
                "Write jax.nn.softmax(logits, axis=-1).",
            )
        self.total[:, where] += values.sum(axis=(0, 1), dtype=float)

    def tally(self, where: slice, draws: int) -> Sequence[np.ndarray]:
        mean, labels = self.total[:, where] / draws, self.labels[where]
        return scores.correct(mean, labels), scores.surprise(mean, labels)


def _classification(
    run: Run,
    task: Classification,
    x: Batch,
    labels: np.ndarray,
    strange: Batch | None,
    seen: Sequence[Sequence[int]] | None,
    stops: np.ndarray,
    at_once: int,
) -> ClassificationScores:
    classes = held_out.check_shape(run, task.probabilities, x, (len(labels), None), "task.probabilities(params, x)")[1]
    held_out.check_labels(labels, classes)
    held = held_out.seen_classes(run, task, seen, classes)
    inputs = with_strange(x, strange)
    sums = _Probabilities(run.copies, len(jax.tree.leaves(inputs)[0]), classes, labels)
    path = _fold(run, task.probabilities, inputs, sums, len(labels), stops, at_once)

    predictive = sums.total / (run.num_draws * run.num_chains)
    copies = [predictive[min(agent, run.copies - 1)] for agent in range(run.agents)]
    return classification_scores(
        copies, labels, held, scores.CumulativeAccuracy(stops, path[:, 0], path[:, 1]), run.num_draws
    )


def with_strange(x: Batch, strange: Batch | None) -> Batch:
    """Return the inputs of the test set, and after them the out-of-distribution ones, if any."""
    return x if strange is None else jax.tree.map(lambda a, b: np.concatenate([a, b.astype(a.dtype)]), x, strange)


def classification_scores(
    predictives: Sequence[np.ndarray],
    labels: np.ndarray,
    seen: tuple[tuple[int, ...], ...] | None,
    cumulative: scores.CumulativeAccuracy,
    draws: int,
) -> ClassificationScores:
    """Compute the scores of every agent's predictive.

    Args:
      predictives: one table (rows, classes) an agent: the test rows, then the out-of-distribution ones, if any.
      labels: classes of the test rows.
      seen: the classes that each agent has data of.
      draws: number of draws that were averaged, per chain.
    """
    known = [p[: len(labels)] for p in predictives]
    classes = known[0].shape[1]
    right = np.stack([scores.correct(p, labels) for p in known])
    surprise = np.stack([scores.surprise(p, labels) for p in known])
    of_class = np.arange(classes)[:, None] == labels
    unseen = np.stack([~np.isin(labels, seen[a]) if seen else np.zeros(len(labels), bool) for a in range(len(known))])
    reliability = scores.Reliability.of(known, labels)
    auroc = None
    auc = None
    if classes == 2:
        has_both = 0 < labels.sum() < len(labels)
        auc = [scores.auroc(p[labels == 0, 1], p[labels == 1, 1]) if has_both else np.nan for p in known]
    if len(predictives[0]) > len(labels):
        auroc = [scores.auroc(*np.split(scores.entropy(p), [len(labels)])) for p in predictives]
    return ClassificationScores(
        accuracy=right.mean(axis=1),
        nll=surprise.mean(axis=1),
        brier=np.stack([scores.brier(p, labels).mean() for p in known]),
        ece=reliability.ece,
        class_accuracy=np.stack([_mean_where(right, chosen) for chosen in of_class], axis=1),
        seen=seen,
        unseen_accuracy=_mean_where(right, unseen),
        unseen_nll=_mean_where(surprise, unseen),
        reliability=reliability,
        cumulative=cumulative,
        ood_auroc=None if auroc is None else np.array(auroc),
        rows=len(labels),
        draws=draws,
        auc=None if auc is None else np.array(auc),
        ece_interval=np.stack([scores.ece_interval(p, labels) for p in known]),
        base_rates=np.bincount(labels, minlength=classes) / len(labels),
    )


class _Normals(_Sums):
    """Sums of a mixture of normals: its log density and distribution function at the outcomes, and its mean."""

    def __init__(self, copies: int, outcomes: np.ndarray) -> None:
        self.outcomes = outcomes
        self.log_density = np.full((copies, len(outcomes)), -np.inf)
        self.below = np.zeros((copies, len(outcomes)))
        self.mean = np.zeros((copies, len(outcomes)))

    def add(self, where: slice, values: np.ndarray) -> None:
        mean, sd = np.moveaxis(values.astype(float), -1, 0)
        if (sd <= 0).any():
            raise Refused(
                "task.sd(params) must be positive", f"it is {sd.min():.3g} for a draw", "Write jnp.exp(log_sd)."
            )
        z = (self.outcomes[where] - mean) / sd
        log_density = special.logsumexp(-0.5 * z**2 - np.log(sd) - 0.5 * np.log(2 * np.pi), axis=(0, 1))
        self.log_density[:, where] = np.logaddexp(self.log_density[:, where], log_density)
        self.below[:, where] += special.ndtr(z).sum(axis=(0, 1))
        self.mean[:, where] += mean.sum(axis=(0, 1))

    def tally(self, where: slice, draws: int) -> Sequence[np.ndarray]:
        error = self.mean[:, where] / draws - self.outcomes[where]
        return error**2, np.log(draws) - self.log_density[:, where]


def _regression(
    run: Run, task: Regression, x: Batch, outcomes: np.ndarray, stops: np.ndarray, at_once: int
) -> RegressionScores:
    def moments(params: Params, x: Any) -> jax.Array:
        mean = task.mean(params, x)
        return jnp.stack([mean, jnp.broadcast_to(jnp.asarray(task.sd(params), mean.dtype), mean.shape)], axis=-1)

    count = len(outcomes)
    held_out.check_shape(run, task.mean, x, (count,), "task.mean(params, x)")
    held_out.check_shape(run, moments, x, (count, 2), "task.sd(params), one number or one a test row,")
    one_sd = value_shape(run, lambda params, _: jnp.asarray(task.sd(params)), x).shape == ()
    sums = _Normals(run.copies, outcomes)
    path = _fold(run, moments, x, sums, count, stops, at_once if one_sd else count)
    pit = sums.below / (run.num_draws * run.num_chains)
    inside = np.stack([scores.covered(pit[min(agent, run.copies - 1)]) for agent in range(run.agents)])
    return RegressionScores(
        rmse=np.sqrt(path[-1, 0]),
        nll=path[-1, 1],
        coverage=scores.Coverage(np.array(scores.LEVELS), inside),
        cumulative=scores.CumulativeError(stops, np.sqrt(path[:, 0]), path[:, 1]),
        rows=count,
        draws=run.num_draws,
    )


def _mean_where(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return each agent's mean over the chosen of its rows; NaN where none are."""
    with np.errstate(invalid="ignore"):  # 0 / 0
        return np.where(chosen, values, 0).sum(axis=1) / chosen.sum(axis=-1)
