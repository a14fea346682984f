"""Network families by size, in closed form: a million agents, and no graph built.

| family | neighbours d | depth of the tree | diameter | β with Metropolis weights |
|---|---|---|---|---|
| ring | 2 | ⌊m/2⌋ | ⌊m/2⌋ | (1 + 2 cos(2π/m))/3 |
| path | 2 | ⌊m/2⌋ | m - 1 | (1 + 2 cos(π/m))/3 |
| star | m - 1 | 1 | 2 | 1 - 1/m |
| torus, r × r | 4 | 2⌊r/2⌋ | 2⌊r/2⌋ | (3 + 2 cos(2π/r))/5 |
| hypercube, 2^k | k | k | k | (k - 1)/(k + 1) |
| exponential, 2^k | 2k - 1 | ⌈k/2⌉ | ⌈k/2⌉ | 1 - 4/(d + 1) |
| complete | m - 1 | 1 | 1 | 0 |

Sizes are powers of four, from 16 on, which all families have.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..network import DENSE_LIMIT, averaging, chebyshev_rounds, network_from_spec
from .cost import BANDWIDTH, COMPUTE, LATENCY, MEASURED, PARTS, SOFTWARE, Constants, Cost, bytes_on_the_wire
from .demand import Collective, Demand
from .prediction import BETWEEN_CHUNKS, per_draw

SIZES = tuple(4**k for k in range(2, 11))  # 16 to about a million


@dataclass(frozen=True)
class Size:
    """Network of a family, by the numbers that its cost depends on.

    Attributes:
      degree: number of neighbours of the agent that has most.
      ends: numbers of neighbours of the two ends of the busiest link, added up.
      children: number of children of the spanning tree's root.
      beta: the factor by which one round shrinks disagreement, at worst.
      spec: text that names the network, such as "ring:16".
    """

    agents: int
    degree: int
    ends: int
    children: int
    depth: int
    diameter: int
    beta: float
    spec: str

    @property
    def averaging_rounds(self) -> int:
        """Number of rounds that `cs.dmala` chooses for an average."""
        if self.beta > 0 and self.agents <= DENSE_LIMIT:  # above, the library does not look for the best
            return averaging(network_from_spec(self.spec)).rounds
        return chebyshev_rounds(self.beta)


def _torus(m: int) -> Size:
    side = math.isqrt(m)
    across = 2 * (side // 2)
    return Size(m, 4, 8, 4, across, across, (3 + 2 * math.cos(2 * math.pi / side)) / 5, f"torus:{side}x{side}")


def _exponential(m: int) -> Size:
    k = _log2(m)
    degree, across = 2 * k - 1, -(-k // 2)
    return Size(m, degree, 2 * degree, degree, across, across, 1 - 4 / (degree + 1), f"exponential:{m}")


def _cube(k: int) -> Size:
    return Size(2**k, k, 2 * k, k, k, k, (k - 1) / (k + 1), f"hypercube:{k}")


def _log2(m: int) -> int:
    return m.bit_length() - 1


def _line(m: int, diameter: int, angle: float, spec: str) -> Size:
    return Size(m, 2, 4, 2, m // 2, diameter, (1 + 2 * math.cos(angle)) / 3, spec)


FAMILIES: dict[str, Callable[[int], Size]] = {
    "path": lambda m: _line(m, m - 1, math.pi / m, f"path:{m}"),
    "ring": lambda m: _line(m, m // 2, 2 * math.pi / m, f"ring:{m}"),
    "torus": _torus,
    "star": lambda m: Size(m, m - 1, m, m - 1, 1, 2, 1 - 1 / m, f"star:{m}"),
    "complete": lambda m: Size(m, m - 1, 2 * (m - 1), m - 1, 1, 1, 0.0, f"complete:{m}"),
    "hypercube": lambda m: _cube(_log2(m)),
    "exponential": _exponential,
}


def predict_size(
    size: Size,
    demand: Demand,
    latency: float,
    bandwidth: float,
    gradient_seconds: float = 0.0,
    constants: Constants = MEASURED,
) -> Cost:
    """Predict the cost of a draw on a network of a family whose links are alike.

    A pass over the tree is `depth` messages after each other, and gossip one to and from each neighbour. What an agent
    takes and sends besides delays it by as much as is not done while messages travel: the root has each child twice in
    two passes, and half of that is while messages travel; in gossip, a message and its answer wait once for all that
    the two ends of their link have to do. TCP's windows are taken as open.

    Args:
      demand: demand of an iteration, with the rounds of the averages on this network.
    """

    def messages(of: int, count: float, besides: float, handled: float) -> np.ndarray:
        """Return the cost of `count` messages in a row; the last waits for `besides` of those an agent `handled`."""
        parts, further = np.zeros(len(PARTS)), constants.further(of)
        parts[LATENCY] = count * latency
        parts[BANDWIDTH] = count * 8 * bytes_on_the_wire(of) / bandwidth
        parts[SOFTWARE] = count * constants.alone(of)
        parts[SOFTWARE] += max(besides * further, handled * further - parts.sum())
        return parts

    def collective(asked: Collective) -> np.ndarray:
        if asked.kind in ("sum", "pass"):
            ways = [asked.message_bytes] if asked.kind == "pass" else [asked.message_bytes, asked.back_bytes]
            each = [messages(way, size.depth, (size.children - 1) / 2, size.children - 1) for way in ways]
            return asked.times * np.sum(each, axis=0)
        once = messages(asked.message_bytes, 1, (size.ends - 2) / 2, 2 * (size.degree - 1))
        return asked.times * (size.diameter if asked.kind == "flood" else 1) * once

    iteration = sum(map(collective, demand.collectives), np.zeros(len(PARTS)))
    iteration[COMPUTE] += demand.evaluations * gradient_seconds
    agreement = sum(map(collective, BETWEEN_CHUNKS), np.zeros(len(PARTS)))
    chunk = partial(constants.chunk, demand)
    return per_draw(Cost(iteration), Cost(agreement), chunk, demand.draws_of_a_chunk)[0]
