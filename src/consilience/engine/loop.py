"""The loop that a runtime compiles: pure functions of all chains and of the agents in this process at once.

Chains and agents are two nested `vmap`s around the sampler's `init`, `noise` and `move`. Draws that are kept go into a
buffer; what is seen of them is worked out over the buffer, one draw after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import lax

from .._compat import apply_jaxpr
from .._types import Key
from ..model import Layout, LocalLogDensity, OwnVariables, Posterior, Shards, StartValues, View
from ..neighbors import AGENTS, Exchange, Neighbors
from ..samplers import Kernel, Sampler
from .moments import Accumulated, accumulate


class Inputs(NamedTuple):
    """Arguments of the compiled code that are the same in all iterations."""

    sampler: Sampler
    lists: Any  # edge lists: what `link` needs to know of the network
    root: jax.Array  # of the spanning tree
    shards: Shards
    chain_keys: Key  # (chains,)


class LoopNeighbors(Neighbors, Protocol):
    """A link to the other agents whose collectives the loop can count."""

    exchanges: list[Exchange]


def mean_of_lanes(x: jax.Array) -> jax.Array:
    """Return the mean over agents, along the axis before the last, where all of them are in this process."""
    return x.mean(axis=-2, keepdims=True)


class Model(NamedTuple):
    """The posterior that is sampled and what is kept of its draws, as one lane sees them."""

    posterior: Posterior
    layout: Layout
    link: Callable[[Inputs], LoopNeighbors]  # makes a lane's link to the other agents
    one_copy: bool  # whether all agents share one copy of the state
    view: View  # of a draw: what is kept
    averaged: View | None  # of a draw: what running moments are taken of
    watched: View | None  # of the running mean: what is recorded with every draw
    mean: Callable[[jax.Array], jax.Array] = mean_of_lanes  # over all agents, along the axis before the last
    own: OwnVariables | None = None  # variables that stay with their owner, after the shared ones in every vector

    def logdensity(self, shard: Shards, size: int) -> LocalLogDensity:
        """Return one agent's log density ℓ_i, as a function of the vector of parameters."""
        return LocalLogDensity(self.posterior, self.layout, shard, size, self.one_copy, self.own)

    def kernel(self, inputs: Inputs, shard: Shards) -> tuple[Kernel, LoopNeighbors]:
        """Return one lane's kernel, and its link to the other agents."""
        neighbors = self.link(inputs)
        own = 0 if self.own is None else self.own.dimension
        like = jnp.zeros(self.layout.dimension + own, self.layout.dtype)
        return inputs.sampler.build(self.logdensity(shard, neighbors.size), neighbors, like), neighbors


def _over_agents(function: Any, in_axes: Any, out_axes: Any = 0) -> Any:
    return jax.vmap(function, in_axes=in_axes, out_axes=out_axes, axis_name=AGENTS)


def _over_chains(function: Any, in_axes: Any, out_axes: Any = 0) -> Any:
    return jax.vmap(function, in_axes=in_axes, out_axes=out_axes)


def all_but_common(state: Any, value: Any, of_common: Any = None) -> Any:
    """Return a state with `value` in all fields but those that all chains and agents have in common.

    Its clock, `iteration`, is one; a state's class names others in `common_fields`.
    """
    common = ("iteration", *getattr(type(state), "common_fields", tuple)())
    return type(state)(**{name: of_common if name in common else value for name in state._fields})


def _chain_axes(state: Any) -> Any:
    """Return the axes of chains in a state for `vmap`: None for fields that do not differ between chains."""
    return all_but_common(state, 0)


def _agent_axes(model: Model, state: Any) -> Any:
    """Return the axes of agents in a state for `vmap`: None for a replicated chain of which there is one copy."""
    return None if model.one_copy else _chain_axes(state)


def start_all(
    model: Model,
    inputs: Inputs,
    positions: jax.Array,
    observe: Callable[[list[Exchange]], None] = lambda _: None,
) -> Any:
    """Return the first states of all chains and agents."""

    def lane(shard: Shards, position: jax.Array) -> Any:
        kernel, neighbors = model.kernel(inputs, shard)
        state = kernel.init(position)
        observe(neighbors.exchanges)
        return state

    lanes = inputs.shards.lane_axes
    one = jax.eval_shape(_over_agents(lane, (lanes, None)), inputs.shards, positions[0])
    of_chain = _over_agents(lane, (lanes, None), _agent_axes(model, one))
    return _over_chains(of_chain, (None, 0), _chain_axes(one))(inputs.shards, positions)


def start_values_all(model: Model, inputs: Inputs, positions: jax.Array) -> StartValues:
    """Compute, for all chains and agents, the values that must be finite at `positions` to start there."""

    def values(shard: Shards, position: jax.Array) -> StartValues:
        return model.logdensity(shard, model.link(inputs).size).start_values(position)

    of_agents = _over_agents(values, (inputs.shards.lane_axes, None))
    return lax.map(lambda position: of_agents(inputs.shards, position), positions)


