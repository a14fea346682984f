"""Random keys of jax as the numbers that they are made of, to be sent, stored or spread over devices."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def is_key(leaf: Any) -> bool:
    """Tell whether an array holds random keys."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def key_numbers(leaf: Any) -> Any:
    """Return the numbers of an array of random keys; any other array as it is."""
    return jax.random.key_data(leaf) if is_key(leaf) else leaf


def keys_like(like: Any, numbers: jax.Array) -> jax.Array:
    """Return `numbers` as random keys where `like` holds such keys, else as they are."""
    return jax.random.wrap_key_data(numbers, impl=jax.random.key_impl(like)) if is_key(like) else numbers
