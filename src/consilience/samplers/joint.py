"""Hamiltonian dynamics on shared parameters and on variables that stay with their owner, with one sum a leapfrog step.

Agent i has [θ, z_i] and a momentum of each. θ and its momentum are the same on all agents; z_i and its momentum are its
own. M is diagonal. A leapfrog step of size ε, of which line 3 alone is sent:

    1.  p ← p + ½ε ∇ ;   (θ, z_i) ← (θ, z_i) + ε M⁻¹p
    2.  ℓ_i, ∇_θ ℓ_i and ∇_z ℓ_i there ;   p_z ← p_z + ½ε ∇_z ℓ_i ,  which completes it
    3.  Σ_i [∇_θ ℓ_i , a few numbers]
    4.  p_θ ← p_θ + ½ε Σ_i ∇_θ ℓ_i

The numbers are ℓ_i, ½ p_zᵀM⁻¹p_z and, once, that of the start, which make up the energy. A message is as long as θ and
these numbers, however many own variables there are, and they are the only functions of z_i in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from .._types import Count, Flag, Key, Scalar, Vector
from ..model import LocalLogDensity
from ..neighbors import Neighbors
from .adaptation import WindowAdaptation
from .base import Kernel, private_key
from .mass import kinetic_energy, momentum, momentum_of
from .replicated import Algorithm, replicated_kernel

MOST_ENERGY_LOST = 1000  # beyond it a trajectory diverges, as in BlackJAX
ENERGIES = 3  # numbers of a message: ℓ_i, the kinetic energy of p_z, and that at the start


class JointPoint(NamedTuple):
    """State of a chain on one agent."""

    position: Vector  # [θ, z_i]
    logdensity: Scalar  # Σ_i ℓ_i
    gradient: Vector  # [Σ_i ∇_θ ℓ_i, ∇_z ℓ_i]


class Phase(NamedTuple):
    """Point of a trajectory on one agent."""

    position: Vector
    momentum: Vector
    logdensity: Scalar
    gradient: Vector

    @property
    def point(self) -> JointPoint:
        return JointPoint(self.position, self.logdensity, self.gradient)


class JointInfo(NamedTuple):
    """Info of an HMC iteration, with BlackJAX's names."""

    acceptance_rate: Scalar
    energy: Scalar
    is_accepted: Flag
    is_divergent: Flag
    num_integration_steps: Count


@dataclass(frozen=True, eq=False)
class JointDynamics:
    """Dynamics of θ and z_i on one agent.

    Args:
      logdensity: ℓ_i, a function of [θ, z_i].
      shared: number of shared parameters, those of θ.
    """

    logdensity: LocalLogDensity
    neighbors: Neighbors
    shared: int
    mask: jax.Array  # of z_i: false beyond the agent's own groups

    @classmethod
    def of(cls, logdensity: LocalLogDensity, neighbors: Neighbors) -> JointDynamics:
        return cls(logdensity, neighbors, logdensity.layout.dimension, logdensity.own_mask())

    def init(self, position: Vector) -> JointPoint:
        """Return the state at a position, whose numbers beyond the agent's own groups become zero."""
        position = self.whole(position[: self.shared], jnp.where(self.mask, position[self.shared :], 0))
        value, slope = jax.value_and_grad(self.logdensity)(position)
        logdensity, force = self.neighbors.total((value, slope[: self.shared]), at=position[: self.shared])
        return JointPoint(position, logdensity, self.whole(force, slope[self.shared :]))

    def momentum(self, key: Key, inverse_mass: Vector) -> Vector:
        """Draw a momentum: of θ the same on all agents, of each group from a key of its agent's and its own."""
        for_shared, for_own = jax.random.split(key)
        own, dtype = self.logdensity.own, inverse_mass.dtype
        assert own is not None
        of_agent = private_key(for_own, self.neighbors)

        def of_group(group: jax.Array) -> jax.Array:  # so that room for more groups changes none
            return jax.random.normal(jax.random.fold_in(of_agent, group), (own.one.dimension,), dtype)

        normals = jax.vmap(of_group)(jnp.arange(own.room)).ravel()
        mine = jnp.where(self.mask, momentum_of(normals, inverse_mass[self.shared :]), 0)
        return self.whole(momentum(for_shared, inverse_mass[: self.shared], inverse_mass[: self.shared]), mine)

    def leap(
        self,
        phase: Phase,
        step: Scalar,
        inverse_mass: Vector,
        tell: Callable[[jax.Array, jax.Array], jax.Array],
    ) -> tuple[Phase, jax.Array]:
        """Take a leapfrog step of size `step`; return where it leads, and the sums of all agents' numbers.

        Args:
          tell: this agent's numbers, a function of ℓ_i and p_z at the end of the step; the first is ℓ_i if anything.
        """
        half = phase.momentum + 0.5 * step * phase.gradient
        position = phase.position + step * inverse_mass * half
        value, slope = jax.value_and_grad(self.logdensity)(position)
        numbers = tell(value, (half + 0.5 * step * slope)[self.shared :])
        force, sums = self.neighbors.total((slope[: self.shared], numbers), at=position[: self.shared])
        gradient = self.whole(force, slope[self.shared :])
        return Phase(position, half + 0.5 * step * gradient, sums[0], gradient), sums

    def energies(self, value: jax.Array, own_momentum: jax.Array, inverse_mass: Vector, first: Scalar) -> jax.Array:
        """Return the numbers of this agent that make up the energy, given its kinetic energy at the start."""
        return jnp.stack([value, kinetic_energy(inverse_mass[self.shared :], own_momentum), first])

    def kinetic(self, momentum: Vector, inverse_mass: Vector) -> tuple[Scalar, Scalar]:
        """Return the kinetic energies of θ and of z_i."""
        cut = self.shared
        return (
            kinetic_energy(inverse_mass[:cut], momentum[:cut]),
            kinetic_energy(inverse_mass[cut:], momentum[cut:]),
        )

    def whole(self, of_shared: jax.Array, of_own: jax.Array) -> jax.Array:
        return jnp.concatenate([of_shared, of_own])

    def shared_part(self, tree: Any) -> Any:
        """Return what all agents have alike of a state or of what a warm-up has found: of every vector θ's part."""
        return jax.tree.map(lambda leaf: leaf[: self.shared] if self._is_vector(leaf) else leaf, tree)

    def with_shared(self, tree: Any, of_shared: Any) -> Any:
        """Return a tree with θ's part of its vectors, and all else, as another has them."""

        def joined(leaf: jax.Array, new: jax.Array) -> jax.Array:
            return self.whole(new, leaf[self.shared :]) if self._is_vector(leaf) else new

        return jax.tree.map(joined, tree, of_shared)

    def _is_vector(self, leaf: jax.Array) -> bool:
        return bool(leaf.shape == (self.shared + len(self.mask),))


