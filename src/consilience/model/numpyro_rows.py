"""Checks of a NumPyro model on rows of data: that their likelihoods are independent, and that each is possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .._compat import with_checked_indices, wrong_indices
from .._refused import Refused
from .._types import Batch, Params
from .numpyro_refusals import WHOLE

if TYPE_CHECKING:
    from .numpyro import NumpyroModel

ROWS_COMPARED = 4


def check_rows_independent(model: NumpyroModel, batch: Batch) -> None:
    """Refuse a likelihood that, for one row, depends on the other rows of the batch.

    A few rows that lie apart, and altered copies of them that are unlike each other, are given to the model as one
    batch and one by one. Thanks to the copies, a single row of data is as good as many.
    """
    rows = np.linspace(0, len(jax.tree.leaves(batch)[0]) - 1, ROWS_COMPARED).astype(int)
    random = np.random.default_rng(0)
    some = jax.tree.map(lambda leaf: _with_altered_copies(np.asarray(leaf[rows]), random), batch)
    with jax.default_matmul_precision("highest"):
        as_batch, one_by_one = _both_ways(model, some)
    if not np.allclose(as_batch, one_by_one, rtol=1e-3, atol=1e-3, equal_nan=True):
        raise Refused(
            "the likelihood of a row",
            "it depends on the other rows of its batch, and agents would compute it from different rows",
            "Compute means, ranks and lags of the data before they are dealt out to the agents, and pass them as "
            f"columns of the batch. {WHOLE}",
        )


def _with_altered_copies(rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return the rows and as many altered ones: floats keep their sign, counts stay 0 or more, flags are random."""
    if rows.dtype == bool:
        others = random.integers(2, size=rows.shape) == 1
    elif jnp.issubdtype(rows.dtype, jnp.integer):
        wide = rows.astype(np.int64)
        others = np.maximum(wide + random.integers(-1, 3, size=rows.shape), np.minimum(wide, 0))
    else:
        factors = random.uniform(0.5, 1.5, size=rows.shape)
        others = np.where(rows == 0, factors - 0.5, factors * rows)
    return np.concatenate([rows, others.astype(rows.dtype)])


@jax.jit(static_argnums=0)
def _both_ways(model: NumpyroModel, batch: Batch) -> tuple[jax.Array, jax.Array]:
    """Compute the likelihoods of rows as one batch, and one by one."""

    def at(params: Params) -> tuple[jax.Array, jax.Array]:
        def alone(row: Batch) -> jax.Array:
            return model.log_likelihood(params, jax.tree.map(lambda leaf: leaf[None], row))[0]

        return model.log_likelihood(params, batch), jax.vmap(alone)(batch)

    return jax.vmap(at)(model.points())


def check_each_row(agent: str, model: NumpyroModel, params: Params, batch: Batch) -> None:
    """Refuse rows with a value outside of the support of its distribution, or with an index that is out of range.

    A wrong index would not show later: jax takes the nearest element for one that is not there. Errors that a row of
    the dummy batch has as well are ignored: checkify takes some indices that are right for wrong ones. It reports the
    first alone, so that such an index hides those after it. Transforms of latent variables are not checked: they do not
    see the batch.
    """
    rows = len(jax.tree.leaves(batch)[0])
    # Filled up to a power of two, so that agents with unlike numbers of rows share compiled code.
    filled = np.arange(1 << (rows - 1).bit_length()) % rows
    with_dummy = jax.tree.map(
        lambda leaf, zeros: np.concatenate([np.asarray(leaf)[filled], np.asarray(zeros[:1], leaf.dtype)]),
        batch,
        model.dummy,
    )
    error, sites = jax.device_get(_row_by_row(model, params, with_dummy))
    for name, (inside, found) in sites.items():
        for row in np.flatnonzero(~inside[:rows])[:1]:
            reason = f"{name!r} is {found[row]} in row {row}, which its distribution cannot give"
            raise Refused(agent, reason, f"Correct the row, or observe {name!r} with a distribution that can.")
    for row, what in wrong_indices(error, but=len(filled)).items():
        raise Refused(
            agent,
            f"row {row} leads the model to an element that is not there, {what}",
            "Correct the row, or make the plate as large as all agents' groups are many. Where the model puts another "
            "value in its place on purpose, keep the index inside: theta[jnp.clip(index, 0, len(theta) - 1)].",
        )


@jax.jit(static_argnums=0)
def _row_by_row(model: NumpyroModel, params: Params, batch: Batch) -> Any:
    constrained = model.values(params)
    checked = with_checked_indices(model.observed)
    return jax.vmap(lambda row: checked(constrained, jax.tree.map(lambda leaf: leaf[None], row)))(batch)
