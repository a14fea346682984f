"""Matplotlib's figures as inline SVG: the page's font, the page's colours, nothing fetched."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable
from typing import Any

from .._extras import require
from .markup import Markup, tag
from .style import INK, PAPER, QUIET, RULE, follow_theme

Draw = Callable[[Any], None]

WIDTH, HEIGHT = 3.5, 2.1  # inches: a panel fills a phone's width, and three stand side by side on a desk
LOOK: dict[str, Any] = {
    "svg.fonttype": "none",  # text stays text, in the page's font
    "svg.hashsalt": "consilience",  # the same figure is the same text
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "font.family": ["DejaVu Sans"],  # it measures wider than the fonts of most pages: what fits here fits there
    "font.size": 8,
    "text.color": INK,
    "axes.labelcolor": QUIET,
    "axes.labelsize": 8,
    "axes.edgecolor": QUIET,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "axes.formatter.useoffset": False,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "patch.edgecolor": PAPER,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "grid.color": RULE,
    "lines.solid_capstyle": "round",
}


def drawn(draw: Draw, alt: str, height: float = HEIGHT, width: float = WIDTH) -> Markup:
    """Return the figure that `draw(ax)` makes, as inline SVG.

    Args:
      alt: what the figure shows, for those who do not see it.
    """
    matplotlib = require("matplotlib", "report")
    figures = require("matplotlib.figure", "report")
    with matplotlib.rc_context(LOOK):
        figure = figures.Figure(figsize=(width, height), layout="constrained")
        draw(figure.add_subplot())
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    return inline(written.getvalue(), alt)


def inline(document: str, alt: str) -> Markup:
    """Turn an SVG file of matplotlib's into a part of a page."""
    head, body = re.search(r"<svg[^>]*>", document), re.search(r"</metadata>(.*)</svg>", document, re.DOTALL)
    assert head and body
    (box,) = re.findall(r'viewBox="([\d. -]+)"', head.group())
    content = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", body.group(1), flags=re.DOTALL)
    content = re.sub(r'd="[^"]*"', _shorter_path, content)
    content = re.sub(r'(<text style="[^"]*?)font-family: [^;"]*(?:;|(?="))', r"\1", content)
    content = re.sub(r"\n\s*", "\n", content)
    return tag("svg", Markup(follow_theme(content)), role="img", aria_label=alt, viewBox=box)


def _shorter_path(path: re.Match[str]) -> str:
    """Round a path's numbers to a tenth of a point, which is finer than any screen."""
    return re.sub(r"\s*\n", "", re.sub(r"-?\d+\.\d+", lambda n: f"{float(n.group()):.1f}", path.group()))


def distinct_names(page: str) -> str:
    """Make ids inside of figures distinct over the page, and drop those that nothing refers to."""
    places = itertools.count()
    return re.sub(
        r"<svg role.*?</svg>", lambda found: _renamed(found.group(), f"f{next(places)}-"), page, flags=re.DOTALL
    )


def _renamed(svg: str, prefix: str) -> str:
    used = set(re.findall(r'(?:url\(#|href="#)([\w.-]+)', svg))
    svg = re.sub(r' id="([\w.-]+)"', lambda name: f' id="{prefix}{name[1]}"' if name[1] in used else "", svg)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}", svg)
