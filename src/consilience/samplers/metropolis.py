"""What samplers with a momentum and a Metropolis step share: their noise and their info."""

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
    """The info of a sampler whose Metropolis step is off: there is no acceptance to speak of."""


def metropolis_noise(key: Key, inverse_mass: Any, like: Vector) -> MetropolisNoise:
    """A momentum and the logarithm of a uniform number, in the shape and dtype of `like`."""
    for_momentum, for_uniform = jax.random.split(key)
    log_uniform = -jax.random.exponential(for_uniform, dtype=like.dtype)
    return MetropolisNoise(momentum(for_momentum, inverse_mass, like), log_uniform)
