"""`Neighbors` of simulated agents, which are lanes of `jax.vmap(..., axis_name=AGENTS)`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .counting import Counted
from .edges import EdgeLists, flow, take
from .gossip import gossip, relaxed_gossip
from .protocol import T

AGENTS = "agents"


class LaneNeighbors(Counted):
    """One agent's link to the others, where agents are lanes of a `vmap`.

    A round gathers along the named axis. Under `vmap` that gather is the lanes' own array, so the flow over the edges
    is computed once for all lanes, and each lane reads its row of it. An exact sum is one `psum`: the same bits for
    all, as a tree gives them, and charged as a tree.

    Args:
      one_copy: whether all lanes share one state (a replicated chain that is stored and moved once), so that nothing
        could differ from the root's.
    """

    axes: str | tuple[str, ...] = AGENTS  # names of the axes along which agents lie

    def __init__(self, lists: EdgeLists, root: int | jax.Array = 0, one_copy: bool = False) -> None:
        super().__init__()
        self._lists, self._root, self._one_copy = lists, root, one_copy

    @property
    def size(self) -> int:
        return len(self._lists.row)

    @property
    def index(self) -> jax.Array:
        return lax.axis_index(AGENTS)

    # --- gossip --------------------------------------------------------------------------------------

    def mix(self, x: T, rounds: int | jax.Array = 1) -> T:
        if self.size == 1:  # nobody to talk to, nothing sent
            return x
        self._count("gossip", x, rounds)
        return gossip(self._weighted_flow, x, rounds)

    def average(self, x: T, factors: jax.Array) -> T:
        if self.size == 1:
            return x
        self._count("gossip", x, len(factors))
        return relaxed_gossip(self._weighted_flow, x, factors)

    def laplacian(self, x: T) -> T:
        if self.size == 1:
            return jax.tree.map(jnp.zeros_like, x)
        self._count("gossip", x, 1)
        return jax.tree.map(jnp.negative, self._flow(x, weighted=False))

    def all(self, flag: jax.Array) -> jax.Array:
        if self.size == 1:
            return flag
        self._count("flood", flag, 1)
        return lax.pmin(self._candidate(flag.astype(jnp.int32)), self.axes).astype(bool)

    def _weighted_flow(self, x: T) -> T:
        return self._flow(x, weighted=True)

    def _flow(self, x: T, *, weighted: bool) -> T:
        row = take(self._lists.row, lax.axis_index(AGENTS))
        return jax.tree.map(lambda leaf: take(flow(self._lists, self._rows(leaf), weighted=weighted), row), x)

    def _rows(self, leaf: jax.Array) -> jax.Array:
        """Gather all that a lane may read: the rows to which the edge lists refer."""
        return lax.all_gather(leaf, AGENTS)

    # --- over the tree -------------------------------------------------------------------------------

    def total(self, x: T, at: jax.Array | None = None) -> T:
        if self.size > 1:
            self._count_sum(x, at)
        return lax.psum(jax.tree.map(self._summand, x), self.axes)  # of one agent too: a sum has no axis of agents

    def follow_root(self, x: T, digest: Any = (), after: Any = None) -> tuple[T, jax.Array]:
        if self.size == 1:
            return x, jnp.array(True)
        self._count_follow(x, digest, after)
        if self._is_alike:
            return x, jnp.array(True)
        is_alike = jnp.array(True)
        if jax.tree.leaves(digest):
            values = self._candidate(digest[:, 0])
            apart = lax.pmax(values, self.axes) - lax.pmin(values, self.axes)
            is_alike = ~(apart > self._of_root(digest[:, 1])).any()
        return jax.tree.map(self._of_root, x), is_alike

    def _of_root(self, leaf: jax.Array) -> jax.Array:
        return take(lax.all_gather(leaf, AGENTS), jnp.asarray(self._root))

    # --- what a lane contributes to a reduction ------------------------------------------------------

    @property
    def _is_alike(self) -> bool:
        """Tell whether no agent's state could differ from the root's."""
        return self._one_copy

    def _summand(self, leaf: jax.Array) -> jax.Array:
        return leaf

    def _candidate(self, leaf: jax.Array) -> jax.Array:
        """Return what this lane contributes to a maximum or minimum over all agents."""
        return leaf