def noise_of(model: Model, inputs: Inputs, first: jax.Array, count: int) -> Any:
    """Draw the noise of `count` iterations from `first` on: leaves (iterations, chains, agents, ...).

    Noise that all agents have in common has no axis of agents.
    """
    # Iterations and chains go along one axis: to compile loops over several short axes takes seconds.
    chains = inputs.chain_keys.shape[0]
    iterations = jnp.repeat(first + jnp.arange(count), chains)
    keys = jax.vmap(jax.random.fold_in)(jnp.tile(inputs.chain_keys, count), iterations)

    def lane(shard: Shards) -> Any:
        return jax.vmap(model.kernel(inputs, shard)[0].noise)(keys)

    noise = _over_agents(lane, (inputs.shards.lane_axes,), _noise_axis(inputs.sampler, 1))(inputs.shards)
    return jax.tree.map(lambda leaf: leaf.reshape(count, chains, *leaf.shape[1:]), noise)


def _noise_axis(sampler: Sampler, of_agents: int) -> int | None:
    """Return which axis of the noise is that of agents: none where all draw the same."""
    return None if sampler.common_noise else of_agents


def trace_noise(model: Model, inputs: Inputs) -> tuple[Any, Any]:
    """Trace the noise of one iteration: return its code, and its shapes and dtypes."""

    def of_one(inputs: Inputs) -> Any:
        return jax.tree.map(lambda leaf: leaf[0], noise_of(model, inputs, jnp.int32(0), 1))

    return jax.make_jaxpr(of_one, return_shape=True)(inputs)


def move_all(
    model: Model, inputs: Inputs, noise: Any, state: Any, observe: Callable[[list[Exchange]], None] = lambda _: None
) -> tuple[Any, Any, jax.Array]:
    """Run one iteration of all chains and agents; return the new state, info, and `_counts` of its collectives.

    While it is traced, `observe` is called with the collectives.
    """
    common: list[bool] = []

    def lane(shard: Shards, noise: Any, state: Any) -> Any:
        kernel, neighbors = model.kernel(inputs, shard)
        state, info = kernel.move(noise, state)
        observe(neighbors.exchanges)
        common[:] = [exchange.is_common for exchange in neighbors.exchanges]
        # The agents' counts are equal, but where each has a chain of its own, jax does not know it.
        times = [lax.pmax(jnp.asarray(exchange.times, jnp.int32), AGENTS) for exchange in neighbors.exchanges]
        return state, info, times

    agent_axes, chain_axes = _agent_axes(model, state), _chain_axes(state)
    in_axes = (inputs.shards.lane_axes, _noise_axis(inputs.sampler, 0), agent_axes)
    of_chain = _over_agents(lane, in_axes, (agent_axes, None if model.one_copy else 0, None))
    state, info, times = _over_chains(of_chain, (None, 0, chain_axes), (chain_axes, 0, 0))(inputs.shards, noise, state)
    return state, info, _counts(times, common)


def _counts(times: list[jax.Array], common: list[bool]) -> jax.Array:
    """Count, as (2, exchanges), how often each collective ran for the chains together, and added up over them.

    Chains go through their stages side by side: a stage takes as long as its longest chain, and a message carries those
    chains that still have something to say. What is `common` to all chains is said once.
    """
    together = [each.max(axis=0).sum() for each in times]
    by_chains = [of_all if alike else each.sum() for each, of_all, alike in zip(times, together, common, strict=True)]
    return jnp.array([together, by_chains], jnp.int32).reshape(2, len(times))


class Kept(NamedTuple):
    """A buffer of draws, and of what was measured while they were drawn."""

    positions: jax.Array
    stats: Any
    counts: jax.Array
    disagreement: jax.Array | None
    watched: jax.Array | None
    own: jax.Array | None = None


class Replayed:
    """A function that is traced once, and can then be applied as often as it is needed.

    To trace NUTS takes as long as many of its iterations, and a fingerprint, the forms of buffers and compiled code are
    all made from the trace.

    Args:
      function: a function of any pytrees.
      like: arguments to trace it with, or their forms; it can be applied to others of the same structure.

    Attributes:
      code: the closed jaxpr.
      form: the shapes and dtypes of what it returns.
    """

    def __init__(self, function: Callable[..., Any], *like: Any) -> None:
        self.code, self.form = jax.make_jaxpr(function, return_shape=True)(*like)
        self._structure: Any = jax.tree.structure(like)
        self.__name__ = getattr(function, "func", function).__name__  # for profiles

    def __call__(self, *arguments: Any) -> Any:
        leaves, structure = jax.tree.flatten(arguments)
        assert structure == self._structure, f"traced with {self._structure}, applied to {structure}"
        return jax.tree.unflatten(jax.tree.structure(self.form), apply_jaxpr(self.code, leaves))


