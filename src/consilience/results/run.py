"""A finished run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._types import Params
from ..network import Network
from ..posterior import Layout
from ..runtimes.traffic import Traffic
from ..samplers import Sampler
from .summary import Summary, summarize

DRAWS_AT_ONCE = 64


@dataclass(frozen=True, repr=False, eq=False)
class Run:
    """The draws of every agent and chain, what the sampler said of them, and what they cost.

    Attributes:
      positions: the draws as they came, (draws, chains, agents, dimension); `draws` is what to use. A chain that all
        agents hold is stored once, and shown for each.
      traffic: rounds, messages and bytes, warm-up included.
      iterations: per chain, warm-up included.
      thin: iterations per kept draw.
      seconds: from the first compilation to the last draw.
    """

    positions: np.ndarray
    raw_stats: dict[str, np.ndarray]
    layout: Layout
    sampler: Sampler
    network: Network
    iterations: int
    thin: int
    traffic: Traffic
    seconds: float

    @cached_property
    def draws(self) -> Params:
        """The parameters' pytree, every leaf an array (agent, chain, draw, ...)."""
        return self.layout.unravel(_agents_first(self.positions))

    @cached_property
    def stats(self) -> dict[str, np.ndarray]:
        """The sampler's own figures, (agent, chain, draw), averaged over the iterations behind each draw."""
        return {name: _agents_first(values) for name, values in self.raw_stats.items()}

    @cached_property
    def consensus_error(self) -> float:
        """How far an agent is from the network mean: root mean square over draws and parameters, in posterior sd."""
        if self.network.size == 1 or self.sampler.replicated:
            return 0.0
        with np.errstate(all="ignore"):  # a diverged run, and one that never moved, have none: NaN or infinite
            center = self.positions.mean(axis=(0, 1, 2), dtype=float)
            apart = spread = 0.0
            for first in range(0, len(self.positions), DRAWS_AT_ONCE):  # no copy of all draws is made
                block = self.positions[first : first + DRAWS_AT_ONCE]
                mean = block.mean(axis=2, keepdims=True, dtype=float)
                apart = apart + ((block - mean) ** 2).mean(axis=2).sum(axis=(0, 1))
                spread = spread + ((mean - center) ** 2).sum(axis=(0, 1, 2))
            return float(np.sqrt(np.mean(np.asarray(apart) / np.asarray(spread))))

    @cached_property
    def acceptance(self) -> float | None:
        """The fraction of proposals taken, or for NUTS their mean acceptance probability; None without a Metropolis
        step.
        """
        accepted = self.stats.get("is_accepted", self.stats.get("acceptance_rate"))
        return None if accepted is None else float(accepted.mean())

    @cached_property
    def divergences(self) -> int | None:
        """Iterations behind the kept draws whose trajectory left the region where its steps are accurate; of all
        agents, where each has a chain of its own. None: the sampler has no trajectories.
        """
        return self._iterations_with("is_divergent")

    @cached_property
    def redone(self) -> int | None:
        """Iterations behind the kept draws that agents had to redo, having fallen out of step. None: each has a chain
        of its own.
        """
        return self._iterations_with("redone") if self.sampler.replicated else None

    @property
    def distinct_chains(self) -> int:
        """Chains, times the agents where each has its own."""
        _, chains, agents, _ = self.positions.shape
        return chains if self.sampler.replicated else chains * agents

    def _iterations_with(self, stat: str) -> int | None:
        if stat not in self.raw_stats:
            return None
        values = self.raw_stats[stat][:, :, :1] if self.sampler.replicated else self.raw_stats[stat]
        return round(float(values.sum(dtype=float)) * self.thin)

    def summary(self, agent: int | None = None, diagnosed: int | None = 2000) -> Summary:
        """Mean, sd, ESS and R-hat of every parameter, agreement, acceptance, cost, and warnings; prints as a table.

        Args:
          agent: of this agent alone. Without it, means and sds are averaged over the agents, and the smallest ESS and
            the largest R-hat of any agent are given: agents' draws are not independent of each other.
          diagnosed: ESS and R-hat take milliseconds each. Of a model with more parameters times agents than this, they
            are computed for so many, evenly spaced, and are NaN for the others. None: for all, however long it takes.
        """
        return summarize(self, agent, diagnosed)

    def to_arviz(self) -> Any:
        """An xarray DataTree as ArviZ reads it: posterior and sample_stats, with dimensions agent, chain, draw."""
        from .arviz import data_tree

        return data_tree(self)

    def __repr__(self) -> str:
        draws, chains, agents, dimension = self.positions.shape
        return (
            f"Run({self.sampler.name} on {self.network.name}: {agents} agent{'s' * (agents > 1)} × "
            f"{chains} chain{'s' * (chains > 1)} × {draws} draws of {dimension} parameters, {self.seconds:.1f} s)"
        )


def _agents_first(values: np.ndarray) -> np.ndarray:
    """(draw, chain, agent, ...) as (agent, chain, draw, ...): a view."""
    return np.swapaxes(values, 0, 2)
