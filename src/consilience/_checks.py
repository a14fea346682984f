"""Checks of plain arguments, shared so that they are worded alike."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from ._refused import Refused


def check(name: str, value: Any, is_right: bool, needed: str) -> None:
    """Refuse the value of an argument that is not right, and say what is needed."""
    if not is_right:
        raise Refused(f"{name} = {value!r}", f"{needed} is needed")


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return `value` as an int; refuse what is not a whole number in the range."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        span = f"of at least {least}" if most is None else f"from {least} to {most}"
        near = most if whole and most is not None and value > most else least
        argument = re.split(r"\W ", name.partition(" (")[0])[-1]  # without what stands before and behind it
        fix = f"Write {argument}={near}." if argument.isidentifier() else f"Write {near}."
        raise Refused(f"{name} = {value!r}", f"a whole number {span} is needed", fix)
    return int(value)


def real_number(value: Any) -> float:
    """Return `value` as a float if it is one real number, of whatever library; else NaN, which is in no range."""
    is_real = not isinstance(value, bool | str) and np.ndim(value) == 0 and np.asarray(value).dtype.kind in "iuf"
    return float(value) if is_real else math.nan


def check_positive(name: str, value: Any) -> None:
    """Refuse what is not one positive, finite number."""
    check(name, value, 0 < real_number(value) < math.inf, "a positive number")


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither True nor False."""
    check(name, value, isinstance(value, bool), "True or False")


def check_one_of(name: str, value: Any, choices: Sequence[str], others: str = "") -> None:
    """Refuse what is not one of the names to choose from, and name the nearest; `others` may be chosen as well."""
    if not isinstance(value, str) or value not in choices:
        near = nearest(str(value), choices) or choices[0]
        reason = f"not one of {', '.join(map(repr, choices))}{others}"
        raise Refused(f"{name} = {value!r}", reason, f"Write {name.split()[-1]}={near!r}.")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the name in `known` that is most like `word`, in whatever letters; None if none is like it."""
    alike = {str(name).lower().replace("-", "_"): name for name in known}
    return next((alike[name] for name in get_close_matches(word.lower().replace("-", "_"), alike, n=1)), None)
