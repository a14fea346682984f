"""Placement of agents on devices, and the rows that devices send to each other.

Every device has the same number of lanes, for an agent each. Where agents do not divide evenly, some devices have lanes
without one: they repeat their device's first agent and are left out of all results.

A round of gossip along the edges of the network becomes messages between devices. Two devices with an edge between
their agents are neighbours, and each needs of the other the rows of the agents at such edges, no more. The edges
between neighbouring devices are coloured, so that no two of one colour meet at a device: the edges of a colour are one
`ppermute`, in which every device talks to one other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._lazy import LazyModule
from .._types import AnyArray
from ..network import Network
from .edges import Block, EdgeLists, edge_lists

nx: Any = LazyModule("networkx")
LEAST_GROUPS = 256  # if there are as many agents; there are always fewer than twice as many


def agents_per_group(size: int) -> int:
    """Return how many agents stay together on whatever devices: their draws share files."""
    return max(1, size // LEAST_GROUPS)


@dataclass(frozen=True)
class Placement:
    """Placement of agents on devices: in their order, in groups, dealt evenly.

    Args:
      size: number of agents on the network.
      devices: number of devices, at most one for each group.
    """

    size: int
    devices: int

    @cached_property
    def agents(self) -> tuple[range, ...]:
        """Range of the agents on every device."""
        width = agents_per_group(self.size)
        groups = np.array_split(np.arange(0, self.size, width), self.devices)
        firsts = [int(group[0]) for group in groups]
        return tuple(map(range, firsts, [*firsts[1:], self.size]))

    @property
    def lanes(self) -> int:
        """Number of lanes of every device."""
        return max(map(len, self.agents))

    @cached_property
    def is_agent(self) -> np.ndarray:
        """Mask (devices · lanes,) of the lanes that have an agent of their own."""
        return (np.arange(self.lanes) < np.array([len(agents) for agents in self.agents])[:, None]).ravel()

    @cached_property
    def source(self) -> np.ndarray:
        """Array (devices · lanes,) of the agent whose data and state each lane has."""
        lanes = np.arange(self.lanes)
        return np.concatenate([np.where(lanes < len(own), own.start + lanes, own.start) for own in self.agents])

    def home(self, agent: int) -> tuple[int, int]:
        """Return an agent's device, and its lane there."""
        device = next(device for device, agents in enumerate(self.agents) if agent in agents)
        return device, agent - self.agents[device].start


class DeviceLists(NamedTuple):
    """Edges, agents and outgoing rows of the lanes of a device, all devices' laid end to end along the first axis."""

    edges: EdgeLists  # of the device's own lanes; a row is one of theirs, or one of those that were received
    agent: AnyArray  # of each lane; the number of agents, or more, where it has none
    outgoing: tuple[AnyArray, ...]  # by colour: the lanes whose rows go to the other device


class Wiring(NamedTuple):
    """The exchange of rows between devices in a round of gossip."""

    lists: DeviceLists
    partners: tuple[tuple[tuple[int, int], ...], ...]  # by colour: (from, to), both ways


def wire(network: Network | None, placement: Placement) -> Wiring:
    """Return the exchange of rows between devices for a network's edges; None: nobody gossips."""
    agent = np.where(placement.is_agent, placement.source, placement.size + np.arange(len(placement.source)))
    if network is None:
        nothing = EdgeLists((), np.tile(np.arange(placement.lanes), placement.devices))
        return Wiring(DeviceLists(nothing, agent, ()), ())
    links = _links(network, placement)
    colors = _matchings(links)
    widths = [max(len(links[pair]) for pair in color) for color in colors]
    outgoing = []
    for color, width in zip(colors, widths, strict=True):
        rows = np.zeros((placement.devices, width), int)
        for here, there in color:
            rows[here, : len(links[here, there])] = np.array(links[here, there]) - placement.agents[here].start
        outgoing.append(rows.ravel())
    offsets = (placement.lanes + np.cumsum([0, *widths]))[:-1]
    edges = _edges(
        network, placement, [_rows_at(placement, links, colors, offsets, k) for k in range(placement.devices)]
    )
    return Wiring(DeviceLists(edges, agent, tuple(outgoing)), tuple(map(tuple, colors)))


def _links(network: Network, placement: Placement) -> dict[tuple[int, int], list[int]]:
    """Find, for every two devices with an edge between their agents, those agents of the first one, ascending."""
    home = np.concatenate([np.full(len(own), device) for device, own in enumerate(placement.agents)])
    found: dict[tuple[int, int], set[int]] = {}
    for a, b in network.edges:
        if home[a] != home[b]:
            found.setdefault((int(home[a]), int(home[b])), set()).add(a)
            found.setdefault((int(home[b]), int(home[a])), set()).add(b)
    return {pair: sorted(agents) for pair, agents in found.items()}


def _matchings(pairs: Iterable[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Sort pairs of neighbouring devices, both ways, by colour: in each, a device occurs in one pair at most."""
    graph = nx.Graph(sorted(pair for pair in pairs if pair[0] < pair[1]))
    colors = nx.greedy_color(nx.line_graph(graph)) if graph.number_of_edges() > 1 else dict.fromkeys(graph.edges, 0)
    found: list[list[tuple[int, int]]] = [[] for _ in range(max(colors.values(), default=-1) + 1)]
    for (a, b), color in sorted(colors.items()):
        found[color] += [(a, b), (b, a)]
    return found


def _rows_at(
    placement: Placement,
    links: dict[tuple[int, int], list[int]],
    colors: Sequence[Sequence[tuple[int, int]]],
    offsets: Sequence[int] | np.ndarray,
    device: int,
) -> dict[int, int]:
    """Find each agent's row on a device: its own agents' rows, and after them those received, colour by colour."""
    rows = {agent: lane for lane, agent in enumerate(placement.agents[device])}
    for color, offset in zip(colors, offsets, strict=True):
        for there, here in color:
            if here == device:
                rows |= {agent: int(offset) + k for k, agent in enumerate(links[there, here])}
    return rows


def _edges(network: Network, placement: Placement, rows: Sequence[dict[int, int]]) -> EdgeLists:
    """Return every device's edge lists, with blocks of equal size: what is missing flows from lane 0 to itself."""
    whole = edge_lists(network)
    blocks, laid = [], np.zeros((placement.devices, placement.lanes), int)
    first = 0
    for block in whole.blocks:
        agents, neighbors, weights = map(np.asarray, block)
        chosen = [np.flatnonzero((agents >= own.start) & (agents < own.stop)) for own in placement.agents]
        height = max(map(len, chosen))
        shape = (placement.devices, height)
        here = Block(
            np.zeros(shape, int), np.zeros((*shape, neighbors.shape[1]), int), np.zeros((*shape, neighbors.shape[1]))
        )
        for device, places in enumerate(chosen):
            row = rows[device]
            for k, place in enumerate(places):
                here.agents[device, k] = row[int(agents[place])]
                here.neighbors[device, k] = np.array([row[int(agent)] for agent in neighbors[place]], int)
                here.weights[device, k] = weights[place]
                laid[device, here.agents[device, k]] = first + k
        blocks.append(Block(*(part.reshape(placement.devices * height, *part.shape[2:]) for part in here)))
        first += height
    return EdgeLists(tuple(blocks), laid.ravel())
