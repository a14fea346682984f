"""Gossip: several rounds of mixing in a row.

With flow(x) = Wx - x, what an agent gains in a round, W^s repeats x ← x + flow(x), and any polynomial of W that leaves
the mean alone is a product of relaxed rounds, x ← x + c_k flow(x): see `network/polynomial.py` for which c_k.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .protocol import T

SHORT = 4


def gossip(flow: Callable[[T], T], x: T, rounds: int | jax.Array) -> T:
    """Compute W^s x for s = `rounds`, with nothing added between the rounds.

    `rounds` may be a traced number, as a schedule gives it; up to four constant rounds are unrolled.
    """
    return loop(rounds, lambda _, value: jax.tree.map(jnp.add, value, flow(value)), x, written_out=SHORT)


def relaxed_gossip(flow: Callable[[T], T], x: T, factors: jax.Array) -> T:
    """Compute Π_k (I + c_k (W - I)) x for c = `factors`, the first factor applied first."""

    def one_round(k: int | jax.Array, value: T) -> T:
        return jax.tree.map(lambda old, gain: old + factors[k].astype(old.dtype) * gain, value, flow(value))

    return loop(len(factors), one_round, x, written_out=SHORT)


def loop(count: int | jax.Array, body: Callable[[Any, T], T], start: T, *, written_out: int) -> T:
    """Run `lax.fori_loop(0, count, body, start)`, unrolled if `count` is a constant of at most `written_out`."""
    if isinstance(count, int) and count <= written_out:
        for k in range(count):
            start = body(k, start)
        return start
    return lax.fori_loop(0, count, body, start)
