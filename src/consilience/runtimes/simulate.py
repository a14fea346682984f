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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Key
from ..consensus import edge_lists, no_edges
from ..network import Network
from ..posterior import Layout, Posterior, Shard, check_start
from ..posterior.view import View
from ..samplers import Sampler
from .fingerprint import fingerprint
from .lanes import Exchange
from .loop import Inputs, Model, advance_all, buffer_of, move_all, noise_shape, see, start_all
from .moments import MOMENTS, Accumulated, nothing_accumulated, read_moments
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
      watched: numbers that say how the running mean settles, recorded with every draw; None: none.
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
        watched: View | None = None,
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
        self.model = model = Model(posterior, layout, sampler.replicated and one_copy, view, averaged, watched)
        start, (state, _) = jax.make_jaxpr(partial(start_all, model, observe=self._charge_start), return_shape=True)(
            self.inputs, positions
        )
        noise = noise_shape(model, self.inputs)
        move, (_, info, _) = jax.make_jaxpr(partial(move_all, model, observe=self._read_off), return_shape=True)(
            self.inputs, noise, state
        )
        taken = {*info._fields, "disagreement"} & set(watched.layout.names if watched else ())
        if taken:
            raise ValueError(f"watch: {min(taken)!r} is a figure of the sampler's own. Give yours another name.")
        lanes = state.position.shape[:-1]  # chains, and agents where each has a copy
        moments = None if averaged is None else nothing_accumulated(lanes, averaged.layout)
        seen = jax.make_jaxpr(partial(see, model))(buffer_of(1, state.position), moments, jnp.int32(1))
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
        if self.model.watched is not None:
            stats |= dict(self.model.watched.layout.leaves(np.asarray(kept.watched)))
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
        advance = jax.jit(
            partial(advance_all, program.buffer, program.block, model), donate_argnames=("state", "moments")
        )
        _cache[program] = Compiled(
            jax.jit(partial(start_all, model)).lower(inputs, positions).compile(),
            advance.lower(inputs, state, moments, count, count, count).compile(),
        )
    _cache.move_to_end(program)
    while len(_cache) > COMPILED_PROGRAMS:
        _cache.popitem(last=False)
    return _cache[program]
