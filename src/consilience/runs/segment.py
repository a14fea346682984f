"""Segments of a run: what a set of agents run together, all of them or those that are left when one is given up.

A segment has a network, a split of the prior, a warm-up and a folder of its own. Draws of two segments are of two
posteriors, and are never put together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from glob import escape
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._lazy import LazyModule
from ..engine import ROWS_TRACED, Chains, Hosts, Inputs, Model, OneDevice, start_values_all, trace
from ..model import Shard, check_start, form, infinities_explained, stack_on_host
from ..neighbors import Arrays, Collectives, Form, Interrupted, Masks, PeerNeighbors, Traffic, no_edges
from ..network import WORD_BYTES, Network, is_gathered
from ..peers import Mailbox, Place
from ..store import RUN, Part, Progress, RunFolder, Table, flat, read_checkpoint, read_run
from .driver import Job, open_job
from .preparing import Prepared
from .request import Length, Request
from .runtime import Wish
from .simulate import chain_keys, lane_inputs, lane_link

nx: Any = LazyModule("networkx")
log = logging.getLogger("consilience.peers")

# Recorded by every agent, and free to differ between them.
OWN = (
    *("format", "status", "created", "data.", "dims.", "labels.coords.", "labels.groups", "own.groups"),
    *("model.start", "model.prior", "model.likelihood"),
    *("versions.python", "versions.numpy", "versions.device"),
)


@dataclass(frozen=True)
class Terms:
    """Terms of a run between owners, the same on all agents but for `patience`.

    Attributes:
      on_loss: "wait" for an agent that is gone, "stop" all, or "continue-without" it.
      patience: seconds without any sign of an agent after which it counts as gone, for the latter two.
      mask: whether to hide each agent's part of exact sums.
      consensus: whether masked sums go over the tree, or are gathered: "tree", "gather", or "auto".
    """

    on_loss: str
    patience: float
    mask: bool
    consensus: str = "auto"


class Meeting(NamedTuple):
    """Agreement of all agents before they start an epoch."""

    epoch: int
    base: int  # the iteration that all go back to
    attempt: int  # how often they have started anew with other random numbers
    masks: Masks | None
    digest: int  # of all that, and of who takes part


class Segment:
    """Runtime of one agent in a segment, with its run: prepared, compiled, and its folder open.

    Args:
      request: what this agent asks for; its folder is a segment's, and a run that is there is resumed.
      members: the agents that take part, by their numbers in the whole network.
      is_to_stop: tells whether this agent wishes all to end after the next chunk.
      secret: numbers that this agent alone knows, for the momenta of its own variables.
    """

    hosts = Hosts()
    holds_own = True
    stack = staticmethod(stack_on_host)

    def __init__(
        self,
        request: Request,
        terms: Terms,
        place: Place,
        members: tuple[int, ...],
        mailbox: Mailbox,
        is_to_stop: Callable[[], bool],
        secret: Sequence[int] = (),
    ) -> None:
        self._secret = secret
        self._terms, self._place, self._mailbox, self._is_to_stop = terms, place, mailbox, is_to_stop
        self.members = tuple(place.names[member] for member in members)
        self.without = tuple(name for name in place.names if name not in self.members)
        self._index = self.members.index(place.name)
        network = _rest(request.network, members, self.without).named(self.members)
        self.collectives = Collectives(_Renumbered(mailbox, members), network, self._index)
        self._counted = self.collectives.traffic
        self.job = open_job(replace(request, network=network), self)
        self.alike = _alike(self.job, terms)

    # --- what a runtime is asked -------------------------------------------------------------------------

    @property
    def record(self) -> Table:
        agent = {"name": self._place.name, "run": self._place.run_id, "names": [*self.members]}
        return {"agent": {**agent, "without": [*self.without], "mask": self._terms.mask}}

    def agents(self, network: Network) -> range:
        return range(self._index, self._index + 1)

    def numbers(self, network: Network) -> list[int]:
        return [self._place.index]  # whoever is left out

    def names(self, network: Network) -> list[str]:
        return [network.called(self._index)]

    def chains(self, prepared: Prepared) -> Chains:
        """Trace this agent's chains: a single lane, whose link calls out of the compiled loop, round by round."""

        def link(inputs: Inputs) -> PeerNeighbors:
            return PeerNeighbors(self.collectives, prepared.network, self._index, self._secret)

        one_copy = prepared.sampler.replicated and prepared.own is None
        shard = jax.tree.map(jnp.asarray, prepared.stacked)
        keys = chain_keys(prepared.key, len(prepared.starts))
        inputs = Inputs(prepared.sampler, no_edges(prepared.network.size), jnp.int32(0), shard, keys)
        views = (prepared.drawn, None, None)
        model = Model(prepared.posterior, prepared.layout, link, one_copy, *views, own=prepared.own)
        code = code_of_lanes(prepared)
        return Chains(prepared.network, model, inputs, prepared.positions, OneDevice(1), code=code, sent=self._sent)

    def check_start(self, chains: Chains) -> None:
        """Refuse a start at which this agent's density is not finite; nothing is sent for that."""
        values = jax.jit(partial(start_values_all, chains.model))(chains.inputs, chains.positions)
        check_start(*map(np.asarray, values), agents=self.names(chains.network))

    def part(self, prepared: Prepared) -> Part:
        return Part(range(1), 1, goes_back=True)

    def agree(self, wish: Wish) -> Wish:
        """Agree on the shortest chunk that any agent wishes for, and to save or to stop where any wishes it.

        The last draw's digests are compared on the way: where they are apart, nothing of the chunk is kept.
        """
        sink, going_on = self._sink(), not self._is_to_stop()
        iterations, unsaved, saved, goes_on = self._least(wish.iterations, -bool(wish.save), sink.saved, going_on)
        sink.forget(saved)  # nobody will go back to what is before the last checkpoint that all have
        return Wish(iterations, unsaved < 0, not goes_on)

    # --- an epoch ----------------------------------------------------------------------------------------

    def begin(self, meeting: Meeting) -> Progress:
        """Go back to the iteration that all agents start from, and return the progress there."""
        chains, sink, prepared = self.job.chains, self._sink(), self.job.prepared
        self.collectives.begin(meeting.masks, self._is_gathered(meeting))
        before = self._sent()  # in an epoch that failed, of which some agents may have seen more than others
        said = (meeting.digest, -meeting.digest, -before.rounds, -before.messages, -before.bytes)
        least, negated, *sent = self._least(*said)
        if least != -negated:
            raise Interrupted("the agents have not met as one")
        sink.back_to(meeting.base)
        # With the same random numbers agents that have parted ways would part again.
        key = jax.random.fold_in(prepared.key, meeting.attempt) if meeting.attempt else prepared.key
        chains.inputs = chains.inputs._replace(chain_keys=chain_keys(key, chains.chains))
        if sink.snapshot is None:
            shared, own = np.split(np.asarray(chains.positions), [prepared.layout.dimension], axis=1)
            [starts] = self.collectives.down([shared], kind="start")  # others may round theirs
            chains.positions = jnp.asarray(np.concatenate([starts, own], axis=1))
            names = self.names(prepared.network)
            with infinities_explained(names, self.job.shards):
                check_start(*map(np.asarray, chains.begin()), agents=names)
        else:
            chains.restore(sink.snapshot)
        traffic = Traffic(*(-number for number in sent)) + self._sent()
        return replace(sink.progress.sent(traffic), attempt=meeting.attempt)

    def _is_gathered(self, meeting: Meeting) -> bool:
        """Tell whether sums are gathered in an epoch: not after agents have computed unlike, which the tree levels."""
        prepared = self.job.prepared
        numbers = self.job.chains.chains * (1 + prepared.layout.dimension)  # of a value and a gradient
        gathers = is_gathered(self._terms.consensus, prepared.network, WORD_BYTES * numbers)
        if meeting.masks is not None and gathers and meeting.attempt:
            log.warning("the agents do not compute the same to the bit: their sums go over the tree")
        return meeting.masks is not None and gathers and not meeting.attempt

    def _sink(self) -> RunFolder:
        assert isinstance(self.job.sink, RunFolder)  # a peer keeps nothing in memory alone
        return self.job.sink

    def _least(self, *values: int) -> list[int]:
        """Return the least of what all agents propose, value by value."""
        [least] = self.collectives.flood([np.array(values, np.int64)])
        return [int(value) for value in least]

    def _sent(self) -> Traffic:
        """Return the traffic of all agents since the last call."""
        before, self._counted = self._counted, self.collectives.traffic
        return self._counted - before


