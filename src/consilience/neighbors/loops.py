"""A loop for compiled code that is unrolled when it is short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jax import lax

T = TypeVar("T")


def loop(count: int | jax.Array, body: Callable[[Any, T], T], start: T, *, written_out: int) -> T:
    """Run `lax.fori_loop(0, count, body, start)`, unrolled if `count` is a constant of at most `written_out`."""
    if isinstance(count, int) and count <= written_out:
        for k in range(count):
            start = body(k, start)
        return start
    return lax.fori_loop(0, count, body, start)
