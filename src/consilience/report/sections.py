"""The page's sections on one run, from verdict to provenance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from . import checks, figures, predictions
from .forest import INNER, MOST_ROWS, PROBABILITY, chosen, forest, intervals
from .markup import Content, Markup, abreast, facts, figure, folded, join, panel, paragraph, table, tag
from .numbers import MISSING, count, fixed, listed, number
from .reading import RunReading, some, worst_places
from .style import MOST_SERIES

if TYPE_CHECKING:
    from ..results import Certificate

MOST_NOTED = 8  # agents with a note in the picture of the network
MOST_BESIDE = 6  # columns of a table that has room beside the picture
MOST_OPEN = 24  # rows of a table or list that is not folded
SHOWN_ROWS = 12  # parameters in the table, where there are too many for a forest plot of all
LONGEST_UNBROKEN = 14  # name of a parameter in the table
NEIGHBOURS = 8  # named in the table of agents
STATISTICS: dict[str, tuple[str, Callable[[float], str]]] = {  # in the table of parameters: the summary's column
    "R-hat": ("r_hat", partial(fixed, decimals=3)),  # first, where a phone shows it
    "mean": ("mean", number),
    "sd": ("sd", number),
    "bulk ESS": ("ess_bulk", partial(fixed, decimals=0)),
    "tail ESS": ("ess_tail", partial(fixed, decimals=0)),
    "MCSE": ("mcse_mean", number),
}
INTERVAL = f"{100 * PROBABILITY:.0f} % interval"


def run_sections(reading: RunReading, level: int) -> Markup:
    """Make all sections of the page on one run.

    Args:
      level: of the headings.
    """
    found: list[tuple[str, Content]] = [
        ("Parameters", _parameters(reading)),
        ("Network", _network(reading)),
    ]
    if reading.summary.certificate is not None:
        found.insert(0, ("Certificate", _certificate(reading.summary.certificate)))
    if reading.run.evaluation is not None:
        is_same = reading.run.copies == 1
        found.append(("Predictions", predictions.section(reading.run.evaluation, is_same, reading.run.agent_names)))
    if reading.run.predictive_checks:
        whose = None if reading.run.copies == 1 else reading.run.agent_names[0]
        found.append(("Predictive checks", checks.section(reading.run.predictive_checks, whose)))
    found += [
        ("Chains", _chains(reading)),
        ("Marginals per agent" if reading.run.copies > 1 else "Marginals", _marginals(reading)),
        ("Agreement, acceptance and cost", _over_time(reading)),
    ]
    if reading.run.facts:
        listing = facts(reading.run.facts.items(), "provenance")
        is_long = len(reading.run.facts) > MOST_OPEN
        found.append(("Provenance", folded(count(len(reading.run.facts), "fact"), listing) if is_long else listing))
    return join(
        [verdict(reading), key_figures(reading), *(tag("section", tag(f"h{level}", h), body) for h, body in found)]
    )


def verdict(reading: RunReading) -> Markup:
    """Make the box with the verdict, and with the sampler's bias."""
    bias = reading.run.sampler.bias
    said = ("Bias. ", "None by design.") if bias is None else ("Biased by design. ", bias)
    parts = [
        paragraph(tag("strong", "Verdict. "), reading.summary.verdict),
        paragraph(tag("strong", said[0]), said[1][0].upper(), said[1][1:]),
    ]
    start = reading.summary.start
    if start is not None:
        parts.append(paragraph(tag("strong", "Started "), f"{start.text}."))
    if reading.summary.of_own is not None:
        parts.append(paragraph(tag("strong", "Own variables: "), f"{reading.summary.of_own}."))
    return tag("div", *parts, class_="verdict careful" if reading.grave else "verdict")


def _certificate(certificate: Certificate) -> Content:
    rows = [(check.name, check.found, check.limit, check.verdict) for check in certificate.checks]
    caption = f"What the draws rest on, item by item. {certificate.blindness}"
    method = paragraph(
        f"A surrogate, {certificate.method}. Its certificate {'holds' if certificate.holds else 'fails'}."
    )
    return [method, table(caption, ["item", "found", "limit", "verdict"], rows)]


