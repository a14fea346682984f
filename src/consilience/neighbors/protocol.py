"""`Neighbors`: the interface through which one agent communicates with the rest of the network.

This protocol is all that a sampler knows of the others. Where the others live (lanes of one array,
devices of a mesh, processes on other machines) is up to the runtime, and each runtime has its implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

T = TypeVar("T")  # any pytree of arrays: what one agent holds

GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))


@runtime_checkable
class Repeated(AbstractContextManager, Protocol):
    """Context manager for collectives that `lax` runs more than once, or not at all; `times` says how often.

    Two calls of one method in it, with messages of one size, are taken for one call that was traced twice. Where
    several chains go through stages side by side, `times` takes one number for each of the stages.
    """

    def times(self, count: int | jax.Array, after: Any = None, is_common: bool = False) -> None:
        """Say, outside of the loop, how often every collective in it was run: a number, or one for each stage.

        Args:
          after: what the loop has returned. Where it is given, agents that are processes check the count.
          is_common: whether nothing in it depends on the chain, so that one message serves all chains.
        """


@runtime_checkable
class Neighbors(Protocol):
    """Communication of one agent with its network: gossip with its neighbours, exact sums over a spanning tree.

    Every method is a collective: all agents call it alike. Inside of `lax` loops and branches, where a runtime cannot
    see how often it runs, it is called within `with repeated:`, and `repeated.times(count)` follows.
    """

    @property
    def size(self) -> int:
        """Number m of agents on the network."""

    @property
    def index(self) -> jax.Array:
        """Number of this agent, 0 ... m - 1, which makes its random numbers its own."""

    @property
    def secret(self) -> Sequence[int | jax.Array]:
        """Numbers that nobody but this agent knows; none where one process has all agents."""

    # --- gossip: one message to each neighbour a round -------------------------------------------------

    def mix(self, x: T, rounds: int | jax.Array = 1) -> T:
        """Mix `x` with the neighbours: return row i, this agent's, of W^rounds applied to all agents' `x`.

        All leaves of `x` travel in one message. `rounds` must be the same on all agents.
        """

    def average(self, x: T, factors: jax.Array) -> T:
        """Approximate the network mean of `x` by Π_k (I + c_k (W - I)): one round for each c_k of `factors`."""

    def laplacian(self, x: T) -> T:
        """Compute Σ_j (x_i - x_j) over the neighbours j of this agent i, in one round."""

    def all(self, flag: jax.Array) -> jax.Array:
        """Tell whether all agents' flags are true, by flooding: nothing is rounded, so all get the same answer."""

    # --- over a spanning tree --------------------------------------------------------------------------

    def total(self, x: T, at: jax.Array | None = None) -> T:
        """Sum `x` over all agents, up the tree and down again: the same bits on every agent.

        Args:
          at: the vector at which `x` was evaluated, which all agents should have alike, but for rounding. Where agents
            wait for each other inside of an iteration, it reveals those that have gone different ways.
        """

    def follow_root(self, x: T, digest: Any = (), after: Any = None) -> tuple[T, jax.Array]:
        """Return the root's `x`, and whether all agents' digests are alike, as far as that is known.

        Where agents wait for each other inside of an iteration, nobody waits for the digests of the others: they go
        along with the next sum, and reveal those that have gone different ways then.

        Args:
          digest: (k, 2): numbers that all agents should have alike, and how far apart those of two agents may be.
          after: the `repeated` of the sums before, if it knows how many they are: the root's `x` comes with the last.
        """

    def repeated(self, sums: int | None = None) -> Repeated:
        """Return a context for collectives inside of `lax` loops and branches.

        Args:
          sums: how many exact sums are made in it before the root is followed; None: that is not known beforehand.
        """


def message_bytes(x: Any) -> int:
    """Return the size in bytes of one agent's message that holds `x`."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(x))


def projection(vector: jax.Array) -> jax.Array:
    """Project a vector to one number, on a fixed direction without symmetries, for agents to compare."""
    return jnp.vdot(jnp.cos(jnp.arange(vector.size) * GOLDEN_ANGLE).astype(vector.dtype), vector.ravel())
