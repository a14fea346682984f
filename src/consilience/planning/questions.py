"""Questions that a surrogate puts to the network: what each sends, and how much every agent computes for it.

They are read off the code that asks, as the runtimes do: a stand-in of a sampler that asks one question when it starts
is traced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._types import Count, LogDensity, Vector
from ..neighbors import Neighbors
from ..network import Network
from ..samplers import Kernel, Sampler, Surrogate, ask_network, number_of_starts, number_of_trials
from .demand import Collective, start_demand

VALUE_SHARE = 1 / 3  # of the time for a value and its gradient


@dataclass(frozen=True)
class Question:
    """One question: what agents do together, in order, and an agent's work for it, in gradients of one chain."""

    collectives: tuple[Collective, ...]
    evaluations: float

    def of_chains(self, chains: int) -> Question:
        """Return this with so many times the points in its messages."""
        return Question(tuple(each.of_chains(chains) for each in self.collectives), chains * self.evaluations)


class Questions(NamedTuple):
    """Questions of a surrogate.

    Attributes:
      derivatives: value, gradient and Hessian at the starts of the fit, asked at every step of their climb.
      trial: scores of the proposals by which a surrogate is judged.
      block: scores of proposals for one chain, which are that many draws of it.
    """

    derivatives: Question
    trial: Question
    block: Question


def questions_of(sampler: Surrogate, network: Network, dimension: int) -> Questions:
    """Find what a surrogate of so many float32 parameters asks on `network`."""
    starts, trials = number_of_starts(dimension), number_of_trials(dimension, sampler.num_proposals)
    in_block = sampler.num_proposals + 1  # and where the chain is

    def question(asks: Callable[..., Any], evaluations: float) -> Question:
        return Question(start_demand(_Asking(asks), network, dimension), evaluations)

    def derive(points: Any, _: Any, derivatives: Any) -> Any:
        return derivatives(points(starts))

    def score(number: int, beside: int) -> Callable[..., Any]:
        return lambda points, scores, _: scores(points(number), jnp.zeros(beside))

    return Questions(
        question(derive, starts * (1.0 + dimension)),
        question(score(trials, trials), VALUE_SHARE * trials),
        question(score(in_block, 2 * in_block - 1), VALUE_SHARE * in_block),
    )


class _Asked(NamedTuple):
    position: Vector
    answer: Any
    iteration: Count


@jax.tree_util.register_static
@dataclass(frozen=True, eq=False)
class _Asking(Sampler):
    """Sampler that asks one question when it starts, `asks(points, score, derive)`, and never moves."""

    asks: Callable[..., Any]

    name = "question"
    replicated = True
    common_noise = True

    def build(self, logdensity: LogDensity, neighbors: Neighbors, like: Vector) -> Kernel:
        of_agent: Any = logdensity  # knows the likelihood by itself
        score, derive = ask_network(of_agent.log_likelihood, neighbors)

        def init(position: Vector) -> _Asked:
            def points(number: int) -> jax.Array:
                return jnp.broadcast_to(position, (number, len(position)))

            return _Asked(position, self.asks(points, score, derive), jnp.zeros((), jnp.int32))

        return Kernel(init, lambda key: key, lambda key, state: (state, ()))
