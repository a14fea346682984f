"""A run is killed at random moments and gone on with, and ends as if nothing had happened."""

import pytest

from tests.killing import assert_ends_undisturbed, kill_and_resume


def test_killed_three_times_a_run_ends_with_the_draws_of_an_undisturbed_one(tmp_path):
    kill_and_resume("dmala", tmp_path / "run", draws=30_000, times=3)
    assert_ends_undisturbed("dmala", tmp_path / "run", tmp_path / "undisturbed", draws=30_000)


@pytest.mark.soak
@pytest.mark.parametrize(("sampler", "draws"), [("nuts", 100_000), ("dmala", 400_000)])
def test_killed_twenty_times(sampler, draws, tmp_path):
    found = kill_and_resume(sampler, tmp_path / "run", draws, times=20)
    print(f"\n{sampler}: iterations there after each of 20 kills: {found}")
    assert_ends_undisturbed(sampler, tmp_path / "run", tmp_path / "undisturbed", draws)
