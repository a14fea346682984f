"""Predictive checks: outcomes that the agents observed, beside outcomes that the model draws again for the same rows.

The LOO-PIT of an outcome y_n is P(y < y_n) under the predictive of all other rows. Draws ω_k from the posterior of all
rows are weighted for it by w_nk ∝ 1 / p(y_n | ω_k), smoothed (PSIS; Vehtari, Gelman and Gabry 2017):

    PIT_n = Σ_k w_nk (1[y_nk < y_n] + u_n 1[y_nk = y_n]) ,   y_nk ~ p(y | x_n, ω_k) ,   u_n ~ U(0, 1)

It is uniform where the model predicts as it should; u_n smooths the steps of counts. An outcome of two values has in
its place the probability Σ_k w_nk 1[y_nk = the larger value], to be compared with how often that was observed.

The cost is bounded: MOST_DRAWS draws and MOST_ROWS rows, evenly spaced, and fewer rows for large models.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import jax
import numpy as np

from .._compat import array_stats
from .._intervals import central
from .._refused import Refused
from .._types import Batch
from ..model import Classification
from .loo_rows import k_limit
from .per_draw import per_draw, sampled_parameters
from .pointwise import is_by_row, log_likelihoods, observed_rows

if TYPE_CHECKING:
    from .run import Run

MOST_DRAWS, MOST_ROWS = 1000, 1000
FEWEST_DRAWS, FEWEST_ROWS = 50, 20
MOST_WORK = 5_000_000_000  # draws times rows times parameters
MOST_BINS = 20
LEVEL = 0.9  # of the intervals of what is drawn again
TAIL = 0.005  # of the values, in the outermost bars


@dataclass(frozen=True, eq=False)
class PredictiveCheck:
    """Check of one outcome: how often it has each value, as observed and as drawn again, and its LOO-PIT.

    Attributes:
      edges: borders of the bins of values, (bins + 1,); the outermost bins hold all values beyond.
      is_whole: whether the values are whole numbers, as labels and counts are.
      observed: number of rows in each bin, (bin,).
      mean, low, high: the same of outcomes drawn again, a set for each draw: mean and central 90 % interval over sets.
      outcomes: what was observed, (rows,).
      pit: the LOO-PIT of every row, (rows,); None for labels, which have no order, and for outcomes of two values.
      probability: of outcomes of two values, the leave-one-out probability of the larger one, (rows,); else None.
      unreliable: number of rows whose k̂ is above 0.7, or less with few draws: little is known of their LOO-PIT or
        probability.
      rows: number of rows that were looked at, of `all_rows` that agents have.
      draws: number of draws that were used, of all chains together.
    """

    edges: np.ndarray
    is_whole: bool
    observed: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    outcomes: np.ndarray = field(repr=False)
    pit: np.ndarray | None = field(repr=False)
    probability: np.ndarray | None = field(repr=False)
    unreliable: int
    rows: int
    all_rows: int
    draws: int


def predictive_checks(run: Run) -> Mapping[str, PredictiveCheck]:
    """Check all outcomes that are one number a row, by name; see `Run.predictive_checks`."""
    if run.posterior is None or run.posterior.predictive is None or run.shards is None or not run.num_draws:
        return {}
    try:
        sampled_parameters(run)
    except Refused:  # keep= has left some out
        return {}
    if not is_by_row(run):
        return {}
    some = _thinned(run)
    batch, all_rows = _rows_of(run, most=MOST_WORK // max(1, some.num_draws * some.num_chains * run.layout.dimension))
    count = len(jax.tree.leaves(batch)[0])
    few = some.num_draws * some.num_chains < FEWEST_DRAWS or count < min(FEWEST_ROWS, all_rows)
    if few or not np.isfinite(some.kept[:]).all():
        return {}
    predictive, task = run.posterior.predictive, run.posterior.task
    again = per_draw(some, lambda key, params: dict(predictive(key, params, batch)), agent=0)
    log_likelihood, found = log_likelihoods(some, batch), {}
    for name, one in observed_rows(some, batch).items():
        drawn = again.get(name)
        if one.values is None or drawn is None or np.ndim(one.values) != 1 or drawn.shape[2:] != (count,):
            continue
        y, y_again = np.asarray(one.values)[one.counted], drawn[..., one.counted].reshape(-1, int(one.counted.sum()))
        is_label = isinstance(task, Classification) and name == task.y
        found[name] = _check(
            y.astype(float), y_again.astype(float), log_likelihood[name], is_label, all_rows, k_limit(some)
        )
    return found


def _thinned(run: Run) -> Run:
    """Return the run with the first agent's draws alone, in memory, and no more of them than MOST_DRAWS."""
    wanted = np.unique(np.linspace(0, run.num_draws - 1, min(run.num_draws, MOST_DRAWS // run.num_chains or 1)).round())
    chosen, first = [], 0
    for block in run.blocks():
        places = wanted[(first <= wanted) & (wanted < first + len(block))].astype(int) - first
        chosen.append(block[places, :, :1])
        first += len(block)
    return replace(run, kept=np.concatenate(chosen), raw_stats={}, folder=None)


def _rows_of(run: Run, most: int) -> tuple[Batch, int]:
    """Return some rows of all agents, evenly spaced, and how many there are in all."""
    assert run.shards is not None
    pooled = jax.tree.map(lambda *leaves: np.concatenate(leaves), *run.shards)
    count = len(jax.tree.leaves(pooled)[0])
    chosen = np.unique(np.linspace(0, count - 1, min(count, MOST_ROWS, most)).round().astype(int))
    return jax.tree.map(lambda leaf: leaf[chosen], pooled), count


def _check(
    y: np.ndarray, again: np.ndarray, log_lik: np.ndarray, is_label: bool, all_rows: int, largest_k: float
) -> PredictiveCheck:
    """Check one outcome, given what was observed (row,), drawn again (draw, row), and its log-likelihoods."""
    is_whole = bool((y == np.round(y)).all() and (again == np.round(again)).all())
    edges = _bins(y, again, is_whole)
    observed = _histogram(y[None], edges)[0]
    every = _histogram(again, edges)
    low, high = np.quantile(every, central(LEVEL), axis=0)
    values = np.unique(np.concatenate([y, np.unique(again)]))
    weights, k_hat = _loo_weights(log_lik.reshape(-1, len(y)))
    pit = probability = None
    if len(values) == 2:
        probability = (weights * (again == values[1])).sum(axis=0)
    elif not is_label:
        steps = np.random.default_rng(0).uniform(size=len(y))
        pit = (weights * ((again < y) + steps * (again == y))).sum(axis=0)
    has_loo = pit is not None or probability is not None
    return PredictiveCheck(
        edges=edges,
        is_whole=is_whole,
        observed=observed,
        mean=every.mean(axis=0),
        low=low,
        high=high,
        outcomes=y,
        pit=pit,
        probability=probability,
        unreliable=int((k_hat > largest_k).sum()) if has_loo else 0,
        rows=len(y),
        all_rows=all_rows,
        draws=len(again),
    )


def _loo_weights(log_lik: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights (draw, row) that leave each row out, given all log-likelihoods, and every row's k̂."""
    logs, k_hat = -log_lik.astype(float), np.full(log_lik.shape[1], -np.inf)
    for row, own in enumerate(log_lik.T.astype(float)):
        # Where likelihoods are alike, as of rows that are certain, no tail can be fitted: those weights need none.
        with suppress(ValueError), np.errstate(all="ignore"):
            smoothed, k = array_stats().psislw(own)
            if np.isfinite(smoothed).all():
                logs[:, row], k_hat[row] = smoothed, k
    weights = np.exp(logs - logs.max(axis=0))
    return weights / weights.sum(axis=0), k_hat


def _bins(y: np.ndarray, again: np.ndarray, is_whole: bool) -> np.ndarray:
    """Return borders of at most MOST_BINS bins over what is common among the values."""
    tails = np.quantile(again, [TAIL, 1 - TAIL]), np.quantile(y, [TAIL, 1 - TAIL])
    low, high = float(min(t[0] for t in tails)), float(max(t[1] for t in tails))
    if not is_whole:
        return np.linspace(low, high, MOST_BINS + 1) if high > low else np.array([low - 0.5, low + 0.5])
    low, high = np.floor(low), np.ceil(high)
    width = -(-(high - low + 1) // MOST_BINS)
    return np.arange(low - 0.5, high + width, width)


def _histogram(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Count the values (set, row) in each bin: (set, bin)."""
    bins = len(edges) - 1
    places = np.searchsorted(edges[1:-1], values, side="right") + bins * np.arange(len(values))[:, None]
    return np.bincount(places.ravel(), minlength=bins * len(values)).reshape(len(values), bins)
