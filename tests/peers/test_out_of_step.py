"""An agent that computes something else is found out before anything that was drawn with it is kept."""

import numpy as np
import pytest

import consilience as cs

from .crew import STEADY, Crew
from .test_runs import simulated

PERTURBED = f"{__package__}.perturbed"
DRAWS, CHUNK, ONCE = 260, 20, 150  # the last two as in perturbed.py
KEPT = (ONCE - 2) // CHUNK * CHUNK  # the first sum is that of the start; of the chunk of the wrong one nothing is kept


@pytest.fixture
def settings():
    return ()


@pytest.fixture
def crew(tmp_path, settings):
    crew = Crew(tmp_path, num_samples=DRAWS, program=PERTURBED, settings=settings)
    yield crew
    crew.end()


GATHERED = ("--mask", "--consensus", "gather")


@pytest.mark.parametrize("settings", [(), GATHERED], ids=["tree", "gather"])
def test_agents_go_back_to_what_was_right_and_on_with_other_random_numbers(crew, settings):
    assert set(crew.start().finish().values()) == {0}, crew.said()
    draws = crew.positions()
    for other in draws.values():
        np.testing.assert_array_equal(other, draws["agent0"])
    undisturbed = simulated(crew, cs.mala(0.1, 1.0), num_samples=DRAWS).positions
    apart = np.abs(draws["agent0"] - undisturbed).max(axis=(1, 2, 3)) > 1e-6
    assert not apart[:KEPT].any()
    assert apart[KEPT:].any() and apart[KEPT + 5 :].all()  # both chains may stay where they are, a few times
    for name in crew.names:
        assert crew.run(name).owner.attempts == 1
        assert "took different decisions" in crew.logged(name) or "asks for a new start" in crew.logged(name)
    assert "fell out of step 1 time, went back" in str(crew.run().summary())
    assert ("their sums go over the tree" in crew.logged("agent0")) == (settings == GATHERED)
    # On a ring of three a sum takes one round if gathered, and two over the tree, as all do after they went back.
    assert crew.run().traffic.rounds > (1 if settings else 2) * KEPT + 2 * (DRAWS - KEPT)


def test_agents_that_never_agree_stop_and_keep_what_they_agreed_on(crew):
    (crew.folder / "always").touch()
    assert set(crew.start().finish().values()) == {1}, crew.said()
    assert "the agents fell out of step 2 times in" in crew.said()
    draws = {name: crew.run(name).kept[:] for name in crew.names}
    undisturbed = simulated(crew, cs.mala(0.1, 1.0), num_samples=DRAWS).positions
    for found in draws.values():
        np.testing.assert_allclose(found, undisturbed[:KEPT, :, :1], atol=1e-8)


def test_a_draw_on_a_ring_of_five_takes_four_rounds_and_what_simulate_counts(tmp_path):
    draws, chains, diameter = 30, 2, 2
    crew = Crew(tmp_path, "ring:5", num_samples=draws, program=STEADY)
    try:
        assert set(crew.start().finish().values()) == {0}, crew.said()
    finally:
        crew.end()
    counted = simulated(crew, cs.mala(0.1, 1.0), num_samples=draws).traffic
    assert counted.rounds == 4 + 4 * draws  # the start, and every draw
    for name in crew.names:
        sent = crew.run(name).traffic
        # Agents also meet, take the root's start, and say what they wish before each of two chunks and between them.
        floods = 3
        assert sent.rounds - counted.rounds == floods * diameter + 2
        assert sent.messages - counted.messages == floods * diameter * 10 + 4
        said = sent.bytes - counted.bytes - 40 * sent.messages  # without headers
        mark, marks, number = 4 * (2 * 8 + 1), 5 * chains, 8
        beside = 20 * (5 + 4 + 4) * number + 4 * 3 * chains * number
        # The digest of the first chunk's last draw is in the words after it, in place of a sum; that of the last too.
        assert said == beside + 20 * 3 * marks * number - 2 * marks * mark
