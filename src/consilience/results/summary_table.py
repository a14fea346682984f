"""The table of a printed summary: numbers with as many digits as they are worth, in columns as wide as they need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

PLACES = {"r_hat": 3, "ess_bulk": 0, "ess_tail": 0}  # decimal places of columns that have the same in all rows
DIGITS = 3  # of an sd; what is measured on its scale has as many decimal places
MOST_PLACES = 6
LARGEST = 1e7


def table_lines(names: Sequence[str], columns: Mapping[str, np.ndarray]) -> list[str]:
    """Return the lines of a table, its header first: one row per name."""
    header = ["parameter", *columns]
    rows = [
        [name, *(_cell(column, float(values[k]), float(columns["sd"][k])) for column, values in columns.items())]
        for k, name in enumerate(names)
    ]
    widths = [max(len(row[k]) for row in (header, *rows)) for k in range(len(header))]
    return [
        row[0].ljust(widths[0])
        + "".join(cell.rjust(width + 2) for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in (header, *rows)
    ]


def _cell(column: str, value: float, sd: float) -> str:
    if column in PLACES:
        return f"{value:z.{PLACES[column]}f}" if abs(value) < LARGEST or not np.isfinite(value) else f"{value:.4g}"
    if column == "mcse_mean":
        return f"{value:#.2g}".removesuffix(".") if value < 1000 else f"{value:.0f}"
    if not 0 < sd < np.inf or abs(value) >= LARGEST:
        return f"{value:.4g}"
    places = DIGITS - 1 - int(np.floor(np.log10(sd)))
    return f"{value:.4g}" if places > MOST_PLACES else f"{value:z.{max(0, places)}f}"
