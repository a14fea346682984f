"""Cost model: how long the collectives of an iteration take on given links, agent by agent.

Every agent has a clock. A message of B bytes that leaves agent i when its clock shows t_i can be used by its neighbour
j at

    t_i  +  latency_ij  +  B / bandwidth_ij  +  hop + hop_byte · B ,

and what an agent does next begins at the latest of its own clock and of the messages that it waits for. So a pass over
the tree takes as long as its slowest way from a leaf to the root, gossip as its slowest link, and agents that are done
early go on early. An agent does one thing at a time: of several messages that it sends, or takes, each comes after the
one before, message + message_byte · B later. A long message that comes after a while without one waits for TCP, see
`windows`. Every clock knows what its time went into, along the path of messages that it had to wait for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..neighbors import HEADER, Kind
from ..network import Network
from .demand import Collective, Demand
from .links import LinkSpeeds
from .windows import PACKET, PACKET_HEADERS, Windows

PARTS = ("latency", "bandwidth", "compute", "software")
LATENCY, BANDWIDTH, COMPUTE, SOFTWARE = range(len(PARTS))
SETTLED = 32  # rounds, or sums, after which each takes as long as the one before
CYCLES = 4  # iterations after which each takes as long as the one before


class Constants(NamedTuple):
    """Seconds that software takes per message and byte; constants.json has what `make bench-plan` has measured.

    Attributes:
      hop, hop_byte: a message alone, and each of its bytes, from compiled code to compiled code: getting out of it, the
        header, checks, Zenoh, TLS, the kernel, and back in.
      message, message_byte: delay of what an agent does next, by each further message and each of its bytes.
      room_byte, noise_byte: each byte of a chunk's empty room for draws, and of its random numbers.
    """

    hop: float
    hop_byte: float
    message: float
    message_byte: float
    room_byte: float
    noise_byte: float

    def alone(self, size: int) -> float:
        return self.hop + self.hop_byte * size

    def further(self, size: int) -> float:
        return self.message + self.message_byte * size

    def chunk(self, demand: Demand, draws: int) -> float:
        """Return the seconds of an agent's work for a chunk of so many draws, besides the draws."""
        return self.room_byte * demand.room_of_a_chunk + self.noise_byte * demand.noise_of_a_chunk(draws)


MEASURED = Constants(**json.loads(Path(__file__).with_name("constants.json").read_text(encoding="utf-8")))


class _Round(NamedTuple):
    """Messages that travel at the same time, by receiver: those to one are next to each other, as it takes them."""

    sender: np.ndarray
    receiver: np.ndarray
    before: np.ndarray  # messages that the sender sends first
    after: np.ndarray  # messages that the receiver takes afterwards
    link: np.ndarray  # the number of the link and of its direction
    sent: np.ndarray  # messages that every agent sends, less one
    taken: np.ndarray  # messages that every agent takes, less one
    latency: np.ndarray
    bandwidth: np.ndarray


def bytes_on_the_wire(size: int) -> float:
    """Return the bytes of a message with `size` bytes of numbers, its header and those of its packets included."""
    return (size + HEADER.size) * PACKET / (PACKET - PACKET_HEADERS)


@dataclass(frozen=True)
class Cost:
    """Seconds that an iteration or a collective takes, split into `PARTS`."""

    parts: np.ndarray

    @property
    def seconds(self) -> float:
        return float(self.parts.sum())


