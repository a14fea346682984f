"""Comparison of runs, side by side on the page."""

from __future__ import annotations

import numpy as np

from . import figures, predictions
from .markup import Content, figure, panel, paragraph, table
from .numbers import MISSING, fixed, number
from .reading import RunReading, shared_names
from .sections import mixing
from .style import MOST_SERIES


def side_by_side(readings: list[RunReading], compared: tuple[str, ...]) -> Content:
    """Make a table of all runs, and draw the marginals of parameters that they share."""
    scored = list(dict.fromkeys(name for reading in readings for name in _scores(reading)))
    columns = [_column(reading, scored) for reading in readings]
    rows = [(measure, *(column[measure] for column in columns)) for measure in columns[0]]
    return [
        table("Runs: one a column", ["", *(reading.name for reading in readings)], rows, "compared"),
        paragraph(
            "ESS is the bulk effective sample size. Scores are averages over agents; each run's section has the rest."
        ),
        _overlaid(readings, compared),
    ]


def short_verdict(reading: RunReading) -> str:
    """Return the verdict on a run in a few words, for a table."""
    return ", ".join(reading.grave) or "no warnings"


def _scores(reading: RunReading) -> dict[str, np.ndarray]:
    return {} if reading.run.evaluation is None else predictions.figures_of(reading.run.evaluation)


def _column(reading: RunReading, scored: list[str]) -> dict[str, str]:
    """Return a run's column of the table: texts by measure."""
    run, (worst, least, typical), scores = reading.run, mixing(reading), _scores(reading)
    megabytes = run.traffic.bytes / 1e6
    return {
        "sampler": run.sampler.name,
        "network": run.network.name,
        "chains × draws": f"{run.num_chains} × {run.num_draws:,}",
        "verdict": short_verdict(reading),
        "worst R-hat": fixed(worst, 3),
        "least ESS": number(least),
        "median ESS": number(typical),
        "acceptance": MISSING if reading.summary.acceptance is None else fixed(reading.summary.acceptance, 3),
        "consensus error, sd": number(reading.summary.consensus_error, 2),
        "rounds": f"{run.traffic.rounds:,}",
        "MB": number(megabytes),
        "seconds": number(run.seconds),
        "least ESS per MB": number(least / megabytes if megabytes else np.nan),
    } | {
        name: fixed(float(np.nanmean(scores[name])), predictions.DECIMALS[name]) if name in scores else MISSING
        for name in scored
    }


def _overlaid(readings: list[RunReading], compared: tuple[str, ...]) -> Content:
    """Draw marginals of parameters that at least two runs have; a run has the same colour in all of them."""
    if not compared:
        return figures.missing("No two of the runs have a parameter of the same name: no marginals can be compared.")
    drawn = readings[:MOST_SERIES]
    panels = []
    for name in compared:
        draws = {r.name: r.series[name].ravel() if name in r.series else None for r in drawn}
        having = sum(values is not None for values in draws.values())
        title = name if having == len(drawn) else f"{name} (in {having} of {len(drawn)} runs)"
        panels.append(panel(title, figures.marginal(name, draws, equal_heights=True)))
    caption = (
        "Marginals, drawn to the same height: how each run's draws, of all agents and chains, are spread; runs that "
        "sample the same posterior lie on each other, and a narrower curve is surer, or has not mixed: see R-hat."
    )
    lines = figures.names_of_lines([reading.name for reading in drawn])
    return [paragraph(_what_is_compared(readings, compared)), figure(caption, panels, lines)]


def _what_is_compared(readings: list[RunReading], compared: tuple[str, ...]) -> str:
    drawn = readings[:MOST_SERIES]
    shared = len(shared_names([reading.summary for reading in drawn]))
    of = "both runs" if len(drawn) == 2 else f"at least two of the {len(drawn)} runs"
    if shared > len(compared):
        text = f"Of the {shared:,} parameters that {of} have, these {len(compared)} have the largest R-hat in any run."
    else:
        text = "One parameter is" if shared == 1 else f"These {shared} parameters are all that are"
        text += f" in {of}."
    if any(_is_too_short(reading) for reading in drawn):
        text += f" Runs of fewer than {figures.FEWEST_FOR_A_CURVE} draws have no curve."
    return text + f" The first {len(drawn)} of {len(readings)} runs are drawn." * (len(readings) > len(drawn))


def _is_too_short(reading: RunReading) -> bool:
    return reading.run.num_draws * reading.run.num_chains * reading.run.copies < figures.FEWEST_FOR_A_CURVE
