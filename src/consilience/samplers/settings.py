"""Settings: frozen dataclasses, checked where they are written.

Numbers (step sizes, mass matrices) are leaves of a pytree, so that trying another value compiles nothing anew;
everything else, marked `static()`, decides which code is compiled.
"""

from __future__ import annotations

from dataclasses import field
from numbers import Real
from typing import Any

import numpy as np


def static(default: Any) -> Any:
    """A setting that selects code: part of the compiled program's identity."""
    return field(default=default, metadata={"static": True})


def check_positive(sampler: str, **settings: Any) -> None:
    """Refuse numbers that are not positive and finite. Traced values were checked when they were written."""
    for name, value in settings.items():
        if isinstance(value, Real) and not 0 < float(value) < float("inf"):
            raise ValueError(f"{sampler}: {name} = {value} must be a positive number.")


def check_count(sampler: str, least: int, **settings: Any) -> None:
    """Refuse what is not a whole number of at least `least`."""
    for name, value in settings.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise ValueError(f"{sampler}: {name} = {value!r} must be a whole number of at least {least}.")
