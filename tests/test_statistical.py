"""The judge is judged first: it passes exact draws at its level, and sees what it should see."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from consilience.model import stack_shards

from .statistical import moment_test
from .targets import gaussian_mixture, linear_regression, log_gamma


@pytest.mark.parametrize("make", [linear_regression, log_gamma, gaussian_mixture])
def test_exact_draws_are_rejected_no_more_often_than_the_level_says(make):
    target = make(4)
    rejected = 0
    for seed in range(200):
        draws = target.exact_draws(seed, 800).reshape(1, 4, 200, -1)
        rejected += moment_test(draws, target).rejects(0.05)
    # Bonferroni over a handful of comparisons is near exact; 200 × 5 % = 10, sd 3.1.
    assert rejected <= 22


def test_the_mixture_s_moments_are_those_of_its_posterior():
    """By the agents' own log densities on another, wider grid."""
    target = gaussian_mixture(7)
    grid = np.stack(np.meshgrid(np.linspace(-5, 6, 300), np.linspace(-6, 6, 300)), axis=-1).reshape(-1, 2)
    with jax.enable_x64(True):
        shards = stack_shards(target.shards, 7)
        local = jax.vmap(target.posterior.local_logdensity, in_axes=(None, 0, None))
        logdensity = jax.lax.map(lambda w: local(w, shards, 7).sum(), jnp.asarray(grid), batch_size=1000)
        weight = np.asarray(jax.nn.softmax(logdensity))
    np.testing.assert_allclose(weight @ grid, target.mean, atol=1e-9)
    np.testing.assert_allclose(np.cov(grid.T, aweights=weight, ddof=0), target.covariance, atol=1e-9)


@pytest.mark.parametrize("agents", [1, 5, 30])
def test_the_mixture_s_points_are_all_dealt_out_unevenly(agents):
    lengths = [len(shard["x"]) for shard in gaussian_mixture(agents).shards]
    assert sum(lengths) == 100
    assert len(lengths) == agents
    assert min(lengths) >= 1
    assert agents == 1 or 2 * min(lengths) < max(lengths)


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
