"""Times of a sampler's iterations, beside those of the bare derivatives of the log density that they need."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._types import LogDensity, Params, Vector
from ..model import Layout, LocalLogDensity, Posterior, Shard, stack_shards
from ..samplers import gradient_and_curvature
from .methods import SplitData

REPEATS = 200
NUDGE = 1e-9  # share of the gradient by which the point moves, so that each evaluation waits for the one before

Derivative = Callable[[LogDensity], Callable[[Vector], tuple[Any, Vector]]]  # such as jax.value_and_grad


class Floor(NamedTuple):
    """Milliseconds that a part of a sampler's work takes (`measured`), and the derivatives in it alone (`bare`).

    Attributes:
      what: the part, in words.
      derivative: the derivatives, in words.
    """

    what: str
    derivative: str
    bare: float
    measured: float

    def describe(self) -> str:
        """Say both times, and their ratio: it is above 1 where the sampler's code compiles better."""
        return (
            f"{self.what} takes {self.measured:.3g} ms, compilation included. The bare derivatives of all agents "
            f"({self.derivative.rstrip('.')}) take {self.bare:.3g} ms on the same device: "
            f"{self.bare / self.measured:.2f} of that time."
        )


def gradient_and_product(logdensity: LogDensity) -> Callable[[Vector], tuple[Any, Vector]]:
    """Return a function that computes one Hessian-vector product, and the gradient."""
    return lambda position: gradient_and_curvature(logdensity, position, position)[::-1]


def derivative_milliseconds(
    posterior: Posterior, target: SplitData, init: Params, derivative: Derivative, chains: int = 1
) -> float:
    """Measure one evaluation for all agents and chains, in a loop of nothing else that is compiled beforehand."""
    layout, size = Layout.of(init), target.network.size
    shards = stack_shards(target.shards, size)

    def of_agent(shard: Shard, position: Vector) -> Vector:
        value, gradient = derivative(LocalLogDensity(posterior, layout, shard, size))(position)
        return position + NUDGE * (gradient + value)

    of_all = jax.vmap(jax.vmap(of_agent), in_axes=(None, 0))

    @jax.jit
    def repeated(shards: Shard, positions: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, REPEATS, lambda _, at: of_all(shards, at), positions)

    positions = jnp.tile(layout.ravel(init), (chains, size, 1))
    repeated(shards, positions).block_until_ready()
    began = time.perf_counter()
    repeated(shards, positions).block_until_ready()
    return 1e3 * (time.perf_counter() - began) / REPEATS