class CostModel:
    """Cost of collectives on a network whose links have latency and bandwidth."""

    def __init__(self, network: Network, links: LinkSpeeds, constants: Constants = MEASURED) -> None:
        self.network, self._constants = network, constants
        edges = np.array(network.edges, dtype=int).reshape(-1, 2)
        both = np.concatenate([edges, edges[:, ::-1]])
        self._directions = len(both)
        speed = np.stack([np.arange(len(both)), np.tile(links.latency, 2), np.tile(links.bandwidth, 2)], axis=1)
        speeds = dict(zip(map(tuple, both), speed, strict=True))
        tree = network.tree
        up = [[(child, tree.parent[child]) for child in level] for level in tree.levels[:0:-1]]
        self._up = [_round(pairs, speeds, network.size) for pairs in up]
        self._down = [_round(np.array(pairs)[:, ::-1], speeds, network.size) for pairs in reversed(up)]
        self._gossip = _round(both, speeds, network.size)
        self._speeds = speeds

    @cached_property
    def _gathering(self) -> list[tuple[_Round, int]]:
        """Return the rounds of an all-gather, with how many agents' numbers are in the longest message of each."""
        schedule = self.network.gathering
        return [
            (_round([*links], self._speeds, self.network.size), widest)
            for links, widest in zip(schedule.rounds, schedule.widest, strict=True)
        ]

    def iteration_cost(self, demand: Demand, gradient_seconds: float, quiet_seconds: float = 0.0) -> Cost:
        """Return the cost of one of many iterations: agents do not wait for each other in between.

        Args:
          quiet_seconds: time between two iterations in which nothing of this kind is sent; it is not part of the cost.
        """
        clocks, windows = self._start()
        ends = []
        for _ in range(CYCLES):
            clocks = clocks.copy()
            clocks[:, COMPUTE] += demand.evaluations * gradient_seconds
            clocks = self._after(clocks, windows, demand.collectives)
            windows.idle(quiet_seconds)
            ends.append(_latest(clocks))
        return Cost((ends[-1] - ends[CYCLES // 2 - 1]) / (CYCLES - CYCLES // 2))

    def collective_cost(self, *collectives: Collective) -> Cost:
        """Return the cost of collectives until the last agent has done with them, where all begin at once."""
        return Cost(_latest(self._after(*self._start(), collectives)))

    def bytes_sent(self, *collectives: Collective) -> np.ndarray:
        """Return the bytes that every agent sends for collectives, headers of messages included."""
        size = self.network.size
        up, down, gossip = (
            sum((np.bincount(each.sender, minlength=size) for each in rounds), np.zeros(size))
            for rounds in (self._up, self._down, [self._gossip])
        )
        found = np.zeros(size)
        for kind, times, message_bytes, back_bytes in collectives:
            if kind == "sum":
                found += times * (up * (message_bytes + HEADER.size) + down * (back_bytes + HEADER.size))
            elif kind == "gather":
                for links in self.network.gathering.rounds:
                    for (sender, _), sources in links.items():
                        found[sender] += times * (len(sources) * message_bytes + HEADER.size)
            else:
                count = down if kind == "pass" else self._rounds(kind) * gossip
                found += times * count * (message_bytes + HEADER.size)
        return found

    def _start(self) -> tuple[np.ndarray, Windows]:
        return np.zeros((self.network.size, len(PARTS))), Windows(self._directions)

    def _after(self, clocks: np.ndarray, windows: Windows, collectives: Sequence[Collective]) -> np.ndarray:
        for kind, times, size, back in collectives:
            if self.network.size == 1:
                break
            once, count = [(self._gossip, size)], times * self._rounds(kind)
            if kind in ("sum", "pass"):
                ups, downs = [(each, size) for each in self._up], [(each, back or size) for each in self._down]
                once, count = [*ups, *downs] if kind == "sum" else downs, times
            if kind == "gather":
                once, count = [(each, widest * size) for each, widest in self._gathering], times
            clocks = self._repeated(clocks, windows, once, count)
        return clocks

    def _rounds(self, kind: Kind) -> int:
        """Return the number of rounds of gossip that one collective of a kind has."""
        return self.network.diameter if kind == "flood" else 1

    def _repeated(
        self, clocks: np.ndarray, windows: Windows, rounds: list[tuple[_Round, int]], times: float
    ) -> np.ndarray:
        """Advance clocks by `times` repetitions, an average with a fraction; after SETTLED, all take equally long."""
        course = [clocks]
        for _ in range(min(math.ceil(times), SETTLED)):
            course.append(self._through(course[-1], windows, rounds))
        done = len(course) - 1
        if times == done:
            return course[-1]
        if times < done:  # a part of the last one
            return course[-2] + (times - (done - 1)) * (course[-1] - course[-2])
        following = (times - done) * (_latest(course[-1]) - _latest(course[-3])) / 2
        windows.advance(float(following.sum()))
        return course[-1] + following

    def _through(self, clocks: np.ndarray, windows: Windows, rounds: list[tuple[_Round, int]]) -> np.ndarray:
        return reduce(lambda clocks, each: self._one(clocks, windows, *each), rounds, clocks)

    def _one(self, clocks: np.ndarray, windows: Windows, each: _Round, size: int) -> np.ndarray:
        further, wire = self._constants.further(size), bytes_on_the_wire(size)
        arrivals = clocks[each.sender].copy()
        leaves = arrivals.sum(axis=1) + each.before * further
        arrivals[:, LATENCY] += each.latency + windows.wait(each.link, leaves, wire, each.latency, each.bandwidth)
        arrivals[:, BANDWIDTH] += 8 * wire / each.bandwidth
        arrivals[:, SOFTWARE] += self._constants.alone(size) + (each.before + each.after) * further
        # The latest message of every receiver: the last of its group, ordered by when they can be used.
        order = np.lexsort((arrivals.sum(axis=1), each.receiver))
        last = order[np.flatnonzero(np.diff(each.receiver[order], append=-1))]
        clocks = clocks.copy()
        clocks[:, SOFTWARE] += (each.sent + each.taken) * further
        own = clocks.sum(axis=1)[each.receiver[last]]
        is_later = arrivals[last].sum(axis=1) > own
        clocks[each.receiver[last[is_later]]] = arrivals[last[is_later]]
        return clocks


def _round(pairs: object, speeds: dict[tuple[int, int], np.ndarray], agents: int) -> _Round:
    """Make a round of messages (from, to); everyone sends, and takes, in ascending order of the other's number."""
    pairs = np.array(pairs, dtype=int).reshape(-1, 2)
    pairs = pairs[np.lexsort((pairs[:, 0], pairs[:, 1]))]
    sender, receiver = pairs.T
    link, latency, bandwidth = np.array([speeds[pair] for pair in map(tuple, pairs)]).reshape(-1, 3).T
    by_sender = np.lexsort((receiver, sender))
    before = np.empty(len(pairs), dtype=int)
    before[by_sender] = _places(sender[by_sender])
    after = _places(receiver[::-1])[::-1]
    sent, taken = (np.maximum(0, np.bincount(ends, minlength=agents) - 1) for ends in (sender, receiver))
    return _Round(sender, receiver, before, after, link.astype(int), sent, taken, latency, bandwidth)


def _places(groups: np.ndarray) -> np.ndarray:
    """Count, for every entry, the equal ones right before it."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return np.arange(len(groups)) - np.repeat(starts, np.diff(starts, append=len(groups)))


def _latest(clocks: np.ndarray) -> np.ndarray:
    return clocks[np.argmax(clocks.sum(axis=1))]
