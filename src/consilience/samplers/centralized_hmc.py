"""`centralized_hmc`: Hamiltonian Monte Carlo on pooled data, the paper's centralized baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from .._checks import check_positive, whole_number
from .._refused import Refused
from .._types import Count, Key, LogDensity, Number, Scalar, Vector
from ..neighbors import Neighbors
from ..network import Network
from .base import Kernel, Sampler, own_key
from .mass import check_mass, check_mass_dimension, kinetic_energy, velocity
from .metropolis import MetropolisInfo, MetropolisNoise, log_acceptance, metropolis_noise, select
from .settings import register_settings, static


class HMCState(NamedTuple):
    position: Vector
    logdensity: Scalar
    gradient: Vector
    iteration: Count


@register_settings
@dataclass(frozen=True, eq=False)
class CentralizedHMC(Sampler):
    """Hamiltonian Monte Carlo with L = `num_integration_steps` leapfrog steps of size ε = `step_size`.

        p ~ N(0, M) ;   L times:  p ← p + ½ε∇ℓ(ω),  ω ← ω + εM⁻¹p,  p ← p + ½ε∇ℓ(ω)
        accept ⇔ log u ≤ ℓ(ω*) - ℓ(ω) - ½p*ᵀM⁻¹p* + ½pᵀM⁻¹p

    **Known bias**: none, it leaves the posterior invariant. But it needs all data in one place: it runs on one agent
    alone, `Network.complete(1)`, with `cs.pool(shards)`. L = 1 is the paper's baseline (and is MALA).

    Args:
      step_size: ε.
      num_integration_steps: L.
      inverse_mass_matrix: M⁻¹: a number, a vector or a matrix. None: the identity.
    """

    step_size: Number
    inverse_mass_matrix: Any = None
    num_integration_steps: int = static(1)

    name = "centralized_hmc"
    communicates = False  # one agent has all data

    def __post_init__(self) -> None:
        check_positive(f"{self.name}: step_size", self.step_size)
        whole_number(f"{self.name}: num_integration_steps", self.num_integration_steps, 1)
        object.__setattr__(self, "inverse_mass_matrix", check_mass(self.name, self.inverse_mass_matrix))

    def resolve(self, network: Network, dimension: int, num_warmup: int = 0) -> CentralizedHMC:
        if network.size != 1:
            reason = f"it needs all data in one place, but this network has {network.size} agents"
            fix = "Write cs.sample(posterior, cs.pool(shards), cs.Network.complete(1), ...)."
            raise Refused(self.name, reason, fix)
        check_mass_dimension(self.name, self.inverse_mass_matrix, dimension)
        return self

    def build(self, logdensity: LogDensity, neighbors: Neighbors, like: Vector) -> Kernel:
        step_size = jnp.asarray(self.step_size, like.dtype)
        inverse_mass = self.inverse_mass_matrix
        value_and_gradient = jax.value_and_grad(logdensity)

        def init(position: Vector) -> HMCState:
            return HMCState(position, *value_and_gradient(position), jnp.zeros((), jnp.int32))

        def noise(key: Key) -> MetropolisNoise:
            return metropolis_noise(own_key(key, neighbors), self.inverse_mass_matrix, like)

        def leapfrog(_: Any, phase: tuple[Vector, Vector, Scalar, Vector]) -> tuple[Vector, Vector, Scalar, Vector]:
            position, p, _, gradient = phase
            half = p + 0.5 * step_size * gradient
            position = position + step_size * velocity(inverse_mass, half)
            value, gradient = value_and_gradient(position)
            return position, half + 0.5 * step_size * gradient, value, gradient

        def move(noise: MetropolisNoise, state: HMCState) -> tuple[HMCState, MetropolisInfo]:
            start = (state.position, noise.momentum, state.logdensity, state.gradient)
            position, p, value, gradient = lax.fori_loop(0, self.num_integration_steps, leapfrog, start)
            log_ratio = (value - kinetic_energy(inverse_mass, p)) - (
                state.logdensity - kinetic_energy(inverse_mass, noise.momentum)
            )
            log_ratio = log_acceptance(log_ratio)
            is_accepted = noise.log_uniform <= log_ratio
            proposed = HMCState(position, value, gradient, state.iteration)
            kept = select(is_accepted, proposed, state)
            return kept._replace(iteration=state.iteration + 1), MetropolisInfo(jnp.exp(log_ratio), is_accepted)

        return Kernel(init, noise, move)
