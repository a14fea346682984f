"""The first draws of every sampler, and what it sends, are those that were recorded."""

import numpy as np
import pytest

from consilience.cli.build import SAMPLERS

from .cells import CELLS, as_simulated, draw
from .recorded import difference, place_of, read


@pytest.mark.parametrize("cell", CELLS)
def test_the_draws_and_the_traffic_are_as_recorded(cell):
    found = draw(cell)
    said = difference(cell, found)
    assert not said, said
    if cell.startswith("peers/"):  # a record has six digits; of what peers draw there are more to be had
        right = as_simulated(cell).draws
        np.testing.assert_allclose(found.draws, np.broadcast_to(right, found.draws.shape), rtol=0, atol=1e-8)


def recorded_of(runtime):
    """The samplers that have a cell there."""
    names = (cell.removeprefix(f"{runtime}/") for cell in CELLS if cell.startswith(f"{runtime}/"))
    return {name.partition("-")[0] for name in names}


def test_every_sampler_is_recorded():
    assert recorded_of("simulate") >= {*SAMPLERS, "decentralize"}
    assert recorded_of("devices") >= {"nuts", "dmala", "published"}
    assert recorded_of("peers") >= {"nuts", "dmala"}


def test_every_cell_is_recorded_and_nothing_else():
    files = {place_of(cell)[0] for cell in CELLS}
    there = {f"{path.stem}/{name}" for path in files for name in read(path)}
    assert there == set(CELLS)
