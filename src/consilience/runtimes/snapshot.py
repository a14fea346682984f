"""A run's state as plain arrays, for the disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def to_arrays(tree: Any) -> dict[str, np.ndarray]:
    """The leaves of a pytree, copied to the host, by their number."""
    return {f"leaf {k}": np.array(_numbers(leaf)) for k, leaf in enumerate(jax.tree.leaves(tree))}


def from_arrays(like: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The pytree of the form of `like` whose leaves `to_arrays` has taken apart."""
    leaves, structure = jax.tree.flatten(like)
    return jax.tree.unflatten(structure, [_as(leaf, arrays[f"leaf {k}"]) for k, leaf in enumerate(leaves)])


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _numbers(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _as(like: Any, array: np.ndarray) -> jax.Array:
    if _is_key(like):
        return jax.random.wrap_key_data(jnp.asarray(array), impl=jax.random.key_impl(like))
    return jnp.asarray(array)