def key_figures(reading: RunReading) -> Markup:
    summary, run = reading.summary, reading.run
    worst, least, typical = mixing(reading)
    return facts(
        (
            ("worst R-hat", fixed(worst, 3)),
            ("least bulk ESS", number(least)),
            ("median bulk ESS", number(typical)),
            ("acceptance", MISSING if summary.acceptance is None else fixed(summary.acceptance, 3)),
            ("consensus error, sd", number(summary.consensus_error, 2)),
            ("sent", f"{number(run.traffic.bytes / 1e6)} MB"),
            ("time", f"{number(run.seconds)} s"),
        ),
        "key-figures",
    )


def mixing(reading: RunReading) -> tuple[float, float, float]:
    """Return the largest R-hat, the least and the median bulk ESS of those that were computed."""
    r_hat, ess = (reading.summary.columns[name] for name in ("r_hat", "ess_bulk"))
    r_hat, ess = r_hat[~np.isnan(r_hat)], ess[~np.isnan(ess)]
    least, typical = (float(ess.min()), float(np.median(ess))) if len(ess) else (np.nan, np.nan)
    return float(r_hat.max(initial=-np.inf)) if len(r_hat) else np.nan, least, typical


def _network(reading: RunReading) -> Content:
    run, agents, names = reading.run, reading.run.network.size, reading.member_names
    classes = getattr(run.evaluation, "seen", None)
    notes = None
    if (run.rows is not None or reading.has_names) and agents <= MOST_NOTED:
        parts = [list(names)] if reading.has_names else []
        parts += [] if run.rows is None else [[count(rows, "row") for rows in run.rows]]
        parts += [[listed([str(label) for label in own], 3) for own in classes]] if classes and run.rows else []
        notes = ["\n".join(lines) for lines in zip(*parts, strict=True)]
    called = names if reading.has_names else [str(agent) for agent in range(agents)]
    neighbors = [listed([called[other] for other in run.network.neighbors(a)], NEIGHBOURS) for a in range(agents)]
    columns: dict[str, list[str]] = {"disc": [str(agent) for agent in range(agents)]} if reading.has_names else {}
    columns["neighbours"] = [listing or "none" for listing in neighbors]
    if run.rows is not None:
        columns["rows"] = [f"{rows:,}" for rows in run.rows]
    if classes:
        columns["classes"] = [listed([str(label) for label in own], NEIGHBOURS) for own in classes]
    if not reading.has_one_chain_for_all and reading.agents == agents:
        if reading.acceptance is not None and run.num_draws:
            columns["acceptance"] = [fixed(float(np.mean(values)), 3) for values in reading.acceptance]
        if "disagreement" in run.stats and run.num_draws:
            columns["distance"] = [number(float(np.mean(values))) for values in run.stats["disagreement"]]
    if run.evaluation is not None:
        for title, values in predictions.figures_of(run.evaluation).items():
            if run.copies == 1 and title not in predictions.OF_UNSEEN:
                continue  # the same for all agents
            columns[title] = [fixed(float(value), predictions.DECIMALS[title]) for value in values]
    rows = [(names[a], *(values[a] for values in columns.values())) for a in range(agents)]
    body = table("Agents: what each one has, and what came of it", ["agent", *columns], rows)
    if agents > MOST_OPEN:
        body = folded(f"The {agents} agents, one by one", body)
    caption = "Discs are agents, lines join those that may talk, and thicker lines weigh more when values are mixed."
    facts_line = f"{run.network.facts[0].upper()}{run.network.facts[1:]}."
    picture = figure(caption, [figures.network(run.network, notes)])
    beside = "beside" if len(columns) < MOST_BESIDE else None
    return [paragraph(facts_line), tag("div", picture, body, class_=beside)]


def _parameters(reading: RunReading) -> Content:
    names = reading.summary.names
    if not names:
        return figures.missing("No parameters were kept.")
    in_table = _tabled(reading)
    places = chosen(names) or in_table
    panels = forest([names[k] for k in places], intervals(reading.run, places))
    content = _parameter_table(reading, in_table)
    if not panels:
        return content
    caption = (
        f"Forest plot: the mean of a parameter as a dot, its central interval of {PROBABILITY:.2f} as a thin line and "
        f"that of {INNER:.2f} as a thick one."
    )
    if len(places) < len(names):
        which = "those of the table" if places == in_table else "those that have a name and not only a number"
        caption += f" Of {len(names):,} parameters, these {len(places)} are {which}."
    drawing = tag("figure", *panels, tag("figcaption", caption))
    return tag("div", drawing, tag("div", join(content)), class_="beside forest")


