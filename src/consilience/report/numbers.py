"""Numbers and counts as text for people to read."""

from __future__ import annotations

import math

MISSING = "n/a"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float | None, digits: int = 3) -> str:
    """Format a number with `digits` significant digits, by powers of ten below 1e-3 and from 1e6 on; n/a if missing."""
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value and not 1e-3 <= abs(value) < 1e6:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return minus(mantissa) + "·10" + str(int(exponent)).translate(SUPERSCRIPTS)
    decimals = 0 if value == 0 else max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return minus(f"{value:,.{decimals}f}")


def fixed(value: float | None, decimals: int) -> str:
    """Format a number with `decimals` decimals, for columns of numbers of one kind."""
    return number(value) if value is None or not math.isfinite(value) else minus(f"{value:,.{decimals}f}")


def percent(share: float | None) -> str:
    return MISSING if share is None or math.isnan(share) else f"{100 * share:.1f} %"


def minus(written: str) -> str:
    return written.replace("-", "−")


def count(value: int, singular: str, plural: str | None = None) -> str:
    """Format a count with its noun: `1 agent`, `5 agents`."""
    return f"{value:,} {singular if value == 1 else plural or singular + 's'}"


def listed(values: list[str], most: int) -> str:
    """Join values with commas, cut after `most`."""
    return ", ".join(values[:most]) + (f", … ({len(values)})" if len(values) > most else "")
