"""Posterior expectations of a function of the parameters, without holding all its values."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Params
from ..posterior import Layout
from .run import Run

DRAWS_AT_ONCE = 64


def expectation(run: Run, function: Callable[[Params], jax.Array]) -> np.ndarray:
    """The mean of `function(params)` over each agent's draws and chains: an array (agent, ...)."""
    draws, chains, agents, dimension = run.positions.shape
    copies = 1 if run.sampler.replicated else agents
    flat = run.positions[:, :, :copies].reshape(draws * chains, copies, dimension)
    total: np.ndarray | float = 0.0
    for first in range(0, len(flat), DRAWS_AT_ONCE):
        block = flat[first : first + DRAWS_AT_ONCE]
        # The last block is filled up, with weight zero, so that one compiled function serves all.
        fill = DRAWS_AT_ONCE - len(block)
        weights = np.repeat([1.0, 0.0], [len(block), fill]).astype(flat.dtype)
        block = np.concatenate([block, np.repeat(block[:1], fill, axis=0)])
        total = total + np.asarray(_weighted_sum(function, run.layout, block, weights), dtype=float)
    mean = np.asarray(total) / len(flat)
    return np.broadcast_to(mean, (agents, *mean.shape[1:]))


@jax.jit(static_argnums=(0, 1))
def _weighted_sum(
    function: Callable[[Params], jax.Array], layout: Layout, block: jax.Array, weights: jax.Array
) -> jax.Array:
    values = jax.lax.map(jax.vmap(lambda w: function(layout.unravel(w))), block)
    return jnp.tensordot(weights, values, axes=1)
