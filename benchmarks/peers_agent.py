"""One of the agents that `benchmarks.peers` starts: does what it is told, line by line, and says how long that took.

    python -m benchmarks.peers_agent FOLDER NAME    (with a job as JSON in every line of stdin)

It has two Zenoh sessions with the same configuration, mutual TLS and access control. Over one goes the runtime: a
compiled loop that calls out for every round. Over the other goes the floor: a loop in Python that puts as many bytes
and takes what comes from Zenoh's own channel, with nothing looked at.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import zenoh

import consilience as cs
from consilience._compat import dispatch_synchronously
from consilience.engine import Chains
from consilience.experiments.digits import AGENTS as SIZE
from consilience.experiments.digits import INIT, POSTERIOR, bundled_digits
from consilience.neighbors import AGENTS, Arrays, Collectives, PeerNeighbors, RiderForm
from consilience.network import network_from_spec
from consilience.peers import AgentFile, Credentials, Links, Mailbox, Place
from consilience.peers.session import configuration

from .plan_model import SAMPLERS as PLANNED
from .plan_model import alone
from .timing import seconds

NAMES = tuple(f"agent{k}" for k in range(SIZE))
PARTS = ("key", "certificate", "authority")  # of an agent's credentials, a file each
RING = f"ring:{SIZE}"
REPEATS, SEVERAL = 7, 8  # of a chunk with one draw, and of one with so many more
WARM_UP = 20  # rounds, after which all agents are at it
SAMPLERS = {
    "mala": cs.mala(0.02, inverse_mass_matrix=1.0),
    "nuts": cs.nuts(0.04, inverse_mass_matrix=1.0),
}


def place_of(name: str, run_id: str, endpoints: list[str], network: cs.Network) -> Place:
    """In a network of the first of the agents."""
    at = dict(zip(NAMES, endpoints, strict=True))
    neighbors = {NAMES[k]: at[NAMES[k]] for k in network.neighbors(NAMES.index(name))}
    return Place(run_id, name, NAMES[: network.size], at[name], neighbors)


class Paced(Collectives):
    """With a pause before every sum, where it is asked for: between messages that take long, nothing stays at hand.

    Attributes:
      pause: seconds.
      slept: in pauses so far.
    """

    pause = slept = 0.0

    def total(self, arrays: Arrays, rider: Sequence[RiderForm] = ()) -> Arrays:
        if self.pause:
            began = time.perf_counter()
            time.sleep(self.pause)
            self.slept += time.perf_counter() - began
        return super().total(arrays, rider)


class Runtime:
    """Rounds as samplers have them."""

    def __init__(self, place: Place, credentials: Credentials, network: cs.Network) -> None:
        self._there: set[str] = set()
        links = Links(
            place,
            credentials,
            lambda *_: None,
            lambda name, _: self._there.add(name),
            lambda: b"",
            pulled=("round",),
        )
        links.open()
        self.mailbox = Mailbox.over(links)
        _wait(lambda: self._there == set(place.neighbors))
        self.mailbox.begin(1)
        self._collectives = Paced(self.mailbox, network, place.index)
        self._connect = partial(PeerNeighbors, self._collectives, network, place.index)
        self._loops = {
            "gossip": self._loop(lambda v, count: self._connect().mix(v, count)),
            "sum": self._loop(self._sums),
        }

    def _sums(self, v: jax.Array, count: jax.Array) -> jax.Array:
        neighbors = self._connect()
        with neighbors.repeated():
            return jax.lax.fori_loop(0, count, lambda _, w: neighbors.total(w) / neighbors.size, v)

    @staticmethod
    def _loop(function: Callable[[jax.Array, jax.Array], jax.Array]) -> Any:
        """Compiled under a `vmap` of one agent within one of one chain, as in engine/loop.py."""
        lanes = jax.vmap(jax.vmap(function, in_axes=(0, None), axis_name=AGENTS), in_axes=(0, None))
        return jax.jit(lanes)

    @property
    def sent(self) -> tuple[int, int]:
        """Bytes, and those of the payload."""
        return self.mailbox.bytes, self.mailbox.payload

    @property
    def slept(self) -> float:
        return self._collectives.slept

    def rounds(self, kind: str, dimension: int, count: int, pause: float = 0.0) -> None:
        self._collectives.pause = pause
        start = jnp.asarray(np.random.default_rng(0).standard_normal((1, 1, dimension)), jnp.float32)
        self._loops[kind](start, jnp.int32(count)).block_until_ready()


class Floor:
    """The same bytes over the same links, and no more."""

    sent = (0, 0)  # not counted
    slept = 0.0

    def __init__(self, place: Place, credentials: Credentials, network: cs.Network) -> None:
        self._session = zenoh.open(zenoh.Config.from_json5(json.dumps(configuration(place, credentials))))
        self._from = {
            NAMES.index(name): self._session.declare_subscriber(place.key("round", name, place.name))
            for name in place.neighbors
        }
        self._to = {
            NAMES.index(name): self._session.declare_publisher(
                place.key("round", place.name, name),
                congestion_control=zenoh.CongestionControl.BLOCK,
                reliability=zenoh.Reliability.RELIABLE,
                express=True,
            )
            for name in place.neighbors
        }
        tree = network.tree
        self._children = tree.children(place.index)
        self._parents = [] if place.index == tree.root else [tree.parent[place.index]]
        _wait(lambda: all(publisher.matching_status.matching for publisher in self._to.values()))

    def rounds(self, kind: str, dimension: int, count: int, pause: float = 0.0) -> None:
        raw = bytes(4 * dimension)
        one = {"gossip": self._gossip, "sum": self._sum}[kind]
        for _ in range(count):
            one(raw)

    def _gossip(self, raw: bytes) -> None:
        for publisher in self._to.values():
            publisher.put(raw)
        for subscriber in self._from.values():
            subscriber.recv().payload.to_bytes()

    def _sum(self, raw: bytes) -> None:
        for senders, receivers in ((self._children, self._parents), (self._parents, self._children)):
            for agent in senders:
                self._from[agent].recv().payload.to_bytes()
            for agent in receivers:
                self._to[agent].put(raw)


def _wait(is_so: Callable[[], bool]) -> None:
    while not is_so():
        time.sleep(0.02)


class Agent:
    """What can be asked for."""

    def __init__(self, folder: Path, name: str) -> None:
        self._name = name
        self._credentials = Credentials(*(folder / f"{name}-{part}.pem" for part in PARTS))
        self._open: dict[tuple[str, str], Any] = {}
        self._alone: dict[tuple[str, int], Chains] = {}

    def rounds(
        self,
        by: str,
        run_id: str,
        endpoints: list[str],
        kind: str,
        dimension: int,
        count: int,
        network: str = RING,
        pause: float = 0.0,
    ) -> dict[str, Any]:
        """Of the runtime or the floor: seconds without pauses, and what was handed to Zenoh; nothing, if this agent is
        not in that network.
        """
        linked = network_from_spec(network)
        if NAMES.index(self._name) >= linked.size:
            return {}
        if (by, run_id) not in self._open:
            place = place_of(self._name, run_id, endpoints, linked)
            self._open[by, run_id] = {"runtime": Runtime, "floor": Floor}[by](place, self._credentials, linked)
        one = self._open[by, run_id]
        one.rounds(kind, dimension, WARM_UP)
        (size, payload), slept, began = one.sent, one.slept, time.perf_counter()
        one.rounds(kind, dimension, count, pause)
        seconds = time.perf_counter() - began - (one.slept - slept)
        return {"seconds": seconds, "bytes": one.sent[0] - size, "payload": one.sent[1] - payload}

    def sample(self, sampler: str, run_id: str, endpoints: list[str], folder: str, draws: int) -> dict[str, Any]:
        """A run, as `consilience peer` has it: seconds of its draws, and the bytes of all agents."""
        network = network_from_spec(RING)
        place = place_of(self._name, run_id, endpoints, network)
        train, _ = bundled_digits()
        batch = cs.shard(train, SIZE, by="label")[place.index]
        file = AgentFile(Path(folder) / "agent.toml", place, self._credentials, "wait", False, "tree")
        run = cs.sample(
            POSTERIOR,
            [batch],
            network,
            SAMPLERS[sampler],
            num_samples=draws,
            num_warmup=0,
            num_chains=1,
            init=INIT,
            out=Path(folder) / self._name,
            progress=False,
            runtime=cs.Peer(file),
        )
        return {"seconds": run.seconds, "bytes": run.traffic.bytes}

    def compute(self, sampler: str, features: int) -> dict[str, Any]:
        """What an agent does for draws besides sending, of `benchmarks.plan`: seconds of a chunk, and of a draw."""
        if (sampler, features) not in self._alone:
            self._alone[sampler, features] = alone(PLANNED[sampler], NAMES.index(self._name), features)
        run = self._alone[sampler, features]
        one = median(seconds(lambda: run.advance(1, 1)) for _ in range(REPEATS))
        several = median(seconds(lambda: run.advance(1 + SEVERAL, 1)) for _ in range(REPEATS))
        draw = max(0.0, (several - one) / SEVERAL)
        return {"chunk": one - draw, "draw": draw}

    def do(self, job: Mapping[str, Any]) -> dict[str, Any]:
        arguments = {key: value for key, value in job.items() if key != "job"}
        return {"rounds": self.rounds, "sample": self.sample, "compute": self.compute}[job["job"]](**arguments)


def _jobs(jobs: queue.SimpleQueue[dict[str, Any]]) -> None:
    """Until the one who gives them is gone; a round would wait for ever then."""
    for line in sys.stdin:
        jobs.put(json.loads(line))
    os._exit(0)


def main() -> None:
    dispatch_synchronously()  # as `consilience peer` does
    folder, name = sys.argv[1:]
    agent = Agent(Path(folder), name)
    jobs: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_jobs, args=(jobs,), daemon=True).start()
    while True:
        print(json.dumps(agent.do(jobs.get())), flush=True)


if __name__ == "__main__":
    main()
