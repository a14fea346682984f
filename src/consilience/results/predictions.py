"""Predictions of a run for given inputs: means over its draws, and central intervals of them.

A mean is summed draw by draw and needs none of them later. An interval needs the values of all draws: they are held
for as many rows as HELD_BYTES have room for, or for `rows_at_once` where that was asked for, and the draws are read
once for each such part of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from .._checks import nearest, whole_number
from .._intervals import central
from .._refused import Refused
from .._types import Batch, Params
from ..model import Classification, Posterior, as_arrays, refuse_without_agent, rows
from . import held_out
from .expectation import Rows, in_rows, mean_over_draws, pieces, value_shape
from .per_draw import sampled_parameters

if TYPE_CHECKING:
    from .run import Run

ROWS_AT_ONCE = 1024
HELD_BYTES = 64 << 20


class PredictedInterval(NamedTuple):
    """Mean of a prediction over a run's draws, and the ends of its central interval: arrays (agent, ...) each."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


class _Predicted(NamedTuple):
    """What is predicted, as a function of the values that a draw shows and the inputs."""

    function: Callable[..., jax.Array]
    seed: int | None = None  # of a function that draws at random, and takes a key after the inputs

    def shape(self, run: Run, x: Any) -> jax.ShapeDtypeStruct:
        return value_shape(run, self.function, x, *([] if self.seed is None else [jax.random.key(self.seed)]))


def predict(
    run: Run,
    function: Callable[[Params, Any], Any] | str,
    x: Batch,
    rows_at_once: int | None = None,
    intervals: float | None = None,
    seed: int = 0,
) -> np.ndarray | PredictedInterval:
    """Return the mean of `function(params, x)` over each agent's draws, or of what it names; see `Run.predict`."""
    count = whole_number("the number of rows of x", rows("x", x), 1)
    held_out.check_columns_of(run, "x", x)
    x = as_arrays("x", x)
    held_out.check_drawn(run)
    if rows_at_once is not None:
        whole_number("rows_at_once", rows_at_once, 1)
    if intervals is not None and not (isinstance(intervals, float) and 0 < intervals < 1):
        raise Refused(f"intervals = {intervals!r}", "a probability between 0 and 1 is needed", "Write intervals=0.9.")
    wanted = _named(run, function, x, seed) if isinstance(function, str) else _Predicted(function)
    try:
        like = wanted.shape(run, x)
    except KeyError as error:
        refuse_without_agent("x", error)
        raise
    at_once = rows_at_once or (ROWS_AT_ONCE if intervals is None else _rows_held(run, like))
    parts = in_rows(x, at_once)
    of_part = like.shape if len(parts) == 1 else wanted.shape(run, parts[0].x).shape
    has_rows = like.shape[:1] == (count,) and of_part == (parts[0].where.stop, *like.shape[1:])
    parts = parts if has_rows else in_rows(x, count)
    if intervals is None:
        return mean_over_draws(run, wanted.function, parts, like.shape, has_rows, wanted.seed)
    return _central(run, wanted, parts, like.shape, has_rows, intervals)


def _rows_held(run: Run, like: jax.ShapeDtypeStruct) -> int:
    """Return for how many rows the values of all draws may be held."""
    a_row = run.num_draws * run.num_chains * run.copies * math.prod(like.shape[1:]) * like.dtype.itemsize
    return min(ROWS_AT_ONCE, max(1, HELD_BYTES // max(1, a_row)))


def _central(
    run: Run, wanted: _Predicted, parts: Sequence[Rows], shape: Sequence[int], has_rows: bool, probability: float
) -> PredictedInterval:
    """Return mean and central interval of the values of all draws and chains, part by part of the rows."""
    mean, low, high = (np.empty((run.copies, *shape)) for _ in range(3))
    held = np.empty(0)
    for piece in pieces(run, wanted.function, parts, has_rows, rows_first=True, seed=wanted.seed):
        if piece.first == 0:
            held = np.empty((run.num_draws, *piece.values.shape[1:]), np.result_type(piece.values, np.float32))
        last = piece.first + len(piece.values)
        held[piece.first : last] = piece.values
        if last == run.num_draws:
            place = (slice(None), piece.rows) if has_rows else ()
            mean[place] = held.mean(axis=(0, 1), dtype=float)
            low[place], high[place] = np.quantile(held, central(probability), axis=(0, 1))
    return PredictedInterval(*(np.broadcast_to(values, (run.agents, *shape)) for values in (mean, low, high)))


def _named(run: Run, name: str, x: Batch, seed: int) -> _Predicted:
    """Return what the run's posterior calls by this name: a quantity of the rows, or an outcome to be drawn."""
    if run.posterior is None:
        fix = f"Write cs.load(path, posterior=..., shards=...).predict({name!r}, x)."
        raise Refused(f"predict({name!r}, x)", "the run was loaded without its model", fix)
    whole_number("seed", seed, 0, 2**32 - 1)
    posterior, of_vector, ravel = run.posterior.bind(x), sampled_parameters(run), run.layout.ravel

    def parameters(shown: Params) -> Params:
        return of_vector(ravel(shown))

    if name in posterior.quantities:
        return _Predicted(lambda shown, x: posterior.quantities[name](parameters(shown), x))
    outcomes = _outcomes(run, posterior, x)
    if name not in outcomes:
        known = [*posterior.quantities, *outcomes]
        if name in run.layout.names:
            fix = f"Write run.draws[{name!r}], or run.predict(lambda params, x: ..., x)."
            raise Refused(f"predict({name!r}, x)", "it does not depend on x", fix)
        near = nearest(name, known)
        fix = f"Write run.predict({near!r}, x)." if near else "Write a function: run.predict(lambda params, x: ..., x)."
        there = f"there are {', '.join(known)}" if known else "the model names nothing that can be predicted"
        raise Refused(f"predict({name!r}, x)", there, fix)
    if isinstance(posterior.task, Classification) and posterior.task.y == name and _classes(run, posterior, x) > 2:
        fix = "Write run.predict(posterior.task.probabilities, x)."
        raise Refused(f"predict({name!r}, x)", "labels of more than two classes have neither mean nor interval", fix)
    drawn = posterior.predictive
    assert drawn is not None
    return _Predicted(lambda shown, x, key: drawn(key, parameters(shown), x)[name], seed)


def _outcomes(run: Run, posterior: Posterior, x: Batch) -> list[str]:
    """Return the names of the outcomes that the model can draw for rows like these."""
    drawn, parameters = posterior.predictive, sampled_parameters(run)
    if drawn is None:
        return []
    return [*jax.eval_shape(lambda w: drawn(jax.random.key(0), parameters(w), x), run.layout.vector)]


def _classes(run: Run, posterior: Posterior, x: Batch) -> int:
    task = posterior.task
    assert isinstance(task, Classification)
    return value_shape(run, lambda shown, x: task.probabilities(shown, task.inputs(x)), x).shape[-1]
