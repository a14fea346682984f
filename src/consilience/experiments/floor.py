"""What a sampler's iterations take, beside the bare derivatives of the log density that they cannot do without."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._types import LogDensity, Params, Vector
from ..posterior import Layout, LocalLogDensity, Posterior, Shard, stack_shards
from ..samplers.published import gradient_and_curvature
from .reproduction import Target

REPEATS = 200
TRIFLE = 1e-9  # of a gradient, by which the point moves: each evaluation has to wait for the one before

Derivative = Callable[[LogDensity, Vector], tuple[Any, Vector]]


class Floor(NamedTuple):
    """Milliseconds of all agents' derivatives at one point each, and of what was measured against it."""

    derivatives: float
    iteration: float

    @property
    def share(self) -> float:
        """Of the time that is spent on derivatives; above 1 where the sampler's code compiles better."""
        return self.derivatives / self.iteration

    def said(self, what: str, of: str) -> str:
        return (
            f"{what}: {self.iteration:.3g} ms, where the bare {of} of both agents takes {self.derivatives:.3g} ms on "
            f"the same device: {self.share:.2f} of that floor."
        )


def value_and_gradient(logdensity: LogDensity, position: Vector) -> tuple[Any, Vector]:
    """As hmc and dmala need it."""
    return jax.value_and_grad(logdensity)(position)


def gradient_and_product(logdensity: LogDensity, position: Vector) -> tuple[Any, Vector]:
    """The gradient and one Hessian-vector product, as `published` needs them."""
    gradient, curvature = gradient_and_curvature(logdensity, position, position)
    return curvature, gradient


def derivative_milliseconds(posterior: Posterior, target: Target, init: Params, derivative: Derivative) -> float:
    """One evaluation for all agents of one chain, from a loop of them without anything else, compiled beforehand."""
    layout = Layout.of(init)
    shards = stack_shards(target.shards, target.network.size)

    @jax.jit
    def repeated(shards: Shard, positions: jax.Array) -> jax.Array:
        def of_agent(shard: Shard, position: Vector) -> Vector:
            value, gradient = derivative(LocalLogDensity(posterior, layout, shard, target.network.size), position)
            return position + TRIFLE * (gradient + value)

        return jax.lax.fori_loop(0, REPEATS, lambda _, at: jax.vmap(of_agent)(shards, at), positions)

    positions = jnp.tile(layout.ravel(init), (target.network.size, 1))
    repeated(shards, positions).block_until_ready()
    began = time.perf_counter()
    repeated(shards, positions).block_until_ready()
    return 1e3 * (time.perf_counter() - began) / REPEATS
