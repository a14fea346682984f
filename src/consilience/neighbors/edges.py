"""Exchange along the edges of a graph, at a cost that grows with the edges and never with m².

A round of gossip and a step along the Laplacian are one operation, the *flow* into an agent:

    flow_i(x) = Σ_{j ~ i} w_ij (x_j - x_i) ,      W x = x + flow(x) ,      L x = -flow(x) with w = 1.

Written in differences, rounding cannot change what all agents agree on (equal values have zero flow), and what
i gains from j is bit for bit what j loses to i, so Σ_i x_i is kept as well as additions keep it.

Agents of equal degree k are one block with a (agents, k) table of neighbours: no padding, so a star costs its
edges, and no scattering, which is slow on CPUs.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._types import AnyArray
from ..network import Network
from .gossip import loop

FUSED_DEGREE = 8  # up to here XLA fuses the whole sum over neighbours into one pass


class Block(NamedTuple):
    """Neighbours and weights of all agents that have the same degree k."""

    agents: AnyArray  # (n,)
    neighbors: AnyArray  # (n, k), ascending in each row
    weights: AnyArray  # (n, k), w_ij


class EdgeLists(NamedTuple):
    """Every agent's neighbours and weights, as arrays that may be arguments of a jitted function."""

    blocks: tuple[Block, ...]
    row: AnyArray  # (m,): the row of agent i when the blocks are laid end to end


def edge_lists(network: Network) -> EdgeLists:
    """Return the edges of `network`, in blocks of agents of equal degree."""
    pairs = np.array(network.edges, dtype=int).reshape(-1, 2)
    source, target = np.concatenate([pairs, pairs[:, ::-1]]).T
    order = np.lexsort((target, source))  # by agent, its neighbours ascending
    target, weight = target[order], np.tile(network.edge_weights, 2)[order]
    first = np.concatenate([[0], np.cumsum(network.degrees)])

    blocks, laid = [], []
    for degree in np.unique(network.degrees):
        agents = np.flatnonzero(network.degrees == degree)
        places = first[agents, None] + np.arange(degree)
        blocks.append(Block(*map(jnp.asarray, (agents, target[places], weight[places]))))
        laid.append(agents)
    return EdgeLists(tuple(blocks), jnp.asarray(np.argsort(np.concatenate(laid))))


def no_edges(size: int) -> EdgeLists:
    """Return empty edge lists for `size` agents, none of which gossips."""
    return EdgeLists((), jnp.asarray(np.arange(size)))


def flow(lists: EdgeLists, x: jax.Array, *, weighted: bool) -> jax.Array:
    """Compute Σ_j w_ij (x_j - x_i) for all agents at once, in the order of the blocks: row `lists.row[i]` is agent i's.

    `x` is (m, ...). With `weighted=False` every w_ij is one.
    """
    return jnp.concatenate([_block_flow(block, x, weighted) for block in lists.blocks])


def take(x: AnyArray, index: AnyArray) -> jax.Array:
    """Return x[index] without bounds checks, which indices made by this package do not need."""
    return jnp.asarray(x).at[index].get(mode="promise_in_bounds")


def _block_flow(block: Block, x: jax.Array, weighted: bool) -> jax.Array:
    degree = block.neighbors.shape[1]
    own = take(x, block.agents)
    weights = block.weights.astype(x.dtype).reshape(*block.weights.shape, *[1] * (x.ndim - 1))

    def add_neighbor(k: int | jax.Array, total: jax.Array) -> jax.Array:
        difference = take(x, block.neighbors[:, k]) - own
        return total + (weights[:, k] * difference if weighted else difference)

    return loop(degree, add_neighbor, jnp.zeros_like(own), written_out=FUSED_DEGREE)
