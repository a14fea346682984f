"""Leave-one-out cross-validation of one owner's rows (PSIS-LOO), row by row: these figures stay with the owner.

The elpd of a row is the logarithm of its density under the posterior of all other rows, of all owners,

    elpd_j = log p(y_j | all but y_j) ≈ log Σ_s w_s p(y_j | ω_s) ,    w_s ∝ 1 / p(y_j | ω_s) , smoothed,

from draws ω_s of the posterior of all rows (Vehtari, Gelman and Gabry 2017). The smoothing, and the shape k-hat of the
weights' tail, which says whether they can be trusted, are arviz-stats' own. Other owners' rows are not needed: all that
is known of them is in the draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from .._compat import array_stats
from .._refused import Refused
from .._types import Batch
from ..model import rows as count_rows
from .per_draw import copy_of
from .pointwise import is_by_row, log_likelihoods, observed_rows

if TYPE_CHECKING:
    from .run import Run

FEWEST_DRAWS = 25  # of all chains: arviz-stats fits the tail to a fifth of them, at least five
MOST_NUMBERS = 10_000  # of a draw whose effective sample sizes are taken, evenly spaced
VALUES_AT_ONCE = 20_000_000  # log-likelihoods that are held at once
LARGEST_K = 0.7


class LooRows(NamedTuple):
    """Leave-one-out figures of one owner's observations: of its rows, or of its site as a whole."""

    owner: str
    elpd: np.ndarray  # (observations,)
    p_loo: np.ndarray  # (observations,): effective number of parameters
    k: np.ndarray  # (observations,): shape of the tail of the weights
    counted: np.ndarray  # (rows,): which rows are observations
    values: dict[str, np.ndarray | None]  # what was observed, by variable


def loo_rows(run: Run, owner: str, shard: Batch, agent: int, var_name: str | None = None) -> LooRows:
    """Compute leave-one-out figures of an owner's rows, or of its whole site where the likelihood is of a site.

    Args:
      agent: whose draws are taken.
      var_name: the observed variable; None: all of them, whose log-likelihoods are added row by row.
    """
    check_enough_draws(run)
    r_eff = relative_efficiency(run, agent)
    if is_by_row(run):
        names, counted, values = _observations(run, shard, var_name)
        blocks = _row_blocks(run, shard)
        parts = [_psis(owner, _added(run, shard, rows, names, counted[:, rows], agent), r_eff) for rows in blocks]
        elpd, k, p_loo = (np.concatenate(figures) for figures in zip(*parts, strict=True))
        return LooRows(owner, elpd, p_loo, k, np.any(counted, axis=0), values)
    [(name, of_site)] = log_likelihoods(run, shard, agent).items()
    if var_name not in (None, name):
        reason = f"the likelihood is one number for the whole site, {name}"
        raise Refused(f"var_name = {var_name!r}", reason, "Leave it out.")
    elpd, k, p_loo = _psis(owner, of_site, r_eff)
    return LooRows(owner, elpd, p_loo, k, np.ones(count_rows(owner, shard), bool), {})


def k_limit(run: Run) -> float:
    """Return the k-hat above which a row's elpd cannot be trusted: 0.7, or less with fewer than 2,200 draws."""
    return min(1 - 1 / float(np.log10(run.num_draws * run.num_chains)), LARGEST_K)


def check_enough_draws(run: Run) -> None:
    """Refuse a run with too few draws for a tail."""
    draws = run.num_draws * run.num_chains
    if draws < FEWEST_DRAWS:
        reason = f"it takes {FEWEST_DRAWS} draws at least, and there are {draws} of all chains"
        raise Refused("leave-one-out", reason, "Sample more: num_samples=1000.")


def relative_efficiency(run: Run, agent: int) -> float:
    """Return ESS over the number of draws, averaged over what was kept of a draw, as ArviZ does; 1 with one chain."""
    dimension = run.layout.dimension
    if run.num_chains == 1 or not dimension:
        return 1.0
    some = np.unique(np.linspace(0, dimension - 1, min(dimension, MOST_NUMBERS)).astype(int))
    series = run.series(some)[:, :, copy_of(run, agent)]  # draw, chain, number
    ess = array_stats().ess(series, method="mean", chain_axis=1, draw_axis=0)
    return float(np.mean(ess)) / (run.num_draws * run.num_chains)


def _observations(
    run: Run, shard: Batch, var_name: str | None
) -> tuple[list[str], np.ndarray, dict[str, np.ndarray | None]]:
    """Return the variables asked for, which rows are observations of each (variable, row), and their values."""
    found = observed_rows(run, shard)
    if var_name is not None and var_name not in found:
        raise Refused(f"var_name = {var_name!r}", f"the model observes {', '.join(found)}", "Name one of these.")
    names = [*found] if var_name is None else [var_name]
    counted = np.stack([np.asarray(found[name].counted) for name in names])
    values = {name: None if found[name].values is None else np.asarray(found[name].values) for name in names}
    return names, counted, values


def _row_blocks(run: Run, shard: Batch) -> list[slice]:
    """Return slices of a shard's rows, so that not all log-likelihoods are held at once."""
    rows = count_rows("the shard", shard)
    size = max(1, VALUES_AT_ONCE // (run.num_draws * run.num_chains))
    return [slice(first, min(first + size, rows)) for first in range(0, rows, size)]


def _added(run: Run, shard: Batch, rows: slice, names: Sequence[str], counted: np.ndarray, agent: int) -> np.ndarray:
    """Return the log-likelihoods of some rows, (chain, draw, observation), added over the variables."""
    found = log_likelihoods(run, jax.tree.map(lambda leaf: leaf[rows], shard), agent)
    total = np.zeros((run.num_chains, run.num_draws, counted.shape[1]))
    for name, of_variable in zip(names, counted, strict=True):
        total[:, :, of_variable] += found[name]
    return total[:, :, counted.any(axis=0)]


def _psis(owner: str, log_likelihood: np.ndarray, r_eff: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return elpd, k-hat and p_loo of every observation, from log-likelihoods (chain, draw, observation)."""
    values = np.moveaxis(log_likelihood.astype(float), 2, 0)
    bad = ~np.isfinite(values).all(axis=(1, 2))
    if bad.any():
        reason = f"the log-likelihood of {bad.sum()} of its rows is not finite under some draws"
        raise Refused(owner, reason, "Check these rows, and the run's summary: has a chain diverged?")
    elpd, k, p_loo = values[:, 0, 0].copy(), np.full(len(values), -np.inf), np.zeros(len(values))
    moves = np.ptp(values, axis=(1, 2)) > 0  # of a row that is as likely under all draws there is nothing to weight
    if moves.any():
        try:
            with np.errstate(all="ignore"):  # of draws that are there twice the tail may have no shape
                figures = array_stats().loo(values[moves], chain_axis=1, draw_axis=2, r_eff=r_eff)
        except ValueError as error:
            reason = f"the weights of its rows have no tail: {error}"
            raise Refused(owner, reason, "See run.summary(): have the chains moved?") from None
        elpd[moves], k[moves], p_loo[moves] = figures
    return elpd, k, p_loo
