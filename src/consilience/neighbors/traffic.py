"""Communication of a run: rounds, messages and bytes, counted where they happen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..network import Network

Kind = Literal["gossip", "flood", "tree pass"]


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


def price(network: Network, kind: Kind) -> tuple[int, int]:
    """Return the numbers of rounds and messages of one collective.

    - "gossip": every agent to each neighbour, once;
    - "flood": the same as often as the farthest two agents are apart;
    - "tree pass": every agent but the root to its parent, or from it, level by level.
    """
    if kind == "gossip":
        return 1, network.messages_per_round
    if kind == "flood":
        return network.diameter, network.diameter * network.messages_per_round
    return network.tree.depth, network.size - 1
