"""Independent proposals from a surrogate that everybody holds, drawn without the network.

The surrogate's density is π_s(q) = prior(q) exp(quadratic(φ(q))). Proposals come from g = π_s + c·t, with t a wide
Student-t: where π_s falls off faster than the posterior, g does not, and weights π/g stay bounded in all but the
thinnest tails.

Where π_s is normal, as under a normal prior, both are drawn as they are. Elsewhere a crowd of short chains is run on g
itself, one for each proposal: they start from a crowd that has settled, and each is run until it has forgotten where.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import gammaln

from .._types import Flag, Key, LogDensity, Scalar, Vector

SHARE = 0.05  # of the Student-t among the proposals
FREEDOM = 5.0  # of the Student-t, in degrees
WIDTH = 1.4  # of the Student-t, in sd of the surrogate
ROUNDS, ROUND = 5, 16  # in which a crowd settles
FORGETTING = 30  # iterations after which a chain has forgotten its start
STEPS = 10  # leapfrog steps of an iteration
FORGETTING_LIMIT = 0.05  # of the correlation of a local chain's end with its start, beyond what chance gives
R_HAT_LIMIT = 1.01  # of where local chains end and where they begin
ACCEPTANCE = 0.85
FIRST_STEP = 0.2


class Normal(NamedTuple):
    """A normal law N(mean, root·rootᵀ)."""

    mean: Vector
    root: jax.Array  # lower triangular

    @classmethod
    def standard(cls, like: Vector) -> Normal:
        """Return N(0, I)."""
        return cls(jnp.zeros_like(like), jnp.eye(len(like), dtype=like.dtype))

    @classmethod
    def of_precision(cls, mean: Vector, precision: jax.Array) -> Normal:
        """Return the law with a given precision; what is not positive in it counts as hardly anything."""
        values, vectors = jnp.linalg.eigh(0.5 * (precision + precision.T))
        values = jnp.maximum(jnp.abs(values), 1e-10 * jnp.abs(values).max())
        half = vectors / jnp.sqrt(values)
        triangle = jnp.linalg.qr(half.T, mode="r").T
        return cls(mean, triangle * jnp.sign(jnp.diagonal(triangle)))

    @classmethod
    def of_draws(cls, draws: jax.Array) -> Normal:
        """Return the law with the moments of some draws, (number, dimension)."""
        number, dimension = draws.shape
        mean = draws.mean(axis=0)
        apart = (draws - mean) / jnp.sqrt(number - 1)
        covariance = apart.T @ apart
        slight = 1e-6 * jnp.diagonal(covariance).mean() + 1e-12
        return cls(mean, jnp.linalg.cholesky(covariance + slight * jnp.eye(dimension, dtype=draws.dtype)))

    def standardise(self, q: Vector) -> Vector:
        return solve_triangular(self.root, q - self.mean, lower=True)

    def place(self, z: Vector) -> Vector:
        return self.mean + self.root @ z

    @property
    def log_volume(self) -> Scalar:
        return jnp.log(jnp.abs(jnp.diagonal(self.root))).sum()

    def log_density(self, q: Vector) -> Scalar:
        z = self.standardise(q)
        return -0.5 * jnp.vdot(z, z) - 0.5 * len(z) * jnp.log(2 * jnp.pi) - self.log_volume

    def log_wide(self, q: Vector) -> Scalar:
        """Return the log density of the Student-t around this law."""
        z = self.standardise(q) / WIDTH
        half, degrees = 0.5 * (FREEDOM + len(z)), FREEDOM
        constant = gammaln(half) - gammaln(0.5 * degrees) - 0.5 * len(z) * jnp.log(degrees * jnp.pi)
        log_scale = self.log_volume + len(z) * jnp.log(WIDTH)
        return constant - log_scale - half * jnp.log1p(jnp.vdot(z, z) / degrees)

    def log_mixed(self, q: Vector, log_surrogate: Scalar) -> Scalar:
        """Return log g(q), given the log density of the surrogate there."""
        return jnp.logaddexp(jnp.log1p(-SHARE) + log_surrogate, jnp.log(SHARE) + self.log_wide(q))


def draw_normal(law: Normal, key: Key, number: int) -> tuple[jax.Array, jax.Array]:
    """Draw proposals (number, dimension) from g, where π_s is the law itself, and return their log g, normalised."""
    for_normal, for_kind, for_width = jax.random.split(key, 3)
    z = jax.random.normal(for_normal, (number, len(law.mean)), law.mean.dtype)
    chi = 2 * jax.random.gamma(for_width, 0.5 * FREEDOM, (number,), law.mean.dtype)
    is_wide = jax.random.uniform(for_kind, (number,)) < SHARE
    z = jnp.where(is_wide, WIDTH * jnp.sqrt(FREEDOM / chi), 1.0)[:, None] * z
    q = law.mean + z @ law.root.T
    return q, jax.vmap(lambda at: law.log_mixed(at, law.log_density(at)))(q)


class Crowd(NamedTuple):
    """Chains that have settled on g, and what is needed to run them on."""

    positions: jax.Array  # (number, dimension)
    law: Normal  # their moments, by which steps are scaled, and the Student-t is placed
    step_size: Scalar
    log_constant: Scalar  # log of what normalises the surrogate, roughly
    acceptance: Scalar


class LocalChains(NamedTuple):
    """How well short chains have forgotten the crowd that they start from, and how they follow their density.

    Attributes:
      correlation: of where a chain ended with where it began, the largest over parameters, beyond what chance gives.
      r_hat: of where all ended and where they began, the largest over parameters and their distances from the median.
      divergences: share of trajectories that diverged.
    """

    correlation: Scalar
    r_hat: Scalar
    divergences: Scalar

    @classmethod
    def none(cls, like: Vector) -> LocalChains:
        """Return what is said where there are no such chains: draws are independent by themselves."""
        return cls(*[jnp.zeros((), like.dtype)] * 3)

    @property
    def have_settled(self) -> Flag:
        """Whether proposals by such chains are taken for independent draws of the surrogate."""
        return (self.correlation <= FORGETTING_LIMIT) & (self.r_hat <= R_HAT_LIMIT) & (self.divergences == 0)


def move_crowd(log_density: LogDensity, crowd: Crowd, key: Key, iterations: int) -> tuple[jax.Array, Scalar, Scalar]:
    """Run every chain for some iterations of HMC in standardised coordinates.

    Returns:
      Positions, mean acceptance, and the share of trajectories that diverged.
    """
    from blackjax.mcmc import hmc

    kernel = hmc.build_kernel()
    law, number = crowd.law, len(crowd.positions)

    def in_standard(z: Vector) -> Scalar:
        return log_density(law.place(z))

    ones = jnp.ones_like(law.mean)
    states = jax.vmap(lambda q: hmc.init(law.standardise(q), in_standard))(crowd.positions)

    def iterate(count: jax.Array, carry: tuple) -> tuple:
        states, accepted, diverged = carry
        for_jitter, for_steps = jax.random.split(jax.random.fold_in(key, count))
        step_size = crowd.step_size * jax.random.uniform(for_jitter, (), law.mean.dtype, 0.5, 1.0)
        keys = jax.random.split(for_steps, number)
        states, info = jax.vmap(lambda key, state: kernel(key, state, in_standard, step_size, ones, STEPS))(
            keys, states
        )
        accepted += info.acceptance_rate.mean() / iterations
        return states, accepted, diverged + info.is_divergent.mean(dtype=accepted.dtype) / iterations

    zero = jnp.zeros((), law.mean.dtype)
    states, accepted, diverged = lax.fori_loop(0, iterations, iterate, (states, zero, zero))
    return jax.vmap(law.place)(states.position), accepted, diverged


def settle(log_surrogate: LogDensity, start: Normal, key: Key, number: int) -> Crowd:
    """Settle a crowd of chains on the surrogate: in rounds, each of which scales its steps by the crowd before it."""
    for_start, key = jax.random.split(key)
    z = jax.random.normal(for_start, (number, len(start.mean)), start.mean.dtype)
    zero = jnp.zeros((), start.mean.dtype)
    first = Crowd(start.mean + z @ start.root.T, start, zero + FIRST_STEP, zero, zero)

    def settle_more(round_number: jax.Array, crowd: Crowd) -> Crowd:
        positions, acceptance, _ = move_crowd(log_surrogate, crowd, jax.random.fold_in(key, round_number), ROUND)
        law = Normal.of_draws(positions)
        step_size = jnp.clip(crowd.step_size * jnp.exp(2 * (acceptance - ACCEPTANCE)), 0.01, 1.0)
        values = jax.vmap(lambda q: log_surrogate(q) - law.log_density(q))(positions)
        return Crowd(positions, law, step_size, jnp.median(values), acceptance)

    return lax.fori_loop(0, ROUNDS, settle_more, first)


def mixed_density(log_surrogate: LogDensity, crowd: Crowd) -> LogDensity:
    """Return log g of a surrogate on which a crowd has settled, up to a constant."""

    def log_density(q: Vector) -> Scalar:
        return crowd.law.log_mixed(q, log_surrogate(q) - crowd.log_constant)

    return log_density


def draw_crowd(
    log_surrogate: LogDensity, crowd: Crowd, key: Key, number: int
) -> tuple[jax.Array, jax.Array, LocalChains]:
    """Draw proposals from g by chains that start from the crowd and forget it.

    Returns:
      The proposals (number, dimension), their log g up to a constant, and how independent they are.
    """
    for_start, for_moves = jax.random.split(key)
    chosen = jax.random.choice(for_start, len(crowd.positions), (number,), replace=number > len(crowd.positions))
    log_density = mixed_density(log_surrogate, crowd)
    begun = crowd._replace(positions=crowd.positions[chosen])
    ended, _, divergences = move_crowd(log_density, begun, for_moves, FORGETTING)
    by_chance = 3 / np.sqrt(number)
    remembered = jnp.maximum(correlation(begun.positions, ended) - by_chance, 0.0)
    said = LocalChains(remembered, r_hat_between(crowd.positions, ended), divergences)
    return ended, jax.vmap(log_density)(ended), said


def correlation(one: jax.Array, other: jax.Array) -> Scalar:
    """Return the largest correlation, over columns, of two tables of equal shape."""

    def standard(table: jax.Array) -> jax.Array:
        apart = table - table.mean(axis=0)
        return apart / (jnp.sqrt(jnp.square(apart).mean(axis=0)) + 1e-30)

    return jnp.abs((standard(one) * standard(other)).mean(axis=0)).max()


def r_hat_between(one: jax.Array, other: jax.Array) -> Scalar:
    """Return the largest R-hat of two sets of draws (number, dimension), of values and distances from their median."""

    def of(one: jax.Array, other: jax.Array) -> jax.Array:
        within = 0.5 * (one.var(axis=0) + other.var(axis=0)) + 1e-30
        return jnp.sqrt(1 + 0.5 * (one.mean(axis=0) - other.mean(axis=0)) ** 2 / within).max()

    middle = jnp.median(jnp.concatenate([one, other]), axis=0)
    return jnp.maximum(of(one, other), of(jnp.abs(one - middle), jnp.abs(other - middle)))
