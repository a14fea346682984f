"""Replicated chains: a kernel for one machine, run by all agents of a network as one chain.

Every agent has the same key, the same start, and a log density that is the sum over the network:

    log π(ω) = Σ_i ℓ_i(ω) ,    ∇ log π(ω) = Σ_i ∇ℓ_i(ω) ,    both by one exact consensus of (ℓ_i, ∇ℓ_i).

So every agent computes the same chain, and it is exactly the chain that one machine with all data would compute.
Exactness depends on the copies staying alike, and rounding sets them apart: agents on different hardware compute the
same sums and still round differently. Therefore

- sums go over a tree, which gives every agent the same bits;
- every iteration ends with the root's state on all agents, so that differences never build up. Where it is known which
  of an iteration's sums is the last, the state comes with that;
- the agents' decisions and a digest of their positions are compared. Where they differ, some agent's trajectory took
  another turn, its sums were of densities at different points, and all redo the iteration from its agreed start with a
  fresh key. That is counted: `redone`. Agents that never agree stay where they were, `out_of_step`, and a run stops.

They are compared at the end of an iteration, where no agent waits for another inside of one. Where they do, in
processes of their own, every sum says for which step it is and where it was evaluated (`total(x, at=w)`): agents that
have gone different ways could wait for each other for ever, and must be found out at their next message. Nor do they
wait for the digests of an iteration: these go along with the next sum, or with the words before the next chunk of
draws, and nothing is kept of a chunk before its digests have been compared. All then go back to what all have saved,
and on with other random numbers. Hosts that share a mesh wait for each other in its own sums, which carry no such
label: their processors must be of one kind, and that is checked before they start.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._types import Count, Flag, Key, LogDensity, Scalar, Vector
from ..neighbors import Neighbors, projection
from .adaptation import Adaptation, WindowAdaptation
from .base import Kernel
from .metropolis import select

MOST_ATTEMPTS = 5
# Fields of BlackJAX's infos, where the kernel has them: those that agents must agree on, and those that a run keeps.
DECISIONS = ("is_accepted", "is_divergent", "num_integration_steps", "num_trajectory_expansions")
KEPT = ("acceptance_rate", "energy", *DECISIONS)


class ReplicatedState(NamedTuple):
    inner: Any  # the kernel's own state
    adaptation: Any  # an Adaptation, or None where nothing can be tuned
    iteration: Count

    @property
    def position(self) -> Any:
        return self.inner.position


def _all_of_it(tree: Any) -> Any:
    return tree


def _in_its_place(tree: Any, shared: Any) -> Any:
    return shared


class Algorithm(NamedTuple):
    """A kernel for one machine, as in BlackJAX, whose step also takes what a warm-up tunes as an argument."""

    init: Callable[[Vector], Any]
    step: Callable[[Key, Any, Any], tuple[Any, Any]]  # (key, state, Adaptation)
    evaluations: Callable[[Any], jax.Array]  # how often the step of an info evaluated the log density, by stages
    logdensity: Callable[[Any], Scalar] | None = None  # log π where a state is, which a run then keeps with the draw
    sums: int | None = None  # that a step makes, where that is known beforehand
    shared: Callable[[Any], Any] = _all_of_it  # what all agents have alike of a state, a vector or an Adaptation
    with_shared: Callable[[Any, Any], Any] = _in_its_place  # such a tree with that in its place


def network_logdensity(local: LogDensity, neighbors: Neighbors) -> LogDensity:
    """Return the log density Σ_i ℓ_i of the network: its value and its gradient come from one consensus."""

    @jax.custom_vjp
    def logdensity(w: Vector) -> Scalar:
        return neighbors.total(local(w), at=w)

    def forward(w: Vector) -> tuple[Scalar, Vector]:
        return neighbors.total(jax.value_and_grad(local)(w), at=w)

    def backward(gradient: Vector, cotangent: Scalar) -> tuple[Vector]:
        return (cotangent * gradient,)

    logdensity.defvjp(forward, backward)
    return logdensity


def replicated_kernel(algorithm: Algorithm, neighbors: Neighbors, adaptation: WindowAdaptation | None) -> Kernel:
    """Build the kernel that every agent runs alike, so that all hold one chain."""

    def init(position: Vector) -> ReplicatedState:
        once = neighbors.repeated()
        with once:  # a kernel may ask for values alone, which jax traces apart
            inner = algorithm.init(position)
        once.times(1, inner)
        first = None if adaptation is None else adaptation.init()
        return ReplicatedState(inner, first, jnp.zeros((), jnp.int32))

    def noise(key: Key) -> Key:
        return key  # the kernel draws as it goes

    def move(key: Key, state: ReplicatedState) -> tuple[ReplicatedState, Any]:
        moved, info = move_replicated(algorithm, neighbors, adaptation, key, state)
        return moved, info_of(info)

    return Kernel(init, noise, move)


def move_replicated(
    algorithm: Algorithm,
    neighbors: Neighbors,
    adaptation: WindowAdaptation | None,
    key: Key,
    state: ReplicatedState,
    is_idle: Flag | None = None,
) -> tuple[ReplicatedState, dict[str, jax.Array]]:
    """Move a replicated chain by one iteration, on all agents alike; return its state, and what it says by name.

    Args:
      is_idle: where it is true nothing is computed or sent, and the state stays; None: it never is.
    """
    evaluation = neighbors.repeated(algorithm.sums)
    alignment, warming = neighbors.repeated(), neighbors.repeated()

    def attempt(carry: Attempt) -> Attempt:
        with evaluation:
            inner, info = algorithm.step(jax.random.fold_in(key, carry.number), state.inner, state.adaptation)
        evaluated = carry.evaluated + algorithm.evaluations(info)
        kept = _scalars(info)
        with alignment:
            mine, before = algorithm.shared(inner), algorithm.shared(state.position)
            digest = _digest(algorithm.shared(inner.position), before, kept)
            (followed, kept), is_in_step = neighbors.follow_root((mine, kept), digest, evaluation)
            inner = algorithm.with_shared(inner, followed)
        return Attempt(carry.number + 1, evaluated, inner, kept, is_in_step)

    with evaluation:
        shape = jax.eval_shape(lambda k, s: _outcome(algorithm, *algorithm.step(k, s.inner, s.adaptation)), key, state)
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shape)
    # A loop even for the first attempt: the kernel is compiled once.
    done = lax.while_loop(
        lambda carry: ~carry.is_in_step & (carry.number < MOST_ATTEMPTS),
        attempt,
        nothing._replace(inner=state.inner, is_in_step=nothing.is_in_step if is_idle is None else is_idle),
    )
    agreed = select(done.is_in_step, done.inner, state.inner)
    evaluation.times(done.evaluated, done.number)
    alignment.times(done.number, done.number)

    adapted = state.adaptation
    if adaptation is not None and adaptation.tunes:

        def warm_up(old: Adaptation) -> Adaptation:
            new = adaptation.update(old, state.iteration, agreed.position, done.info["acceptance_rate"])
            with warming:
                return algorithm.with_shared(new, neighbors.follow_root(algorithm.shared(new))[0])

        is_warming_up = adaptation.is_warming_up(state.iteration)
        if is_idle is not None:
            is_warming_up &= ~is_idle
        adapted = lax.cond(is_warming_up, warm_up, lambda old: old, state.adaptation)
        warming.times(is_warming_up.astype(jnp.int32), adapted)
    info = {**done.info, "redone": done.number > 1, "out_of_step": ~done.is_in_step}
    if adaptation is not None:
        info["step_size"] = state.adaptation.step_size
    if algorithm.logdensity is not None:
        info["logdensity"] = algorithm.logdensity(agreed)
    return ReplicatedState(agreed, adapted, state.iteration + 1), info


class Attempt(NamedTuple):
    number: Count
    evaluated: jax.Array
    inner: Any
    info: dict[str, jax.Array]
    is_in_step: Flag


def _outcome(algorithm: Algorithm, inner: Any, info: Any) -> Attempt:
    return Attempt(jnp.int32(0), algorithm.evaluations(info), inner, _scalars(info), jnp.array(False))


def _scalars(info: Any) -> dict[str, jax.Array]:
    return {name: jnp.asarray(getattr(info, name)) for name in KEPT if hasattr(info, name)}


def info_of(values: dict[str, jax.Array]) -> Any:
    """Make a NamedTuple of scalars, as every sampler's info is."""
    return _info_type(tuple(values))(**values)


@cache
def _info_type(names: tuple[str, ...]) -> Any:
    return namedtuple("ReplicatedInfo", names)


def _digest(position: Vector, before: Vector, info: dict[str, jax.Array]) -> jax.Array:
    """Return a few numbers that differ between agents whose iterations took different turns, as `follow_root` wants.

    They are the way that ω has moved, projected on a fixed direction without symmetries, and the decisions. Ways may
    differ by √eps of their size plus 16 eps of the position's; of those that are not numbers nothing is said. Decisions
    must be equal.
    """
    moved, rounding = position - before, float(np.finfo(position.dtype).eps)
    allowed = np.sqrt(rounding) * jnp.abs(moved).sum() + 16 * rounding * jnp.abs(position).sum()
    decisions = [*(info[name] for name in DECISIONS if name in info), jnp.isfinite(moved).all()]
    return jnp.stack(
        [
            jnp.stack([projection(moved), allowed]),
            *(jnp.stack([each.astype(moved.dtype), jnp.zeros((), moved.dtype)]) for each in decisions),
        ]
    )
