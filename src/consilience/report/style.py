"""Colours that all figures share, and those of the page in light and dark."""

from __future__ import annotations

from typing import Any

from .._extras import require

# Okabe and Ito's palette: told apart by readers who do not see all colours.
BLUE, ORANGE, GREEN, VERMILION, PURPLE = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7"
GREY = "#6b7280"
PALETTE = (VERMILION, BLUE, ORANGE, GREEN, PURPLE)

# The page's colours by CSS variable, as (light, dark). The series differ in lightness as well as in hue, so that they
# are told apart with any kind of colour vision, and stand out from the paper at least three to one.
THEME = {
    "paper": ("#ffffff", "#15181d"),
    "ink": ("#20242a", "#e4e7eb"),
    "quiet": ("#5b636e", "#a3abb6"),
    "rule": ("#d8dce1", "#363c45"),
    "band": ("#eceef1", "#242931"),
    "series-0": ("#15489a", "#4a90ff"),
    "series-1": ("#a83a08", "#dd7236"),
    "series-2": ("#0a9f78", "#6de8b4"),
    "series-3": ("#bd851a", "#f4d35e"),
    "series-4": ("#d653bf", "#e58ade"),
    "series-5": ("#2b3036", "#8d949c"),
}
PAPER, INK, QUIET, RULE, BAND = (THEME[name][0] for name in ("paper", "ink", "quiet", "rule", "band"))
SERIES = tuple(light for name, (light, _) in THEME.items() if name.startswith("series"))
DASHES = ("solid", (0, (4, 1.5)))
MOST_SERIES = 8  # lines in one figure; more cannot be told apart


def line_look(place: int) -> dict[str, object]:
    """Return colour and dashes of the line at this place: a second round of the colours is dashed."""
    return {"color": SERIES[place % len(SERIES)], "linestyle": DASHES[place // len(SERIES) % len(DASHES)]}


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Any, Any]:
    """Make a figure of panels without a window; return it and its axes, one or an array of them."""
    figure = require("matplotlib.figure", "report").Figure((width, height), layout="constrained")
    axes = figure.subplots(rows, columns, **options)
    for ax in figure.axes:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def css_variables() -> str:
    """Return the theme as CSS: light on paper and by default, dark on a screen whose reader prefers it."""
    light, dark = ("".join(f"--{name}:{pair[k]};" for name, pair in THEME.items()) for k in (0, 1))
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"


def follow_theme(svg: str) -> str:
    """Replace the light colours, in which a figure is drawn, by the page's CSS variables."""
    for name, (light, _) in THEME.items():
        svg = svg.replace(light, f"var(--{name})")
    return svg
