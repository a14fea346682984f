"""Theorem 3.1: acceptance ratios, and how far they are from the exact change of energy in a step."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from .._types import Key, LogDensity, Scalar, Vector
from ..samplers import gradient_and_curvature
from .theory_target import Setting, for_each_step_size, group_means, local_derivatives, log_density, starts

STEP_OF_RATIO = {"published": "euler", "corrected": "euler", "trapezoid": "leapfrog"}


def energy_drop(density: LogDensity, position: Vector, momentum: Vector, proposal: Vector, end: Vector) -> Scalar:
    """Return -ΔH of a step from (ω, p) to (ω*, p*), for H = -log density + ½|p|²."""
    return density(proposal) - density(position) - 0.5 * (jnp.vdot(end, end) - jnp.vdot(momentum, momentum))


def euler_ratios(
    density: LogDensity, position: Vector, momentum: Vector, step_size: Scalar, gradient: Vector, curvature: Scalar
) -> dict[str, Scalar]:
    """Compute log ρ, before min(0, ·), of an Euler step: p* = p + εg, ω* = ω + εp*.

    "published": -½ε²(ℵ + |g|²); "corrected": -½ε²(p*ᵀ∇²U p* - |g|²); "exact": -ΔH.

    With p = p* - εg, U(ω*) - U(ω) = -εgᵀp* + ½ε²p*ᵀ∇²U p* + O(ε³) and ½|p*|² - ½|p|² = εgᵀp* - ½ε²|g|² give
    ΔH = ½ε²(p*ᵀ∇²U p* - |g|²) + O(ε³).
    """
    end, squared = momentum + step_size * gradient, jnp.vdot(gradient, gradient)
    _, end_curvature = gradient_and_curvature(density, position, end)
    return {
        "published": -0.5 * step_size**2 * (curvature + squared),
        "corrected": -0.5 * step_size**2 * (end_curvature - squared),
        "exact": energy_drop(density, position, momentum, position + step_size * end, end),
    }


def ratios(position: Vector, momentum: Vector, step_size: Scalar, shards: jax.Array) -> dict[str, Scalar]:
    """Compute log ρ of an Euler and a leapfrog step of one agent that holds all data: H = U + ½|p|², g = -∇U.

    Leapfrog: p½ = p + ½εg, ω* = ω + εp½, p* = p½ + ½εg*. Then ½|p*|² - ½|p|² = ½ε(g + g*)ᵀp½ + ⅛ε²(|g*|² - |g|²), whose
    first term is minus the trapezoid rule for ΔU. "trapezoid": -⅛ε²(|g*|² - |g|²); "leapfrog exact": -ΔH.
    """
    density = partial(log_density, shards=shards)
    gradient, curvature = gradient_and_curvature(density, position, momentum)
    half = momentum + 0.5 * step_size * gradient
    proposal = position + step_size * half
    there = jax.grad(density)(proposal)
    end = half + 0.5 * step_size * there
    return {
        **euler_ratios(density, position, momentum, step_size, gradient, curvature),
        "leapfrog exact": energy_drop(density, position, momentum, proposal, end),
        "trapezoid": -0.125 * step_size**2 * (jnp.vdot(there, there) - jnp.vdot(gradient, gradient)),
    }


def stacked_ratios(
    position: Vector, momenta: jax.Array, step_size: Scalar, shards: jax.Array
) -> tuple[Vector, Scalar, dict[str, jax.Array]]:
    """Return g = -∇V(ω), ℵ = mean_j p_jᵀ∇²U_j(ω)p_j, and log ρ of every agent's Euler step, with all agents at ω."""

    def density(at: Vector) -> Scalar:
        return log_density(at, shards) / len(shards)

    def of_agent(momentum: Vector) -> dict[str, Scalar]:
        return euler_ratios(density, position, momentum, step_size, gradient, curvature)

    local_gradient, local_curvature = local_derivatives(jnp.broadcast_to(position, momenta.shape), momenta, shards)
    gradient, curvature = local_gradient.mean(axis=0), local_curvature.mean()
    return gradient, curvature, jax.vmap(of_agent)(momenta)


def one_step_distance(position: Vector, momenta: jax.Array, step_size: Scalar, shards: jax.Array) -> dict[str, Scalar]:
    """Compute E‖ω̃ - ω̂‖² over the uniforms, after one step of both from `position`, for published and corrected ratio.

    Agent i decides differently with probability |q_i|, q_i = ρ_i - ρ̂_i, and then shifts ω̃ - ω̂ by sign(q_i) d_i/m,
    d_i = ε(p_i + εg). With independent u_i the expectation is m⁻²(Σ_i |q_i|(1 - |q_i|)|d_i|² + |Σ_i q_i d_i|²).
    """
    gradient, _, log_ratios = stacked_ratios(position, momenta, step_size, shards)
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
        values = {
            "published": (found["published"] - found["exact"]) ** 2,
            "corrected": (found["corrected"] - found["exact"]) ** 2,
            "euler nothing": found["exact"] ** 2,
            "trapezoid": (found["trapezoid"] - found["leapfrog exact"]) ** 2,
            "leapfrog nothing": found["leapfrog exact"] ** 2,
        }
        values |= jax.vmap(one_step_distance, (0, 0, None, None))(positions, momenta, step_size, shards)
        return group_means(values, groups)

    return for_each_step_size(measure, key, step_sizes)
