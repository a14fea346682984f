"""Segments of a run: what a set of agents run together, all of them or those that are left when one is given up.

A segment has a network, a split of the prior, a warm-up and a folder of its own. Draws of two segments are of two
posteriors, and are never put together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from glob import escape
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from .._lazy import LazyModule
from .._types import Batch
from ..engine import Model, fingerprint, trace
from ..model import Posterior, Shard, check_shards, form
from ..neighbors import Arrays, Collectives, Form, Interrupted, Masks
from ..network import Network
from ..peers import Mailbox, Place
from ..results import Run, stored_run
from ..samplers import Sampler
from ..store import ATTEMPT, RUN, HistoryStore, Progress, describe, describe_data, flat, read_checkpoint, read_run
from .drawing import Piece
from .peer import Peer
from .preparing import Length, Prepared, prepare
from .simulate import chain_keys, lane_inputs, lane_link

nx: Any = LazyModule("networkx")

# Recorded by every agent, and free to differ between them.
OWN = (
    *("format", "status", "created", "data.", "dims.", "model.start"),
    *("versions.python", "versions.numpy", "versions.device"),
)
ROWS = 2  # of the batch on which models are compared


class Stopped(Exception):  # noqa: N818
    """Raised when all agents have been asked to end; the run can be resumed."""


@dataclass(frozen=True)
class Task:
    """Settings of a run, the same on all agents, and this agent's data.

    Attributes:
      on_loss: "wait" for an agent that is gone, "stop" all, or "continue-without" it.
      patience: seconds without any sign of an agent after which it counts as gone, for the latter two.
      mask: whether to hide each agent's part of exact sums.
    """

    posterior: Posterior
    batch: Batch
    network: Network
    sampler: Sampler
    length: Length
    init: Any = None
    keep: Any = None
    on_loss: str = "wait"
    patience: float = 30.0
    mask: bool = False


class Meeting(NamedTuple):
    """Agreement of all agents before they start an epoch."""

    epoch: int
    base: int  # the iteration that all go back to
    attempt: int  # how often they have started anew with other random numbers
    masks: Masks | None
    digest: int  # of all that, and of who takes part


class Segment:
    """One agent's part in a segment: compiled, with its folder open.

    Args:
      members: the agents that take part, by their numbers in the whole network.
      folder: where its draws go; a run that is there is resumed.
    """

    def __init__(self, task: Task, place: Place, members: tuple[int, ...], folder: Path, mailbox: Mailbox) -> None:
        self.task, self.folder = task, folder
        self.names = tuple(place.names[member] for member in members)
        self.without = tuple(name for name in place.names if name not in self.names)
        self.network = _rest(task.network, members, self.without)
        with _named(place.name):
            shards = check_shards([task.batch], 1)
            self.ready = ready = prepare(
                task.posterior, shards, self.network, task.sampler, task.length, task.init, task.keep
            )
            index = self.names.index(place.name)
            collectives = Collectives(_Renumbered(mailbox, members), self.network, index)
            self.peer = Peer(
                ready.posterior,
                ready.layout,
                ready.stacked,
                self.network,
                index,
                ready.sampler,
                ready.starts,
                ready.key,
                ready.view,
                collectives,
                mailbox,
            )
            self.peer.check_start()
        layouts = (ready.layout, ready.view.layout, None)
        code = _code(self.network, ready)
        starts = np.asarray(ready.starts)
        identity = describe(
            self.network,
            ready.sampler,
            describe_data(shards),
            starts,
            *layouts,
            ready.posterior.dims,
            code,
            asdict(task.length),
        )
        identity["agent"] = {
            "name": place.name,
            "run": place.run_id,
            "names": [*self.names],
            "without": [*self.without],
            "mask": task.mask,
        }
        self.alike = _alike(identity, task)
        self.store = HistoryStore(
            folder, identity, self.network, ready.view.layout, task.length.num_samples, resume=True
        )

    @property
    def attempt(self) -> int:
        """Attempt at which the newest checkpoint was saved; 0 without a checkpoint."""
        return 0 if self.store.snapshot is None else int(self.store.snapshot[ATTEMPT])

    def begin(self, meeting: Meeting) -> Progress:
        """Go back to the iteration that all agents start from, and return the progress there."""
        peer, store = self.peer, self.store
        peer.collectives.begin(meeting.masks)
        least, negated = peer.agreed(meeting.digest, -meeting.digest)
        if least != -negated:
            raise Interrupted("the agents have not met as one")
        store.back_to(meeting.base)
        peer.use_attempt(meeting.attempt)
        if store.snapshot is None:
            peer.begin()
        else:
            peer.restore(store.snapshot)
        return store.progress.sent(peer.of_all(peer.sent()))

    def snapshot(self, meeting: Meeting) -> dict[str, np.ndarray]:
        return {**self.peer.snapshot(), ATTEMPT: np.array(meeting.attempt)}

    def pieces(self, is_to_stop: Callable[[], bool], report: Callable[[int, Any], None]) -> Iterator[Piece]:
        """Yield chunks; agents agree on each one's length, on saving it and stopping after it, before it is drawn."""
        peer, store, length = self.peer, self.store, self.task.length
        warmed, drawn = store.progress.warmed, store.progress.drawn
        while drawn < length.num_samples:
            count, not_saved, safe, goes_on = peer.agreed(
                peer.iterations_at_once(), -int(store.is_due), store.saved, int(not is_to_stop())
            )
            store.forget(safe)
            if warmed < length.num_warmup:
                chunk, is_kept = peer.advance(1, min(count, length.num_warmup - warmed), seen=False), False
                warmed += chunk.iterations
            else:
                most = min(length.num_samples - drawn, peer.program.buffer)
                chunk, is_kept = peer.advance(max(1, min(most, count // length.thin)), length.thin), True
                drawn += len(chunk.positions)
            chunk = chunk._replace(traffic=peer.of_all(chunk.traffic))
            yield Piece(chunk, is_kept, save=not_saved < 0 or not goes_on)
            report(warmed + drawn * length.thin, chunk)
            if not goes_on and drawn < length.num_samples:
                raise Stopped


def segment_folder(folder: Path, without: tuple[str, ...]) -> Path:
    """Return the folder of a segment: where agents are left out, it is beside that of all agents."""
    return folder if not without else folder.with_name(f"{folder.name}-without-{'+'.join(without)}")


def given_up(folder: Path, run_id: str) -> tuple[str, ...]:
    """Return the agents that this one has gone on without, by the folders that are there."""
    segments = [path for path in folder.parent.glob(f"{escape(folder.name)}-without-*") if (path / RUN).exists()]
    agents = [read_run(path)["agent"] for path in segments]
    return max((tuple(agent["without"]) for agent in agents if agent["run"] == run_id), key=len, default=())


def finished(folder: Path, length: Length) -> Run | None:
    """Return the run in a folder, if all of it is there and every agent had all of it; else None."""
    if not (folder / RUN).exists() or read_run(folder)["status"] != "complete":
        return None
    return stored_run(folder) if read_checkpoint(folder)[0].drawn >= length.num_samples else None


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


def _code(network: Network, ready: Prepared) -> str:
    """Return the fingerprint of model and sampler, as if simulated with two rows of zeros on every agent."""
    batch = jax.tree.map(lambda leaf: np.zeros((network.size, ROWS, *leaf.shape[2:]), leaf.dtype), ready.stacked.batch)
    inputs = lane_inputs(network, ready.sampler, Shard(batch, None), chain_keys(ready.key, len(ready.starts)))
    one_copy = ready.sampler.replicated
    model = Model(ready.posterior, ready.layout, lane_link(one_copy), one_copy, ready.view, None, None)
    return fingerprint(*trace(model, inputs, ready.starts).code).code


def _alike(identity: dict[str, Any], task: Task) -> dict[str, str]:
    """Return the facts in which all agents must agree, as text by name."""
    facts = {name: str(value) for name, value in flat(identity) if not name.startswith(OWN) and name != "agent.name"}
    return {**facts, "columns": form(task.batch), "on_loss": task.on_loss}


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Replace "agent 0" in refusals by this agent's name: the only agent here need not be the first of its run."""
    try:
        yield
    except (ValueError, TypeError) as refusal:
        refusal.args = (str(refusal).replace("agent 0", f"agent {name}"), *refusal.args[1:])
        raise
