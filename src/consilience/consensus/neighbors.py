"""One agent's link to the rest of the network.

This protocol is all that a sampler knows of the others. Where the others live (lanes of one array,
devices of a mesh, processes on other machines) is the runtime's business, and each runtime has its twin.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar, runtime_checkable

import jax

T = TypeVar("T")  # any pytree of arrays: what one agent holds
D = TypeVar("D")


@runtime_checkable
class Repeated(AbstractContextManager, Protocol):
    """A place in the code that `lax` runs more than once, or not at all: what is sent from it is counted by `times`.

    Two calls of one method there, with messages of one size, are taken for the same one, traced twice.
    """

    def times(self, count: int | jax.Array) -> None:
        """Say, outside of the loop, how often every collective in it was run: a number, or one for each of the stages
        that several chains go through side by side.
        """
        ...


@runtime_checkable
class Neighbors(Protocol):
    """What an agent can ask of its neighbours.

    Every method is a collective: all agents call it alike. Inside of `lax` loops and branches, where a runtime cannot
    see how often that is, it is called within `with repeated:`, and `repeated.times(count)` follows.
    """

    @property
    def size(self) -> int:
        """m, the number of agents on the network."""
        ...

    @property
    def index(self) -> jax.Array:
        """Which agent this is, 0 ... m - 1: what makes its random numbers its own."""
        ...

    # --- gossip: one message to each neighbour a round -------------------------------------------------

    def mix(self, x: T, rounds: int | jax.Array = 1) -> T:
        """Row i of W^rounds applied to all agents' `x`.

        All leaves of `x` travel in one message. `rounds` must be the same on all agents.
        """
        ...

    def average(self, x: T, factors: jax.Array) -> T:
        """The network mean of `x`, as well as the polynomial Π_k (I + c_k (W - I)) gives it: a round for each c_k."""
        ...

    def laplacian(self, x: T) -> T:
        """Σ_j (x_i - x_j) over the neighbours j: one round."""
        ...

    def all(self, flag: jax.Array) -> jax.Array:
        """Whether every agent says true, by flooding: no rounding in it, so the answer is the same everywhere."""
        ...

    # --- over a spanning tree --------------------------------------------------------------------------

    def total(self, x: T, at: jax.Array | None = None) -> T:
        """The sum over all agents, up the tree and down again: the same bits on every agent.

        Args:
          at: a vector that all agents should have alike, but for rounding: where `x` was evaluated. Where agents wait
            for each other inside of an iteration, those that have gone different ways are found out by it.
        """
        ...

    def follow_root(self, x: T, digest: D) -> tuple[T, D]:
        """The root's `x`, and how far apart all agents' `digest` are: the greatest less the least, leaf by leaf."""
        ...

    def repeated(self) -> Repeated:
        """For collectives inside of `lax` loops and branches."""
        ...


def message_bytes(x: Any) -> int:
    """Of one agent's message that holds `x`."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(x))
