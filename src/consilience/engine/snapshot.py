"""A run's state as plain arrays to be written to disk, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._keys import key_numbers, keys_like


def to_arrays(tree: Any, read: Callable[[Any], np.ndarray] = np.asarray) -> dict[str, np.ndarray]:
    """Return the leaves of a pytree by their number, brought to the host by `read` and copied."""
    return {f"leaf {k}": np.array(read(key_numbers(leaf))) for k, leaf in enumerate(jax.tree.leaves(tree))}


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
    found = [keys_like(leaf, put(arrays[f"leaf {k}"], leaf)) for k, leaf in enumerate(leaves)]
    return jax.tree.unflatten(structure, found)
