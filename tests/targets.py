"""Posteriors whose moments are known exactly, with data split unevenly and unlike over agents."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import polygamma

import consilience as cs


@dataclass(frozen=True)
class Target:
    """A posterior, its shards, its exact moments, and exact draws from it."""

    posterior: cs.Posterior
    shards: list
    mean: np.ndarray
    covariance: np.ndarray
    exact: Callable[[jax.Array], jax.Array]  # an exact draw, of a key

    @property
    def dimension(self) -> int:
        return len(self.mean)

    def exact_draws(self, seed: int, count: int) -> np.ndarray:
        """Independent draws, (count, dimension)."""
        return np.asarray(jax.vmap(self.exact)(jax.random.split(jax.random.key(seed), count)), float)


def regression_likelihood(w, batch):
    return -0.5 * (batch["y"] - batch["x"] @ w) ** 2


def standard_normal_prior(w):
    return -0.5 * jnp.vdot(w, w)


REGRESSION = cs.Posterior(standard_normal_prior, regression_likelihood)


def linear_regression(agents: int, dimension: int = 3, rows: int = 12, seed: int = 0) -> Target:
    """y ~ N(xw, 1), w ~ N(0, I): a Gaussian posterior. Agent i has rows + i examples, centred elsewhere."""
    random = np.random.default_rng(seed)
    shards = []
    for agent in range(agents):
        x = random.standard_normal((rows + agent, dimension)) + 0.5 * random.standard_normal(dimension)
        y = x @ np.arange(1, dimension + 1) / dimension + random.standard_normal(len(x))
        shards.append({"x": x.astype(np.float32), "y": y.astype(np.float32)})
    x, y = (np.concatenate([s[k] for s in shards]).astype(float) for k in ("x", "y"))
    covariance = np.linalg.inv(x.T @ x + np.eye(dimension))
    mean = covariance @ x.T @ y
    root = np.linalg.cholesky(covariance)
    return Target(REGRESSION, shards, mean, covariance, lambda key: mean + root @ jax.random.normal(key, (dimension,)))


def log_gamma_likelihood(w, batch):
    return batch["shape"] * w[0] - batch["rate"] * jnp.exp(w[0])


LOG_GAMMA = cs.Posterior(lambda w: 0.0 * w[0], log_gamma_likelihood)


def log_gamma(agents: int, seed: int = 0) -> Target:
    """exp(w) ~ Gamma(a, b) with Σ shape = a = 3, Σ rate = b: skewed, so that a wrong sign shows."""
    random = np.random.default_rng(seed)
    shape = random.dirichlet(np.ones(2 * agents)) * 3.0
    rate = random.gamma(2.0, size=2 * agents)
    shards = [
        {"shape": a.astype(np.float32), "rate": b.astype(np.float32)}
        for a, b in zip(np.split(shape, agents), np.split(rate, agents), strict=True)
    ]
    mean = np.array([polygamma(0, 3.0) - np.log(rate.sum())])
    variance = np.array([[polygamma(1, 3.0)]])
    return Target(
        LOG_GAMMA, shards, mean, variance, lambda key: jax.random.loggamma(key, 3.0, (1,)) - np.log(rate.sum())
    )
