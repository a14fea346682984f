"""The first draws of every sampler, and what it sends, are those that were recorded."""

import pytest

from consilience.cli.build import SAMPLERS

from .cells import CELLS, draw
from .recorded import difference, place_of, read


@pytest.mark.parametrize("cell", CELLS)
def test_the_draws_and_the_traffic_are_as_recorded(cell):
    said = difference(cell, draw(cell))
    assert not said, said


def test_every_sampler_is_recorded():
    assert {cell.partition("/")[2].partition("-")[0] for cell in CELLS} >= {*SAMPLERS, "decentralize"}


def test_every_cell_is_recorded_and_nothing_else():
    files = {place_of(cell)[0] for cell in CELLS}
    there = {f"{path.stem}/{name}" for path in files for name in read(path)}
    assert there == set(CELLS)
