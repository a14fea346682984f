"""The interface of samplers: settings that build a kernel for one agent.

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

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from .._refused import Refused
from .._types import Key, LogDensity, Vector
from ..neighbors import Neighbors
from ..network import Network

State = Any
Noise = Any
Info = Any


class Kernel(NamedTuple):
    """One agent's sampler as a set of functions, ready to run."""

    init: Callable[[Vector], State]
    noise: Callable[[Key], Noise]
    move: Callable[[Noise, State], tuple[State, Info]]

    def step(self, key: Key, state: State) -> tuple[State, Info]:
        """Run one iteration, with the signature of BlackJAX's `step`."""
        return self.move(self.noise(key), state)


class Sampler(ABC):
    """A sampler: its settings, as a small frozen dataclass. What it can do are attributes of it."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the sampler in tables."""

    @property
    def bias(self) -> str | None:
        """Known bias, in a sentence: what it samples instead of the posterior; None if the posterior is invariant."""
        return None

    @property
    def replicated(self) -> bool:
        """True if all agents hold the same chain."""
        return False

    @property
    def common_noise(self) -> bool:
        """True if the noise is the same on all agents, drawn without `own_key`."""
        return False

    @property
    def communicates(self) -> bool:
        """True if agents exchange messages while they draw: peers run no other, and no other has rounds to plan."""
        return True

    @property
    def maskable(self) -> bool:
        """True if all that leaves an agent are its parts of exact sums, which masks can hide."""
        return self.communicates and self.replicated

    @property
    def moves_own(self) -> bool:
        """True if it also samples variables that stay with their owner, which follow the shared ones in the vector."""
        return False

    @property
    def has_steady_cost(self) -> bool:
        """True if iterations cost the network about the same, so that a draw has rounds that can be planned."""
        return True

    @property
    def has_free_lengths(self) -> bool:
        """True if the posterior decides how many gradients a draw takes; its `max_num_doublings` is the most."""
        return False

    @property
    def gossips_averages(self) -> bool:
        """True if agents average vectors by gossip, with as many rounds as the network needs or `rounds` says."""
        return False

    @property
    def second_stage(self) -> SecondStage | None:
        """Second stage that turns all agents' draws into posterior draws after the last one; None if they are such."""
        return None

    def resolve(self, network: Network, dimension: int, num_warmup: int = 0) -> Sampler:
        """Return these settings with what follows from the network and the length of the warm-up filled in.

        Settings that cannot run on that network are refused.
        """
        return self

    def starting_at(self, position: Vector) -> Sampler:
        """Return these settings with where the first chain starts filled in, if that matters to them."""
        return self

    def objection(self, figures: Mapping[str, np.ndarray]) -> Refused | None:
        """Return why a run should not go on, where the sampler's own figures of some iterations say so."""
        return None

    @abstractmethod
    def build(self, logdensity: LogDensity, neighbors: Neighbors, like: Vector) -> Kernel:
        """Build the kernel of one agent.

        Args:
          logdensity: ℓ_i, this agent's part of the log density.
          neighbors: the agent's link to the others.
          like: a vector of the model's dimension and dtype.
        """


@runtime_checkable
class SecondStage(Protocol):
    """A step that combines draws that agents made alone, once, after the last one."""

    def combine(self, draws: np.ndarray) -> np.ndarray:
        """Turn all agents' draws (draw, chain, agent, dimension) into posterior draws: one copy, or equal copies."""
        ...

    def combine_bytes(self, draws: np.ndarray) -> tuple[int, ...]:
        """Return the bytes of one agent's part in each of the exact sums over the tree that `combine` takes."""
        ...


def own_key(key: Key, neighbors: Neighbors) -> Key:
    """Make a key of this agent alone from the key that all agents share."""
    return jax.random.fold_in(key, neighbors.index)


def private_key(key: Key, neighbors: Neighbors) -> Key:
    """Make a key that nobody else can make, where this agent is a process of its own; `own_key` everybody can."""
    key = own_key(key, neighbors)
    for word in neighbors.secret:
        key = jax.random.fold_in(key, word)
    return key
