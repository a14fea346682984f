"""Checks of plain arguments, shared so that they are worded alike."""

from __future__ import annotations

from typing import Any

import numpy as np


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return `value` as an int; refuse what is not a whole number in the range."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        span = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} = {value!r}: a whole number {span} is needed.")
    return int(value)
