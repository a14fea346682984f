"""The runtime `simulate`: all agents on one device, as lanes of one jitted loop.

Where their shards are very unequal, they are stacked by size, so that an agent costs what its rows cost
(model/local.py). How rows are stacked is no part of what a run is: its fingerprint is that of padded shards.

A replicated chain is the same on all agents. It is moved and stored once: inside the agents' `vmap` only the local log
densities have an axis of agents, their sum has none, and all that follows from it is done once, not m times.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from .._types import Key
from ..engine import Engine, Hosts, Inputs, Model, Replayed, Traced, start_all, trace
from ..model import Layout, Posterior, Shard, Shards, ShardsBySize, View, stack_by_size
from ..neighbors import LaneNeighbors, edge_lists, no_edges
from ..network import Network
from ..samplers import Sampler


class Simulation(Engine):
    """The engine of a run with all agents on one device; when made, it is at the start.

    Args:
      positions: (chains, dimension), where the chains start, on all agents alike. Refused if a density is not finite.
      key: random key of the whole run. Chain c uses fold_in(key, c), its iteration t fold_in of that with t.
      one_copy: whether a replicated chain has one copy for all agents. Without it every agent moves a copy of its own,
        as it would on a machine of its own, and the protocol that keeps the copies alike is put to work.
      view: what is kept of a draw; None: the parameters.
      averaged: what running moments are taken of, draw by draw; None: of nothing.
      watched: numbers that say how the running mean settles, recorded with every draw; None: none.
    """

    def __init__(
        self,
        posterior: Posterior,
        layout: Layout,
        shards: Shards,
        network: Network,
        sampler: Sampler,
        positions: jax.Array,
        key: Key,
        one_copy: bool = True,
        view: View | None = None,
        averaged: View | None = None,
        watched: View | None = None,
    ) -> None:
        one_copy = sampler.replicated and one_copy
        view = view or View.of(layout)
        shards = jax.tree.map(jnp.asarray, shards)
        inputs = lane_inputs(network, sampler, shards, chain_keys(key, len(positions)))
        model = Model(posterior, layout, lane_link(one_copy), one_copy, view, averaged, watched)
        place = shards.shapes if isinstance(shards, ShardsBySize) else None
        super().__init__(network, model, inputs, positions, 1 if one_copy else network.size, place)
        self.begin()

    def _trace(self, positions: jax.Array) -> Traced:
        """Trace the run as if all shards were padded to one length: it is the same one however they are stacked."""
        padded = self.inputs._replace(shards=self.inputs.shards.padded_form)
        return trace(self.model, padded, positions, self._charge_start, self._read_off)

    def _to_compile(self) -> tuple[Callable[..., Any], Replayed | None]:
        if isinstance(self.inputs.shards, Shard):
            return super()._to_compile()
        return partial(start_all, self.model), None  # what was traced is not what runs


class Simulate:
    """The default runtime: all agents in this process, on one device."""

    hosts = Hosts()
    stack = staticmethod(stack_by_size)

    def agents(self, size: int) -> range:
        """Return which agents of a network of this size live here: all of them."""
        return range(size)

    def agents_per_file(self, size: int) -> int | None:
        """Return how many agents' draws share a file; None: all agents'."""
        return None

    def engine(self, *arguments: Any, **views: Any) -> Simulation:
        return Simulation(*arguments, **views)


def lane_inputs(network: Network, sampler: Sampler, shards: Shards, keys: Key) -> Inputs:
    """Make the arguments of the compiled code for agents that are lanes."""
    root = jnp.int32(network.tree.root if sampler.replicated else 0)
    # A replicated chain asks for sums only: without edges in it, its code serves all networks of a size.
    lists = no_edges(network.size) if sampler.replicated else edge_lists(network)
    return Inputs(sampler, lists, root, shards, keys)


def lane_link(one_copy: bool) -> Callable[[Inputs], LaneNeighbors]:
    """Return the function that makes a lane's link to the other agents."""
    return lambda inputs: LaneNeighbors(inputs.lists, inputs.root, one_copy)


@partial(jax.jit, static_argnums=1)
def chain_keys(key: Key, chains: int) -> Key:
    """Return fold_in(key, c) for every chain c."""
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, jnp.arange(chains))
