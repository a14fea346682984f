"""Projection of a vector to one number, by which agents that should hold the same vector see that they do not."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))


def projection(vector: jax.Array) -> jax.Array:
    """Project a vector to one number, on a fixed direction without symmetries."""
    return jnp.vdot(jnp.cos(jnp.arange(vector.size) * GOLDEN_ANGLE).astype(vector.dtype), vector.ravel())
