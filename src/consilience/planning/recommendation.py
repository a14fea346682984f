"""Whole runs, from a cold start to a thousand effective draws: what each sampler would take, and which one to take.

How many gradients a draw takes, what it is worth, and how often a surrogate's proposals are accepted, is decided by the
posterior. Where no trial run has told, `assumed_of` says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..network import MOST_AGENTS, Network
from ..samplers import HMC, MANY, Surrogate
from .cost import MEASURED, Constants, CostModel
from .demand import Collective, Demand, demand_of
from .links import LinkSpeeds
from .prediction import BETWEEN_CHUNKS, FEWEST_MASKED, check_gathered, check_size, per_draw
from .questions import Question, questions_of

EFFECTIVE_DRAWS = 1000
CHAINS = (4, 8, 16, 32, 64)
TREE, GATHER = "tree", "gather"  # ways of sums; only masked ones are gathered
NEARLY_BEST = 1.1  # of the least time: the fewest chains with it are taken, which ask machines for least
MOST_PARAMETERS = 1000  # of a surrogate, which holds and sends matrices of parameters by parameters
TRIALS = 3  # of the sums of a fit: scores of trial proposals
SURROGATE, SPLIT, STARTED, NUTS = "surrogate", "surrogate, by trajectories", "nuts from the surrogate", "nuts"


class Facts(NamedTuple):
    """What the posterior decides of a sampler's cost.

    Attributes:
      sums: sums of gradients in a draw, of the longest of four chains; none where draws are scored proposals.
      ess_per_draw: effective draws of the slowest parameter in a draw of one chain.
      fit_sums: sums in which a surrogate is fitted.
      warmup_draws: draws that the warm-up takes as long as.
      growth: by what factor 64 chains have more sums a draw than 4: all wait for the longest trajectory.
    """

    sums: float
    ess_per_draw: float
    fit_sums: int = 0
    warmup_draws: float = 0.0
    growth: float = 1.0

    def sums_of(self, chains: int) -> float:
        """Return the sums in a draw of so many chains, given those of four."""
        return self.sums * self.growth ** (
            math.log(max(chains, CHAINS[0]) / CHAINS[0]) / math.log(CHAINS[-1] / CHAINS[0])
        )


# Measured with four chains on examples/logistic.toml, trajectories of a surrogate on the digits of `consilience demo`.
# An iteration of the warm-up of nuts, of which there are 500, took 1.6 times the sums of a draw; with 64 chains a run
# took 1.9 times the rounds.
OF_FEW = {
    SURROGATE: Facts(0.0, 0.53, fit_sums=16),
    SPLIT: Facts(2.3, 0.4, fit_sums=14, warmup_draws=150),
    STARTED: Facts(7.0, 0.65, fit_sums=16, warmup_draws=30),
    NUTS: Facts(20.0, 0.5, warmup_draws=1.6 * 500, growth=1.9),
}
# Rows of docs/rounds.json with 650 parameters: of nuts the means of both, trajectories of a surrogate those of 64
# chains. Trajectories that set out from a surrogate were of one length in all chains.
OF_MANY = {
    SURROGATE: Facts(0.0, 0.62, fit_sums=8),
    SPLIT: Facts(4.0, 0.63, fit_sums=15, warmup_draws=60),
    STARTED: Facts(15.0, 0.25, fit_sums=12, warmup_draws=72),
    NUTS: Facts(97.0, 0.31, warmup_draws=457, growth=1.9),
}
FEW_PARAMETERS, MANY_PARAMETERS = 8, 650  # of the models that these are figures of


def assumed_of(dimension: int) -> dict[str, Facts]:
    """Return what is assumed of a posterior with so many parameters: figures of a model that was measured."""
    return OF_FEW if dimension <= MANY else OF_MANY


@dataclass(frozen=True)
class WholeRun:
    """Predicted cost of a run from a cold start to `EFFECTIVE_DRAWS` effective draws.

    Attributes:
      sampler: its name, and which way it goes where it has two.
      consensus: the way of sums, "tree", or "gather" of masked ones.
      draws: of each chain, after the warm-up.
      sums: how often all agents wait for each other's answers.
      is_likely: whether the sampler will go this way.
      is_assumed: whether figures of another posterior were taken for this one's.
    """

    sampler: str
    consensus: str
    chains: int
    draws: int
    sums: int
    rounds: int
    seconds: float
    megabytes_per_agent: float
    is_likely: bool
    is_assumed: bool


@dataclass(frozen=True)
class Recommendation:
    """What to take on a network with such links.

    Attributes:
      seconds: predicted time to `EFFECTIVE_DRAWS` effective draws.
      sentence: all of it in words; `unknown`: what only a trial can tell.
      runs: what was compared, the best first.
    """

    sampler: str
    consensus: str
    chains: int
    seconds: float
    sentence: str
    unknown: str
    runs: tuple[WholeRun, ...]


def recommend(
    network: Network,
    links: LinkSpeeds,
    dimension: int,
    *,
    known: Mapping[str, Facts] | None = None,
    has_failed: bool = False,
    gradient_seconds: float = 0.0,
    consensus: str = "auto",
    constants: Constants = MEASURED,
) -> Recommendation:
    """Recommend a sampler, a way to agree and a number of chains.

    Args:
      known: facts that a trial has told, by the sampler's name; others are assumed.
      has_failed: whether a trial's certificate did not hold, so that a surrogate's draws are not to be counted on.
      gradient_seconds: time of an agent's own log density and gradient, of one chain.
      consensus: the way of sums, "tree" or "gather"; "auto" takes the quicker one, masks granted.
    """
    check_size(network)
    if consensus == GATHER:
        check_gathered(network, Surrogate())
    known = known or {}
    whole = _Whole(network, CostModel(network, links, constants), constants, dimension, gradient_seconds)
    facts = {**assumed_of(dimension), **known}
    names = [SURROGATE, SPLIT, STARTED, NUTS]
    if has_failed or dimension > MOST_PARAMETERS:
        names = [STARTED, NUTS] if dimension <= MOST_PARAMETERS else [NUTS]
    # Beyond a hundred parameters proposals are seldom accepted: the network corrects trajectories in their place.
    unlikely = SPLIT if SURROGATE in known or (SPLIT not in known and dimension <= MANY) else SURROGATE
    found = []
    both = (TREE, GATHER) if FEWEST_MASKED <= network.size <= MOST_AGENTS else (TREE,)
    ways = both if consensus == "auto" else (consensus,)
    for name in names:
        every = [whole.run(name, facts[name], chains, way) for way in ways for chains in CHAINS]
        least = min(run.seconds for run in every)
        chosen = next(run for run in every if run.seconds <= NEARLY_BEST * least)
        found.append(replace(chosen, is_likely=name != unlikely, is_assumed=name not in known))
    best = min((run for run in found if run.is_likely), key=lambda run: run.seconds)
    ordered = tuple(sorted(found, key=lambda run: (run is not best, not run.is_likely, run.seconds)))
    unknown = _unknown([run for run in ordered if run.is_assumed], facts, dimension)
    sampler = SURROGATE if best.sampler == SPLIT else best.sampler
    over_tree = None
    if len(ways) > 1 and best.consensus == GATHER:
        over_tree = whole.run(best.sampler, facts[best.sampler], best.chains, TREE).seconds
    sentence = _sentence(ordered, over_tree)
    return Recommendation(sampler, best.consensus, best.chains, best.seconds, sentence, unknown, ordered)


class _Part(NamedTuple):
    """Piece of a run: how often it happens, the seconds that it takes, and what is sent."""

    times: float
    seconds: float
    collectives: tuple[Collective, ...]


class _Whole:
    """Costs of whole runs on one network."""

    def __init__(
        self, network: Network, model: CostModel, constants: Constants, dimension: int, gradient_seconds: float
    ) -> None:
        self.network, self.model, self.constants = network, model, constants
        self.dimension, self.gradient_seconds = dimension, gradient_seconds
        self._sampler = Surrogate()
        self._questions = None if dimension > MOST_PARAMETERS else questions_of(self._sampler, network, dimension)
        self._agreement = model.collective_cost(*BETWEEN_CHUNKS)
        # Two sums of value and gradient; the root's state comes with the second one.
        self._two = demand_of(HMC(num_integration_steps=2), network, dimension)

    def run(self, name: str, facts: Facts, chains: int, way: str) -> WholeRun:
        """Return the cost of a run with so many chains, and sums that go this way."""
        draws = math.ceil(EFFECTIVE_DRAWS / (chains * facts.ess_per_draw))
        parts: list[_Part] = []
        sums = float(facts.fit_sums)
        if facts.fit_sums and self._questions is not None:
            trials = min(TRIALS, facts.fit_sums)
            parts.append(self._asked(facts.fit_sums - trials, self._questions.derivatives, way))
            parts.append(self._asked(trials, self._questions.trial, way))
            parts.append(self._asked(1, self._questions.end, way))
        if facts.sums:
            iterations = facts.warmup_draws + draws
            of_draw = facts.sums_of(chains)
            sums += of_draw * iterations
            parts.append(self._iterated(iterations, self._draw(of_draw).of_chains(chains), chains, way))
        elif self._questions is not None:
            blocks = math.ceil(draws / self._sampler.num_proposals)
            sums += blocks
            parts.append(self._asked(blocks, self._questions.block.of_chains(chains), way))
        rounds, sent, seconds = (
            sum(part.times * of_one(part) for part in parts)
            for of_one in (
                lambda part: replace(self._two, collectives=part.collectives).traffic(self.network)[0],
                lambda part: float(self.model.bytes_sent(*part.collectives).mean()),
                lambda part: part.seconds,
            )
        )
        return WholeRun(name, way, chains, draws, round(sums), round(rounds), seconds, sent / 1e6, True, True)

    def _draw(self, sums: float) -> Demand:
        """Return the demand of a draw of so many sums: nobody knows which is the last, so the state comes after it."""
        *_, one, last = self._two.collectives
        state = Collective("pass", 1.0, last.back_bytes - one.back_bytes)
        sent = (one._replace(times=sums - 1), last._replace(back_bytes=one.back_bytes), state)
        return replace(self._two, collectives=sent, evaluations=sums)

    def _asked(self, times: int, question: Question, way: str) -> _Part:
        asked = replace(self._two, collectives=question.collectives)
        sent = asked.gathered.collectives if way == GATHER else asked.collectives
        took = self.model.collective_cost(*sent).seconds
        return _Part(times, took + question.evaluations * self.gradient_seconds, sent)

    def _iterated(self, times: float, demand: Demand, chains: int, way: str) -> _Part:
        demand = demand.gathered if way == GATHER else demand
        cost, _ = per_draw(
            self.model.iteration_cost(demand, chains * self.gradient_seconds),
            self._agreement,
            lambda draws: self.constants.chunk(demand, draws),
            demand.draws_of_a_chunk,
        )
        return _Part(times, cost.seconds, demand.collectives)


def in_words(seconds: float) -> str:
    """Return a length of time as people say it."""
    for unit, length in (("hours", 3600.0), ("minutes", 60.0), ("s", 1.0)):
        if seconds >= 2 * length or (unit == "s" and seconds >= 1):
            return f"{seconds / length:.2g} {unit}" if seconds < 100 * length else f"{seconds / length:,.0f} {unit}"
    return f"{1e3 * seconds:.0f} ms"


def _sentence(runs: Sequence[WholeRun], over_tree: float | None) -> str:
    """Return the recommendation in words; the best comes first, with its seconds over the tree where they are more."""
    best, *others = runs
    what = {SPLIT: SURROGATE, STARTED: 'nuts with start = "surrogate"'}.get(best.sampler, best.sampler)
    sums = "sums over the tree" if best.consensus == TREE else "masked sums that are gathered"
    told = f"Take {what}, {best.chains} chains, and {sums}: {EFFECTIVE_DRAWS:,} effective draws in about "
    told += in_words(best.seconds) + (f" ({in_words(over_tree)} over the tree)" if over_tree else "")
    slower = [f"{run.sampler} {in_words(run.seconds)}" for run in others if run.is_likely]
    told += f", in place of {', '.join(slower)}." if slower else "."
    other = next((run for run in others if not run.is_likely), None)
    if best.sampler == SURROGATE and other is not None:
        told += f" Should its proposals be accepted too seldom, it goes on by trajectories: {in_words(other.seconds)}."
    return told


def _unknown(runs: Sequence[WholeRun], facts: Mapping[str, Facts], dimension: int) -> str:
    """Return what is assumed since only a trial can tell, in words; nothing where all is known."""
    if not runs:
        return ""
    said = []
    for run in runs:
        of = facts[run.sampler]
        figures = {
            f"{of.fit_sums} sums to fit": of.fit_sums,
            f"a warm-up as long as {of.warmup_draws:g} draws": of.warmup_draws,
            f"{of.sums:g} sums a draw": of.sums,
            f"{of.ess_per_draw:g} effective draws a draw": of.ess_per_draw,
        }
        said.append(f"{run.sampler}: {', '.join(words for words, figure in figures.items() if figure)}")
    size = FEW_PARAMETERS if dimension <= MANY else MANY_PARAMETERS
    return (
        "Only a trial can tell how often proposals are accepted, how many sums a draw takes, and what it is worth. "
        f"Assumed are figures of models with {size} parameters "
        f"({'; '.join(said)}). A run with made-up rows knows better: --run DIR."
    )
