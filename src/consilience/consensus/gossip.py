"""Gossip: several rounds of mixing in a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax

from .loops import loop

T = TypeVar("T")
SHORT = 4


def gossip(one_round: Callable[[T], T], x: T, rounds: int | jax.Array) -> T:
    """W^s x for s = `rounds`: `one_round` applied s times, to the whole of `x` and nothing added in between.

    `rounds` may be a traced number, as a schedule gives it; a small constant one costs no loop.
    """
    return loop(rounds, lambda _, value: one_round(value), x, written_out=SHORT)
