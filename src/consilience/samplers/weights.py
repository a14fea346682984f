"""Weights of proposals: how an independence sampler would fare with them, and how far they may be trusted."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Scalar

FLAT = 0.1  # sd of log weights below which their tail says nothing
SHORT = 0.5  # reach of the upper tail of log weights below which its shape says nothing
SHARE_LIMIT = 0.01  # of all weights that one may have
LEAST_ACCEPTANCE = 0.15


class WeightReport(NamedTuple):
    """What the weights of a pass say."""

    acceptance: Scalar  # of an independence sampler
    pareto_k: Scalar  # of the upper tail
    largest_share: Scalar
    evenness: Scalar  # effective sample size of the weights, over their number: 1 where all are the same
    is_good: jax.Array


def report_on(log_weights: jax.Array) -> WeightReport:
    """Judge weights by an independence sampler's acceptance, the tail's shape and the largest one's share.

    Args:
      log_weights: of independent proposals, log π - log g up to a constant.
    """
    log_weights = jnp.where(jnp.isfinite(log_weights), log_weights, -jnp.inf)
    weights = jnp.exp(log_weights - jnp.max(log_weights))
    share = weights.max() / weights.sum()
    k = pareto_k(log_weights)
    acceptance = expected_acceptance(weights)
    is_good = (k <= pareto_k_limit(len(weights))) & (share <= SHARE_LIMIT) & (acceptance >= LEAST_ACCEPTANCE)
    evenness = weights.sum() ** 2 / (len(weights) * (weights**2).sum())
    are_some = jnp.isfinite(share)  # else all proposals are impossible
    acceptance, evenness = (jnp.where(are_some, each, 0.0) for each in (acceptance, evenness))
    share = jnp.where(are_some, share, 1.0)
    return WeightReport(acceptance, k, share, evenness, is_good)


def pareto_k_limit(number: int) -> float:
    """Return the largest k̂ with which so many weights can be trusted (Vehtari et al. 2024)."""
    return float(min(0.7, 1 - 1 / np.log10(number)))


def expected_acceptance(weights: jax.Array) -> Scalar:
    """Return the acceptance rate of independence Metropolis with these weights, E min(1, w'/w) under the posterior.

    With weights in ascending order, w_(1) ≤ ... ≤ w_(N), it is Σ_i Σ_j min(w_i, w_j) / (N Σ_i w_i).
    """
    ordered = jnp.sort(weights)
    number = len(weights)
    above = number - jnp.arange(number) - 1
    pairs = 2 * jnp.sum(ordered * above) + ordered.sum()
    return pairs / (number * ordered.sum())


def pareto_k(log_weights: jax.Array) -> Scalar:
    """Return the shape k̂ of the upper tail of weights (Zhang and Stephens 2009; Vehtari et al. 2024).

    A generalized Pareto law is fitted to the largest of the weights, min(N/5, 3√N) of them; k̂ is pulled a little
    towards 1/2, as PSIS does. Zero where they are flat.
    """
    tail = _tail_length(log_weights.size)
    ordered = jnp.sort(log_weights)
    weights = jnp.exp(ordered - ordered[-1])
    excess = weights[-tail:] - weights[-tail - 1]
    points = 30 + int(np.sqrt(tail))
    prior = 3.0
    # The grid of Zhang and Stephens for θ = k/σ, weighed by its profile likelihood.
    grid = 1 - jnp.sqrt(points / (jnp.arange(1, points + 1, dtype=excess.dtype) - 0.5))
    theta = grid / (prior * jnp.maximum(excess[int(tail / 4 + 0.5) - 1], 1e-30)) + 1 / excess[-1]
    shapes = jnp.log1p(-theta[:, None] * excess).mean(axis=1)
    likelihood = tail * (jnp.log(-theta / shapes) - shapes - 1)
    mean_theta = jnp.sum(theta * jax.nn.softmax(jnp.where(jnp.isfinite(likelihood), likelihood, -jnp.inf)))
    k = jnp.log1p(-mean_theta * excess).mean()
    k = (tail * k + 5) / (tail + 10)
    return jnp.where(are_flat(log_weights), 0.0, jnp.where(jnp.isfinite(k), k, jnp.inf))


def are_flat(log_weights: jax.Array | np.ndarray) -> jax.Array:
    """Tell whether weights, or the largest of them, are so nearly the same that the shape of their tail says nothing.

    Of the others some may be far below, as those of proposals by a wide defensive component are.
    """
    finite = jnp.where(jnp.isfinite(log_weights), log_weights, jnp.nan)
    ascending = jnp.sort(log_weights)
    return (jnp.nanstd(finite) < FLAT) | (ascending[-1] - ascending[-_tail_length(log_weights.size) - 1] < SHORT)


def _tail_length(number: int) -> int:
    return int(np.ceil(min(0.2 * number, 3 * np.sqrt(number))))


def choose(key: jax.Array, log_weights: jax.Array) -> jax.Array:
    """Draw the number of a proposal with a probability that is proportional to its weight."""
    return jax.random.categorical(key, jnp.where(jnp.isfinite(log_weights), log_weights, -jnp.inf))
