"""Number of rounds of gossip in an iteration: a number, milestones, or a function of the iteration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from .._checks import whole_number
from .._refused import Refused
from .._types import Count

MOST_ITERATIONS = 2**31 - 1  # iterations are counted in 32 bits
Milestones = tuple[tuple[int, int], ...]
Rounds = int | Milestones | Callable[[Count], Count]


def check_rounds(sampler: str, rounds: Any) -> Rounds:
    """Return `rounds` in the hashable form that `rounds_at` takes; refuse counts below one and a schedule with a gap.

    `{0: 1, 1000: 5, 2000: 10}` reads: 1 round from iteration 0 on, 5 from 1000 on, 10 from 2000 on.
    """
    if callable(rounds):
        _check_function(sampler, rounds)
        return rounds
    if not isinstance(rounds, Mapping | tuple):
        return whole_number(f"{sampler}: rounds", rounds, 1)
    milestones = tuple(sorted(dict(rounds).items()))
    for start, count in milestones:
        whole_number(f"{sampler}: a milestone of rounds", start, 0, MOST_ITERATIONS)
        whole_number(f"{sampler}: rounds from iteration {start} on", count, 1)
    if not milestones or milestones[0][0] != 0:
        raise Refused(f"{sampler}: rounds = {dict(milestones)}", "it does not say what happens from iteration 0 on")
    return milestones


def _check_function(sampler: str, rounds: Callable[[Count], Count]) -> None:
    try:
        result = jax.eval_shape(rounds, jnp.int32(0))
    except jax.errors.ConcretizationTypeError:
        reason = "a function with Python branches on the iteration, which is not known when it is compiled"
        fix = "Use jnp.where, or milestones: rounds={0: 1, 1000: 5}."
        raise Refused(f"{sampler}: rounds", reason, fix) from None
    if getattr(result, "shape", None) != () or not jnp.issubdtype(result.dtype, jnp.integer):
        raise Refused(sampler, f"rounds(iteration) must be a whole number, it is {result}")


def rounds_at(rounds: Rounds, iteration: Count) -> int | jax.Array:
    """Return the rounds of an iteration: a Python number where they never change; a function's are at least one."""
    if isinstance(rounds, int):
        return rounds
    if callable(rounds):
        return jnp.maximum(1, jnp.asarray(rounds(iteration), jnp.int32))
    starts, counts = (jnp.array(column, jnp.int32) for column in zip(*rounds, strict=True))
    return counts[jnp.searchsorted(starts, iteration, side="right") - 1]
