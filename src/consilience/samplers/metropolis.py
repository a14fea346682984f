"""Noise and info that samplers with a momentum and a Metropolis step share."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._types import Flag, Key, Scalar, Vector
from .mass import momentum


class MetropolisNoise(NamedTuple):
    momentum: Vector  # p ~ N(0, M)
    log_uniform: Scalar  # log u, u ~ U(0, 1)


class MetropolisInfo(NamedTuple):
    acceptance_rate: Scalar  # min(1, ρ)
    is_accepted: Flag


class Unadjusted(NamedTuple):
    """Empty info of a sampler without a Metropolis step: there is no acceptance rate."""


def log_acceptance(log_ratio: Scalar) -> Scalar:
    """Return min(0, log ρ), the logarithm of an acceptance rate; -∞ off the support, where log ρ is NaN."""
    return jnp.where(jnp.isnan(log_ratio), -jnp.inf, jnp.minimum(log_ratio, 0.0))


def select(flag: Flag, new: Any, old: Any) -> Any:
    """Return `new` where the flag is true, else `old`; both are pytrees of arrays."""
    return jax.tree.map(lambda one, other: jnp.where(flag, one, other), new, old)


def metropolis_noise(key: Key, inverse_mass: Any, like: Vector) -> MetropolisNoise:
    """Draw a momentum of the shape of `like` and the logarithm of a uniform number, in the dtype of `like`."""
    for_momentum, for_uniform = jax.random.split(key)
    log_uniform = -jax.random.exponential(for_uniform, dtype=like.dtype)
    return MetropolisNoise(momentum(for_momentum, inverse_mass, like), log_uniform)
