"""The simulated twin of `Neighbors`: agents are lanes of `jax.vmap(..., axis_name=AGENTS)`."""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import get_opaque_trace_state

from ..consensus import EdgeLists, gossip
from ..consensus.edges import flow, take

AGENTS = "agents"
T = TypeVar("T")
Exchanges = list[tuple[int | jax.Array, int]]  # rounds, and the bytes of one agent's message


class LaneNeighbors:
    """One lane's link to the others.

    A round gathers along the named axis. Under `vmap` that gather is the lanes' own array, so the flow over the edges
    is computed once for all lanes, and each lane reads its row of it.

    Attributes:
      exchanges: the collectives so far, for the runtime to count.
    """

    def __init__(self, lists: EdgeLists) -> None:
        self._lists = lists
        self._trace = get_opaque_trace_state()
        self.exchanges: Exchanges = []

    @property
    def size(self) -> int:
        return len(self._lists.row)

    @property
    def index(self) -> jax.Array:
        return lax.axis_index(AGENTS)

    def mix(self, x: T, rounds: int | jax.Array = 1) -> T:
        if self.size == 1:  # nobody to talk to, nothing sent
            return x
        self._count(x, rounds)
        return gossip(lambda value: jax.tree.map(jnp.add, value, self._flow(value, weighted=True)), x, rounds)

    def laplacian(self, x: T) -> T:
        if self.size == 1:
            return jax.tree.map(jnp.zeros_like, x)
        self._count(x, 1)
        return jax.tree.map(jnp.negative, self._flow(x, weighted=False))

    def _flow(self, x: T, *, weighted: bool) -> T:
        row = take(self._lists.row, self.index)
        return jax.tree.map(
            lambda leaf: take(flow(self._lists, lax.all_gather(leaf, AGENTS), weighted=weighted), row), x
        )

    def _count(self, x: T, rounds: int | jax.Array) -> None:
        if get_opaque_trace_state() != self._trace:
            raise RuntimeError("a collective inside lax control flow cannot be counted: call it outside, with rounds=.")
        message = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(x))
        self.exchanges.append((rounds, message))