def segment_folder(folder: Path, without: tuple[str, ...]) -> Path:
    """Return the folder of a segment: where agents are left out, it is beside that of all agents."""
    return folder if not without else folder.with_name(f"{folder.name}-without-{'+'.join(without)}")


def given_up(folder: Path, run_id: str) -> tuple[str, ...]:
    """Return the agents that this one has gone on without, by the folders that are there."""
    segments = [path for path in folder.parent.glob(f"{escape(folder.name)}-without-*") if (path / RUN).exists()]
    agents = [read_run(path)["agent"] for path in segments]
    return max((tuple(agent["without"]) for agent in agents if agent["run"] == run_id), key=len, default=())


def is_finished(folder: Path, length: Length) -> bool:
    """Tell whether a folder has all of a run of this length, and every agent had all of it."""
    if not (folder / RUN).exists() or (record := read_run(folder))["status"] != "complete":
        return False
    return read_checkpoint(folder, record)[0].drawn >= length.num_samples


class _Renumbered:
    """Mailbox of a segment, whose agents have other numbers than in the whole network."""

    def __init__(self, mailbox: Mailbox, members: tuple[int, ...]) -> None:
        self._mailbox, self._members = mailbox, members

    def send(self, to: Any, number: int, form: Form, arrays: Arrays) -> None:
        self._mailbox.send([self._members[agent] for agent in to], number, form, arrays)

    def receive(self, senders: Any, number: int, form: Form) -> list[bytes]:
        return self._mailbox.receive([self._members[agent] for agent in senders], number, form)

    def end(self, reason: Exception) -> None:
        self._mailbox.end(reason)


