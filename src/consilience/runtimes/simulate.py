"""`simulate`: all agents on one device, as lanes of one jitted loop.

The loop runs over iterations; inside it, chains and agents are two nested `vmap`s around the sampler's `move`. Noise is
drawn for a block of iterations at a time. Kept draws go into a buffer of fixed size, which leaves the device when it is
full or half a second has passed: the numbers of iterations are arguments of the compiled function, so no length of run
compiles anything anew, and no length of chunk changes a draw.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._types import Key
from ..consensus import EdgeLists, edge_lists
from ..network import Network
from ..posterior import Layout, Posterior, Shard
from ..samplers import Kernel, Sampler
from .lanes import AGENTS, Exchanges, LaneNeighbors
from .traffic import Traffic

BUFFER_BYTES = 32 << 20  # of kept draws on the device
BUFFER_DRAWS = 1024
NOISE_BYTES = 16 << 20  # drawn ahead
NOISE_ITERATIONS = 100
CHUNK_SECONDS = 0.5  # between two reports of progress


class Chunk(NamedTuple):
    """What left the device: consecutive draws and what was measured while they were drawn."""

    positions: np.ndarray  # (draws, chains, agents, dimension)
    stats: dict[str, np.ndarray]  # info fields, (draws, chains, agents), averaged over the iterations behind a draw
    iterations: int
    traffic: Traffic


@dataclass(frozen=True)
class Program:
    """What the compiled code depends on, and nothing else: equal programs share it."""

    posterior: Posterior
    layout: Layout
    buffer: int  # draws
    block: int  # iterations whose noise is drawn at once

    def kernel(self, inputs: Inputs, shard: Shard) -> tuple[Kernel, LaneNeighbors]:
        """One lane's kernel, and the link through which it talks."""
        neighbors = LaneNeighbors(inputs.lists)

        def logdensity(w: jax.Array) -> jax.Array:
            return self.posterior.local_logdensity(self.layout.unravel(w), shard, neighbors.size)

        like = jnp.zeros(self.layout.dimension, self.layout.dtype)
        return inputs.sampler.build(logdensity, neighbors, like), neighbors


class Inputs(NamedTuple):
    """What the compiled code is applied to."""

    sampler: Sampler
    lists: EdgeLists
    shards: Shard
    chain_keys: Key  # (chains,)


class Simulation:
    """A run on one device: its state after the iterations done so far, and the means to go on.

    Args:
      positions: (chains, dimension), where the chains start, on all agents alike.
      key: of the whole run. Chain c uses fold_in(key, c), its iteration t fold_in of that with t.
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
    ) -> None:
        self.network = network
        self.chains = len(positions)
        chain_keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, jnp.arange(self.chains))
        self.inputs = Inputs(sampler, edge_lists(network), shards, chain_keys)
        draw_bytes = self.chains * network.size * layout.dimension * layout.dtype.itemsize
        self.program = Program(
            posterior,
            layout,
            buffer=max(1, min(BUFFER_DRAWS, BUFFER_BYTES // draw_bytes)),
            block=max(1, min(NOISE_ITERATIONS, NOISE_BYTES // draw_bytes)),
        )
        self.state = _start(self.program, self.inputs, jnp.asarray(positions, layout.dtype))

    @cached_property
    def _message_bytes(self) -> list[int]:
        """Bytes of one agent's message in each collective of an iteration, read off a trace of it."""
        seen: list[int] = []

        def read_off(exchanges: Exchanges) -> None:
            seen[:] = [message for _, message in exchanges]

        noise = _noise_shape(self.program, self.inputs)
        jax.eval_shape(partial(_move, self.program, observe=read_off), self.inputs, noise, self.state)
        return seen

    def advance(self, draws: int, thin: int) -> Chunk:
        """`draws` × `thin` iterations, of which every `thin`-th is kept; at most the buffer's number of draws."""
        self.state, positions, stats, rounds = _advance(
            self.program, self.inputs, self.state, jnp.int32(draws), jnp.int32(thin)
        )
        # Cut on the host: on the device every length would be compiled.
        return Chunk(
            np.asarray(positions)[:draws],
            {name: np.asarray(values)[:draws] for name, values in stats._asdict().items()},
            draws * thin,
            self._traffic(np.asarray(rounds, dtype=np.int64).sum(axis=0)),
        )

    def _traffic(self, rounds: np.ndarray) -> Traffic:
        """Of so many rounds of each of an iteration's collectives."""
        total = int(rounds.sum())
        per_link = self.chains * int(rounds @ np.array(self._message_bytes, dtype=np.int64))
        links = self.network.messages_per_round
        return Traffic(total, total * links, per_link * links)

    def warm_up(self, iterations: int) -> Iterator[Chunk]:
        """Iterations whose draws are not kept: one draw a chunk, the last of many."""
        yield from self._paced(iterations, lambda count: self.advance(1, count), most=iterations)

    def draws(self, count: int, thin: int = 1) -> Iterator[Chunk]:
        """`count` draws, `thin` iterations each."""
        yield from self._paced(count, lambda number: self.advance(number, thin), most=self.program.buffer)

    def _paced(self, remaining: int, advance: Any, most: int) -> Iterator[Chunk]:
        """Chunks of about CHUNK_SECONDS; the first one, with the compilation in it, is short."""
        size = min(most, 16)
        while remaining:
            size = min(size, remaining, most)
            began = time.perf_counter()
            yield advance(size)
            remaining -= size
            seconds = time.perf_counter() - began
            size = max(1, int(size * min(4.0, CHUNK_SECONDS / max(seconds, 1e-6))))


