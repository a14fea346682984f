"""`simulate`: all agents on one device, as lanes of one jitted loop.

The loop runs over iterations; inside it, chains and agents are two nested `vmap`s around the sampler's `move`. Noise is
drawn for a block of iterations at a time. Kept draws go into a buffer of fixed size, which leaves the device when it is
full or half a second has passed: the numbers of iterations are arguments of the compiled function, so no length of run
compiles anything anew, and no length of chunk changes a draw.

What is kept of a draw may be a function of the parameters, and its running moments may be all that is wanted: both are
worked out on the device, over the buffer, so that nothing else leaves it.

A replicated chain is the same on all agents. It is moved and stored once: inside the agents' `vmap` only the local log
densities have an axis of agents, their sum has none, and all that follows from it is done once, not m times.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._types import Key, LogDensity
from ..consensus import EdgeLists, edge_lists, no_edges
from ..network import Network
from ..posterior import Layout, LocalLogDensity, Posterior, Shard, StartValues, check_start, start_values
from ..posterior.view import View
from ..samplers import Kernel, Sampler
from .fingerprint import fingerprint
from .lanes import AGENTS, Exchange, LaneNeighbors
from .moments import MOMENTS, Accumulated, accumulate, nothing_accumulated, read_moments
from .snapshot import from_arrays, to_arrays
from .traffic import Traffic, price

BUFFER_BYTES = 32 << 20  # of kept draws on the device
BUFFER_DRAWS = 1024
NOISE_BYTES = 16 << 20  # drawn ahead
NOISE_ITERATIONS = 100
CHUNK_SECONDS = 0.5  # between two reports of progress
FIRST_ITERATIONS = 8
COMPILED_PROGRAMS = 32
COMPILED_FOR = ("jax_default_matmul_precision", "jax_default_device")


class Chunk(NamedTuple):
    """What left the device: consecutive draws and what was measured while they were drawn."""

    positions: np.ndarray  # (draws, chains, copies, numbers) kept: a copy for every agent, or one for all
    stats: dict[str, np.ndarray]  # info fields, (draws, chains, copies), averaged over the iterations behind a draw
    iterations: int
    traffic: Traffic


class Inputs(NamedTuple):
    """What the compiled code is applied to."""

    sampler: Sampler
    lists: EdgeLists
    root: jax.Array  # of the spanning tree
    shards: Shard
    chain_keys: Key  # (chains,)


class Model(NamedTuple):
    """What is sampled, as one lane sees it."""

    posterior: Posterior
    layout: Layout
    one_copy: bool  # of the state, for all agents
    view: View  # of a draw: what is kept
    averaged: View | None  # of a draw: what running moments are taken of

    def logdensity(self, shard: Shard, size: int) -> LogDensity:
        """ℓ_i of the vector of parameters."""
        return LocalLogDensity(self.posterior, self.layout, shard, size)

    def kernel(self, inputs: Inputs, shard: Shard) -> tuple[Kernel, LaneNeighbors]:
        """One lane's kernel, and the link through which it talks."""
        neighbors = LaneNeighbors(inputs.lists, inputs.root, self.one_copy)
        like = jnp.zeros(self.layout.dimension, self.layout.dtype)
        return inputs.sampler.build(self.logdensity(shard, neighbors.size), neighbors, like), neighbors


@dataclass(frozen=True)
class Program:
    """What the compiled code depends on: equal programs share it."""

    structure: Any  # of the inputs, with the sampler's choices
    fingerprint: str  # of a start and an iteration
    settings: tuple[Any, ...]  # of jax, that change what is compiled and not what is traced
    buffer: int  # draws
    block: int  # iterations whose noise is drawn at once


