"""The trajectories of NUTS on shared parameters and own variables, with one sum a leapfrog step.

They are BlackJAX's, step for step: doublings in random directions, a state drawn progressively by its weight, and an
end where a dyadic subtree turns back, p_lᵀM⁻¹ρ ≤ 0 or p_rᵀM⁻¹ρ ≤ 0 with ρ = Σp - ½(p_l + p_r). Such a product is a sum
over θ and all agents' own variables. So that a step needs no second message, every agent completes p_z before it sends,
and knows from the number of the step which subtrees end there: it adds its part of their products to the message,

    [∇_θ ℓ_i , ℓ_i , ½ p_zᵀM⁻¹p_z , the same at the start , 2 (J + 1) products] ,  J = max_num_doublings ,

those of J dyadic subtrees and of the whole trajectory, with zeros for those that do not end there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from .._types import Count, Flag, Key, Scalar, Vector
from .joint import ENERGIES, MOST_ENERGY_LOST, JointDynamics, JointPoint, Phase, energy_gain


class TreeInfo(NamedTuple):
    """Info of a NUTS iteration, with BlackJAX's names."""

    acceptance_rate: Scalar
    energy: Scalar
    is_divergent: Flag
    num_trajectory_expansions: Count
    num_integration_steps: Count


class LeftEnds(NamedTuple):
    """Momenta at the left ends of dyadic subtrees, and the sums of momenta up to and with them: (J, dimension)."""

    momenta: jax.Array
    sums: jax.Array


class Subtree(NamedTuple):
    """Part of a trajectory that is being built, outwards from one of its ends."""

    steps: Count
    end: Phase  # where it has come to
    momentum_sum: Vector
    proposal: Any  # BlackJAX's Proposal
    first_energy: Scalar  # of the iteration; the first message brings it
    left_ends: LeftEnds
    is_diverging: Flag
    is_turning: Flag  # one of its dyadic subtrees
    is_whole_turning: Flag  # the trajectory with it


class Trajectory(NamedTuple):
    """Trajectory so far."""

    doublings: Count
    steps: Count
    left: Phase
    right: Phase
    momentum_sum: Vector
    proposal: Any
    first_energy: Scalar
    left_ends: LeftEnds
    is_diverging: Flag
    is_turning: Flag


def nuts_step(
    dynamics: JointDynamics,
    key: Key,
    state: JointPoint,
    step_size: Scalar,
    inverse_mass: Vector,
    max_num_doublings: int,
) -> tuple[JointPoint, TreeInfo]:
    """Move to a state drawn from a trajectory that doubles until it turns back."""
    from blackjax.mcmc.proposal import Proposal, progressive_biased_sampling

    for_momentum, for_tree = jax.random.split(key)
    drawn = dynamics.momentum(for_momentum, inverse_mass)
    growth = Growth(dynamics, inverse_mass, step_size, max_num_doublings, drawn, state.logdensity)

    def double(tree: Trajectory) -> Trajectory:
        for_direction, for_steps, for_proposal = jax.random.split(jax.random.fold_in(for_tree, tree.doublings), 3)
        forwards = jax.random.bernoulli(for_direction)
        grown = growth.subtree(for_steps, tree, forwards)
        is_first = tree.doublings == 0  # what it starts from has the energy that the first message brought
        old = tree.proposal._replace(energy=jnp.where(is_first, grown.first_energy, tree.proposal.energy))
        rejected = old._replace(sum_log_p_accept=jnp.logaddexp(old.sum_log_p_accept, grown.proposal.sum_log_p_accept))
        chosen = progressive_biased_sampling(for_proposal, old, grown.proposal)
        is_lost = grown.is_diverging | grown.is_turning
        return Trajectory(
            tree.doublings + 1,
            tree.steps + grown.steps,
            _select(forwards, tree.left, grown.end),
            _select(forwards, grown.end, tree.right),
            tree.momentum_sum + grown.momentum_sum,
            _select(is_lost, rejected, chosen),
            grown.first_energy,
            grown.left_ends,
            grown.is_diverging,
            grown.is_turning | grown.is_whole_turning,
        )

    first = Phase(state.position, drawn, state.logdensity, state.gradient)
    zero = jnp.zeros((), drawn.dtype)
    left_ends = LeftEnds(*[jnp.zeros((max_num_doublings, *drawn.shape), drawn.dtype)] * 2)
    no, none = jnp.array(False), jnp.int32(0)
    unmoved = Proposal(state, zero, zero, zero - jnp.inf)
    tree = lax.while_loop(
        lambda tree: (tree.doublings < max_num_doublings) & ~tree.is_diverging & ~tree.is_turning,
        double,
        Trajectory(none, none, first, first, drawn, unmoved, zero, left_ends, no, no),
    )
    rate = jnp.exp(tree.proposal.sum_log_p_accept) / tree.steps
    info = TreeInfo(rate, tree.proposal.energy, tree.is_diverging, tree.doublings, tree.steps)
    return tree.proposal.state, info


