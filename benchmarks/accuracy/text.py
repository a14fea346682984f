"""Numbers, tables and paragraphs of the page."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np

WIDTH = 120


def figure(value: float | None) -> str:
    """Three decimals, or three digits where that is too many."""
    return f"{value:.3f}" if value is not None and abs(value) < 10 else short(value)


def short(value: float | None) -> str:
    """Three digits."""
    if value is None or not np.isfinite(value):
        return "-"
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def span(values: Sequence[float]) -> str:
    """From the least to the largest."""
    ends = [figure(end(values)) for end in (min, max)] if values else ["-"]
    return " to ".join(dict.fromkeys(ends))


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Aligned to the right, but for the first column."""
    widths = [max(len(line[k]) for line in (header, *lines)) for k in range(len(header))]

    def written(cells: Sequence[str]) -> str:
        padded = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
        return f"| {' | '.join([cells[0].ljust(widths[0]), *padded[1:]])} |"

    rule = "|".join(["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])])
    return "\n".join([written(header), f"|{rule}|", *map(written, lines)])


def filled(paragraph: str, bullet: str = "") -> str:
    """One paragraph, wrapped."""
    words, indent = " ".join(paragraph.split()), " " * len(bullet)
    return textwrap.fill(
        words, WIDTH, initial_indent=bullet, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def bullets(items: Sequence[str]) -> str:
    return "\n".join(filled(item, "- ") for item in items)
