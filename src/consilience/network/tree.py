"""Spanning trees of a network, over which a sum is exact and has the same bits on every agent.

Children send their sums to their parent, which adds them to its own value in ascending order of their numbers; the
root's total travels back down. That takes 2·depth hops and 2(m - 1) messages, the fewest after which all can know
the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from .._checks import whole_number

if TYPE_CHECKING:
    from .network import Network

EXACT_CENTRE_LIMIT = 2048  # agents; above, the distances of all pairs take too long


@dataclass(frozen=True)
class Tree:
    """A rooted spanning tree of the agents 0 ... m - 1."""

    root: int
    parent: tuple[int, ...]
    """Parent of each agent; -1 at the root."""
    depth: int
    """Number of hops from the root to the agent farthest from it."""

    def children(self, agent: int) -> tuple[int, ...]:
        """Return the agents whose parent is `agent`, in ascending order: the order in which their sums are added."""
        whole_number("agent", agent, 0, len(self.parent) - 1)
        return self._children[agent]

    @cached_property
    def _children(self) -> tuple[tuple[int, ...], ...]:
        found: list[list[int]] = [[] for _ in self.parent]
        for agent, parent in enumerate(self.parent):
            if agent != self.root:
                found[parent].append(agent)
        return tuple(map(tuple, found))

    @cached_property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """Agents by their number of hops from the root, which is alone in the first level; ascending in each."""
        levels: list[tuple[int, ...]] = [(self.root,)]
        while below := sorted(child for agent in levels[-1] for child in self.children(agent)):
            levels.append(tuple(below))
        return tuple(levels)

    @property
    def rounds(self) -> int:
        """Number of rounds that one sum takes: up and down again."""
        return 2 * self.depth

    @property
    def messages(self) -> int:
        """Number of messages that one sum takes: two over every link of the tree."""
        return 2 * (len(self.parent) - 1)


def spanning_tree(network: Network) -> Tree:
    """Build the breadth-first tree from a centre of the graph: least eccentricity, the lowest number among equals.

    No tree of the graph is less deep. Above 2048 agents the centre is approximate: the middle of the path that a
    double sweep finds (from agent 0 to the agent a farthest from it, from a to the farthest from a), exact on trees.
    The tree depends on the edges alone, so every machine builds the same.
    """
    exact = network.size <= EXACT_CENTRE_LIMIT
    root = int(np.argmin(network.eccentricities)) if exact else _middle_of_double_sweep(network)
    parent, hops = breadth_first(network, root)
    return Tree(root, tuple(parent), max(hops))


def breadth_first(network: Network, root: int) -> tuple[list[int], list[int]]:
    """Return each agent's parent and hops from the root; the parent is the first to reach it, neighbours ascending."""
    parent, hops = [-1] * network.size, [-1] * network.size
    hops[root] = 0
    reached = [root]
    for agent in reached:  # grows while it is walked through
        for neighbor in network.neighbors(agent):
            if hops[neighbor] < 0:
                parent[neighbor], hops[neighbor] = agent, hops[agent] + 1
                reached.append(neighbor)
    return parent, hops


def _middle_of_double_sweep(network: Network) -> int:
    _, hops = breadth_first(network, 0)
    parent, hops = breadth_first(network, int(np.argmax(hops)))
    agent = int(np.argmax(hops))
    for _ in range((hops[agent] + 1) // 2):
        agent = parent[agent]
    return agent
