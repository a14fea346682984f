"""Figures of chains: traces, ranks, marginals, and what happened over time.

Each function returns the drawing with its alt text, or a sentence where there is nothing to draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from .._compat import array_stats
from .._intervals import central
from .._lazy import LazyModule
from .markup import Markup, legend, tag
from .notes import NETWORK_HEIGHT, annotate
from .numbers import count, number, percent
from .reading import some
from .style import BAND, MOST_SERIES, PAPER, QUIET, SERIES, line_look
from .svg import drawn

scipy_stats: Any = LazyModule("scipy.stats")

Limits: TypeAlias = tuple[float, float] | None  # of an axis

TRACE_POINTS = 600
TIME_POINTS = 40
CURVE_POINTS = 120
FEWEST_FOR_A_CURVE = 20
MOST_RANK_BINS, FEWEST_RANK_BINS, DRAWS_PER_BIN = 20, 5, 10
BAND_COVERAGE = 0.95
LOG_FACTOR = 30  # values that vary by more than this factor are drawn on a logarithmic axis
WIDEST, NARROWEST = 2.4, 1.0  # line widths: later lines are thinner, so that lines on each other are all seen


def missing(why: str) -> Markup:
    """Return a paragraph that says why a figure is missing, to stand in its place."""
    return tag("p", why, class_="missing")


def names_of_lines(names: list[str]) -> Markup:
    """Make the legend of lines drawn with `line_look`, in this order."""
    return legend((name, f"var(--series-{k % len(SERIES)})", k >= len(SERIES)) for k, name in enumerate(names))


def trace(name: str, chains: np.ndarray) -> Markup:
    """Draw the trace of a parameter: its draws (chain, draw) one after the other."""
    finite = np.isfinite(chains)
    if not finite.any():
        return missing("No draw of this parameter is a finite number.")
    stride = -(-chains.shape[1] // TRACE_POINTS)
    places = np.arange(0, chains.shape[1], stride)

    def draw(ax: Any) -> None:
        shown = chains[some(len(chains)), ::stride]
        _plot_over_draws(
            ax, places, shown, "draw" if stride == 1 else f"draw (one in {stride} is drawn)", lw=0.7, alpha=0.85
        )

    low, high = chains[finite].min(), chains[finite].max()
    stuck = sum(np.isfinite(chain).all() and np.ptp(chain) == 0 for chain in chains) if chains.shape[1] > 1 else 0
    alt = (
        f"Trace of {name}: {count(len(chains), 'chain')} of {count(chains.shape[1], 'draw')} "
        f"between {number(low)} and {number(high)}"
    )
    alt += f", {stuck} of which never moved" * bool(stuck) + ", not all finite" * (not finite.all())
    return drawn(draw, alt + ".")


def ranks(name: str, chains: np.ndarray) -> Markup:
    """Draw histograms of every chain's ranks among all draws (Vehtari et al. 2021), and where bars are expected."""
    if not np.isfinite(chains).all():
        return missing("Draws that are not finite numbers cannot be ranked.")
    if len(chains) == 1:
        return missing("There is one chain: ranks compare chains.")
    length = chains.shape[1]
    if length < FEWEST_RANK_BINS * DRAWS_PER_BIN // 2:
        return missing(f"{count(length, 'draw')} a chain are too few to rank.")
    bins = int(np.clip(length // DRAWS_PER_BIN, FEWEST_RANK_BINS, MOST_RANK_BINS))
    ranked = scipy_stats.rankdata(chains, axis=None).reshape(chains.shape)
    heights = np.stack([np.histogram(row, bins, (0.5, chains.size + 0.5))[0] for row in ranked]) / (length / bins)
    low, high = scipy_stats.binom.ppf(central(BAND_COVERAGE), length, 1 / bins) / (length / bins)
    shown = some(len(chains))
    tallest = max(2.0, float(heights[shown].max()))

    def draw(ax: Any) -> None:
        edges = np.linspace(0, 1, bins + 1)
        for k, chain in enumerate(shown):
            floor = -1.1 * tallest * k
            ax.axhspan(floor + low, floor + high, color=BAND, lw=0)
            ax.plot([0, 1], [floor + 1] * 2, color=QUIET, lw=0.6)
            ax.stairs(floor + heights[chain], edges, baseline=floor, fill=True, color=line_look(k)["color"], alpha=0.55)
        ax.set_yticks([-1.1 * tallest * k for k in range(len(shown))], [f"chain {chain}" for chain in shown])
        ax.set(xlabel="rank, lowest to highest draw", xticks=[], xlim=(0, 1))
        ax.set_ylim(-1.1 * tallest * (len(shown) - 1), tallest)
        ax.spines["left"].set_visible(False)
        ax.tick_params(axis="y", length=0)

    outside = float(((heights < low) | (heights > high)).mean())
    alt = (
        f"Rank histograms of {name}, {len(chains)} chains: bars from {number(heights.min(), 2)} to "
        f"{number(heights.max(), 2)} times the expected height, {percent(outside)} of them outside of the band."
    )
    return drawn(draw, alt)


def marginal(name: str, draws: Mapping[str, np.ndarray | None], equal_heights: bool = False) -> Markup:
    """Draw a parameter's marginal density for each of the named sets of draws.

    Args:
      draws: by name; None keeps the place, and so the colour, of a set that does not have the parameter.
      equal_heights: draw all curves to the same height, in place of the same area.
    """
    none = np.empty(0)
    enough = [none if values is None or len(values) < FEWEST_FOR_A_CURVE else values for values in draws.values()]
    if not any(map(len, enough)):
        return missing("There are too few draws for curves.")
    finite = [values[np.isfinite(values)] for values in enough]
    if not any(map(len, finite)):
        return missing("No draw of this parameter is a finite number.")

    def draw(ax: Any) -> None:
        for k, values in enumerate(finite):
            width = WIDEST - (WIDEST - NARROWEST) * k / max(1, len(finite) - 1)
            if len(values) > 1 and np.ptp(values) > 0:
                places, heights = density(values)
                ax.plot(places, heights / heights.max() if equal_heights else heights, lw=width, **line_look(k))
            elif len(values):
                ax.axvline(values[0], lw=width, **line_look(k))
        ax.set(xlabel="value", yticks=[], ylim=(0, None))
        ax.spines["left"].set_visible(False)

    means, sds = ([float(of(values)) for values in finite if len(values)] for of in (np.mean, np.std))
    alt = (
        f"Marginals of {name}, {count(len(means), 'curve')}: means from {number(min(means))} to {number(max(means))}, "
        f"standard deviations from {number(min(sds))} to {number(max(sds))}."
    )
    return drawn(draw, alt)


def density(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Estimate a density with the kernels of arviz-stats; return places and heights."""
    return array_stats().kde(values, grid_len=CURVE_POINTS)[:2]


def over_time(what: str, lines: np.ndarray, limits: Limits = None) -> Markup:
    """Draw averages over stretches of the run.

    Args:
      what: name of what is shown.
      lines: values, (line, draw).
      limits: of the vertical axis.
    """
    if not np.isfinite(lines).any():
        return missing("None of the recorded numbers is finite.")
    starts = np.unique(np.linspace(0, lines.shape[1], min(lines.shape[1], TIME_POINTS), endpoint=False).astype(int))
    lengths = np.diff([*starts, lines.shape[1]])
    averages = np.add.reduceat(lines, starts, axis=1) / lengths
    places = starts + lengths / 2
    positive = averages[np.isfinite(averages) & (averages > 0)]

    def draw(ax: Any) -> None:
        _plot_over_draws(ax, places, averages[:MOST_SERIES], "draw", lw=1.2)
        if limits:
            ax.set_ylim(*limits)
        elif len(positive) and positive.max() > LOG_FACTOR * positive.min():
            ax.set_yscale("log")
            write_powers(ax.yaxis)
        else:
            ax.set_ylim(0, None)

    first, last = averages[:, 0].mean(), averages[:, -1].mean()
    return drawn(draw, f"{what.capitalize()}: {number(first)} at first, {number(last)} at last, on average over lines.")


def _plot_over_draws(ax: Any, places: np.ndarray, lines: np.ndarray, label: str, **look: Any) -> None:
    for k, line in enumerate(lines):
        ax.plot(places, line, marker="o" if len(places) < 10 else None, ms=3, **line_look(k), **look)
    ax.set(xlabel=label)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.margins(x=0.01)


def write_powers(axis: Any) -> None:
    """Write the ticks of a logarithmic axis as the page writes numbers."""
    axis.set_major_formatter(lambda value, _: number(value, 1))
    axis.minorticks_off()


def network(of: Any, notes: list[str] | None) -> Markup:
    """Draw the network as `Network.plot` does, in the page's colours.

    Args:
      notes: a few words on each agent; left out where they would cover each other or the agents.
    """

    def draw(ax: Any) -> None:
        of.plot(ax)
        ax.set_title("")
        for collection in ax.collections:
            collection.set_color(QUIET if hasattr(collection, "get_segments") else SERIES[0])  # links, discs
        for text in ax.texts:
            text.set_color(PAPER)
        if notes is None or not annotate(ax, of.edges, notes):
            ax.margins(0.1)

    return drawn(draw, f"The network, {of.facts}.", height=NETWORK_HEIGHT)
