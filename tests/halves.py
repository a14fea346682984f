"""Half of a product of cases, for `make test`; the other half is for `make soak`."""

from collections.abc import Mapping
from itertools import product

import pytest


def checkerboard(*axes, first=0):
    """Return all combinations of values, every second one marked soak, as squares of a checkerboard are black.

    With two axes or more every value of each is in both halves, and with three so is every pair of two; of a single
    axis it is every second value.

    Args:
      axes: values by their names, or values that have names.
      first: 1 for the other half.
    """
    cases = []
    named = [
        [*axis.items()] if isinstance(axis, Mapping) else [(name_of(value), value) for value in axis] for axis in axes
    ]
    for places in product(*(range(len(axis)) for axis in named)):
        names, values = zip(*(axis[place] for axis, place in zip(named, places, strict=True)), strict=True)
        marks = [pytest.mark.soak] * ((sum(places) + first) % 2)
        cases.append(pytest.param(*values, marks=marks, id="-".join(names)))
    return cases


def name_of(value):
    return value if isinstance(value, str) else value.name
