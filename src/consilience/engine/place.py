"""The place where agents are computed: code is compiled for it, and arrays are brought there and back."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from .moments import Accumulated


class ComputePlace(Protocol):
    """Devices on which the agents of this process are computed.

    Attributes:
      key: what compiled code depends on here, and its trace does not show.
      copies: number of copies of each chain: one for every agent here, or one for all.
      first_copy: number of the agent whose copy is the first.
      knows_others: whether how far agents are apart can be computed.
    """

    @property
    def key(self) -> Hashable: ...
    @property
    def copies(self) -> int: ...
    @property
    def first_copy(self) -> int: ...
    @property
    def knows_others(self) -> bool: ...

    def everywhere(self, values: jax.Array) -> jax.Array:
        """Put what all agents have alike where they are."""

    def forms(self, state: Any, moments: Accumulated | None) -> tuple[Any, Accumulated | None]:
        """Return the forms (shapes, dtypes, shardings) of state and moments, given those of agents as lanes."""

    def jit(self, name: str, function: Callable[..., Any], state: Any, moments: Any, **options: Any) -> Any:
        """Return `function` jitted; it becomes the field `name` of `Compiled`, and `state` has the form of a state."""

    def read(self, values: jax.Array) -> np.ndarray:
        """Read what agents here have of an array: to be copied, since the next iteration uses its memory."""

    def put(self, values: np.ndarray, like: Any) -> jax.Array:
        """Put what all agents have to where `like` is."""


@dataclass(frozen=True)
class OneDevice:
    """One device, with all agents of this process as lanes of one array."""

    copies: int
    key: Hashable = None
    first_copy: int = 0

    @property
    def knows_others(self) -> bool:
        return self.copies > 1

    def everywhere(self, values: jax.Array) -> jax.Array:
        return values

    def forms(self, state: Any, moments: Accumulated | None) -> tuple[Any, Accumulated | None]:
        return state, moments

    def jit(self, name: str, function: Callable[..., Any], state: Any, moments: Any, **options: Any) -> Any:
        return jax.jit(function, **options)

    def read(self, values: jax.Array) -> np.ndarray:
        return np.asarray(values)

    def put(self, values: np.ndarray, like: Any) -> jax.Array:
        return jnp.asarray(values)
