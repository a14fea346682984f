"""Running mean and variance, for runs whose draws are too many or too large to keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..model import Layout

MOMENTS = "moments "  # prefix of their names in a snapshot


class Accumulated(NamedTuple):
    """Running moments of x_1 ... x_n, by Welford's recurrence, which loses no digits to a large mean."""

    draws: Any  # n
    mean: Any  # Σ x_k / n
    squares: Any  # Σ (x_k - mean)²


def form_of(lanes: tuple[int, ...], layout: Layout) -> Accumulated:
    """Return the shapes and dtypes of running moments of one vector of `layout` for each of `lanes`."""
    vectors = jax.ShapeDtypeStruct((*lanes, layout.dimension), layout.dtype)
    return Accumulated(jax.ShapeDtypeStruct((), jnp.int32), vectors, vectors)


def nothing_accumulated(form: Accumulated) -> Accumulated:
    """Return the moments of no values, made only where `form` says, since no single device may have room for all."""
    return Accumulated(*(jnp.zeros(each.shape, each.dtype, device=each.sharding) for each in form))


def accumulate(so_far: Accumulated, value: jax.Array) -> Accumulated:
    """Return the running moments with one more value."""
    draws = so_far.draws + 1
    before = value - so_far.mean
    mean = so_far.mean + before / draws.astype(value.dtype)
    return Accumulated(draws, mean, so_far.squares + before * (value - mean))


def read_moments(snapshot: Mapping[str, np.ndarray]) -> Accumulated:
    """Read the moments in a snapshot that has them, as numpy arrays: jax may not be set to hold their digits."""
    return Accumulated(*(snapshot[f"{MOMENTS}{name}"] for name in Accumulated._fields))
