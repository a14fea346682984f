"""A run's state as plain arrays to be written to disk, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def to_arrays(tree: Any, read: Callable[[Any], np.ndarray] = np.asarray) -> dict[str, np.ndarray]:
    """Return the leaves of a pytree by their number, brought to the host by `read` and copied."""
    return {f"leaf {k}": np.array(read(_numbers(leaf))) for k, leaf in enumerate(jax.tree.leaves(tree))}


def from_arrays(
    like: Any,
    arrays: Mapping[str, np.ndarray],
    put: Callable[[np.ndarray, Any], jax.Array] = lambda array, _: jnp.asarray(array),
) -> Any:
    """Return the pytree of the form of `like` whose leaves `to_arrays` has taken apart.

    Args:
      put: a function of an array and a leaf of `like`; it puts the array where the leaf is.
    """
    leaves, structure = jax.tree.flatten(like)
    found = [_as(leaf, put(arrays[f"leaf {k}"], leaf)) for k, leaf in enumerate(leaves)]
    return jax.tree.unflatten(structure, found)


def is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _numbers(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if is_key(leaf) else leaf


def _as(like: Any, array: jax.Array) -> jax.Array:
    return jax.random.wrap_key_data(array, impl=jax.random.key_impl(like)) if is_key(like) else array
