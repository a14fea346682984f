"""`Neighbors` for the peers runtime: agents are processes, and compiled code calls back to the host for every round.

The call is a callback without side effects, as far as jax knows. Under a `vmap` over chains, its batching rule makes it
once for all of them, so that one message carries all chains. Compiled code is free to order calls that do not depend on
each other; those of a sampler do, each on the result of the one before. Where that is not so, the number and the form
of the next message show it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._compat import callback_for_all_chains
from .._keys import key_numbers, keys_like
from ..network import Network
from .alone import Unsent
from .collectives import Arrays, Collectives, difference
from .gossip import gossip, relaxed_gossip
from .lanes import AGENTS, Exchange
from .projection import projection

T = TypeVar("T")
D = TypeVar("D")


class PeerNeighbors:
    """`Neighbors` of one agent in a run in which every agent is a process of its own.

    It is the only lane of the axis of agents here; values are taken off that axis before they are sent.

    Attributes:
      exchanges: always empty: the loop has none to count, since messages are counted as they are sent.
    """

    def __init__(self, collectives: Collectives, network: Network, index: int) -> None:
        self._collectives, self._network, self._index = collectives, network, index
        neighbors = network.neighbors(index)
        self._weights = np.array([network.graph[index][neighbor]["weight"] for neighbor in neighbors])
        self.exchanges: list[Exchange] = []

    @property
    def size(self) -> int:
        return self._network.size

    @property
    def index(self) -> jax.Array:
        return jnp.int32(self._index)

    # --- gossip --------------------------------------------------------------------------------------

    def mix(self, x: T, rounds: int | jax.Array = 1) -> T:
        return gossip(self._weighted_flow, x, rounds)

    def average(self, x: T, factors: jax.Array) -> T:
        return relaxed_gossip(self._weighted_flow, x, factors)

    def laplacian(self, x: T) -> T:
        return jax.tree.map(jnp.negative, self._flow(x, np.ones_like(self._weights)))

    def all(self, flag: jax.Array) -> jax.Array:
        return _call(self._collectives.flood, flag, flag)

    def _weighted_flow(self, x: T) -> T:
        return self._flow(x, self._weights)

    def _flow(self, x: T, weights: np.ndarray) -> T:
        """Return Σ_j w_ij (x_j - x_i), the weighted differences to the neighbours."""

        def gain(mine: jax.Array, others: jax.Array) -> jax.Array:
            total = jnp.zeros_like(mine)
            for weight, other in zip(weights, others, strict=True):
                total = total + jnp.asarray(weight, mine.dtype) * (other - mine)
            return total

        return jax.tree.map(gain, x, _call(self._collectives.exchange, x, x, len(weights)))

    # --- over the tree -------------------------------------------------------------------------------

    def total(self, x: T, at: jax.Array | None = None) -> T:
        if at is None:
            return _call(self._collectives.total, x, x)
        return _call(self._collectives.total_at, (x, whereabouts(at)), x)

    def follow_root(self, x: T, digest: D) -> tuple[T, D]:
        count = len(jax.tree.leaves(digest))

        def follow(arrays: Arrays) -> Arrays:
            state, mine = arrays[: len(arrays) - count], arrays[len(arrays) - count :]
            spread = mine
            if count:
                extremes = self._collectives.up([*mine, *mine], *[np.maximum] * count, *[np.minimum] * count)
                spread = [difference(high, low) for high, low in zip(extremes[:count], extremes[count:], strict=True)]
            return self._collectives.down([*state, *spread])

        return _call(follow, (x, digest), (x, digest))

    def repeated(self) -> Unsent:
        return Unsent()


def whereabouts(w: jax.Array) -> jax.Array:
    """Return two numbers of a vector: its projection, and how far apart rounding may put those of two agents."""
    rounding = float(np.sqrt(np.finfo(w.dtype).eps))
    return jnp.stack([projection(w), rounding * (1 + jnp.abs(w).sum())])


def _call(function: Callable[[Arrays], Any], x: Any, like: Any, several: int | None = None) -> Any:
    """Call `function` on the host with the leaves of `x`, and return its result in the form of `like`.

    Random keys are passed as the numbers they are made of.

    Args:
      several: how many such results `function` returns; those of a leaf are stacked along a first axis.
    """
    forms, structure = jax.tree.flatten(jax.tree.map(jnp.asarray, like))
    shapes = tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in map(key_numbers, forms))
    call = callback_for_all_chains(function, shapes, several)
    results = call(*(_off_the_axis(key_numbers(jnp.asarray(leaf))) for leaf in jax.tree.leaves(x)))
    return jax.tree.unflatten(structure, [keys_like(leaf, result) for leaf, result in zip(forms, results, strict=True)])


def _off_the_axis(x: jax.Array) -> jax.Array:
    """Return the only lane that this process has on the axis of agents."""
    return lax.all_gather(x, AGENTS)[0]
