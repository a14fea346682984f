"""Half of a product of cases, for `make test`; the other half is for `make soak`."""

from itertools import product

import pytest


def checkerboard(*axes):
    """Return all combinations of named values, every second one marked soak, as squares of a checkerboard are black.

    So every value of every axis is in either half, and so is every pair of two axes where there are three.
    """
    cases = []
    for places in product(*(range(len(axis)) for axis in axes)):
        values = [list(axis)[place] for axis, place in zip(axes, places, strict=True)]
        marks = [pytest.mark.soak] * (sum(places) % 2)
        cases.append(pytest.param(*values, marks=marks, id="-".join(map(name_of, values))))
    return cases


def name_of(value):
    return value if isinstance(value, str) else value.name