def _tabled(reading: RunReading) -> list[int]:
    """Return the places of the parameters that are in the table: all, or of many those with the largest R-hat."""
    total = len(reading.summary.names)
    return worst_places(reading.summary.columns["r_hat"], total if total <= MOST_ROWS else SHOWN_ROWS)


def _parameter_table(reading: RunReading, places: list[int]) -> list[Markup]:
    names, columns = reading.summary.names, reading.summary.columns
    rows = []
    for k, interval in zip(places, intervals(reading.run, places), strict=True):
        r_hat, _, sd, *rest = (write(float(columns[name][k])) for name, write in STATISTICS.values())
        rows.append(
            (_breakable(names[k]), r_hat, interval.written(float(columns["mean"][k])), sd, interval.text, *rest)
        )
    which = "all" if len(rows) == len(names) else f"the {len(rows)} of {len(names):,} with the largest R-hat"
    explained = (
        "Standard deviations (sd), intervals and effective sample sizes (ESS) are of all chains together. "
        if reading.run.copies == 1
        else "Means, standard deviations (sd) and intervals are averages over agents; effective sample sizes (ESS) are "
        "the smallest and R-hat is the largest of any agent. "
    ) + "MCSE is the Monte Carlo standard error of the mean."
    header = [*STATISTICS]
    header.insert(3, INTERVAL)
    return [paragraph(explained), table(f"Parameters: {which}", ["parameter", *header], rows)]


def _breakable(name: str) -> Markup | str:
    """Let a long name break into lines before the label of its element."""
    own, bracket, label = name.partition("[")
    return join([own, tag("wbr"), bracket, label]) if bracket and len(name) > LONGEST_UNBROKEN else name


def _chains(reading: RunReading) -> Content:
    if not reading.shown or not reading.run.num_draws:
        return figures.missing("There are no draws to show.")
    lines = figures.names_of_lines([f"chain {chain}" for chain in some(reading.run.num_chains)])
    traces = {name: figures.trace(name, reading.chains(name)) for name in reading.shown}
    ranks = {name: figures.ranks(name, reading.chains(name)) for name in reading.shown}
    drawings = [
        _panels(
            "Traces: the draws in order; chains that have mixed look alike and wander over the same range.",
            traces,
            lines,
        ),
        _panels(
            "Rank plots: how often each chain's draws rank low or high among all draws; where chains have mixed, "
            "bars are level, and 95 of 100 stay in the band if draws are independent (autocorrelation widens it).",
            ranks,
        ),
    ]
    text = f"{reading.how_chosen} {reading.whose_chains}{_omitted('chains', reading.run.num_chains)}"
    return [paragraph(text), abreast(drawings) if len(reading.shown) == 1 else drawings]


def _panels(caption: str, drawings: dict[str, Markup], legend: Markup | None = None) -> Markup:
    """Make a panel for every parameter; where all are missing for the same reason, say it once."""
    reasons = set(drawings.values())
    if len(reasons) == 1 and "<svg" not in (reason := reasons.pop()):
        return reason
    return figure(caption, [panel(name, drawing) for name, drawing in drawings.items()], legend)


def _omitted(what: str, total: int) -> str:
    return f" Of {total} {what}, {MOST_SERIES}, evenly spaced, are drawn." if total > MOST_SERIES else ""


def _marginals(reading: RunReading) -> Content:
    if not reading.shown or not reading.run.num_draws:
        return figures.missing("There are no draws to show.")
    if reading.run.copies > 1:
        omitted = _omitted("agents", reading.agents)
        text = f"Each agent has draws of its own; its chains are taken together.{omitted} {reading.agreement}"
        caption = "Marginals: how each agent's draws are spread; where agents agree, the curves lie on each other."
    else:
        text = f"{reading.whose_chains} The curves are the chains.{_omitted('chains', reading.run.num_chains)}"
        caption = "Marginals: how each chain's draws are spread; where chains have mixed, the curves lie on each other."
    drawings = {name: figures.marginal(name, reading.curves(name)) for name in reading.shown}
    lines = figures.names_of_lines(list(reading.curves(reading.shown[0])))
    return [paragraph(text), _panels(caption, drawings, lines)]


