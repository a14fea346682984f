"""The cost of agreeing: every method of consensus on a network, and which one is taken."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._refused import Refused
from .gathering import MOST_AGENTS
from .polynomial import (
    ACCURATE,
    CONTRACTION,
    accuracy,
    averaging,
    chebyshev,
    chebyshev_contraction,
    chebyshev_rounds,
    check_share,
    finite_time,
)

if TYPE_CHECKING:
    from .network import Network

BYTES = 4  # of a float32
MEASURED_WORK = 20_000_000  # rounds × edges that take about a second to try out
MEASURED_ROUNDS = 5_000  # ordering the roots takes the square of their number
GOSSIP = f"chebyshev, δ ≤ {CONTRACTION}"

SUMS = "sums of replicated chains (nuts, hmc, mala)"
MASKED_BITS = "bit-identical, masked only"
MASKED_SUMS = "the same, where they are masked"
WORD_BYTES = 9  # of a number of a masked sum: a word, and a count of what did not fit
AVERAGES = "gossip averages (dmala)"
DECISIONS = "decisions (min and max)"


@dataclass(frozen=True)
class MethodCost:
    """Cost of one method until all agents have the result, all their messages counted."""

    method: str
    rounds: int
    messages: int
    bytes_per_parameter: int
    accuracy: str
    use: str


@dataclass(frozen=True)
class MethodChoice:
    """Default method for one purpose, and why it is taken."""

    purpose: str
    method: str
    why: str


@dataclass(frozen=True)
class Plan:
    """The cost of every method of consensus on a network, and the choices that follow; `print` shows a table.

    A sum over the tree takes 2·depth rounds and 2(m - 1) messages, a round of gossip or of a polynomial 2|E|
    messages, flooding and gathering as many rounds as the diameter. Bytes are those of one float32 parameter, masked
    ones where sums are gathered.
    """

    network: str
    rows: tuple[MethodCost, ...]
    choices: tuple[MethodChoice, ...]

    def __getitem__(self, method: str) -> MethodCost:
        for row in self.rows:
            if row.method == method:
                return row
        methods = ", ".join(repr(row.method) for row in self.rows)
        raise Refused(repr(method), f"not one of the methods {methods}")

    def __str__(self) -> str:
        cells: list[tuple[str, ...]] = [("method", "rounds", "messages", "bytes/parameter", "accuracy", "for")]
        for row in self.rows:
            counts = (row.rounds, row.messages, row.bytes_per_parameter)
            cells.append((row.method, *(f"{count:,}" for count in counts), row.accuracy, row.use))
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        align = "<>>><<"
        lines = [
            "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(line, align, widths, strict=True)).rstrip()
            for line in cells
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        choices = [f"{choice.purpose}: {choice.method}. {choice.why}" for choice in self.choices]
        wrapped = [line for choice in choices for line in textwrap.wrap(choice, sum(widths) + 2 * len(widths) - 2)]
        return "\n".join([self.network, "", *lines, "", *wrapped])


def plan_network(network: Network, tolerance: float = 1e-6) -> Plan:
    """Return the plan of a network; the row "chebyshev" may leave the share `tolerance` of all disagreement."""
    check_share("tolerance", tolerance, "1e-6")
    if network.size == 1:
        rows = (("tree", SUMS), ("finite-time", AVERAGES), ("chebyshev", AVERAGES), ("flooding", DECISIONS))
        alone = MethodChoice("Everything", "none", "One agent has nothing to agree on, so nothing is sent.")
        return Plan(network.facts, tuple(MethodCost(method, 0, 0, 0, "exact", use) for method, use in rows), (alone,))

    chosen = averaging(network)
    tree, flooding = network.tree, network.diameter
    costs = [MethodCost("tree", tree.rounds, tree.messages, BYTES * tree.messages, "bit-identical on all agents", SUMS)]
    if network.size <= MOST_AGENTS:
        sent, size = network.gathering.messages, WORD_BYTES * network.gathering.carriers
        costs.append(MethodCost("gather", network.diameter, sent, size, MASKED_BITS, MASKED_SUMS))
    exact, reason = _finite_time(network, chosen.method == "finite-time", chosen.rounds)
    costs += [exact] if exact else []
    costs.append(_chebyshev(network, tolerance))
    if chosen.method == "chebyshev":
        left = f"contraction {chosen.contraction:.2g}"
        costs.append(_gossip_cost(network, GOSSIP, chosen.rounds, left, AVERAGES))
    costs.append(_gossip_cost(network, "flooding", flooding, "exact", DECISIONS))
    choices = (
        MethodChoice(
            "Sums (nuts, hmc, mala)",
            "tree",
            f"The same bits on all agents, as decisions inside a chain need, in {tree.messages:,} messages: no method "
            f"does with fewer. Agents that mask their sums gather them where that is sooner.",
        ),
        MethodChoice("Gossip averages (dmala)", GOSSIP if chosen.method == "chebyshev" else chosen.method, reason),
        MethodChoice(
            "Decisions (accept, stop)",
            "flooding",
            f"Nothing is rounded, and no method takes fewer rounds than the diameter, {flooding:,}.",
        ),
        MethodChoice(
            "Questions (surrogate)",
            "tree",
            f"Points from the root down, then a sum, the same bits again: {_rounds(tree.depth + tree.rounds)} for all "
            "that a thousand draws of each chain need, and tens of questions in a run.",
        ),
    )
    return Plan(network.facts, tuple(costs), choices)


def _finite_time(network: Network, chosen: bool, rounds: int) -> tuple[MethodCost | None, str]:
    """Return the finite-time row, or None, and why gossip samplers, in `rounds` rounds, average with it or do not."""
    tenth = f"At most {CONTRACTION:g} of all disagreement is left after {_rounds(rounds)}; the finite-time polynomial"
    factors = finite_time(network)
    if factors is None:
        return None, f"{tenth} needs all eigenvalues of W, of too many agents."
    measured, error = "not measured", 0.0
    if len(factors) * len(network.edges) <= MEASURED_WORK:
        error = accuracy(network, factors)
        measured = f"{error:.0e} measured, float32"
    if chosen:
        reason = f"Exact up to rounding in {_rounds(len(factors))}"
        if network.beta > 0:  # else the two are the same
            most = chebyshev_rounds(network.beta)
            reason += f"; Chebyshev takes {most:,} and leaves up to {CONTRACTION:g} of all disagreement"
        reason += "."
    elif error >= ACCURATE:
        reason = f"{tenth} has an error of {error:.0e} in float32."
    else:
        reason = f"{tenth} takes {len(factors):,}."
    use = AVERAGES if chosen else "exact averages" if error < ACCURATE else "nothing: rounding spoils it"
    return _gossip_cost(network, "finite-time", len(factors), measured, use), reason


def _chebyshev(network: Network, tolerance: float) -> MethodCost:
    rounds = chebyshev_rounds(network.beta, tolerance)
    reached = f"δ = {chebyshev_contraction(network.beta, rounds):.0e}"
    if rounds <= MEASURED_ROUNDS and rounds * len(network.edges) <= MEASURED_WORK:
        reached = f"{accuracy(network, chebyshev(network, rounds)):.0e} measured, float32"
    return _gossip_cost(network, "chebyshev", rounds, reached, f"averages to {tolerance:g}")


def _gossip_cost(network: Network, method: str, rounds: int, reached: str, use: str) -> MethodCost:
    messages = rounds * network.messages_per_round
    return MethodCost(method, rounds, messages, BYTES * messages, reached, use)


def _rounds(count: int) -> str:
    return "1 round" if count == 1 else f"{count:,} rounds"