class Growth(NamedTuple):
    """Growth of one iteration's trajectory, leapfrog step by leapfrog step."""

    dynamics: JointDynamics
    inverse_mass: Vector
    step_size: Scalar
    doublings: int  # the most
    drawn: Vector  # the momentum at the start
    logdensity: Scalar  # there

    def subtree(self, key: Key, tree: Trajectory, forwards: Flag) -> Subtree:
        """Grow a trajectory of 2^j steps, or of the start alone, by as many, or until they turn back or diverge."""
        near, far = _select(forwards, tree.right, tree.left), _select(forwards, tree.left, tree.right)
        length = 2**tree.doublings

        def add(grown: Subtree) -> Subtree:
            return self.add(jax.random.fold_in(key, grown.steps), grown, tree, forwards, far.momentum, length)

        none = Subtree(
            jnp.int32(0),
            near,
            jnp.zeros_like(near.momentum),
            tree.proposal,
            tree.first_energy,
            tree.left_ends,
            *[jnp.array(False)] * 3,
        )
        return lax.while_loop(lambda it: (it.steps < length) & ~it.is_diverging & ~it.is_turning, add, none)

    def add(self, key: Key, grown: Subtree, tree: Trajectory, forwards: Flag, far: Vector, length: Count) -> Subtree:
        """Add a leapfrog step to a subtree, with one message."""
        from blackjax.mcmc.proposal import Proposal, progressive_uniform_sampling

        dynamics, cut, inverse_mass = self.dynamics, self.dynamics.shared, self.inverse_mass
        step, is_first = grown.steps, (grown.steps == 0) & (tree.doublings == 0)
        is_last = step == length - 1
        lowest, highest = _ending_subtrees(step)
        of_shared, of_own = dynamics.kinetic(self.drawn, inverse_mass)

        def products(part: slice, momentum: jax.Array) -> jax.Array:
            """Return the products of all subtrees that end here, (J + 1, 2), and zeros for the others."""
            mass, momenta, sums = (leaf[..., part] for leaf in (inverse_mass, *grown.left_ends))
            added = grown.momentum_sum[part] + momentum

            def pair(left: jax.Array, total: jax.Array) -> jax.Array:
                rho = total - 0.5 * (left + momentum)
                return jnp.stack([jnp.vdot(mass * left, rho), jnp.vdot(mass * momentum, rho)])

            def fill(k: jax.Array, found: jax.Array) -> jax.Array:
                return found.at[k].set(pair(momenta[k], added - sums[k] + momenta[k]))

            found = jnp.zeros((self.doublings + 1, 2), momentum.dtype)
            found = lax.fori_loop(lowest, highest + 1, fill, found)
            whole = pair(far[part], tree.momentum_sum[part] + added)
            return found.at[-1].set(jnp.where(is_last, whole, 0))

        def tell(value: jax.Array, own_momentum: jax.Array) -> jax.Array:
            first = jnp.where(is_first, of_own, 0)
            energies = dynamics.energies(value, own_momentum, inverse_mass, first)
            return jnp.concatenate([energies, products(slice(cut, None), own_momentum).ravel()])

        size = jnp.where(forwards, self.step_size, -self.step_size)
        end, sums = dynamics.leap(grown.end, size, inverse_mass, tell)
        first_energy = jnp.where(is_first, of_shared + sums[2] - self.logdensity, grown.first_energy)
        energy = dynamics.kinetic(end.momentum, inverse_mass)[0] + sums[1] - end.logdensity
        gain = energy_gain(first_energy, energy)
        new = Proposal(end.point, energy, gain, jnp.minimum(gain, 0))
        kept = _select(step == 0, new, progressive_uniform_sampling(key, grown.proposal, new))
        turns = (sums[ENERGIES:].reshape(-1, 2) + products(slice(cut), end.momentum[:cut]) <= 0).any(axis=1)
        place = jnp.arange(self.doublings)
        is_even, total = step % 2 == 0, grown.momentum_sum + end.momentum
        left_ends = LeftEnds(
            *(
                old.at[highest].set(jnp.where(is_even, now, old[highest]))
                for old, now in zip(grown.left_ends, (end.momentum, total), strict=True)
            )
        )
        return Subtree(
            step + 1,
            end,
            total,
            kept,
            first_energy,
            left_ends,
            -gain > MOST_ENERGY_LOST,
            (turns[:-1] & (place >= lowest) & (place <= highest)).any(),
            turns[-1] & is_last,
        )


def _ending_subtrees(step: Count) -> tuple[Count, Count]:
    """Return the places of the first and the last left end whose dyadic subtree ends at a step; an even step ends none.

    As in BlackJAX: the last place is the number of ones among the step's binary digits but the lowest, and is where an
    even step's own momentum goes. As many subtrees end at a step as it has ones in a row at the low end.
    """
    highest = lax.population_count(step >> 1).astype(jnp.int32)
    ending = lax.population_count((~step & (step + 1)) - 1).astype(jnp.int32)  # trailing ones
    return highest - ending + 1, highest


def _select(flag: Flag, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda one, other: jnp.where(flag, one, other), new, old)