def _over_time(reading: RunReading) -> Content:
    """Put what happened over time beside what it cost: figures on the left, sentences and the table on the right."""
    found = [_agreement(reading), _acceptance(reading)]
    drawings, sentences = ([part for part in found if ("<svg" in part) == is_drawn] for is_drawn in (True, False))
    omitted = _omitted("agents", reading.agents) if reading.run.copies > 1 else ""
    omitted += _omitted("chains", reading.run.num_chains)
    text = [paragraph(omitted) if omitted else "", *sentences, *_cost(reading)]
    return tag("div", tag("div", join(drawings)), tag("div", join(text)), class_="beside") if drawings else text


def _agreement(reading: RunReading) -> Markup:
    if reading.agents < reading.run.network.size:
        return paragraph("The other agents keep their draws: how far they are apart is not known here.")
    if reading.agents == 1:
        return paragraph("There is one agent: nobody to agree with.")
    if reading.has_one_chain_for_all:
        return paragraph("All agents hold the same chains, bit by bit: there is no consensus error to follow.")
    apart = reading.run.stats.get("disagreement")
    if apart is None or not reading.run.num_draws:
        return figures.missing("How far the agents were apart was not recorded draw by draw.")
    caption = (
        "Consensus error: an agent's root mean square distance from the mean of all agents, in the parameters' own "
        "units; it should be small beside the posterior's spread, and not grow."
    )
    return _lines("Distance from the network mean", reading.run.agent_names, apart.mean(axis=1), caption)


def _acceptance(reading: RunReading) -> Markup:
    taken = reading.acceptance
    if not reading.run.num_draws:
        return figures.missing("There are no draws to show.")
    if taken is None:
        return paragraph("The sampler takes every proposal: there is no acceptance rate.")
    caption = (
        "Acceptance: the share of proposals taken (for NUTS, their mean probability), averaged over stretches of the "
        "run and over agents; a chain near zero is stuck."
    )
    chains = [f"chain {chain}" for chain in range(reading.run.num_chains)]
    return _lines("Acceptance", chains, taken.mean(axis=0), caption, (0, 1.02))


def _lines(title: str, names: Sequence[str], values: np.ndarray, caption: str, limits: figures.Limits = None) -> Markup:
    """Draw `values` (line, draw) over the run: some of the lines, one for each agent or chain."""
    shown = some(len(values))
    lines = figures.names_of_lines([names[k] for k in shown])
    drawing = figures.over_time(f"{title[0].lower()}{title[1:]}", values[shown], limits)
    return figure(caption, [panel(title, drawing, lines)])


def _cost(reading: RunReading) -> list[Markup]:
    run, summary = reading.run, reading.summary
    _, *bought = mixing(reading)
    rows = [
        (name, number(spent, 4) if isinstance(spent, float) else f"{spent:,}", *(_per(ess, spent) for ess in bought))
        for name, spent in {
            "round": run.traffic.rounds,
            "message": run.traffic.messages,
            "megabyte": run.traffic.bytes / 1e6,
            "second": run.seconds,
            "iteration of a chain": run.iterations,
        }.items()
    ]
    counted = [
        f"{number_of:,} {'was' if was and number_of == 1 else was}{what}"
        for was, what, number_of in (("", "diverged", summary.divergences), ("were", " redone", summary.redone))
        if number_of is not None
    ]
    behind = f"Of {count(summary.iterations, 'iteration')} behind the kept draws, {' and '.join(counted)}."
    parts = [behind] if counted else []
    if summary.e_bfmi is not None:
        parts.append(f"E-BFMI of the chains: {', '.join(number(float(e), 2) for e in summary.e_bfmi)}.")
    header = ["unit", "spent", "least ESS per unit", "median ESS per unit"]
    return [
        paragraph("Warm-up is included. ESS is the bulk effective sample size: what the draws are worth."),
        table("Cost: what was spent, and the effective draws that each unit bought", header, rows),
        *([paragraph(" ".join(parts))] if parts else []),
    ]


def _per(ess: float, total: float) -> str:
    return number(ess / total if total else np.nan)
