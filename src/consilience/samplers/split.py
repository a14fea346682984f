"""Integrators of split Hamiltonian dynamics: the surrogate moves the chain, the network corrects the force.

One step of size ε, of the posterior π and a surrogate π_s that needs no network (Shahbaba, Lan, Johnson and Neal 2014):

    p += ½ε ∇(log π - log π_s)(z) ;   (z, p) ← flow of -log π_s + ½|p|² over ε ;   p += ½ε ∇(log π - log π_s)(z)

It is symmetric and keeps volume, so Metropolis's rule with the whole energy makes it exact, whatever π_s is. A step
asks the network for one value and gradient. In z, π_s is close to N(0, I): where it is, its flow is a rotation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._types import LogDensity, Scalar, Vector

INNER_STEPS = 12  # leapfrog steps of the surrogate's own flow in one step
QUARTER = jnp.pi / 2  # the farthest that a trajectory turns: by half a turn z would only change its sign

Flow = Callable[[Vector, Vector, Scalar], tuple[Vector, Vector]]


def rotation(z: Vector, p: Vector, angle: Scalar) -> tuple[Vector, Vector]:
    """Follow the flow of N(0, I)."""
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return cos * z + sin * p, cos * p - sin * z


def flow_of(log_surrogate: LogDensity) -> Flow:
    """Return the flow of a surrogate, by leapfrog steps."""
    force = jax.grad(log_surrogate)

    def flow(z: Vector, p: Vector, angle: Scalar) -> tuple[Vector, Vector]:
        step = angle / INNER_STEPS

        def leap(_: jax.Array, carry: tuple[Vector, Vector]) -> tuple[Vector, Vector]:
            z, p = carry
            p = p + 0.5 * step * force(z)
            z = z + step * p
            return z, p + 0.5 * step * force(z)

        return lax.fori_loop(0, INNER_STEPS, leap, (z, p))

    return flow


def split_integrator(log_surrogate: LogDensity, flow: Flow) -> Callable:
    """Return an integrator for BlackJAX's Hamiltonian kernels, for a momentum p ~ N(0, I)."""
    from blackjax.mcmc.integrators import IntegratorState

    known_force = jax.grad(log_surrogate)

    def integrator(logdensity: LogDensity, kinetic_energy: Any) -> Callable:
        value_and_force = jax.value_and_grad(logdensity)

        def one_step(state: IntegratorState, step_size: Scalar) -> IntegratorState:
            z, p, _, force = state
            p = p + 0.5 * step_size * (force - known_force(z))
            z, p = flow(z, p, step_size)
            value, force = value_and_force(z)
            p = p + 0.5 * step_size * (force - known_force(z))
            return IntegratorState(z, p, value, force)

        return one_step

    return integrator


def steps_of(step_size: Scalar) -> tuple[Scalar, jax.Array]:
    """Return a step size and a number of steps that make a quarter of a turn, given the largest step that is taken."""
    number = jnp.clip(jnp.ceil(QUARTER / step_size - 0.25), 1, 32)
    return jnp.minimum(step_size, QUARTER / number), number.astype(jnp.int32)
