"""Prediction of a run by peers: time per draw, what it goes into, what is sent, and the best way to agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .._refused import Refused
from ..engine import CHUNK_SECONDS
from ..network import GOSSIP, MOST_AGENTS, Network
from ..samplers import Sampler
from .cost import COMPUTE, MEASURED, PARTS, Constants, Cost, CostModel
from .demand import Collective, Demand, demand_of, masked_bytes
from .links import LinkSpeeds

MOST_WORK = 20_000_000  # agents × levels of the tree, which take about half a minute
BETWEEN_CHUNKS = (Collective("flood", 1, 32),)  # what agents agree on between two chunks of draws: `Segment.agree`
MANY_CHAINS = 64
FEWEST_MASKED = 3  # agents: of two, the sum and one's own part are the other's
SAME_BITS = "same bits everywhere"
GATHERED = "the same, masked"
GIVEN = "gossip"  # with a number of rounds that is given, not worked out


@dataclass(frozen=True)
class AgreementMethod:
    """Way for agents to agree, and what it takes on these links until the last agent has the result."""

    purpose: str
    method: str
    rounds: int
    seconds: float
    megabytes_per_agent: float
    is_best: bool
    note: str


@dataclass(frozen=True)
class Prediction:
    """Predicted cost of one draw of all chains.

    Attributes:
      seconds: time per draw.
      shares: fractions of the seconds, by what they go into: latency, bandwidth, compute, software.
      rounds, messages: number of each per draw, what agents agree on between chunks of draws included.
      megabytes_per_agent: what an agent sends for a draw, on average; `most_megabytes`: what the busiest sends.
      draws_at_once: number of draws between two such agreements.
      seconds_per_effective_draw: None where `ess_per_draw` was not given.
      seconds_of_many: time per draw of 64 chains in their place, where the longest of them takes no more gradients.
    """

    seconds: float
    shares: dict[str, float]
    rounds: float
    messages: float
    megabytes_per_agent: float
    most_megabytes: float
    evaluations: float
    draws_at_once: int
    seconds_per_effective_draw: float | None
    seconds_of_many: float
    methods: tuple[AgreementMethod, ...]

    @property
    def bottleneck(self) -> str:
        return max(self.shares, key=self.shares.__getitem__)


def predict(
    network: Network,
    links: LinkSpeeds,
    sampler: Sampler,
    dimension: int,
    *,
    chains: int = 1,
    gradient_seconds: float = 0.0,
    evaluations: float | None = None,
    ess_per_draw: float | None = None,
    chunk_seconds: float | None = None,
    consensus: str = "tree",
    constants: Constants = MEASURED,
) -> Prediction:
    """Predict the cost of a draw in a run by peers, after its warm-up.

    Args:
      dimension: number of the model's float32 parameters.
      gradient_seconds: time of an agent's own log density and gradient, for all chains.
      evaluations: number of gradients per draw, for NUTS.
      ess_per_draw: effective draws per draw of one chain.
      chunk_seconds: time of an agent's work for a chunk besides its draws; None: by the constants.
      consensus: the way of sums: "tree", or "gather", where they are masked.
    """
    check_size(network)
    demand = asked = demand_of(sampler, network, dimension, chains, evaluations)
    if consensus == "gather":
        check_gathered(network, sampler)
        demand = asked.gathered
    model = CostModel(network, links, constants)
    agreement = model.collective_cost(*BETWEEN_CHUNKS)

    def cost_of(demand: Demand, gradient_seconds: float) -> tuple[Cost, int]:
        def own(draws: int) -> float:
            return constants.chunk(demand, draws) if chunk_seconds is None else chunk_seconds

        iteration, most = model.iteration_cost(demand, gradient_seconds), demand.draws_of_a_chunk
        cost, at_once = per_draw(iteration, agreement, own, most)
        if at_once == 1:  # then nothing long is sent between two draws, for so long
            iteration = model.iteration_cost(demand, gradient_seconds, quiet_seconds=agreement.seconds + own(1))
            cost, at_once = per_draw(iteration, agreement, own, most)
        return cost, at_once

    cost, at_once = cost_of(demand, gradient_seconds)
    more = MANY_CHAINS / chains
    many, _ = cost_of(demand.of_chains(more), more * gradient_seconds)
    rounds, messages, _ = (
        of_draw + of_chunk / at_once
        for of_draw, of_chunk in zip(
            demand.traffic(network), replace(demand, collectives=BETWEEN_CHUNKS).traffic(network), strict=True
        )
    )
    by_agent = model.bytes_sent(*demand.collectives) + model.bytes_sent(*BETWEEN_CHUNKS) / at_once
    seconds = cost.seconds
    return Prediction(
        seconds=seconds,
        shares={
            part: float(value) / seconds if seconds else 0.0 for part, value in zip(PARTS, cost.parts, strict=True)
        },
        rounds=rounds,
        messages=messages,
        megabytes_per_agent=float(by_agent.mean()) / 1e6,
        most_megabytes=float(by_agent.max()) / 1e6,
        evaluations=demand.evaluations,
        draws_at_once=at_once,
        seconds_per_effective_draw=None if ess_per_draw is None else seconds / (chains * ess_per_draw),
        seconds_of_many=many.seconds,
        methods=tuple(_methods(network, model, sampler, asked)),
    )


def check_gathered(network: Network, sampler: Sampler) -> None:
    """Refuse to plan sums that no agents would gather."""
    fix = 'Leave it out, or write consensus="tree".'
    if not sampler.maskable:
        raise Refused('consensus="gather"', f"only masked sums are gathered, and {sampler.name} has none", fix)
    if network.size < FEWEST_MASKED:
        who = "two agents" if network.size == 2 else "an agent alone"
        reason = f"{who} cannot mask, and only masked sums are gathered"
        raise Refused('consensus="gather"', reason, 'Write consensus="tree".')
    if network.size > MOST_AGENTS:
        raise Refused('consensus="gather"', f"{network.size:,} agents are too many to gather", fix)


def check_size(network: Network) -> None:
    """Refuse a network that is too large to be worked out agent by agent."""
    if network.size * max(network.tree.depth, network.diameter) > MOST_WORK:
        size = f"{network.size:,} agents on {network.tree.depth:,} levels"
        reason = f"it is worked out agent by agent and level by level, and has {size}: too many"
        raise Refused(network.name, reason, "Ask for a smaller one; --figure goes on to a million agents.")


def per_draw(iteration: Cost, agreement: Cost, chunk_seconds: Callable[[int], float], most: int) -> tuple[Cost, int]:
    """Return the cost of a draw, with its part of what happens once in a chunk, and the number of draws in a chunk.

    Args:
      agreement: cost of agreeing on a chunk.
      chunk_seconds: gives the time of an agent's own work for a chunk of so many draws.
      most: number of draws that there is room for in a chunk.
    """
    pace = iteration.seconds
    at_once = most if pace == 0 else max(1, min(most, int((CHUNK_SECONDS - chunk_seconds(1)) / pace)))
    own = np.zeros(len(PARTS))
    own[COMPUTE] = chunk_seconds(at_once)
    return Cost(iteration.parts + (agreement.parts + own) / at_once), at_once


def _methods(network: Network, model: CostModel, sampler: Sampler, demand: Demand) -> list[AgreementMethod]:
    """Return, for each agreement that the sampler needs, the ways to reach it, the best first."""
    if network.size == 1:
        return []
    known = {row.method: row.rounds for row in network.plan().rows} | {"tree": network.tree.rounds}
    asked_by = {
        "tree": lambda size: Collective("sum", 1, size, size),
        "gather": lambda size: Collective("gather", 1, masked_bytes(size)),
    }
    sums = [each.message_bytes for each in demand.collectives if each.kind == "sum"]
    averages = [each for each in demand.collectives if each.kind == "gossip"]
    floods = [each.message_bytes for each in demand.collectives if each.kind == "flood"]
    found: list[AgreementMethod] = []

    def add(purpose: str, size: int, notes: dict[str, str], exact: bool = False) -> None:
        ways = []
        for method, note in notes.items():
            rounds = known[method]
            asked = asked_by[method](size) if method in asked_by else Collective("gossip", rounds, size)
            sent, took = float(model.bytes_sent(asked).mean()) / 1e6, model.collective_cost(asked).seconds
            ways.append(AgreementMethod(purpose, method, rounds, took, sent, False, note))
        best = ways[0] if exact else min(ways, key=lambda way: way.seconds)
        found.extend([replace(best, is_best=True), *(way for way in ways if way is not best)])

    if sampler.replicated:
        inexact = "not the same bits"
        notes = {"tree": SAME_BITS, "gather": GATHERED, "finite-time": inexact, "chebyshev": inexact}
        there = {method: note for method, note in notes.items() if method in known}
        add("sum of gradients", max(sums), there, exact=True)
    elif sampler.gossips_averages:
        done = max(averages, key=lambda each: each.message_bytes)
        chosen, note = GOSSIP if GOSSIP in known else "finite-time", "what dmala does"
        if done.times != known[chosen]:
            chosen, note = GIVEN, "what dmala is set to"
            known[GIVEN] = round(done.times)
        add("average of a vector", done.message_bytes, {chosen: note, "tree": "exact: what mala does"})
    if floods:
        add("decision", max(floods), {"flooding": "nothing is rounded", "tree": SAME_BITS})
    return found
