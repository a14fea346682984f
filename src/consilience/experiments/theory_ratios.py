"""Theorem 3.1: acceptance ratios, and how far they are from the exact change of energy in a step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from .._types import Key, Scalar, Vector
from ..samplers import gradient_and_curvature
from .theory_target import Setting, for_each_step_size, group_means, local_derivatives, log_density, starts

STEP_OF_RATIO = {"published": "euler", "corrected": "euler", "trapezoid": "leapfrog"}


class Ratios(NamedTuple):
    """Acceptance ratios log ρ, before min(0, ·), of one Euler and one leapfrog step from the same ω and p."""

    euler_exact: Scalar  # -ΔH
    published: Scalar  # -½ε²(pᵀ∇²U p + |g|²)
    corrected: Scalar  # -½ε²(p*ᵀ∇²U p* - |g|²)
    leapfrog_exact: Scalar  # -ΔH
    trapezoid: Scalar  # -⅛ε²(|g*|² - |g|²)


def ratios(position: Vector, momentum: Vector, step_size: Scalar, shards: jax.Array) -> Ratios:
    """Compute acceptance ratios of one agent that holds all data: H = U + ½|p|², g = -∇U.

    Euler: p* = p + εg, ω* = ω + εp*. With p = p* - εg, U(ω*) - U(ω) = -εgᵀp* + ½ε²p*ᵀ∇²U p* + O(ε³) and
    ½|p*|² - ½|p|² = εgᵀp* - ½ε²|g|² give ΔH = ½ε²(p*ᵀ∇²U p* - |g|²) + O(ε³).

    Leapfrog: p½ = p + ½εg, ω* = ω + εp½, p* = p½ + ½εg*. Then ½|p*|² - ½|p|² = ½ε(g + g*)ᵀp½ + ⅛ε²(|g*|² - |g|²), whose
    first term is minus the trapezoid rule for ΔU.
    """

    def density(position: Vector) -> Scalar:
        return log_density(position, shards)

    def exact(proposal: Vector, end: Vector) -> Scalar:
        return density(proposal) - density(position) - 0.5 * (jnp.vdot(end, end) - jnp.vdot(momentum, momentum))

    gradient, curvature = gradient_and_curvature(density, position, momentum)
    squared = jnp.vdot(gradient, gradient)
    end = momentum + step_size * gradient
    _, end_curvature = gradient_and_curvature(density, position, end)
    half = momentum + 0.5 * step_size * gradient
    leapfrog_proposal = position + step_size * half
    leapfrog_gradient = jax.grad(density)(leapfrog_proposal)
    return Ratios(
        exact(position + step_size * end, end),
        -0.5 * step_size**2 * (curvature + squared),
        -0.5 * step_size**2 * (end_curvature - squared),
        exact(leapfrog_proposal, half + 0.5 * step_size * leapfrog_gradient),
        -0.125 * step_size**2 * (jnp.vdot(leapfrog_gradient, leapfrog_gradient) - squared),
    )


def together_ratios(
    position: Vector, momenta: jax.Array, step_size: Scalar, shards: jax.Array, which: tuple[str, ...]
) -> tuple[Vector, Scalar, dict[str, jax.Array]]:
    """Return g = -∇V(ω), ℵ = mean_j p_jᵀ∇²U_j(ω)p_j, and all agents' log ρ before min(0, ·), with all agents at ω.

    "published": -½ε²(ℵ + |g|²); "corrected": -½ε²(p*_iᵀ∇²V p*_i - |g|²); "exact": -ΔH_i for H_i = V + ½|p_i|².
    """

    def density(at: Vector) -> Scalar:
        return log_density(at, shards) / len(shards)

    def published(momentum: Vector, end: Vector) -> Scalar:
        return -0.5 * step_size**2 * (curvature + jnp.vdot(gradient, gradient))

    def corrected(momentum: Vector, end: Vector) -> Scalar:
        return -0.5 * step_size**2 * (gradient_and_curvature(density, position, end)[1] - jnp.vdot(gradient, gradient))

    def exact(momentum: Vector, end: Vector) -> Scalar:
        change = density(position + step_size * end) - density(position)
        return change - 0.5 * (jnp.vdot(end, end) - jnp.vdot(momentum, momentum))

    positions = jnp.broadcast_to(position, momenta.shape)
    local_gradient, local_curvature = local_derivatives(positions, momenta, shards)
    gradient, curvature = local_gradient.mean(axis=0), local_curvature.mean()
    rules: dict[str, Callable[[Vector, Vector], Scalar]]
    rules = {"published": published, "corrected": corrected, "exact": exact}
    ends = momenta + step_size * gradient
    return gradient, curvature, {name: jax.vmap(rules[name])(momenta, ends) for name in which}


def one_step_distance(position: Vector, momenta: jax.Array, step_size: Scalar, shards: jax.Array) -> dict[str, Scalar]:
    """Compute E‖ω̃ - ω̂‖² over the uniforms, after one step of both from `position`, for published and corrected ratio.

    Agent i decides differently with probability |q_i|, q_i = ρ_i - ρ̂_i, and then shifts ω̃ - ω̂ by sign(q_i) d_i/m,
    d_i = ε(p_i + εg). With independent u_i the expectation is m⁻²(Σ_i |q_i|(1 - |q_i|)|d_i|² + |Σ_i q_i d_i|²).
    """
    gradient, _, log_ratios = together_ratios(position, momenta, step_size, shards, ("published", "corrected", "exact"))
    shifts = step_size * (momenta + step_size * gradient)
    acceptance = {name: jnp.exp(jnp.minimum(0.0, log_ratio)) for name, log_ratio in log_ratios.items()}

    def distance(name: str) -> Scalar:
        excess = acceptance[name] - acceptance["exact"]
        spread = (jnp.abs(excess) * (1 - jnp.abs(excess)) * (shifts**2).sum(axis=1)).sum()
        return (spread + ((excess @ shifts) ** 2).sum()) / len(shards) ** 2

    return {f"one step, {name}": distance(name) for name in ("published", "corrected")}


@partial(jax.jit, static_argnames=("groups", "draws"))
def ratio_errors(key: Key, step_sizes: jax.Array, setting: Setting, groups: int, draws: int) -> dict[str, jax.Array]:
    """Measure errors of acceptance ratios at draws from π, as means over each group, (ε, group).

    For one agent with all data, squared errors of log ρ ("... nothing": log ρ = 0); "one step, ..." is for ω̃ and ω̂.
    """
    pool, shards, _ = setting

    def measure(key: Key, step_size: Scalar) -> dict[str, jax.Array]:
        position_key, momentum_key = jax.random.split(key)
        positions = starts(position_key, pool, groups * draws)
        momenta = jax.random.normal(momentum_key, (groups * draws, *shards.shape[::2]))
        found = jax.vmap(ratios, (0, 0, None, None))(positions, momenta[:, 0], step_size, shards)
        errors = {
            "published": found.published - found.euler_exact,
            "corrected": found.corrected - found.euler_exact,
            "euler nothing": -found.euler_exact,
            "trapezoid": found.trapezoid - found.leapfrog_exact,
            "leapfrog nothing": -found.leapfrog_exact,
        }
        values = {name: error**2 for name, error in errors.items()}
        values |= jax.vmap(one_step_distance, (0, 0, None, None))(positions, momenta, step_size, shards)
        return group_means(values, groups)

    measured: dict[str, jax.Array] = for_each_step_size(measure, key, step_sizes)
    return measured