def advance_all(
    buffer: int,
    block_length: int,
    model: Model,
    move: Replayed | None,
    inputs: Inputs,
    state: Any,
    moments: Accumulated | None,
    draws: jax.Array,
    thin: jax.Array,
    seen: jax.Array,
) -> tuple[Any, Accumulated | None, Kept]:
    """Run `draws` × `thin` iterations; moments and what is kept are computed from the first `seen` draws.

    Args:
      buffer: number of draws that there is room for.
      block_length: number of iterations whose noise is drawn at once.
      move: `move_all`, traced with such arguments; None: it is traced here.
    """
    first = state.iteration
    iterations = draws * thin
    move = move or Replayed(partial(move_all, model), inputs, trace_noise(model, inputs)[1], state)

    def iterate(step: jax.Array, carry: Any, noise: Any, block_start: jax.Array) -> Any:
        state, kept = carry
        now = jax.tree.map(lambda leaf: leaf[step - block_start], noise)
        state, info, counts = move(inputs, now, state)
        kept = _keep(kept, step // thin, thin, state.position, info, counts)
        return state, kept

    def iterate_block(block: jax.Array, carry: Any) -> Any:
        start = block * block_length
        noise = noise_of(model, inputs, first + start, block_length)
        end = jnp.minimum(start + block_length, iterations)
        return lax.fori_loop(start, end, lambda step, carry: iterate(step, carry, noise, start), carry)

    blocks = (iterations + block_length - 1) // block_length
    state, (positions, stats, counts) = lax.fori_loop(0, blocks, iterate_block, (state, _empty(buffer, *move.form)))
    own = None
    if model.own is not None:  # all that is seen is a function of what agents share
        positions, own = positions[..., : model.layout.dimension], positions[..., model.layout.dimension :]
    seen_of, moments = see(model, positions, moments, seen)
    return state, moments, Kept(seen_of.kept, stats, counts, seen_of.disagreement, seen_of.watched, own)


class Seen(NamedTuple):
    """Values computed from a buffer of draws."""

    kept: jax.Array  # what is kept of them
    disagreement: jax.Array | None  # how far each agent is from the mean of all: root mean square over parameters
    watched: jax.Array | None  # what is watched of the running mean, up to and with each of them


def see(
    model: Model, positions: jax.Array, moments: Accumulated | None, count: jax.Array
) -> tuple[Seen, Accumulated | None]:
    """Compute what is kept and watched of the first `count` draws in a buffer, and the moments with them.

    The buffer is (draw, chain, [agent,] dimension). Draws are taken one after the other, so that the moments are the
    same however a run is cut into chunks.
    """
    lanes = positions.ndim - 2
    disagreement = None
    if lanes == 2:
        apart = positions - model.mean(positions)
        disagreement = jnp.sqrt(jnp.square(apart).mean(axis=-1))
    if model.view.function is None and model.averaged is None:
        return Seen(positions, disagreement, None), moments

    def of_lanes(view: View, vectors: jax.Array) -> jax.Array:
        function: Callable[[jax.Array], jax.Array] = view
        for _ in range(lanes):
            function = jax.vmap(function)
        return function(vectors)

    def look(draw: jax.Array, carry: Any) -> Any:
        kept, watched, moments = carry
        if model.view.function is not None:
            kept = kept.at[draw].set(of_lanes(model.view, positions[draw]))
        if model.averaged is not None:
            moments = accumulate(moments, of_lanes(model.averaged, positions[draw]))
        if model.watched is not None:
            watched = watched.at[draw].set(of_lanes(model.watched, moments.mean))
        return kept, watched, moments

    def room_for(view: View | None) -> jax.Array | None:
        return None if view is None else jnp.zeros((*positions.shape[:-1], view.layout.dimension), view.layout.dtype)

    kept = positions if model.view.function is None else room_for(model.view)
    kept, watched, moments = lax.fori_loop(0, count, look, (kept, room_for(model.watched), moments))
    return Seen(kept, disagreement, watched), moments


def buffer_of(draws: int, position: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((draws, *position.shape), position.dtype)


def _empty(draws: int, state: Any, info: Any, counts: Any) -> Any:
    """Return an empty buffer for positions, stats and counts of so many draws, given the forms of one."""
    # Flags and counts become means over iterations; an energy keeps the digits it was computed with.
    stats = jax.tree.map(lambda leaf: jnp.zeros((draws, *leaf.shape), jnp.promote_types(leaf.dtype, jnp.float32)), info)
    return (
        jnp.zeros(buffer_of(draws, state.position).shape, state.position.dtype),
        stats,
        jnp.zeros((draws, *counts.shape), counts.dtype),
    )


def _keep(kept: Any, draw: jax.Array, thin: jax.Array, position: jax.Array, info: Any, counts: jax.Array) -> Any:
    """Write an iteration to its draw's place: the last position stays, info is averaged, counts are added up."""
    positions, stats, counted = kept
    return (
        positions.at[draw].set(position),
        jax.tree.map(
            lambda total, value: total.at[draw].add(value.astype(total.dtype) / thin.astype(total.dtype)), stats, info
        ),
        counted.at[draw].add(counts),
    )
