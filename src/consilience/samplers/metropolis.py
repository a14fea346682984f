"""Noise and info that samplers with a momentum and a Metropolis step share."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

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


def metropolis_noise(key: Key, inverse_mass: Any, like: Vector) -> MetropolisNoise:
    """Draw a momentum of the shape of `like` and the logarithm of a uniform number, in the dtype of `like`."""
    for_momentum, for_uniform = jax.random.split(key)
    log_uniform = -jax.random.exponential(for_uniform, dtype=like.dtype)
    return MetropolisNoise(momentum(for_momentum, inverse_mass, like), log_uniform)
