"""The report's section on predictive checks: outcomes as observed, and as the model draws them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._intervals import central
from .._lazy import LazyModule
from .figures import BAND_COVERAGE
from .markup import Content, Markup, abreast, figure, panel, paragraph, tag
from .numbers import count, number, percent
from .style import BAND, QUIET, SERIES
from .svg import drawn

if TYPE_CHECKING:
    from ..results import PredictiveCheck

scipy_stats: Any = LazyModule("scipy.stats")

MOST_SHOWN = 3  # outcomes
PIT_BINS = 10
MOST_TICKS = 12  # whole numbers that are all written below the axis
MOST_GROUPS, FEWEST_IN_GROUP = 10, 10  # rows of about one probability
POINT_COVERAGE = 0.9
ABOUT_PIT = (
    "How far up in its prediction from all other rows (leave-one-out, PSIS) each outcome lies. Level bars are good; a "
    "hump says that predictions are too wide, a hollow that they are too narrow, a slope that they are too low or too "
    "high. 95 of 100 bars stay in the band by chance."
)
ABOUT_CALIBRATION = (
    "Rows in groups of about one probability, each predicted from all other rows (leave-one-out, PSIS): the share that "
    "was observed should lie on the diagonal; 90 of 100 points stay within the lines by chance."
)


def section(checks: Mapping[str, PredictiveCheck], whose: str | None) -> Content:
    """Make the section; `whose` is the name of the agent whose draws were taken, None where all hold the same."""
    one = next(iter(checks.values()))
    of_all = f"{one.rows:,} of {one.all_rows:,} rows, evenly spaced," if one.rows < one.all_rows else "rows"
    by_whom = "" if whose is None else f" of {whose}"
    more = len(checks) - MOST_SHOWN
    text = f"The agents' own {of_all} beside what the model draws in their place, for {one.draws:,} draws{by_whom}."
    text += f" {count(more, 'more outcome')} are in run.predictive_checks." * (more > 0)
    unreliable = max(check.unreliable for check in checks.values())
    if unreliable:
        text += f" Of {count(unreliable, 'row')}, leave-one-out figures are not reliable: their k̂ is too large."
    drawings: list[Markup] = [tag("div", paragraph(text))]
    for name, check in list(checks.items())[:MOST_SHOWN]:
        drawings.append(figure(_about_bars(check), [panel(f"{name}, observed and drawn again", _bars(name, check))]))
        if check.pit is not None:
            drawings.append(figure(ABOUT_PIT, [panel(f"{name}, LOO-PIT", _pit(name, check.pit))]))
        if check.probability is not None:
            drawing = _calibration(name, check.outcomes == check.outcomes.max(), check.probability)
            drawings.append(figure(ABOUT_CALIBRATION, [panel(f"{name}, calibration by leave-one-out", drawing)]))
    return abreast(drawings)


def _about_bars(check: PredictiveCheck) -> str:
    text = (
        "Bars: rows observed with each value. Points and lines: mean and central 90 % of the same in sets of outcomes "
        "that the model draws for these rows. Where it fits, bars end within the lines."
    )
    is_cut = not check.is_whole or float(np.diff(check.edges)[0]) > 1
    return text + " The outermost bars hold all that lies beyond." * is_cut


def _bars(name: str, check: PredictiveCheck) -> Markup:
    centres, width = (check.edges[1:] + check.edges[:-1]) / 2, float(check.edges[1] - check.edges[0])

    def draw(ax: Any) -> None:
        ax.bar(centres, check.observed, width=width * (0.8 if check.is_whole else 1), color=SERIES[0], alpha=0.35)
        ax.vlines(centres, check.low, check.high, color=SERIES[1], lw=1.6)
        ax.scatter(centres, check.mean, s=12, color=SERIES[1], zorder=3)
        ax.set(xlabel=name, ylabel="rows", ylim=(0, None))
        if check.is_whole and width == 1 and len(centres) <= MOST_TICKS:
            ax.set_xticks(centres, [f"{value:.0f}" for value in centres])

    inside = float(((check.low <= check.observed) & (check.observed <= check.high)).mean())
    alt = (
        f"Outcomes {name} of {count(check.rows, 'row')} as observed and as drawn again: {percent(inside)} of "
        f"{count(len(centres), 'bar')} lie within the intervals."
    )
    return drawn(draw, alt)


def _pit(name: str, pit: np.ndarray) -> Markup:
    heights = np.histogram(pit, PIT_BINS, (0, 1))[0] * PIT_BINS / len(pit)
    low, high = scipy_stats.binom.ppf(central(BAND_COVERAGE), len(pit), 1 / PIT_BINS) * PIT_BINS / len(pit)

    def draw(ax: Any) -> None:
        ax.axhspan(low, high, color=BAND, lw=0)
        ax.axhline(1, color=QUIET, lw=0.6)
        ax.stairs(heights, np.linspace(0, 1, PIT_BINS + 1), fill=True, color=SERIES[0], alpha=0.55)
        ax.set(xlabel="LOO-PIT", ylabel="times the expected", xlim=(0, 1), ylim=(0, 1.1 * max(heights.max(), high)))

    outside = int(((heights < low) | (heights > high)).sum())
    alt = (
        f"LOO-PIT of {name}, {count(len(pit), 'row')}: bars from {number(heights.min(), 2)} to "
        f"{number(heights.max(), 2)} times the expected height, {outside} of {PIT_BINS} outside of the band."
    )
    return drawn(draw, alt)


def _calibration(name: str, happened: np.ndarray, probability: np.ndarray) -> Markup:
    groups = np.array_split(np.argsort(probability), max(1, min(MOST_GROUPS, len(probability) // FEWEST_IN_GROUP)))
    predicted, observed = (np.array([values[group].mean() for group in groups]) for values in (probability, happened))
    sizes = np.array([len(group) for group in groups])
    low, high = (scipy_stats.binom.ppf(q, sizes, np.clip(predicted, 0, 1)) / sizes for q in central(POINT_COVERAGE))

    def draw(ax: Any) -> None:
        ax.plot([0, 1], [0, 1], color=QUIET, lw=0.8, ls="--")
        ax.vlines(predicted, low, high, color=SERIES[0], lw=3, alpha=0.25)
        ax.scatter(predicted, observed, s=14, color=SERIES[0], zorder=3)
        ax.set(xlabel="predicted", ylabel="observed", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))

    inside = int(((low <= observed) & (observed <= high)).sum())
    alt = f"Calibration of {name} by leave-one-out: {inside} of {count(len(groups), 'group')} are within their lines."
    return drawn(draw, alt)
