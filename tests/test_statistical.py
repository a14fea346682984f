"""The judge is judged first: it passes exact draws at its level, and sees what it should see."""

import numpy as np
import pytest

from .statistical import moment_test
from .targets import linear_regression, log_gamma


@pytest.mark.parametrize("make", [linear_regression, log_gamma])
def test_exact_draws_are_rejected_no_more_often_than_the_level_says(make):
    target = make(4)
    rejected = 0
    for seed in range(200):
        draws = target.exact_draws(seed, 800).reshape(1, 4, 200, -1)
        rejected += moment_test(draws, target).rejects(0.05)
    # Bonferroni over a handful of comparisons is near exact; 200 × 5 % = 10, sd 3.1.
    assert rejected <= 22


def test_autocorrelated_draws_of_the_right_law_pass_and_of_half_variance_do_not():
    target = linear_regression(1)
    root = np.linalg.cholesky(target.covariance)
    random = np.random.default_rng(2)
    x = random.standard_normal((4, target.dimension))
    path = []
    for _ in range(5000):
        x = 0.9 * x + np.sqrt(1 - 0.81) * random.standard_normal(x.shape)
        path.append(x)
    walk = np.swapaxes(path, 0, 1)[None]
    assert not moment_test(target.mean + walk @ root.T, target).rejects()
    assert moment_test(target.mean + np.sqrt(0.5) * walk @ root.T, target).rejects()


def test_a_shifted_mean_is_seen_on_the_one_agent_that_has_it():
    target = log_gamma(4)
    draws = np.stack([target.exact_draws(3, 4000).reshape(4, 1000, 1)] * 3)
    draws[2] += 0.2
    verdict = moment_test(draws, target)
    assert verdict.rejects()
    assert "agent 2" in verdict.worst
