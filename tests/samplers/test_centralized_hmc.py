"""Centralized HMC is exact, on pooled data and nowhere else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import consilience as cs
from consilience.samplers.mass import check_mass, momentum

from ..statistical import assert_right
from ..targets import linear_regression, log_gamma
from .harness import draws, draws_after, noise_of, simulation
from .reference import hmc as reference

ALONE = cs.Network.complete(1)
DENSE = np.array([[1.0, 0.3, 0.0], [0.3, 2.0, 0.1], [0.0, 0.1, 0.5]])


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("inverse_mass", [None, 0.5, [0.5, 1.0, 2.0], DENSE], ids=str)
def test_equals_the_algorithm_in_plain_numpy(steps, inverse_mass):
    target = linear_regression(3)
    step_size = 0.25 if inverse_mass is None or np.ndim(inverse_mass) == 0 else 0.15
    matrix = np.eye(3) if inverse_mass is None else np.asarray(inverse_mass)
    matrix = matrix if matrix.ndim == 2 else np.diag(np.broadcast_to(matrix, 3))
    with jax.enable_x64(True):
        sampler = cs.centralized_hmc(step_size, num_integration_steps=steps, inverse_mass_matrix=inverse_mass)
        run = simulation(target, ALONE, sampler, start=target.mean)
        momenta, log_u = noise_of(run, 60)
        chunk = run.advance(60, 1)
    expected, log_ratios = reference(target, (momenta[:, 0], log_u[:, 0]), target.mean, step_size, steps, matrix)
    np.testing.assert_allclose(chunk.positions[:, 0, 0], expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(chunk.stats["acceptance_rate"][:, 0, 0], np.exp(log_ratios), rtol=1e-5, atol=1e-30)
    assert 0 < chunk.stats["is_accepted"].mean() < 1


@pytest.mark.parametrize("inverse_mass", [0.5, [0.5, 1.0, 2.0], DENSE], ids=str)
def test_momenta_have_the_mass_as_covariance(inverse_mass):
    """Whitened by the mass they are standard normal; of 40 000, a variance has a standard error of 0.007."""
    like = jnp.zeros(3)
    keys = jax.random.split(jax.random.key(0), 40_000)
    mass = check_mass("test", inverse_mass)
    momenta = np.asarray(jax.vmap(lambda key: momentum(key, mass, like))(keys), float)
    matrix = np.asarray(inverse_mass) if np.ndim(inverse_mass) == 2 else np.diag(np.broadcast_to(inverse_mass, 3))
    white = momenta @ np.linalg.cholesky(matrix)
    np.testing.assert_allclose(np.cov(white.T), np.eye(3), atol=0.035)  # five standard errors


@pytest.mark.parametrize("target", [linear_regression(3), log_gamma(3)], ids=["regression", "skewed"])
@pytest.mark.parametrize("steps", [1, 4])
def test_long_runs_have_the_right_moments(target, steps):
    sampler = cs.centralized_hmc(0.3 if target.dimension == 3 else 0.8, num_integration_steps=steps)
    assert_right(
        lambda seed: draws(target, ALONE, sampler, num_chains=4, num_warmup=200, num_samples=5000, seed=seed), target
    )


@pytest.mark.parametrize("target", [linear_regression(3), log_gamma(3)], ids=["regression", "skewed"])
def test_exact_draws_stay_exact(target):
    sampler = cs.centralized_hmc(0.3 if target.dimension == 3 else 0.8, num_integration_steps=2)
    assert_right(lambda seed: draws_after(target, ALONE, sampler, steps=20, seed=seed), target)


def test_a_network_of_several_is_refused_with_the_line_to_write():
    with pytest.raises(ValueError, match=r"cs\.sample\(posterior, cs\.pool\(shards\), cs\.Network\.complete\(1\)"):
        draws(linear_regression(4), cs.Network.ring(4), cs.centralized_hmc(0.1), num_samples=1)


def test_a_proposal_off_the_support_is_refused_not_propagated():
    posterior = cs.Posterior(lambda w: jnp.log(w) - w, lambda w, batch: 0 * w * batch)  # Gamma(2, 1), w > 0
    run = cs.sample(
        posterior,
        [np.ones(1, np.float32)],
        ALONE,
        cs.centralized_hmc(2.0),
        init=1.0,
        num_samples=4000,
        num_warmup=0,
        num_chains=1,
        progress=False,
    )
    assert np.isfinite(run.draws).all()
    assert (run.draws > 0).all()
    assert run.acceptance < 1


@pytest.mark.parametrize("settings", [{"step_size": 0}, {"num_integration_steps": 0}])
def test_bad_settings_are_refused(settings):
    with pytest.raises(ValueError, match="centralized_hmc: "):
        cs.centralized_hmc(**{"step_size": 0.1, **settings})
