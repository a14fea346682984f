"""Engine of the peers runtime: one agent in this process, the others in theirs, on their owners' machines.

The loop is that of `simulate` with a single lane, and the link of that lane calls out of it, round by round. Messages
are counted as they are sent.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from .._compat import DISPATCHED_SYNCHRONOUSLY, dispatch_synchronously
from .._refused import Refused
from .._types import Key
from ..engine import Engine, Inputs, Model, start_values_all
from ..model import Layout, Posterior, Shard, View
from ..neighbors import Collectives, PeerNeighbors, Traffic, no_edges
from ..network import Network
from ..peers import Mailbox
from ..samplers import Sampler
from .simulate import chain_keys


def dispatch_as_peers_must() -> None:
    """Make calls of compiled code return when it is done, and refuse a process in which it is too late for that."""
    if not dispatch_synchronously():
        raise Refused(
            "this process",
            "jax has computed something before the run, and would let compiled code wait for itself",
            f"Write {DISPATCHED_SYNCHRONOUSLY} before anything is computed, or start the agent by `consilience peer`.",
        )


class Peer(Engine):
    """Engine of one agent of a run whose agents are separate processes.

    Args:
      index: this agent's number.
      shard: its examples, with a leading axis of length one.
      collectives: its side of the collective operations.
      mailbox: counts the messages and bytes that it sends.
    """

    def __init__(
        self,
        posterior: Posterior,
        layout: Layout,
        shard: Shard,
        network: Network,
        index: int,
        sampler: Sampler,
        positions: jax.Array,
        key: Key,
        view: View,
        collectives: Collectives,
        mailbox: Mailbox,
    ) -> None:
        dispatch_as_peers_must()
        self.collectives, self._mailbox, self._key = collectives, mailbox, key
        self._counted = Traffic(collectives.rounds, mailbox.messages, mailbox.bytes)

        def link(inputs: Inputs) -> PeerNeighbors:
            return PeerNeighbors(collectives, network, index)

        shard = jax.tree.map(jnp.asarray, shard)
        inputs = Inputs(sampler, no_edges(network.size), jnp.int32(0), shard, chain_keys(key, len(positions)))
        model = Model(posterior, layout, link, sampler.replicated, view, None, None)
        super().__init__(network, model, inputs, positions, copies=1)

    def use_attempt(self, attempt: int) -> None:
        """Use an attempt's random numbers from here on: with the same ones, agents would part ways again."""
        key = jax.random.fold_in(self._key, attempt) if attempt else self._key
        self.inputs = self.inputs._replace(chain_keys=chain_keys(key, self.chains))

    def check_start(self) -> None:
        """Refuse a start at which this agent's density is not finite; nothing is sent for that."""
        self._check_start(jax.jit(partial(start_values_all, self.model))(self.inputs, self._positions))

    def begin(self) -> None:
        """Go to the start that the root has: other machines may round theirs differently."""
        [starts] = self.collectives.down([np.asarray(self._positions)], kind="start")
        self._positions = jnp.asarray(starts)
        super().begin()

    def sent(self) -> Traffic:
        """Return the traffic of this agent since the last call."""
        so_far = Traffic(self.collectives.rounds, self._mailbox.messages, self._mailbox.bytes)
        before, self._counted = self._counted, so_far
        return Traffic(so_far.rounds - before.rounds, so_far.messages - before.messages, so_far.bytes - before.bytes)

    def _traffic(self, counts: np.ndarray) -> Traffic:
        return self.sent()

    def agreed(self, *values: int) -> list[int]:
        """Return the least of what all agents propose, value by value."""
        [least] = self.collectives.flood([np.array(values, np.int64)])
        return [int(value) for value in least]

    def of_all(self, traffic: Traffic) -> Traffic:
        """Sum traffic over all agents; rounds, which differ only by those of failed epochs, are the most of any."""
        parts = [np.array(part, np.int64) for part in (traffic.rounds, traffic.messages, traffic.bytes)]
        up = self.collectives.up(parts, np.maximum, np.add, np.add, kind="count up")
        return Traffic(*map(int, self.collectives.down(up, kind="count down")))
