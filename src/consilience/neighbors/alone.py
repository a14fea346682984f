"""`Alone`: the implementation of `Neighbors` for a single agent."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp

from .protocol import T


class Alone:
    """`Neighbors` on a network of one agent: the mean and the sum are its own value, and nothing is sent."""

    size = 1
    secret = ()

    @property
    def index(self) -> jax.Array:
        return jnp.int32(0)

    def mix(self, x: T, rounds: int | jax.Array = 1) -> T:
        return x

    def average(self, x: T, factors: jax.Array) -> T:
        return x

    def laplacian(self, x: T) -> T:
        return jax.tree.map(jnp.zeros_like, x)

    def all(self, flag: jax.Array) -> jax.Array:
        return flag

    def total(self, x: T, at: jax.Array | None = None) -> T:
        return x

    def follow_root(self, x: T, digest: Any = (), after: Any = None) -> tuple[T, jax.Array]:
        return x, jnp.array(True)

    def repeated(self, sums: int | None = None) -> Unsent:
        return Unsent()


class Unsent(nullcontext):
    """A `Repeated` that counts nothing."""

    def times(self, count: int | jax.Array, after: Any = None, is_common: bool = False) -> None:
        """Ignore `count`, because nothing is counted."""
