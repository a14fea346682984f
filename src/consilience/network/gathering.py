"""All-gather: every agent's numbers reach every agent in as many rounds as the farthest two are apart.

Each agent's own travel along a breadth-first tree from it. Which agent passes whose numbers on to whom, and in which
round, follows from the edges alone, so that all agents know what to wait for, and a message need not say what is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from .tree import breadth_first

if TYPE_CHECKING:
    from .network import Network

MOST_AGENTS = 256  # each sends on what nearly all others have: of more agents, nobody gathers
LATENCY, BANDWIDTH = 0.02, 50e6  # seconds and bits a second of the links for which "auto" chooses
CONSENSUS = ("auto", "tree", "gather")

Link = tuple[int, int]  # from, to


@dataclass(frozen=True)
class Gathering:
    """Schedule of an all-gather.

    Attributes:
      rounds: for every round, by link: whose numbers pass it, in ascending order.
    """

    rounds: tuple[dict[Link, tuple[int, ...]], ...]

    @cached_property
    def messages(self) -> int:
        return sum(map(len, self.rounds))

    @cached_property
    def carriers(self) -> int:
        """Number of times that one agent's numbers are sent, over all agents and rounds."""
        return sum(len(sources) for links in self.rounds for sources in links.values())

    @cached_property
    def widest(self) -> tuple[int, ...]:
        """Of how many agents the longest message of each round is."""
        return tuple(max(map(len, links.values())) for links in self.rounds)

    def seconds(self, size: int) -> float:
        """Return how long it takes on typical links, where an agent's numbers are so many bytes."""
        return sum(LATENCY + 8 * count * size / BANDWIDTH for count in self.widest)


def gathering(network: Network) -> Gathering:
    """Work out the schedule of an all-gather over a network."""
    rounds: list[dict[Link, list[int]]] = [{} for _ in range(network.diameter)]
    for source in range(network.size):
        parent, hops = breadth_first(network, source)
        for agent, distance in enumerate(hops):
            if distance:
                rounds[distance - 1].setdefault((parent[agent], agent), []).append(source)
    return Gathering(tuple({link: tuple(sources) for link, sources in sorted(links.items())} for links in rounds))


def is_gathered(consensus: str, network: Network, size: int) -> bool:
    """Tell whether sums of `size` bytes are gathered: as `consensus` says, by what is sooner on typical links.

    Args:
      consensus: "tree", "gather", or "auto".
    """
    if consensus != "auto":
        return consensus == "gather"
    if network.size > MOST_AGENTS:
        return False
    return network.gathering.seconds(size) < network.tree.rounds * (LATENCY + 8 * size / BANDWIDTH)
