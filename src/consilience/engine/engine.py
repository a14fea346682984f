"""The engine: it runs the jitted sampling loop, chunk by chunk, for whichever agents are in this process.

The loop runs over iterations; inside it, chains and agents are two nested `vmap`s around the sampler's `move`. Noise is
drawn for a block of iterations at a time. Kept draws go into a buffer of fixed size, which leaves the device when it is
full or half a second has passed: the numbers of iterations are arguments of the compiled function, so no length of run
compiles anything anew, and no length of chunk changes a draw.

What is kept of a draw may be a function of the parameters, and its running moments may be all that is wanted: both are
worked out on the device, over the buffer, so that nothing else leaves it.
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

from ..model import StartValues, check_start
from ..neighbors import Exchange, Traffic, price
from ..network import Network
from .fingerprint import fingerprint
from .loop import (
    Inputs,
    Model,
    Replayed,
    advance_all,
    buffer_of,
    move_all,
    see,
    start_all,
    start_values_all,
    trace_noise,
)
from .moments import MOMENTS, Accumulated, form_of, nothing_accumulated, read_moments
from .snapshot import from_arrays, to_arrays

BUFFER_BYTES = 32 << 20  # of kept draws on the device
BUFFER_DRAWS = 1024
NOISE_BYTES = 16 << 20  # drawn ahead
NOISE_BYTES_ON_CPU = 2 << 20  # as much as its cache holds: drawing it takes many passes
NOISE_ITERATIONS = 100
CHUNK_SECONDS = 0.5  # between two reports of progress
FIRST_ITERATIONS = 8
COMPILED_PROGRAMS = 32
COMPILED_FOR = ("jax_default_matmul_precision", "jax_default_device")


class Chunk(NamedTuple):
    """Consecutive draws that have left the device, and what was measured while they were drawn."""

    positions: np.ndarray  # (draws, chains, copies, numbers) kept: a copy for every agent here, or one for all
    stats: dict[str, np.ndarray]  # info fields, (draws, chains, copies), averaged over the iterations behind a draw
    iterations: int
    traffic: Traffic
    first: int = 0  # the agent whose copy is the first


@dataclass(frozen=True)
class Program:
    """Key to compiled code: all that the code depends on, so that equal programs share it."""

    structure: Any  # of the inputs, with the sampler's choices
    fingerprint: str  # of a start, an iteration and a look at a draw
    settings: tuple[Any, ...]  # settings of jax that change what is compiled and not what is traced
    buffer: int  # number of draws that it has room for
    block: int  # number of iterations whose noise is drawn at once
    place: Any  # where it runs, if that is in the compiled code


class Engine:
    """A run of the agents of this process: their state after the iterations so far, and compiled code to go on.

    The code is compiled when the engine is made; nothing is sent before `begin`.

    Args:
      network: the network of all agents.
      inputs: arguments of the compiled code, with the shards of the agents that live here.
      positions: (chains, dimension), where the chains start, on all agents alike.
      copies: number of copies of each chain that are kept here.
      place: where the code runs, if the compiled code depends on that and its trace does not show it.
    """

    first_copy = 0  # number of the agent whose copy is the first

    def __init__(
        self, network: Network, model: Model, inputs: Inputs, positions: jax.Array, copies: int, place: Any = None
    ) -> None:
        self.network, self.model, self.inputs, self.copies = network, model, inputs, copies
        self.chains = len(positions)
        self._positions = positions = jnp.asarray(positions, model.layout.dtype)
        self._exchanges: list[Exchange] = []
        self.start_traffic = Traffic()
        self._traced = traced = self._trace(positions)
        state, noise, info = traced.state, traced.noise, traced.info
        taken = {*info._fields, "disagreement"} & set(model.watched.layout.names if model.watched else ())
        if taken:
            raise ValueError(f"watch: {min(taken)!r} is a figure of the sampler's own. Give yours another name.")
        lanes = state.position.shape[:-1]  # chains, and agents where each has a copy
        moments = traced.moments
        itemsize = model.layout.dtype.itemsize
        draw_bytes = max(math.prod(state.position.shape) * itemsize, model.view.bytes * math.prod(lanes))
        noise_bytes = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(noise))
        found = fingerprint(*traced.code)
        self.code = found.code  # fingerprint of model, sampler and what is kept
        self.program = Program(
            jax.tree.structure(inputs),
            found.unmistakable,
            tuple(str(getattr(jax.config, name)) for name in COMPILED_FOR),
            buffer=draws_at_once(draw_bytes),
            block=noise_at_once(noise_bytes, jax.default_backend()),
            place=place,
        )
        self.state, self.moments = self._placed(state, moments)  # shapes and dtypes; `begin` fills them
        self._compiled = _cached(self.program, self._compile)
        self._seconds_per_iteration: float | None = None

    def _trace(self, positions: jax.Array) -> Traced:
        """Trace what is to be compiled, and record its collectives."""
        return trace(self.model, self.inputs, positions, self._charge_start, self._read_off)

    def _compile(self) -> Compiled:
        start, move = self._to_compile()

        def start_and_values(inputs: Inputs, positions: jax.Array) -> tuple[Any, StartValues]:
            return start(inputs, positions), start_values_all(self.model, inputs, positions)

        advance = partial(advance_all, self.program.buffer, self.program.block, self.model, move)
        arguments = (self.inputs, self.state, self.moments, *(np.int32(1),) * 3)
        return Compiled(
            self._jitted("start", start_and_values).lower(self.inputs, self._positions).compile(),
            self._jitted("advance", advance, donate_argnums=(1, 2)).lower(*arguments).compile(),
        )

    def _to_compile(self) -> tuple[Callable[..., Any], Replayed | None]:
        """Return the function that starts agents, and the one that moves them if it was traced as it will run."""
        return self._traced.start, self._traced.move

    # --- where arrays live: all of them on one device, unless a runtime says otherwise ------------------

    def _jitted(self, name: str, function: Callable[..., Any], **options: Any) -> Any:
        """Return the jitted `function`, which becomes the field `name` of `Compiled`."""
        return jax.jit(function, **options)

    def _placed(self, state: Any, moments: Accumulated | None) -> tuple[Any, Accumulated | None]:
        """Return the forms (shapes, dtypes, shardings) of state and moments where they live."""
        return state, moments

    @property
    def _knows_others(self) -> bool:
        """Tell whether the engine can compute how far agents are apart."""
        return self.copies > 1

    def _read(self, values: jax.Array) -> np.ndarray:
        """Read what agents here have of an array to the host: to be copied, as the next iteration uses its memory."""
        return np.asarray(values)

    def _put(self, values: np.ndarray, like: Any) -> jax.Array:
        """Put what all agents have where `like` is."""
        return jnp.asarray(values)

    # --- the run -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start all chains; refuse a start at which an agent's density is not finite."""
        self.state, values = self._compiled.start(self.inputs, self._positions)
        self._check_start(values)
        if self.moments is not None:
            self.moments = nothing_accumulated(self.moments)

    def _check_start(self, values: StartValues) -> None:
        check_start(*map(np.asarray, values))

    def _charge_start(self, exchanges: list[Exchange]) -> None:
        """Count what the agents sent before their first iteration."""
        times = np.array([[exchange.times for exchange in exchanges]] * 2, dtype=int)
        self._exchanges = exchanges
        self.start_traffic = self._traffic(times * [[1], [self.chains]])

    def _read_off(self, exchanges: list[Exchange]) -> None:
        """Record which collectives an iteration has."""
        self._exchanges = [exchange._replace(times=0) for exchange in exchanges]

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return all that is needed to go on from here, as arrays by name."""
        moments = {} if self.moments is None else self.moments._asdict()
        return {
            **to_arrays(self.state, self._read),
            **{f"{MOMENTS}{name}": np.array(self._read(value)) for name, value in moments.items()},
        }

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Restore state and moments from a snapshot of the same run."""
        self.state = from_arrays(self.state, snapshot, self._put)
        if self.moments is not None:
            self.moments = jax.tree.map(self._put, read_moments(snapshot), self.moments)

    def advance(self, draws: int, thin: int, seen: bool = True) -> Chunk:
        """Run `draws` × `thin` iterations and keep every `thin`-th, at most as many draws as the buffer has room for.

        Args:
          seen: whether these draws are added to the moments, and what is kept of them is computed.
        """
        if draws > self.program.buffer:
            raise ValueError(f"{draws} draws at once do not fit into the buffer of {self.program.buffer}.")
        began = time.perf_counter()
        self.state, self.moments, kept = self._compiled.advance(
            self.inputs, self.state, self.moments, *map(np.int32, (draws, thin, draws * seen))
        )
        # Cut on the host, where no length has to be compiled; copied, so that no buffer outlives its chunk.
        chains = (draws, self.chains, self.copies)
        stats = {name: self._read(values) for name, values in kept.stats._asdict().items()}
        if self._knows_others:
            stats["disagreement"] = self._read(kept.disagreement)
        if self.model.watched is not None:
            stats |= dict(self.model.watched.layout.leaves(self._read(kept.watched)))
        chunk = Chunk(
            self._read(kept.positions)[:draws].reshape(*chains, kept.positions.shape[-1]).copy(),
            {name: values[:draws].reshape(chains).copy() for name, values in stats.items()},
            draws * thin,
            self._traffic(np.asarray(kept.counts, dtype=np.int64).sum(axis=0)),
            self.first_copy,
        )
        self._seconds_per_iteration = (time.perf_counter() - began) / chunk.iterations
        return chunk

    def _traffic(self, counts: np.ndarray) -> Traffic:
        """Return the traffic of an iteration's collectives, given the counts of each as `move_all` returns them."""
        traffic = Traffic()
        for exchange, together, by_chains in zip(self._exchanges, *counts.tolist(), strict=True):
            rounds, messages = price(self.network, exchange.kind)
            traffic += Traffic(together * rounds, together * messages, by_chains * messages * exchange.message_bytes)
        return traffic

    def warm_up(self, iterations: int) -> Iterator[Chunk]:
        """Run iterations whose draws are not kept, and yield chunks of one draw, the last of many."""
        while iterations > 0:
            count = min(iterations, self.iterations_at_once())
            yield self.advance(1, count, seen=False)
            iterations -= count

    def draws(self, count: int, thin: int = 1) -> Iterator[Chunk]:
        """Yield chunks of `count` draws in all, with `thin` iterations for each draw."""
        while count > 0:
            number = min(count, self.program.buffer, max(1, self.iterations_at_once() // thin))
            yield self.advance(number, thin)
            count -= number

    def iterations_at_once(self) -> int:
        """Return how many iterations take about CHUNK_SECONDS at the last chunk's pace; the first chunk is short."""
        if self._seconds_per_iteration is None:
            return FIRST_ITERATIONS
        return max(1, int(CHUNK_SECONDS / self._seconds_per_iteration))


def draws_at_once(draw_bytes: int) -> int:
    """Return the number of draws for which there is room on the device, given the bytes of one."""
    return max(1, min(BUFFER_DRAWS, BUFFER_BYTES // draw_bytes))


def noise_at_once(noise_bytes: int, backend: str) -> int:
    """Return the number of iterations whose noise is drawn ahead, given the bytes of one iteration's."""
    room = NOISE_BYTES_ON_CPU if backend == "cpu" else NOISE_BYTES
    return max(1, min(NOISE_ITERATIONS, room // max(1, noise_bytes)))


class Traced(NamedTuple):
    """Traced code of a start, an iteration and a look at a draw, and the forms of what goes through it."""

    start: Replayed
    drawing: Any  # code of the noise
    move: Replayed
    see: Any
    noise: Any
    moments: Accumulated | None

    @property
    def code(self) -> tuple[Any, ...]:
        return self.start.code, self.drawing, self.move.code, self.see

    @property
    def state(self) -> Any:
        return self.start.form

    @property
    def info(self) -> Any:
        return self.move.form[1]


def trace(model: Model, inputs: Inputs, positions: jax.Array, *observe: Callable[[list[Exchange]], None]) -> Traced:
    """Trace a start, an iteration and a look at a draw, without compiling them.

    Args:
      observe: two functions, called with the collectives of a start and with those of an iteration.
    """
    of_start, of_move = observe or (lambda _: None, lambda _: None)
    start = Replayed(partial(start_all, model, observe=of_start), inputs, positions)
    state, (drawing, noise) = start.form, trace_noise(model, inputs)
    move = Replayed(partial(move_all, model, observe=of_move), inputs, noise, state)
    lanes = state.position.shape[:-1]  # chains, and agents where each has a copy
    moments = None if model.averaged is None else form_of(lanes, model.averaged.layout)
    seen = jax.make_jaxpr(partial(see, model))(buffer_of(1, state.position), moments, jnp.int32(1))
    return Traced(start, drawing, move, seen, noise, moments)


class Compiled(NamedTuple):
    start: Any
    advance: Any


_cache: OrderedDict[Program, Compiled] = OrderedDict()


def _cached(program: Program, compile: Callable[[], Compiled]) -> Compiled:
    """Return a program's executables from the cache, which drops the least recently used when there are many.

    They are compiled at once and for good: traced later, the user's code might have come to mean something else.
    """
    if program not in _cache:
        _cache[program] = compile()
    _cache.move_to_end(program)
    while len(_cache) > COMPILED_PROGRAMS:
        _cache.popitem(last=False)
    return _cache[program]