# --- compiled ------------------------------------------------------------------------------------------


def _over_agents(function: Any, in_axes: Any, out_axes: Any = 0) -> Any:
    return jax.vmap(function, in_axes=in_axes, out_axes=out_axes, axis_name=AGENTS)


def _state_axes(state: Any) -> Any:
    """Which fields of a state differ between lanes: all but the clock, which stays one number for all."""
    return type(state)(**{name: None if name == "iteration" else 0 for name in state._fields})


@jax.jit(static_argnums=0)
def _start(program: Program, inputs: Inputs, positions: jax.Array) -> Any:
    def lane(shard: Shard, position: jax.Array) -> Any:
        return program.kernel(inputs, shard)[0].init(position)

    axes = _state_axes(jax.eval_shape(_over_agents(lane, (0, None)), inputs.shards, positions[0]))
    of_chain = _over_agents(lane, (0, None), axes)
    return jax.vmap(of_chain, in_axes=(None, 0), out_axes=axes)(inputs.shards, positions)


def _noise(program: Program, inputs: Inputs, first: jax.Array) -> Any:
    """The noise of `program.block` iterations from `first` on: leaves (iterations, chains, agents, ...)."""

    def lane(key: Key, shard: Shard) -> Any:
        return program.kernel(inputs, shard)[0].noise(key)

    def of_chain(key: Key, iteration: jax.Array) -> Any:
        return _over_agents(lane, (None, 0))(jax.random.fold_in(key, iteration), inputs.shards)

    iterations = first + jnp.arange(program.block)
    return jax.vmap(jax.vmap(of_chain, in_axes=(0, None)), in_axes=(None, 0))(inputs.chain_keys, iterations)


def _noise_shape(program: Program, inputs: Inputs) -> Any:
    """Of one iteration."""
    return jax.eval_shape(lambda i: jax.tree.map(lambda leaf: leaf[0], _noise(program, i, jnp.int32(0))), inputs)


def _move(
    program: Program, inputs: Inputs, noise: Any, state: Any, observe: Callable[[Exchanges], None] = lambda _: None
) -> tuple[Any, Any, jax.Array]:
    """One iteration of all chains and agents: new state, info, and the rounds of each collective in it.

    While it is traced, `observe` is shown the collectives.
    """

    def lane(shard: Shard, noise: Any, state: Any) -> Any:
        kernel, neighbors = program.kernel(inputs, shard)
        state, info = kernel.move(noise, state)
        rounds = jnp.array([rounds for rounds, _ in neighbors.exchanges], jnp.int32)
        observe(neighbors.exchanges)
        return state, info, rounds

    axes = _state_axes(state)
    of_chain = _over_agents(lane, (0, 0, axes), (axes, 0, None))
    return jax.vmap(of_chain, in_axes=(None, 0, axes), out_axes=(axes, 0, None))(inputs.shards, noise, state)


@jax.jit(static_argnums=0, donate_argnums=2)
def _advance(program: Program, inputs: Inputs, state: Any, draws: jax.Array, thin: jax.Array) -> Any:
    first = state.iteration
    iterations = draws * thin

    def iterate(step: jax.Array, carry: Any, noise: Any, block_start: jax.Array) -> Any:
        state, kept = carry
        now = jax.tree.map(lambda leaf: leaf[step - block_start], noise)
        state, info, rounds = _move(program, inputs, now, state)
        kept = _keep(kept, step // thin, thin, state.position, info, rounds)
        return state, kept

    def iterate_block(block: jax.Array, carry: Any) -> Any:
        start = block * program.block
        noise = _noise(program, inputs, first + start)
        end = jnp.minimum(start + program.block, iterations)
        return lax.fori_loop(start, end, lambda step, carry: iterate(step, carry, noise, start), carry)

    blocks = (iterations + program.block - 1) // program.block
    state, (positions, stats, rounds) = lax.fori_loop(0, blocks, iterate_block, (state, _empty(program, inputs, state)))
    return state, positions, stats, rounds


def _empty(program: Program, inputs: Inputs, state: Any) -> Any:
    """The buffer: positions, stats and rounds of `program.buffer` draws."""
    noise = _noise_shape(program, inputs)
    _, info, rounds = jax.eval_shape(partial(_move, program), inputs, noise, state)
    stats = jax.tree.map(lambda leaf: jnp.zeros((program.buffer, *leaf.shape), jnp.float32), info)
    return (
        jnp.zeros((program.buffer, *state.position.shape), state.position.dtype),
        stats,
        jnp.zeros((program.buffer, *rounds.shape), rounds.dtype),
    )


def _keep(kept: Any, draw: jax.Array, thin: jax.Array, position: jax.Array, info: Any, rounds: jax.Array) -> Any:
    """Write an iteration to its draw's place: the last position stays, info is averaged, rounds are added up."""
    positions, stats, counted = kept
    return (
        positions.at[draw].set(position),
        jax.tree.map(lambda total, value: total.at[draw].add(value.astype(total.dtype) / thin), stats, info),
        counted.at[draw].add(rounds),
    )