Step = Callable[[JointDynamics, Key, JointPoint, Scalar, Vector], tuple[JointPoint, Any]]


def joint_kernel(
    logdensity: LocalLogDensity,
    neighbors: Neighbors,
    step: Step,
    evaluations: Callable[[Any], jax.Array],
    sums: int | None,
    tuning: WindowAdaptation,
) -> Kernel:
    """Build the kernel with which agents move one chain of θ, and each its own variables with it.

    Args:
      step: an iteration, given a key, a state, the step size and M⁻¹ of [θ, z_i].
      evaluations, sums: as of an `Algorithm`.
      tuning: the warm-up of [θ, z_i]. It works number by number: of θ it is the same everywhere, of z_i its owner's.
        A mass that is given is one number, or has those of θ and of one group.
    """
    dynamics, own = JointDynamics.of(logdensity, neighbors), logdensity.own
    assert own is not None
    given = tuning.inverse_mass_matrix
    if given is not None and given.ndim:
        given = jnp.concatenate([given[: dynamics.shared], jnp.tile(given[dynamics.shared :], own.room)])
    algorithm = Algorithm(
        dynamics.init,
        lambda key, state, found: step(dynamics, key, state, found.step_size, found.inverse_mass_matrix),
        evaluations,
        lambda state: state.logdensity,
        sums,
        dynamics.shared_part,
        dynamics.with_shared,
    )
    return replicated_kernel(algorithm, neighbors, tuning._replace(inverse_mass_matrix=given))


def hmc_step(
    dynamics: JointDynamics, key: Key, state: JointPoint, step_size: Scalar, inverse_mass: Vector, steps: int
) -> tuple[JointPoint, JointInfo]:
    """Move by a trajectory of so many leapfrog steps, whose last message alone has energies in it."""
    for_momentum, for_decision = jax.random.split(key)
    drawn = dynamics.momentum(for_momentum, inverse_mass)
    of_shared, of_own = dynamics.kinetic(drawn, inverse_mass)

    def leap(k: jax.Array, carry: tuple[Phase, jax.Array]) -> tuple[Phase, jax.Array]:
        def tell(value: jax.Array, own_momentum: jax.Array) -> jax.Array:
            energies = dynamics.energies(value, own_momentum, inverse_mass, of_own)
            return jnp.where(k == steps - 1, energies, 0)

        return dynamics.leap(carry[0], step_size, inverse_mass, tell)

    first = Phase(state.position, drawn, state.logdensity, state.gradient)
    last, (_, own_now, own_first) = lax.fori_loop(0, steps, leap, (first, jnp.zeros(ENERGIES, drawn.dtype)))
    before = of_shared + own_first - state.logdensity
    energy = dynamics.kinetic(last.momentum, inverse_mass)[0] + own_now - last.logdensity
    gain = energy_gain(before, energy)
    rate = jnp.minimum(jnp.exp(gain), 1)
    accepted = jax.random.bernoulli(for_decision, rate)
    moved = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), last.point, state)
    return moved, JointInfo(rate, energy, accepted, -gain > MOST_ENERGY_LOST, jnp.int32(steps))


def energy_gain(before: Scalar, now: Scalar) -> Scalar:
    """Return by how much the energy has fallen; -∞ where it is not a number."""
    gain = before - now
    return jnp.where(jnp.isnan(gain), -jnp.inf, gain)
