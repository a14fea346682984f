"""Questions that a surrogate puts to the network: what each sends, and how much every agent computes for it.

What is sent is read off the sampler, as the runtimes do: it is traced on a stand-in of the model's dimension.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from ..network import Network
from ..samplers import Surrogate, number_of_points, number_of_starts, number_of_trials
from .demand import Collective, questions_in

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
      trial: scores of the proposals by which a surrogate is judged, with derivatives at some, and whether to go on.
      end: what the root says of it at last, and that its climb is over.
      block: scores of proposals for one chain, which are that many draws of it.
    """

    derivatives: Question
    trial: Question
    end: Question
    block: Question


def questions_of(sampler: Surrogate, network: Network, dimension: int) -> Questions:
    """Find what a surrogate of so many float32 parameters asks on `network`."""
    asked = questions_in(replace(sampler, correction="scored"), network, dimension)
    derivatives, trial, decision, last, block, digest = asked
    trials = number_of_trials(dimension, sampler.num_proposals)
    return Questions(
        Question(derivatives, number_of_starts(dimension) * (1.0 + dimension)),
        Question((*trial, *decision), VALUE_SHARE * trials + number_of_points(trials, dimension) * (1.0 + dimension)),
        Question((*last, derivatives[0]), 0.0),
        Question((*block, *digest), VALUE_SHARE * (sampler.num_proposals + 1)),
    )