def is_connected(network: Network, members: tuple[int, ...]) -> bool:
    """Tell whether some agents can reach each other without the rest."""
    return bool(nx.is_connected(network.graph.subgraph(members)))


def _rest(network: Network, members: tuple[int, ...], without: tuple[str, ...]) -> Network:
    if not without:
        return network
    graph = nx.Graph()
    graph.add_nodes_from(range(len(members)))
    number = {member: k for k, member in enumerate(members)}
    graph.add_edges_from((number[i], number[j]) for i, j in network.edges if i in number and j in number)
    return Network(graph, network.rule, f"{network.name} without {', '.join(without)}")


def code_of_lanes(prepared: Prepared) -> str:
    """Return the fingerprint of model and sampler, as if simulated with two rows of zeros on every agent.

    So every agent has one group, of whatever number of groups it has in fact.
    """
    own = None if prepared.own is None else replace(prepared.own, room=1)
    prepared = replace(prepared, own=own)
    size, form_of_one = prepared.network.size, prepared.stacked.padded_form.batch
    batch = jax.tree.map(lambda leaf: np.zeros((size, ROWS_TRACED, *leaf.shape[2:]), leaf.dtype), form_of_one)
    keys = chain_keys(prepared.key, len(prepared.starts))
    inputs = lane_inputs(prepared.network, prepared.sampler, Shard(batch, None), keys)
    one_copy, views = prepared.sampler.replicated and own is None, (prepared.drawn, None, None)
    model = Model(prepared.posterior, prepared.layout, lane_link(one_copy), one_copy, *views, own=own)
    return trace(model, inputs, prepared.positions).fingerprint().code


def _alike(job: Job, terms: Terms) -> dict[str, str]:
    """Return the facts in which all agents must agree, as text by name."""
    facts = {
        name: str(value) for name, value in flat(job.identity) if not name.startswith(OWN) and name != "agent.name"
    }
    return {**facts, "columns": form(job.shards[0]), "on_loss": terms.on_loss, "consensus": terms.consensus}
