"""Posteriors whose moments are known exactly, with data split over agents in unequal and unlike parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from consilience._types import Batch, Key, Params
from consilience.model import Posterior

ONE_CHAIN = {"num_warmup": 0, "num_chains": 1}  # of `cs.sample`, where a test says no more of its length


@dataclass(frozen=True)
class Target:
    """A posterior, its shards, its exact moments, and exact draws from it."""

    posterior: Posterior
    shards: list[Batch]
    mean: np.ndarray
    covariance: np.ndarray
    exact: Callable[[Key], jax.Array]  # makes an exact draw from a key

    @property
    def dimension(self) -> int:
        return len(self.mean)

    def exact_draws(self, seed: int, count: int) -> np.ndarray:
        """Draw `count` independent points from the posterior, (count, dimension)."""
        return np.asarray(jax.vmap(self.exact)(jax.random.split(jax.random.key(seed), count)), float)


def regression_likelihood(w: Params, batch: Batch) -> jax.Array:
    return -0.5 * (batch["y"] - batch["x"] @ w) ** 2


def standard_normal_prior(w: Params) -> jax.Array:
    return -0.5 * jnp.vdot(w, w)


REGRESSION = Posterior(standard_normal_prior, regression_likelihood)


def linear_regression(agents: int, dimension: int = 3, rows: int = 12, seed: int = 0) -> Target:
    """Make a Gaussian posterior: y ~ N(xw, 1), w ~ N(0, I). Agent i has rows + i examples around its own centre."""
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


def log_gamma_likelihood(w: Params, batch: Batch) -> jax.Array:
    return batch["shape"] * w[0] - batch["rate"] * jnp.exp(w[0])


LOG_GAMMA = Posterior(lambda w: 0.0 * w[0], log_gamma_likelihood)


def log_gamma(agents: int, seed: int = 0) -> Target:
    """Make a skewed posterior, so that a wrong sign shows: exp(w) ~ Gamma(a, b), Σ shape = a = 3, Σ rate = b."""
    random = np.random.default_rng(seed)
    shape = random.dirichlet(np.ones(2 * agents)) * 3.0
    rate = random.gamma(2.0, size=2 * agents)
    shards = [
        {"shape": a.astype(np.float32), "rate": b.astype(np.float32)}
        for a, b in zip(np.split(shape, agents), np.split(rate, agents), strict=True)
    ]
    mean = np.array([special.polygamma(0, 3.0) - np.log(rate.sum())])
    variance = np.array([[special.polygamma(1, 3.0)]])
    return Target(
        LOG_GAMMA, shards, mean, variance, lambda key: jax.random.loggamma(key, 3.0, (1,)) - np.log(rate.sum())
    )


MIXTURE_POINTS = 100
MIXTURE_CELLS = np.array([320, 480])  # of the grid, along θ₁ and θ₂
MIXTURE_REACH = np.array([3.0, 4.5])  # half-widths of the grid, around (mean of x, 0)


def gaussian_mixture_prior(w: Params) -> jax.Array:
    return -(w[0] ** 2) / (2 * 10) - w[1] ** 2 / (2 * 1)


def gaussian_mixture_likelihood(w: Params, batch: Batch) -> jax.Array:
    return jnp.logaddexp(-((batch["x"] - w[0]) ** 2) / (2 * 2), -((batch["x"] - w[0] - w[1]) ** 2) / (2 * 2))


GAUSSIAN_MIXTURE = Posterior(gaussian_mixture_prior, gaussian_mixture_likelihood)


def gaussian_mixture(agents: int, seed: int = 0) -> Target:
    """Make Welling and Teh's mixture, N(mean, variance): ½ N(θ₁, 2) + ½ N(θ₁ + θ₂, 2), θ₁ ~ N(0, 10), θ₂ ~ N(0, 1).

    100 points are drawn at θ = (0, 1). Agent i has about i + 1 parts of them, the first agents more of the small ones.
    Swapping the components, θ → (θ₁ + θ₂, -θ₂), hardly changes the posterior: a bent ridge, with or without two modes.
    """
    random = np.random.default_rng(seed)
    x = random.integers(2, size=MIXTURE_POINTS) + np.sqrt(2) * random.standard_normal(MIXTURE_POINTS)
    x = x[np.argsort(x + 2 * random.standard_normal(MIXTURE_POINTS))].astype(np.float32)
    parts = np.cumsum(np.arange(1, agents + 1))
    ends = np.arange(1, agents + 1) + (MIXTURE_POINTS - agents) * parts // parts[-1]  # each agent has at least one
    shards = [{"x": own} for own in np.split(x, ends[:-1])]

    lowest = np.array([x.mean(dtype=float), 0.0]) - MIXTURE_REACH
    width = 2 * MIXTURE_REACH / MIXTURE_CELLS
    first, second = (
        low + step * (np.arange(n) + 0.5) for low, step, n in zip(lowest, width, MIXTURE_CELLS, strict=True)
    )
    mass = _mixture_mass(x.astype(float), first[:, None], second)
    rows, columns = mass.sum(axis=1), mass.sum(axis=0)
    mean = np.array([rows @ first, columns @ second])
    first, second = first - mean[0], second - mean[1]
    both = first @ mass @ second
    covariance = np.array([[rows @ first**2, both], [both, columns @ second**2]])

    up_to_row = np.cumsum(rows)
    up_to_column = np.cumsum(mass, axis=1)
    up_to_row, up_to_column = up_to_row / up_to_row[-1], up_to_column / up_to_column[:, -1:]

    def exact(key: Key) -> jax.Array:
        """Draw a row, a column in it, and a place in the cell."""
        uniform = jax.random.uniform(key, (4,))
        row = jnp.searchsorted(jnp.asarray(up_to_row), uniform[0], side="right")
        column = jnp.searchsorted(jnp.asarray(up_to_column)[row], uniform[1], side="right")
        return lowest + width * (jnp.stack([row, column]) + uniform[2:])

    return Target(GAUSSIAN_MIXTURE, shards, mean, covariance, exact)


def _mixture_mass(x: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the posterior mass of the cells around (first, second), in double precision."""
    log_mass = -(first**2) / (2 * 10) - second**2 / (2 * 1)
    for point in x:
        log_mass = log_mass + np.logaddexp(-((point - first) ** 2) / 4, -((point - first - second) ** 2) / 4)
    mass = np.exp(log_mass - log_mass.max())
    return mass / mass.sum()
