"""One agent's link to the rest of the network.

This protocol is all that a sampler knows of the others. Where the others live (lanes of one array,
devices of a mesh, processes on other machines) is the runtime's business, and each runtime has its twin.
"""

from __future__ import annotations

from typing import Protocol, TypeVar, runtime_checkable

import jax

T = TypeVar("T")  # any pytree of arrays: what one agent holds


@runtime_checkable
class Neighbors(Protocol):
    """What an agent can ask of its neighbours.

    Every method is a collective: all agents call it alike, and not from inside `lax` loops or branches, where a runtime
    could not count what is sent.
    """

    @property
    def size(self) -> int:
        """m, the number of agents on the network."""
        ...

    @property
    def index(self) -> jax.Array:
        """Which agent this is, 0 ... m - 1: what makes its random numbers its own."""
        ...

    def mix(self, x: T, rounds: int | jax.Array = 1) -> T:
        """Row i of W^rounds applied to all agents' `x`, by `rounds` messages to each neighbour.

        All leaves of `x` travel in one message. `rounds` must be the same on all agents.
        """
        ...

    def laplacian(self, x: T) -> T:
        """Σ_j (x_i - x_j) over the neighbours j: one round."""
        ...
