"""Draws from the prior, and what a model expects to observe before any data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import whole_number
from .._refused import Refused
from .._types import Batch, Key, Params
from .numbered import AGENT, WHOSE_ROWS
from .shards import as_arrays

if TYPE_CHECKING:
    from .posterior import Posterior


def normal_prior(precision: float, init: Params | Callable[[Key], Params]) -> Callable[[Key], Params]:
    """Return a function that draws every parameter from N(0, 1/precision), in the form that `init` has."""

    def draw(key: Key) -> Params:
        leaves, structure = jax.tree.flatten(init(key) if callable(init) else init)
        keys = jax.random.split(key, max(1, len(leaves)))
        drawn = [
            jax.random.normal(own, jnp.shape(leaf), jnp.result_type(leaf, float)) / precision**0.5
            for own, leaf in zip(keys, leaves, strict=False)
        ]
        return jax.tree.unflatten(structure, drawn)

    return draw


def prior_predictive(posterior: Posterior, batch: Batch, num_samples: int, seed: int) -> dict[str, np.ndarray]:
    """Draw outcomes for the rows of a batch under parameters from the prior; see `Posterior.prior_predictive`."""
    whole_number("num_samples", num_samples, 1)
    whole_number("seed", seed, 0, 2**32 - 1)
    batch = as_arrays("batch", batch)
    try:
        posterior = posterior.bind(batch)
    except KeyError as error:
        if not isinstance(batch, dict) or error.args[0] in batch:
            raise
        reason = f"the model asks for batch[{error.args[0]!r}], and there are {', '.join(map(repr, batch))}"
        fix = WHOSE_ROWS if error.args[0] == AGENT else "Pass the rows of one agent, or cs.pool(shards)[0]."
        raise Refused("batch", reason, fix) from error
    draw_prior, predictive = posterior.draw_prior, posterior.predictive
    if draw_prior is None:
        raise Refused(
            "prior_predictive",
            "this posterior does not say how to draw parameters from its prior",
            "Write draw_prior=lambda key: {'w': jax.random.normal(key, (3,))} in cs.Posterior(...); a classifier or "
            "regressor with the normal prior needs init= alone.",
        )
    if predictive is None:
        raise Refused(
            "prior_predictive",
            "this posterior cannot draw observations",
            "Write cs.Posterior(..., predictive=...), a function of (key, params, batch).",
        )

    @jax.jit
    def outcomes(keys: jax.Array, batch: Batch) -> dict[str, jax.Array]:
        def of_key(key: Key) -> dict[str, jax.Array]:
            of_params, of_rows = jax.random.split(key)
            return dict(predictive(of_rows, draw_prior(of_params), batch))

        return jax.lax.map(of_key, keys)

    drawn = outcomes(jax.random.split(jax.random.key(seed), num_samples), batch)
    return {name: np.asarray(values) for name, values in drawn.items()}