class Simulation:
    """A run on one device: its state after the iterations done so far, and the means to go on.

    Args:
      positions: (chains, dimension), where the chains start, on all agents alike. Refused if not finite there.
      key: of the whole run. Chain c uses fold_in(key, c), its iteration t fold_in of that with t.
      one_copy: of a replicated chain for all agents. Without it every agent moves a copy of its own, as it would on a
        machine of its own, and the protocol that keeps the copies alike is put to work.
      view: what is kept of a draw; None: the parameters.
      averaged: what `moments` are taken of, draw by draw; None: of nothing.
    """

    def __init__(
        self,
        posterior: Posterior,
        layout: Layout,
        shards: Shard,
        network: Network,
        sampler: Sampler,
        positions: jax.Array,
        key: Key,
        one_copy: bool = True,
        view: View | None = None,
        averaged: View | None = None,
    ) -> None:
        self.network = network
        self.copies = 1 if sampler.replicated and one_copy else network.size
        self.chains = len(positions)
        chain_keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, jnp.arange(self.chains))
        root = jnp.int32(network.tree.root if sampler.replicated else 0)
        # A replicated chain asks for sums only: without edges in it, its code serves all networks of a size.
        lists = no_edges(network.size) if sampler.replicated else edge_lists(network)
        self.inputs = Inputs(sampler, lists, root, shards, chain_keys)
        positions = jnp.asarray(positions, layout.dtype)

        self._exchanges: list[Exchange] = []
        self.start_traffic = Traffic()
        view = view or View.of(layout)
        self.model = model = Model(posterior, layout, sampler.replicated and one_copy, view, averaged)
        start, (state, _) = jax.make_jaxpr(partial(_start, model, observe=self._charge_start), return_shape=True)(
            self.inputs, positions
        )
        noise = _noise_shape(model, self.inputs)
        move = jax.make_jaxpr(partial(_move, model, observe=self._read_off))(self.inputs, noise, state)
        lanes = state.position.shape[:-1]  # chains, and agents where each has a copy
        moments = None if averaged is None else nothing_accumulated(lanes, averaged.layout)
        seen = jax.make_jaxpr(partial(_seen, model))(_buffer(1, state.position), moments, jnp.int32(1))
        draw_bytes = max(math.prod(state.position.shape) * layout.dtype.itemsize, view.bytes * math.prod(lanes))
        noise_bytes = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(noise))
        found = fingerprint(start, move, seen)
        self.code = found.code  # of model, sampler and what is kept
        self.program = Program(
            jax.tree.structure(self.inputs),
            found.unmistakable,
            tuple(str(getattr(jax.config, name)) for name in COMPILED_FOR),
            buffer=max(1, min(BUFFER_DRAWS, BUFFER_BYTES // draw_bytes)),
            block=max(1, min(NOISE_ITERATIONS, NOISE_BYTES // max(1, noise_bytes))),
        )
        self._compiled = _compiled(self.program, model, self.inputs, positions, state, moments)
        self.state, values = self._compiled.start(self.inputs, positions)
        self.moments: Accumulated | None = moments
        check_start(*map(np.asarray, values))
        self._seconds_per_iteration: float | None = None

    def _charge_start(self, exchanges: list[Exchange]) -> None:
        """Count what the agents sent before their first iteration."""
        times = np.array([[exchange.times for exchange in exchanges]] * 2, dtype=int)
        self._exchanges = exchanges
        self.start_traffic = self._traffic(times * [[1], [self.chains]])

    def _read_off(self, exchanges: list[Exchange]) -> None:
        """Keep which collectives an iteration has."""
        self._exchanges = [exchange._replace(times=0) for exchange in exchanges]

    def snapshot(self) -> dict[str, np.ndarray]:
        """All that going on from here needs."""
        moments = {} if self.moments is None else self.moments._asdict()
        return {**to_arrays(self.state), **{f"{MOMENTS}{name}": np.array(value) for name, value in moments.items()}}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Go on from a snapshot of the same run."""
        self.state = from_arrays(self.state, snapshot)
        if self.moments is not None:
            self.moments = jax.tree.map(jnp.asarray, read_moments(snapshot))

    def advance(self, draws: int, thin: int, seen: bool = True) -> Chunk:
        """`draws` × `thin` iterations, of which every `thin`-th is kept; at most the buffer's number of draws.

        Args:
          seen: whether these draws count for the moments, and what is kept of them is worked out.
        """
        if draws > self.program.buffer:
            raise ValueError(f"{draws} draws at once do not fit into the buffer of {self.program.buffer}.")
        began = time.perf_counter()
        self.state, self.moments, kept = self._compiled.advance(
            self.inputs, self.state, self.moments, jnp.int32(draws), jnp.int32(thin), jnp.int32(draws * seen)
        )
        # Cut on the host, where no length has to be compiled; copied, so that no buffer outlives its chunk.
        chains = (draws, self.chains, self.copies)
        stats = kept.stats._asdict()
        if self.copies > 1:
            stats["disagreement"] = kept.disagreement
        chunk = Chunk(
            np.asarray(kept.positions)[:draws].reshape(*chains, kept.positions.shape[-1]).copy(),
            {name: np.asarray(values)[:draws].reshape(chains).copy() for name, values in stats.items()},
            draws * thin,
            self._traffic(np.asarray(kept.counts, dtype=np.int64).sum(axis=0)),
        )
        self._seconds_per_iteration = (time.perf_counter() - began) / chunk.iterations
        return chunk

    def _traffic(self, counts: np.ndarray) -> Traffic:
        """Of so many `Counts` of each of an iteration's collectives."""
        traffic = Traffic()
        for exchange, together, by_chains in zip(self._exchanges, *counts.tolist(), strict=True):
            rounds, messages = price(self.network, exchange.kind)
            traffic += Traffic(together * rounds, together * messages, by_chains * messages * exchange.message_bytes)
        return traffic

    def warm_up(self, iterations: int) -> Iterator[Chunk]:
        """Iterations whose draws are not kept: one draw a chunk, the last of many."""
        while iterations > 0:
            count = min(iterations, self._iterations_at_once())
            yield self.advance(1, count, seen=False)
            iterations -= count

    def draws(self, count: int, thin: int = 1) -> Iterator[Chunk]:
        """`count` draws, `thin` iterations each."""
        while count > 0:
            number = min(count, self.program.buffer, max(1, self._iterations_at_once() // thin))
            yield self.advance(number, thin)
            count -= number

    def _iterations_at_once(self) -> int:
        """About CHUNK_SECONDS of them, by the pace of the last chunk; the first, with the compilation, is short."""
        if self._seconds_per_iteration is None:
            return FIRST_ITERATIONS
        return max(1, int(CHUNK_SECONDS / self._seconds_per_iteration))


# --- compiled ------------------------------------------------------------------------------------------


class Compiled(NamedTuple):
    start: Any
    advance: Any


_cache: OrderedDict[Program, Compiled] = OrderedDict()


def _compiled(
    program: Program, model: Model, inputs: Inputs, positions: jax.Array, state: Any, moments: Any
) -> Compiled:
    """The executables of a program; the least recently used go when there are many.

    Compiled at once and for good: traced later, the model's own code might have come to mean something else.
    """
    if program not in _cache:
        count = jnp.int32(1)
        advance = jax.jit(partial(_advance, program, model), donate_argnames=("state", "moments"))
        _cache[program] = Compiled(
            jax.jit(partial(_start, model)).lower(inputs, positions).compile(),
            advance.lower(inputs, state, moments, count, count, count).compile(),
        )
    _cache.move_to_end(program)
    while len(_cache) > COMPILED_PROGRAMS:
        _cache.popitem(last=False)
    return _cache[program]


def _over_agents(function: Any, in_axes: Any, out_axes: Any = 0) -> Any:
    return jax.vmap(function, in_axes=in_axes, out_axes=out_axes, axis_name=AGENTS)


def _over_chains(function: Any, in_axes: Any, out_axes: Any = 0) -> Any:
    return jax.vmap(function, in_axes=in_axes, out_axes=out_axes)


def _chain_axes(state: Any) -> Any:
    """Which fields of a state differ between chains: all but the clock, which stays one number for all."""
    return type(state)(**{name: None if name == "iteration" else 0 for name in state._fields})


def _agent_axes(model: Model, state: Any) -> Any:
    """Which fields of a state differ between agents: none of a replicated chain's."""
    return None if model.one_copy else _chain_axes(state)


def _start(
    model: Model,
    inputs: Inputs,
    positions: jax.Array,
    observe: Callable[[list[Exchange]], None] = lambda _: None,
) -> tuple[Any, StartValues]:
    """All lanes' first states, and what decides whether they can be started from."""

    def lane(shard: Shard, position: jax.Array) -> Any:
        kernel, neighbors = model.kernel(inputs, shard)
        state = kernel.init(position)
        observe(neighbors.exchanges)
        return state

    def values(shard: Shard, position: jax.Array) -> StartValues:
        return start_values(model.posterior, model.layout.unravel(position), shard, len(inputs.lists.row))

    one = jax.eval_shape(_over_agents(lane, (0, None)), inputs.shards, positions[0])
    of_chain = _over_agents(lane, (0, None), _agent_axes(model, one))
    state = _over_chains(of_chain, (None, 0), _chain_axes(one))(inputs.shards, positions)
    return state, lax.map(lambda position: _over_agents(values, (0, None))(inputs.shards, position), positions)


def _noise(model: Model, inputs: Inputs, first: jax.Array, count: int) -> Any:
    """The noise of `count` iterations from `first` on: leaves (iterations, chains, agents, ...).

    What is drawn in common by all agents has no axis of agents.
    """
    of_agents = _noise_axis(inputs.sampler)

    def lane(key: Key, shard: Shard) -> Any:
        return model.kernel(inputs, shard)[0].noise(key)

    def of_chain(key: Key, iteration: jax.Array) -> Any:
        return _over_agents(lane, (None, 0), of_agents)(jax.random.fold_in(key, iteration), inputs.shards)

    iterations = first + jnp.arange(count)
    return jax.vmap(_over_chains(of_chain, (0, None)), in_axes=(None, 0))(inputs.chain_keys, iterations)


def _noise_axis(sampler: Sampler) -> int | None:
    return None if sampler.common_noise else 0


def _noise_shape(model: Model, inputs: Inputs) -> Any:
    """Of one iteration."""
    return jax.eval_shape(lambda i: jax.tree.map(lambda leaf: leaf[0], _noise(model, i, jnp.int32(0), 1)), inputs)


def _move(
    model: Model, inputs: Inputs, noise: Any, state: Any, observe: Callable[[list[Exchange]], None] = lambda _: None
) -> tuple[Any, Any, jax.Array]:
    """One iteration of all chains and agents: new state, info, and `counts` of each collective in it.

    While it is traced, `observe` is shown the collectives.
    """

    def lane(shard: Shard, noise: Any, state: Any) -> Any:
        kernel, neighbors = model.kernel(inputs, shard)
        state, info = kernel.move(noise, state)
        observe(neighbors.exchanges)
        # The agents' counts are the same; where each has a chain of its own, only the program does not know it.
        times = [lax.pmax(jnp.asarray(exchange.times, jnp.int32), AGENTS) for exchange in neighbors.exchanges]
        return state, info, times

    agent_axes, chain_axes = _agent_axes(model, state), _chain_axes(state)
    of_chain = _over_agents(
        lane, (0, _noise_axis(inputs.sampler), agent_axes), (agent_axes, None if model.one_copy else 0, None)
    )
    state, info, times = _over_chains(of_chain, (None, 0, chain_axes), (chain_axes, 0, 0))(inputs.shards, noise, state)
    return state, info, _counts(times)


def _counts(times: list[jax.Array]) -> jax.Array:
    """(2, exchanges): how often each happened for the chains together, and added up over them.

    Chains go through their stages side by side: a stage takes as long as its longest chain, and a message carries those
    chains that still have something to say.
    """
    together = [each.max(axis=0).sum() for each in times]
    by_chains = [each.sum() for each in times]
    return jnp.array([together, by_chains], jnp.int32).reshape(2, len(times))


class Kept(NamedTuple):
    """A buffer of draws."""

    positions: jax.Array
    stats: Any
    counts: jax.Array
    disagreement: jax.Array | None


def _advance(
    program: Program,
    model: Model,
    inputs: Inputs,
    state: Any,
    moments: Accumulated | None,
    draws: jax.Array,
    thin: jax.Array,
    seen: jax.Array,
) -> tuple[Any, Accumulated | None, Kept]:
    """`draws` × `thin` iterations; the first `seen` of the draws are looked at."""
    first = state.iteration
    iterations = draws * thin

    def iterate(step: jax.Array, carry: Any, noise: Any, block_start: jax.Array) -> Any:
        state, kept = carry
        now = jax.tree.map(lambda leaf: leaf[step - block_start], noise)
        state, info, counts = _move(model, inputs, now, state)
        kept = _keep(kept, step // thin, thin, state.position, info, counts)
        return state, kept

    def iterate_block(block: jax.Array, carry: Any) -> Any:
        start = block * program.block
        noise = _noise(model, inputs, first + start, program.block)
        end = jnp.minimum(start + program.block, iterations)
        return lax.fori_loop(start, end, lambda step, carry: iterate(step, carry, noise, start), carry)

    blocks = (iterations + program.block - 1) // program.block
    state, (positions, stats, counts) = lax.fori_loop(
        0, blocks, iterate_block, (state, _empty(program.buffer, model, inputs, state))
    )
    kept, disagreement, moments = _seen(model, positions, moments, seen)
    return state, moments, Kept(kept, stats, counts, disagreement)


def _seen(
    model: Model, positions: jax.Array, moments: Accumulated | None, count: jax.Array
) -> tuple[jax.Array, jax.Array | None, Accumulated | None]:
    """Of a buffer of draws (draw, chain, [agent,] dimension), the first `count` of which are looked at: what is kept of
    them, how far each agent is from the mean of all (root mean square over parameters), and the moments.

    One draw after the other, so that the moments are the same however a run is cut into chunks.
    """
    lanes = positions.ndim - 2
    disagreement = None
    if lanes == 2:
        apart = positions - positions.mean(axis=-2, keepdims=True)
        disagreement = jnp.sqrt(jnp.square(apart).mean(axis=-1))
    if model.view.function is None and model.averaged is None:
        return positions, disagreement, moments

    def of_lanes(view: View, draw: jax.Array) -> jax.Array:
        function: Callable[[jax.Array], jax.Array] = view
        for _ in range(lanes):
            function = jax.vmap(function)
        return function(positions[draw])

    def look(draw: jax.Array, carry: Any) -> Any:
        kept, moments = carry
        if model.view.function is not None:
            kept = kept.at[draw].set(of_lanes(model.view, draw))
        if model.averaged is not None:
            moments = accumulate(moments, of_lanes(model.averaged, draw))
        return kept, moments

    kept = positions
    if model.view.function is not None:
        layout = model.view.layout
        kept = jnp.zeros((*positions.shape[:-1], layout.dimension), layout.dtype)
    kept, moments = lax.fori_loop(0, count, look, (kept, moments))
    return kept, disagreement, moments


def _buffer(draws: int, position: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((draws, *position.shape), position.dtype)


def _empty(draws: int, model: Model, inputs: Inputs, state: Any) -> Any:
    """The buffer: positions, stats and counts of so many draws."""
    noise = _noise_shape(model, inputs)
    _, info, counts = jax.eval_shape(partial(_move, model), inputs, noise, state)
    stats = jax.tree.map(lambda leaf: jnp.zeros((draws, *leaf.shape), jnp.float32), info)
    return (
        jnp.zeros(_buffer(draws, state.position).shape, state.position.dtype),
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
