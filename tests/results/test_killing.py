"""A run is killed at random moments and gone on with, and ends as if nothing had happened."""

import numpy as np
import pytest

from tests.killing import assert_ends_undisturbed, kill_and_resume


def test_killed_three_times_a_run_ends_with_the_draws_of_an_undisturbed_one(tmp_path):
    kill_and_resume("dmala", tmp_path / "run", 3, np.random.default_rng())
    assert_ends_undisturbed("dmala", tmp_path / "run", tmp_path / "undisturbed")


@pytest.mark.soak
@pytest.mark.parametrize("sampler", ["nuts", "dmala"])
def test_killed_twenty_times(sampler, tmp_path):
    found = kill_and_resume(sampler, tmp_path / "run", 20, np.random.default_rng())
    print(f"\n{sampler}: iterations there after each of 20 kills: {found}")
    assert_ends_undisturbed(sampler, tmp_path / "run", tmp_path / "undisturbed")
