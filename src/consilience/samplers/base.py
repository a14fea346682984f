"""What a sampler is: settings that build a kernel for one agent.

A kernel is BlackJAX's pair `init(position) -> state`, `step(key, state) -> (state, info)`, with the step in two
halves: `noise(key)` draws all that is random in it, `move(noise, state)` does the rest. The noise needs no
state, so a runtime draws it for many iterations at a time, which is several times faster.

Rules that let every runtime run every sampler:
- All arrays are one agent's; there is no axis of agents. What an agent learns of the others comes from `Neighbors`.
- The key is the same on all agents. What must differ between them is drawn from `own_key(key, neighbors)`.
- The state is a NamedTuple with a `position` and an `iteration`, which counts the steps and is the same on all agents
  and chains. The info is a NamedTuple of scalars.
- A *replicated* sampler's state, noise and info are the same on all agents, because all that it learns of the data are
  exact sums over the network. A runtime that holds all agents needs only one copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from .._types import Key, LogDensity, Vector
from ..consensus import Neighbors
from ..network import Network

State = Any
Noise = Any
Info = Any


class Kernel(NamedTuple):
    """One agent's sampler, ready to run."""

    init: Callable[[Vector], State]
    noise: Callable[[Key], Noise]
    move: Callable[[Noise, State], tuple[State, Info]]

    def step(self, key: Key, state: State) -> tuple[State, Info]:
        """One iteration, as BlackJAX writes it."""
        return self.move(self.noise(key), state)


@runtime_checkable
class Sampler(Protocol):
    """Settings of a sampler: a small frozen dataclass."""

    @property
    def name(self) -> str:
        """How the sampler is called in tables."""
        ...

    @property
    def bias(self) -> str | None:
        """What it samples instead of the posterior, in a sentence; None where it leaves the posterior invariant."""
        ...

    @property
    def replicated(self) -> bool:
        """Whether all agents hold the same chain."""
        ...

    @property
    def common_noise(self) -> bool:
        """Whether the noise is the same on all agents: whether it is drawn without `own_key`."""
        ...

    def resolve(self, network: Network, dimension: int, num_warmup: int = 0) -> Sampler:
        """These settings with what follows from the network and the length of the warm-up filled in.

        Refuses what cannot run on that network.
        """
        ...

    def build(self, logdensity: LogDensity, neighbors: Neighbors, like: Vector) -> Kernel:
        """The kernel of one agent.

        Args:
          logdensity: ℓ_i, this agent's part of the log density.
          neighbors: its link to the others.
          like: a vector of the model's dimension and dtype.
        """
        ...


@runtime_checkable
class OneShot(Sampler, Protocol):
    """A sampler whose agents draw alone, and put their draws together after the last one."""

    def combine(self, draws: np.ndarray) -> np.ndarray:
        """All agents' draws (draw, chain, agent, dimension) as posterior draws: for each agent alike, or one copy."""
        ...

    def combine_bytes(self, draws: np.ndarray) -> tuple[int, ...]:
        """Of each exact sum over the tree that this takes, the bytes of one agent's part."""
        ...


def own_key(key: Key, neighbors: Neighbors) -> Key:
    """A key of this agent alone, from the key that all agents share."""
    return jax.random.fold_in(key, neighbors.index)
