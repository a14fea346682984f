"""The runtime `simulate`: all agents on one device, as lanes of one jitted loop.

Where their shards are very unequal, they are stacked by size, so that an agent costs what its rows cost
(model/local.py). How rows are stacked is no part of what a run is: its fingerprint is that of padded shards.

A replicated chain is the same on all agents. It is moved and stored once: inside the agents' `vmap` only the local log
densities have an axis of agents, their sum has none, and all that follows from it is done once, not m times. Where
agents have variables of their own, each moves a copy of the chain with them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Key
from ..engine import Chains, Hosts, Inputs, Model, OneDevice
from ..model import Layout, OwnVariables, Posterior, Shards, ShardsBySize, View, check_start, stack_by_size
from ..neighbors import LaneNeighbors, edge_lists, no_edges
from ..network import Network
from ..results import Run
from ..samplers import Sampler
from ..store import Part, Table
from .driver import run_once
from .preparing import Prepared
from .request import Request
from .runtime import Wish


class Simulate:
    """The default runtime: all agents in this process, on one device."""

    hosts = Hosts()
    holds_own = True
    record: ClassVar[Table] = {}
    stack = staticmethod(stack_by_size)

    def agents(self, network: Network) -> range:
        """Return all agents of a network."""
        return range(network.size)

    def numbers(self, network: Network) -> range:
        return self.agents(network)

    def names(self, network: Network) -> list[str]:
        return [network.called(agent) for agent in self.agents(network)]

    def chains(self, prepared: Prepared) -> Chains:
        return simulation(
            prepared.posterior,
            prepared.layout,
            prepared.stacked,
            prepared.network,
            prepared.sampler,
            prepared.positions,
            prepared.key,
            view=prepared.drawn,
            averaged=prepared.averaged,
            watched=prepared.watched,
            own=prepared.own,
        )

    def check_start(self, chains: Chains) -> None:
        check_start(*map(np.asarray, chains.begin()), agents=self.names(chains.network))

    def part(self, prepared: Prepared) -> Part:
        copies = 1 if prepared.sampler.replicated else prepared.network.size
        return Part(range(copies), copies)

    def agree(self, wish: Wish) -> Wish:
        return wish._replace(save=None)

    def run(self, request: Request) -> Run:
        return run_once(request, self)


def simulation(
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
    own: OwnVariables | None = None,
) -> Chains:
    """Return the chains of all agents, as lanes on one device, traced.

    Args:
      positions: (chains, dimension), where the chains start, on all agents alike.
      key: random key of the whole run. Chain c uses fold_in(key, c), its iteration t fold_in of that with t.
      one_copy: whether a replicated chain has one copy for all agents. Without it every agent moves a copy of its own,
        as it would on a machine of its own, and the protocol that keeps the copies alike is put to work.
      view: what is kept of a draw; None: the parameters.
      averaged: what running moments are taken of, draw by draw; None: of nothing.
      watched: numbers that say how the running mean settles, recorded with every draw; None: none.
      own: variables that stay with their owner, after the shared ones in `positions`; None: there are none. With them
        every agent moves a copy of its own.
    """
    one_copy = sampler.replicated and one_copy and own is None
    shards = jax.tree.map(jnp.asarray, shards)
    inputs = lane_inputs(network, sampler, shards, chain_keys(key, len(positions)))
    link = lane_link(one_copy)
    model = Model(posterior, layout, link, one_copy, view or View.of(layout), averaged, watched, own=own)
    if not isinstance(shards, ShardsBySize):
        return Chains(network, model, inputs, positions)
    form = shards.padded_form
    padded = inputs._replace(shards=form if posterior.per_row else form._replace(mask=None))
    place = OneDevice(1 if one_copy else network.size, key=shards.shapes)
    return Chains(network, model, inputs, positions, place, as_lanes=(model, padded))


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
