"""Runs side by side."""

from __future__ import annotations

import numpy as np

from . import figures, predictions
from .markup import Markup, figure, join, panel, paragraph, table
from .numbers import MISSING, count, fixed, number
from .sections import mixing
from .style import MOST_SERIES
from .view import View


def side_by_side(views: list[View], compared: tuple[str, ...]) -> Markup:
    """A table of all runs, and the marginals of parameters that they share."""
    scored = list(dict.fromkeys(name for view in views for name in _scores(view)))
    columns = [_column(view, scored) for view in views]
    rows = [(measure, *(column[measure] for column in columns)) for measure in columns[0]]
    explained = (
        "ESS is the bulk effective sample size. Scores are averages over agents; each run's section has the rest."
    )
    return join(
        [
            table("Runs: one a column", ["", *(view.name for view in views)], rows, "compared"),
            paragraph(explained),
            _overlaid(views, compared),
        ]
    )


def short_verdict(view: View) -> str:
    """A few words for a table."""
    words = [
        *([] if view.run.is_complete else ["unfinished"]),
        *([] if view.run.sampler.bias is None else ["biased by design"]),
        *([count(len(view.warnings), "warning")] if view.warnings else []),
    ]
    return ", ".join(words) or "no warnings"


def _scores(view: View) -> dict[str, np.ndarray]:
    return {} if view.run.evaluation is None else predictions.figures_of(view.run.evaluation)


def _column(view: View, scored: list[str]) -> dict[str, str]:
    """What the table says of a run, by measure."""
    run, (worst, least, typical), scores = view.run, mixing(view), _scores(view)
    megabytes = run.traffic.bytes / 1e6
    return {
        "sampler": run.sampler.name,
        "network": run.network.name,
        "chains × draws": f"{run.num_chains} × {run.num_draws:,}",
        "verdict": short_verdict(view),
        "worst R-hat": fixed(worst, 3),
        "least ESS": number(least),
        "median ESS": number(typical),
        "acceptance": MISSING if view.summary.acceptance is None else fixed(view.summary.acceptance, 3),
        "consensus error, sd": number(view.summary.consensus_error, 2),
        "rounds": f"{run.traffic.rounds:,}",
        "MB": number(megabytes),
        "seconds": number(run.seconds),
        "least ESS per MB": number(least / megabytes if megabytes else np.nan),
    } | {
        name: fixed(float(np.nanmean(scores[name])), predictions.DECIMALS[name]) if name in scores else MISSING
        for name in scored
    }


def _overlaid(views: list[View], compared: tuple[str, ...]) -> Markup:
    if not compared:
        return figures.missing("The runs have no parameter of the same name: there are no marginals to compare.")
    shown = views[:MOST_SERIES]
    panels = [panel(name, figures.marginal(name, {v.name: v.series[name].ravel() for v in shown})) for name in compared]
    text = (
        f"Of the parameters that all runs have, these {len(compared)} have the largest R-hat in any of them."
        if len(compared) > 1
        else "One parameter is in all runs."
    )
    text += f" The first {MOST_SERIES} of {len(views)} runs are drawn." * (len(views) > MOST_SERIES)
    caption = (
        "Marginals: how each run's draws, of all agents and chains, are spread; runs that sample the same posterior "
        "lie on each other, and a narrower curve is surer of itself."
    )
    return join([paragraph(text), figure(caption, panels, figures.names_of_lines([view.name for view in shown]))])
