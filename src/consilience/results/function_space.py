"""How well a run's predictions have mixed: what is asked where parameters need not agree, as the weights of a network.

Two chains of a network may have found the same function with its hidden units in another order: R-hat of single
weights is large, and says nothing of the predictions. R-hat and ESS of the predictions do. The verdict asks for them
where parameters have not mixed, and the posterior has a task, more parameters than people read one by one, and
predictions that are not linear in them (for classes, on the scale of logits). Where they are linear, as in logistic
regression, parameters have a meaning of their own, and good predictions excuse nothing.

The cost is bounded: ROWS inputs, DRAWS draws of each chain, COPIES agents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from .._types import Batch
from ..model import Classification, Task, as_arrays
from .diagnostics import FEWEST_DRAWS, MOST_VALUES, worst_diagnostics
from .expectation import in_rows, pieces, value_shape
from .held_out import of_shards

if TYPE_CHECKING:
    from .run import Run

ROWS = 32
DRAWS = 500  # of each chain, evenly spaced
COPIES = 4  # agents with draws of their own, evenly spaced
SMALLEST_SD = 1e-3  # a probability that varies less is the same to whoever uses it, whatever its R-hat
CACHE = "_prediction_mixing"  # among a run's attributes
PAIRS = 4  # of draws, between which a function is looked at
STRAIGHT = 1e-2  # a function's distance from a straight line between two draws, as a part of its change
SURE = 1e-4  # probabilities below it have lost digits where they were computed as 1 - p


class PredictedAt(NamedTuple):
    """Inputs at which predictions are compared between chains, and the task that predicts."""

    task: Task
    x: Batch  # a few rows
    whose: str  # in words


class PredictionMixing(NamedTuple):
    """How well predictions have mixed, the worst of all rows, classes and agents.

    Attributes:
      what: "probabilities" or "means".
      rows: number of inputs.
      whose: where these are from, in words.
      r_hat: the largest; None where no prediction varies enough to speak of.
      ess: the smallest, of bulk and tails; None as well.
    """

    what: str
    rows: int
    whose: str
    r_hat: float | None
    ess: float | None


def held_out_rows(task: Task, test: Batch) -> PredictedAt:
    """Return some inputs of a test set."""
    x = task.inputs(as_arrays("test", test))
    return PredictedAt(task, _some_rows(x, ROWS), "held-out rows")


def rows_of_data(run: Run) -> PredictedAt | None:
    """Return some inputs from the data of every agent that are here; None without data, or without a task."""
    task = None if run.posterior is None else run.posterior.task
    here = run if run.shards is not None else replace(run, shards=run.own_shards)
    found = None if task is None else of_shards(here, task.inputs)
    if task is None or not found:
        return None
    chosen = [found[k] for k in _evenly(len(found), ROWS)]
    parts = [_some_rows(x, max(1, ROWS // len(chosen))) for x in chosen]
    x = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    return PredictedAt(task, x, "rows of the agents' data")


def prediction_mixing(run: Run, copies: Sequence[int]) -> PredictionMixing | None:
    """Return how well predictions of some copies have mixed, computed once for a run and its `predicted_at`.

    None where they cannot be computed from what is here, or are linear in the parameters and say no more than these.
    """
    at = run.predicted_at
    if at is None or run.num_draws < FEWEST_DRAWS:
        return None
    known: dict[tuple[int, ...], tuple[PredictedAt, PredictionMixing | None]] = run.__dict__.setdefault(CACHE, {})
    place = tuple(copies)
    if place not in known or known[place][0] is not at:
        known[place] = (at, _mixing(run, at, copies))
    return known[place][1]


def _mixing(run: Run, at: PredictedAt, copies: Sequence[int]) -> PredictionMixing | None:
    is_class = isinstance(at.task, Classification)
    function: Any = at.task.probabilities if isinstance(at.task, Classification) else at.task.mean
    try:
        shape = value_shape(run, function, at.x).shape
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):  # keep= has left something out
        return None
    chosen = [copies[k] for k in _evenly(len(copies), COPIES)]
    if (is_class and len(shape) != 2) or _is_linear(run, function, at.x, chosen[0], is_class):
        return None
    draws = _evenly(run.num_draws, DRAWS)
    classes = shape[1] if is_class else 1
    fits = max(1, MOST_VALUES // (len(draws) * run.num_chains * len(chosen) * classes))
    x = _some_rows(at.x, min(shape[0], fits))
    some = replace(run, kept=_SomeDraws(run, draws, chosen))
    values = np.concatenate([piece.values for piece in pieces(some, function, in_rows(x, ROWS))])
    if is_class and classes == 2:
        values = values[..., 1:]  # the other is 1 - p
    series = np.moveaxis(values.reshape(*values.shape[:3], -1), (2, 1, 0), (0, 1, 2)).astype(float)
    if not np.isfinite(series).all():
        return None
    r_hat, ess = _worst(series, SMALLEST_SD if is_class else 0.0)
    rows = values.shape[3]
    return PredictionMixing("probabilities" if is_class else "means", rows, at.whose, r_hat, ess)


def _worst(series: np.ndarray, least_sd: float) -> tuple[float | None, float | None]:
    """Return the largest R-hat and the smallest ESS of series (copy, chain, draw, number) that vary."""
    varies = (series.std(axis=(1, 2)) > least_sd).any(axis=0)
    if not varies.any():
        return None, None
    found = worst_diagnostics(series[..., varies])
    r_hat, bulk, tail = (found[name] for name in ("r_hat", "ess_bulk", "ess_tail"))
    # A chain whose predictions are all alike, while another's are not, has no R-hat: it does not agree.
    return float(np.nan_to_num(r_hat, nan=np.inf).max()), float(np.nan_to_num(np.minimum(bulk, tail), nan=0).min())


def _is_linear(run: Run, function: Any, x: Batch, copy: int, is_class: bool) -> bool:
    """Tell whether a function is linear in the parameters, between some pairs of draws of different chains.

    Where it is, its value half-way is the mean of the values at the ends.
    """
    first, last = (np.asarray(run.kept[k : k + 1])[0, :, copy] for k in (0, run.num_draws - 1))
    ends = (first[:PAIRS], np.roll(last, 1, axis=0)[:PAIRS])
    of_draws = jax.jit(lambda vectors: jax.lax.map(lambda vector: function(run.layout.unravel(vector), x), vectors))
    middle = (0.5 * (ends[0] + ends[1])).astype(ends[0].dtype)
    one, two, half = (np.asarray(of_draws(vectors), float) for vectors in (*ends, middle))
    if is_class:
        one, two, half = _logits(one, two, half)
    with np.errstate(invalid="ignore"):
        gap, change, size = abs(half - 0.5 * (one + two)), abs(one - two), abs(half)
    known = np.isfinite(gap)
    if not known.any():
        return True
    return bool(gap[known].max() <= STRAIGHT * change[known].max() + 1e-5 * size[known].max())


def _logits(*tables: np.ndarray) -> list[np.ndarray]:
    """Return logits, against the class that is likeliest, of tables of probabilities: NaN where digits were lost."""
    likeliest = np.sum(tables, axis=0).argmax(axis=-1)[..., None]
    for least in (SURE, 1e-30):
        known = np.all([(p > least) & (np.take_along_axis(p, likeliest, -1) > least) for p in tables], axis=0)
        known &= np.arange(known.shape[-1]) != likeliest
        if known.any():
            break
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [np.log(p) for p in tables]
        return [np.where(known, log - np.take_along_axis(log, likeliest, -1), np.nan) for log in logs]


class _SomeDraws:
    """Some draws of a run and some of its copies. They lie far apart, and are read one by one, when they are sliced."""

    def __init__(self, run: Run, draws: np.ndarray, copies: Sequence[int]) -> None:
        self._kept, self._draws, self._copies = run.kept, draws, list(copies)
        self.dtype = run.kept.dtype
        self.shape = (len(draws), run.num_chains, len(self._copies), run.layout.dimension)

    def __getitem__(self, rows: slice) -> np.ndarray:
        parts = [self._kept[k : k + 1][:, :, self._copies] for k in self._draws[rows]]
        return np.concatenate([np.empty((0, *self.shape[1:]), self.dtype), *parts])


def _evenly(count: int, most: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))


def _some_rows(x: Batch, most: int) -> Batch:
    chosen = _evenly(len(jax.tree.leaves(x)[0]), most)
    return jax.tree.map(lambda leaf: np.asarray(leaf)[chosen], x)
