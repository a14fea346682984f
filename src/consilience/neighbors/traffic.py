"""Communication of a run: rounds, messages and bytes, counted where they happen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..network import Network

Kind = Literal["gossip", "flood", "sum", "pass", "mark", "rider", "gather"]


@dataclass(frozen=True)
class Traffic:
    """The communication of a run, all agents and chains together.

    A round is what happens between two waits for messages: in gossip one message from every agent to each neighbour, on
    a tree the messages of one level. One message carries all chains.
    """

    rounds: int = 0
    messages: int = 0
    bytes: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.rounds + other.rounds, self.messages + other.messages, self.bytes + other.bytes)

    def __sub__(self, other: Traffic) -> Traffic:
        return Traffic(self.rounds - other.rounds, self.messages - other.messages, self.bytes - other.bytes)


class Price(NamedTuple):
    """Rounds and messages of one collective, and how many messages carry its bytes."""

    rounds: int
    messages: int
    carriers: int


def price(network: Network, kind: Kind) -> Price:
    """Return what one collective costs.

    - "gossip": every agent to each neighbour, once;
    - "flood": the same as often as the farthest two agents are apart;
    - "sum": every agent but the root to its parent, level by level, and back;
    - "pass": the half of it, here the root's values on their way to all;
    - "mark": numbers to compare, which ride on a sum's way up, or the verdict on them;
    - "rider": the root's values, where they ride on a sum's way down;
    - "gather": every agent's own, passed on from neighbour to neighbour until all have them, together with others'.
    """
    passes = network.size - 1
    if kind == "gossip":
        return Price(1, network.messages_per_round, network.messages_per_round)
    if kind == "flood":
        messages = network.diameter * network.messages_per_round
        return Price(network.diameter, messages, messages)
    if kind == "sum":
        return Price(network.tree.rounds, network.tree.messages, network.tree.messages)
    if kind == "gather":
        return Price(network.diameter, network.gathering.messages, network.gathering.carriers)
    if kind == "pass":
        return Price(network.tree.depth, passes, passes)
    return Price(0, 0, passes)
