"""`published`: the paper's decentralized MALA, Algorithm 1 as printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._checks import check_flag, check_positive, whole_number
from .._types import Count, Key, LogDensity, Number, Scalar, Vector
from ..neighbors import Neighbors
from ..network import Network
from .base import Kernel, Sampler, own_key
from .mass import check_mass, check_mass_dimension
from .metropolis import MetropolisInfo, MetropolisNoise, Unadjusted, metropolis_noise
from .rounds import MOST_ITERATIONS, check_rounds, rounds_at
from .settings import register_settings, static


class PublishedState(NamedTuple):
    position: Vector  # ω_i
    gradient: Vector  # g_i, the tracked network mean of the ∇ℓ_j
    curvature: Scalar  # ℵ_i, the tracked network mean of the p_jᵀ∇²U_j p_j
    local_gradient: Vector  # ∇ℓ_i where it was last taken
    local_curvature: Scalar  # p_iᵀ∇²U_i p_i there
    iteration: Count


@register_settings
@dataclass(frozen=True, eq=False)
class Published(Sampler):
    """The decentralized Metropolis-adjusted Langevin algorithm of Kungurtsev, Cobb, Javidi and Jalaian (2021).

    Iteration t of agent i, with ε = `step_size`, s = `rounds` at t, and momenta and decisions of its own:

        p_i ~ N(0, M) ;   g_loc = ∇ℓ_i(ω_i) ;   a_loc = p_iᵀ ∇²U_i(ω_i) p_i
        g_i ← [W^s (g + g_loc - g_loc_prev)]_i ;   ℵ_i ← [W^s (ℵ + a_loc - a_loc_prev)]_i
        p* = p_i + ε g_i ;   ω* = ω_i + ε p*
        log ρ = min(0, -½ ε² (ℵ_i + g_iᵀ g_i)) ;   ω_i ← ω* if log ρ ≥ log u_i
        ω_i ← [W^s ω]_i

    **Known bias.** As ε → 0 it samples ∝ π², not π: variances come out at half of what they should be, for any
    number of agents. The Euler step gives the drift twice the weight that its noise calls for, the ratio ρ has the
    sign of |g|² wrong, the step is not reversible, and each agent accepts on its own. It is here to reproduce the
    paper and to be measured.

    Variant: the text of Algorithm 1, not the authors' script (which adds the gradient increment again in every inner
    round). W^s is applied once to the whole bracket; g tracks the mean of the ∇ℓ_j, not their sum; it starts at
    g = g_loc_prev = ∇ℓ_i(ω⁰), so that Σ_i g_i = Σ_i ∇ℓ_i at all times.

    Args:
      step_size: ε.
      rounds: s: a number, milestones such as `{0: 1, 1000: 5, 2000: 10}`, or a function of the iteration.
      gradient_tracking: if False, g_i and ℵ_i are the agent's own g_loc and a_loc.
      consensus_step: if False, positions are not mixed.
      metropolis_after: the first iteration with a Metropolis step; before it every proposal is taken. None: never one.
      inverse_mass_matrix: M⁻¹. As printed, M enters the momentum draw and nothing else, so M ≠ I changes the
        temperature and does not precondition.
    """

    step_size: Number
    inverse_mass_matrix: Any = None
    rounds: Any = static(1)
    gradient_tracking: bool = static(True)
    consensus_step: bool = static(True)
    metropolis_after: int | None = static(0)

    name = "published"
    bias = (
        "the published algorithm samples about π² instead of π: variances near half of the posterior's at small "
        "steps, and a wrong acceptance ratio at large ones."
    )

    def __post_init__(self) -> None:
        check_positive(f"{self.name}: step_size", self.step_size)
        check_flag(f"{self.name}: gradient_tracking", self.gradient_tracking)
        check_flag(f"{self.name}: consensus_step", self.consensus_step)
        if self.metropolis_after is not None:
            whole_number(f"{self.name}: metropolis_after", self.metropolis_after, 0, MOST_ITERATIONS)
        object.__setattr__(self, "rounds", check_rounds(self.name, self.rounds))
        object.__setattr__(self, "inverse_mass_matrix", check_mass(self.name, self.inverse_mass_matrix))

    def resolve(self, network: Network, dimension: int, num_warmup: int = 0) -> Published:
        check_mass_dimension(self.name, self.inverse_mass_matrix, dimension)
        return self

    def build(self, logdensity: LogDensity, neighbors: Neighbors, like: Vector) -> Kernel:
        step_size = jnp.asarray(self.step_size, like.dtype)

        def init(position: Vector) -> PublishedState:
            gradient = jax.grad(logdensity)(position)
            # ℵ and a_loc_prev cancel in the first bracket whatever momentum they come from: zero will do.
            nothing = jnp.zeros((), position.dtype)
            return PublishedState(position, gradient, nothing, gradient, nothing, jnp.zeros((), jnp.int32))

        def noise(key: Key) -> MetropolisNoise:
            return metropolis_noise(own_key(key, neighbors), self.inverse_mass_matrix, like)

        def move(noise: MetropolisNoise, state: PublishedState) -> tuple[PublishedState, MetropolisInfo | Unadjusted]:
            rounds = rounds_at(self.rounds, state.iteration)
            local_gradient, local_curvature = gradient_and_curvature(logdensity, state.position, noise.momentum)
            gradient, curvature = local_gradient, local_curvature
            if self.gradient_tracking:
                gradient, curvature = neighbors.mix(
                    (
                        state.gradient + local_gradient - state.local_gradient,
                        state.curvature + local_curvature - state.local_curvature,
                    ),
                    rounds,
                )

            proposed_momentum = noise.momentum + step_size * gradient
            proposal = state.position + step_size * proposed_momentum
            if self.metropolis_after is None:
                position = proposal
                info: MetropolisInfo | Unadjusted = Unadjusted()
            else:
                log_ratio = jnp.minimum(0.0, -0.5 * step_size**2 * (curvature + jnp.vdot(gradient, gradient)))
                log_ratio = jnp.where(state.iteration < self.metropolis_after, 0.0, log_ratio)
                is_accepted = log_ratio >= noise.log_uniform
                position = jnp.where(is_accepted, proposal, state.position)
                info = MetropolisInfo(jnp.exp(log_ratio), is_accepted)
            if self.consensus_step:
                position = neighbors.mix(position, rounds)

            moved = PublishedState(position, gradient, curvature, local_gradient, local_curvature, state.iteration + 1)
            return moved, info

        return Kernel(init, noise, move)


def gradient_and_curvature(logdensity: LogDensity, position: Vector, direction: Vector) -> tuple[Vector, Scalar]:
    """Compute ∇ℓ(ω) and pᵀ∇²U(ω)p from one Hessian-vector product."""
    gradient, product = jax.jvp(jax.grad(logdensity), (position,), (direction,))
    return gradient, -jnp.vdot(direction, product)
