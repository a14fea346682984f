"""Chains of the agents in this process: their state, and compiled code that moves them, chunk by chunk.

The loop runs over iterations; inside it, chains and agents are two nested `vmap`s around the sampler's `move`. Noise is
drawn for a block of iterations at a time. Kept draws go into a buffer of fixed size, which leaves the device when it is
full or half a second has passed: the numbers of iterations are arguments of the compiled function, so no length of run
compiles anything anew, and no length of chunk changes a draw.

What is kept of a draw may be a function of the parameters, and its running moments may be all that is wanted: both are
worked out on the device, over the buffer, so that nothing else leaves it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._refused import Refused
from ..model import StartValues
from ..neighbors import Exchange, Traffic, price
from ..network import Network
from .compiling import Compiled, Program, compile_program
from .loop import Inputs, Model, start_all
from .moments import MOMENTS, nothing_accumulated, read_moments
from .place import ComputePlace, OneDevice
from .snapshot import from_arrays, to_arrays
from .tracing import trace

CHUNK_SECONDS = 0.5  # between two reports of progress
FIRST_ITERATIONS = 8


class Chunk(NamedTuple):
    """Consecutive draws that have left the device, and what was measured while they were drawn."""

    positions: np.ndarray  # (draws, chains, copies, numbers) kept: a copy for every agent here, or one for all
    stats: dict[str, np.ndarray]  # info fields, (draws, chains, copies), averaged over the iterations behind a draw
    iterations: int
    traffic: Traffic
    first: int = 0  # the agent whose copy is the first
    own: np.ndarray | None = None  # own variables, (draws, chains, agents here, numbers), where the model has some


class Chains:
    """State of all chains of the agents in this process after the iterations so far, and compiled code to go on.

    When made, all is traced: `code` can be compared with others'. Then `compile`, and `begin` or `restore`.

    Args:
      network: the network of all agents.
      model: the posterior and what is kept of its draws, as a lane here sees them.
      inputs: arguments of the compiled code, with the shards of the agents that live here.
      positions: (chains, dimension), where the chains start, on all agents alike; own variables come after the shared
        ones.
      place: where these agents are computed; None: on one device, with one copy of each chain, or one for every agent.
      as_lanes: model and inputs to trace in place of those, as if all agents were lanes of one device.
      code: the fingerprint to compare with others', where the code here depends on who computes it.
      sent: what was sent since it was called last, where messages are counted; None: it follows from the code.

    Attributes:
      code: the fingerprint of model, sampler and what is kept.
    """

    def __init__(
        self,
        network: Network,
        model: Model,
        inputs: Inputs,
        positions: jax.Array,
        place: ComputePlace | None = None,
        as_lanes: tuple[Model, Inputs] | None = None,
        code: str | None = None,
        sent: Callable[[], Traffic] | None = None,
    ) -> None:
        self.network, self.model, self.inputs = network, model, inputs
        self.place: ComputePlace = place or OneDevice(1 if model.one_copy else network.size)
        self.chains = len(positions)
        positions = jnp.asarray(positions, model.layout.dtype)
        self._is_traced_elsewhere = as_lanes is not None
        self._traced = trace(*(as_lanes or (model, inputs)), positions)
        self._sent = sent
        _check_names(self._traced.info, model)
        found = self._traced.fingerprint()
        self.code = code or found.code
        self.program = Program.of(model, inputs, self._traced, found, self.place)
        # Shapes and dtypes; `begin` or `restore` fill them.
        self.state, self.moments = self.place.forms(self._traced.state, self._traced.moments)
        self.positions = self.place.everywhere(positions)
        self._compiled: Compiled | None = None
        self._seconds_per_iteration: float | None = None

    def compile(self) -> Chains:
        """Compile what has been traced, unless that was done before; return these chains."""
        start = partial(start_all, self.model) if self._is_traced_elsewhere else self._traced.start
        move = None if self._is_traced_elsewhere else self._traced.move
        arguments = (self.inputs, self.positions, self.state, self.moments)
        self._compiled = compile_program(self.program, self.model, start, move, self.place, arguments)
        return self

    def begin(self) -> StartValues:
        """Start all chains, and return the values that must be finite there."""
        assert self._compiled is not None
        self.state, values = self._compiled.start(self.inputs, self.positions)
        if self.moments is not None:
            self.moments = nothing_accumulated(self.moments)
        return values

    def started(self) -> Chains:
        """Return these chains compiled and at their start, whatever the densities are there."""
        self.compile().begin()
        return self

    @property
    def start_traffic(self) -> Traffic:
        """Traffic of all agents before their first iteration."""
        exchanges = self._traced.start_exchanges
        times = np.array([[exchange.times for exchange in exchanges]] * 2, dtype=int)
        return self._traffic(exchanges, times * [[1], [self.chains]])

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return all that is needed to go on from here, as arrays by name."""
        moments = {} if self.moments is None else self.moments._asdict()
        return {
            **to_arrays(self.state, self.place.read),
            **{f"{MOMENTS}{name}": np.array(self.place.read(value)) for name, value in moments.items()},
        }

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Restore state and moments from a snapshot of the same run."""
        self.state = from_arrays(self.state, snapshot, self.place.put)
        if self.moments is not None:
            self.moments = jax.tree.map(self.place.put, read_moments(snapshot), self.moments)

    def advance(self, draws: int, thin: int, seen: bool = True) -> Chunk:
        """Run `draws` × `thin` iterations and keep every `thin`-th, at most as many draws as the buffer has room for.

        Args:
          seen: whether these draws are added to the moments, and what is kept of them is computed.
        """
        if draws > self.program.buffer:
            raise ValueError(f"{draws} draws at once do not fit into the buffer of {self.program.buffer}.")
        assert self._compiled is not None
        began, read = time.perf_counter(), self.place.read
        self.state, self.moments, kept = self._compiled.advance(
            self.inputs, self.state, self.moments, *map(np.int32, (draws, thin, draws * seen))
        )
        # Cut on the host, where no length has to be compiled; copied, so that no buffer outlives its chunk.
        chains, own = (draws, self.chains, self.place.copies), None
        stats = {name: read(values) for name, values in kept.stats._asdict().items()}
        if kept.own is not None:
            own = read(kept.own)[:draws].reshape(*chains, kept.own.shape[-1]).copy()
        elif self.place.knows_others:
            stats["disagreement"] = read(kept.disagreement)
        if self.model.watched is not None:
            stats |= dict(self.model.watched.layout.leaves(read(kept.watched)))
        one = slice(None) if own is None else slice(1)  # all have one chain of what is shared, a copy each
        chunk = Chunk(
            read(kept.positions)[:draws].reshape(*chains, kept.positions.shape[-1])[:, :, one].copy(),
            {name: values[:draws].reshape(chains)[:, :, one].copy() for name, values in stats.items()},
            draws * thin,
            self._traffic(self._traced.exchanges, np.asarray(kept.counts, dtype=np.int64).sum(axis=0)),
            self.place.first_copy,
            own,
        )
        self._seconds_per_iteration = (time.perf_counter() - began) / chunk.iterations
        return chunk

    def iterations_at_once(self) -> int:
        """Return how many iterations take about CHUNK_SECONDS at the last chunk's pace; the first chunk is short."""
        if self._seconds_per_iteration is None:
            return FIRST_ITERATIONS
        return max(1, int(CHUNK_SECONDS / self._seconds_per_iteration))

    def _traffic(self, exchanges: list[Exchange], counts: np.ndarray) -> Traffic:
        """Return the traffic of collectives, given the counts of each as `move_all` returns them."""
        if self._sent is not None:
            return self._sent()
        traffic = Traffic()
        for exchange, together, by_chains in zip(exchanges, *counts.tolist(), strict=True):
            rounds, messages, carriers = price(self.network, exchange.kind)
            traffic += Traffic(together * rounds, together * messages, by_chains * carriers * exchange.message_bytes)
        return traffic


def _check_names(info: Any, model: Model) -> None:
    """Refuse numbers to watch that have the name of a figure of the sampler's own."""
    taken = {*info._fields, "disagreement"} & set(model.watched.layout.names if model.watched else ())
    if taken:
        raise Refused("watch", f"{min(taken)!r} is a figure of the sampler's own", "Give yours another name.")
