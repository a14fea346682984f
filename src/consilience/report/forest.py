"""Forest plots: every parameter's mean and central intervals, one below the other."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._intervals import central, mean_quantiles
from .markup import Markup, panel
from .numbers import MISSING, fixed, number
from .style import QUIET, SERIES
from .svg import drawn

if TYPE_CHECKING:
    from ..results import Run

MOST_ROWS = 24  # parameters in all forest plots of a run
PROBABILITY, INNER = 0.94, 0.5  # of the thin and of the thick interval
MOST_CONTRAST = 60  # an interval that is narrower than the axis by more than this factor could not be seen
WIDTH, MARGIN, ROW = 4.0, 0.42, 0.2  # inches
LONGEST_NAME = 22
LARGE, SMALL = 1e6, 1e-3  # values that are written by powers of ten
BY_NUMBER = re.compile(r"\[\d+(, \d+)*\]$")


class Interval(NamedTuple):
    """A parameter's mean and central intervals, averages over agents where each has draws of its own."""

    mean: float
    low: float
    inner_low: float
    inner_high: float
    high: float

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self).all())

    def written(self, value: float) -> str:
        """Format a value of the parameter, with as many decimals as the interval's width calls for."""
        width = self.high - self.low
        if not (self.is_finite and width > 0 and max(abs(self.low), abs(self.high)) < LARGE and width > SMALL):
            return number(value)
        return fixed(value, max(0, math.ceil(1.9 - math.log10(width))))

    @property
    def text(self) -> str:
        """The outer interval in words."""
        return f"{self.written(self.low)} to {self.written(self.high)}" if self.is_finite else MISSING


def intervals(run: Run, places: Sequence[int]) -> list[Interval]:
    """Compute the intervals of some of the run's numbers from all draws and chains; NaN where draws are not finite."""
    if not places or not run.num_draws:
        return [Interval(*[np.nan] * 5) for _ in places]
    series = np.moveaxis(np.asarray(run.series(list(places)), float), (2, 1, 0), (0, 1, 2))
    ends = sorted([*central(PROBABILITY), *central(INNER)])
    with np.errstate(all="ignore"):
        found = np.concatenate([series.mean(axis=(0, 1, 2))[None], mean_quantiles(series, ends)])
    found[:, ~np.isfinite(series).all(axis=(0, 1, 2))] = np.nan
    return [Interval(*map(float, column)) for column in found.T]


def chosen(names: Sequence[str]) -> list[int]:
    """Return the places of the parameters that are drawn: all, or of many those with a name and not only a number."""
    if len(names) <= MOST_ROWS:
        return list(range(len(names)))
    return [place for place, name in enumerate(names) if not BY_NUMBER.search(name)][:MOST_ROWS]


def forest(names: Sequence[str], found: Sequence[Interval]) -> list[Markup]:
    """Draw the parameters one below the other: a panel for each range of values that one axis can show."""
    groups: list[list[int]] = []
    for place, interval in enumerate(found):
        if not interval.is_finite:
            continue
        for group in groups:
            if _fit([found[k] for k in [*group, place]]):
                group.append(place)
                break
        else:
            groups.append([place])
    first = f"Mean, {100 * INNER:.0f} % and {100 * PROBABILITY:.0f} % intervals"
    titles = [first, *["on another scale"] * len(groups)]
    return [
        panel(title, _drawn([names[k] for k in group], [found[k] for k in group]))
        for title, group in zip(titles, groups, strict=False)
    ]


def _fit(together: Sequence[Interval]) -> bool:
    """Tell whether the intervals can all be seen on one axis."""
    span = max(one.high for one in together) - min(one.low for one in together)
    return span <= MOST_CONTRAST * min(one.high - one.low for one in together)


def _drawn(names: Sequence[str], found: Sequence[Interval]) -> Markup:
    def draw(ax: Any) -> None:
        rows = np.arange(len(found))
        low, high = min(one.low for one in found), max(one.high for one in found)
        if low <= 0 <= high:
            ax.axvline(0, color=QUIET, lw=0.8, ls="--")
        ax.hlines(rows, [one.low for one in found], [one.high for one in found], color=SERIES[0], lw=1.2)
        inner = ([one.inner_low for one in found], [one.inner_high for one in found])
        ax.hlines(rows, *inner, color=SERIES[0], lw=3.2)
        ax.scatter([one.mean for one in found], rows, s=16, color=SERIES[0], zorder=3)
        ax.set_yticks(rows, [_short(name) for name in names])
        ax.set(ylim=(len(rows) - 0.5, -0.5))
        ax.locator_params(axis="x", nbins=3)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        values = ax.secondary_yaxis("right")
        values.set_yticks(rows, [f"{one.written(one.mean)} ({one.text})" for one in found])
        values.tick_params(length=0, labelsize=6.5, labelcolor=QUIET)
        values.spines["right"].set_visible(False)

    listed = "; ".join(f"{name} {one.written(one.mean)}, {one.text}" for name, one in zip(names, found, strict=True))
    return drawn(
        draw,
        f"Forest plot, means and {100 * PROBABILITY:.0f} % intervals: {listed}.",
        MARGIN + ROW * len(found),
        WIDTH,
    )


def _short(name: str) -> str:
    """Shorten a name: the parameter's own before the label of its element, which tells the rows apart."""
    if len(name) <= LONGEST_NAME:
        return name
    own, bracket, label = name.partition("[")
    if bracket and len(label) + 3 <= LONGEST_NAME:
        return f"{own[: LONGEST_NAME - len(label) - 2]}…[{label}"
    half = LONGEST_NAME // 2
    return f"{name[:half]}…{name[-half + 1 :]}"
