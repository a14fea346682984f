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

from .._types import Count, Flag, Key, LogDensity, Scalar, Vector

FORGETTING_LIMIT = 0.05  # of the correlation of a local chain's end with its start, beyond what chance gives
SHARE = 0.05  # of the Student-t among the proposals
FREEDOM = 5.0  # of the Student-t, in degrees
WIDTH = 1.4  # of the Student-t, in sd of the surrogate
ROUNDS, ROUNDS_AGAIN, ROUND = 8, 3, 16  # in which a crowd settles; on a surrogate that is nearly the last one
FORGETTING, MOST_FORGETTING = 30, 16  # iterations after which it is looked whether starts are forgotten, and how often
LENGTH = 1.5  # of a trajectory, in sd
FEWEST_STEPS, MOST_STEPS = 6, 48  # of it
R_HAT_LIMIT = 1.01  # of where local chains end and where they begin
ACCEPTANCE = 0.85
FIRST_STEP, SMALLEST_STEP = 0.1, 1e-3
FIRST_SPREAD = 0.3  # of a crowd, in sd of a normal law that may be far off
BRIDGES = 20  # iterations of a bridge between two laws


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
    forgetting: Count  # times `FORGETTING` iterations after which chains forget where they began; 0: not known yet


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


def move_crowd(
    log_density: LogDensity, crowd: Crowd, key: Key, iterations: int, adapts: bool = False
) -> tuple[jax.Array, Scalar, Scalar]:
    """Run every chain for some iterations of HMC in standardised coordinates.

    Args:
      adapts: whether the step size is tuned on the way, for which the chains' moves need not leave g invariant.

    Returns:
      Positions, the step size, and the share of trajectories that diverged.
    """
    from blackjax.mcmc import hmc

    kernel = hmc.build_kernel()
    law, number = crowd.law, len(crowd.positions)

    def in_standard(z: Vector) -> Scalar:
        return log_density(law.place(z))

    ones = jnp.ones_like(law.mean)
    states = jax.vmap(lambda q: hmc.init(law.standardise(q), in_standard))(crowd.positions)

    def iterate(count: jax.Array, carry: tuple) -> tuple:
        states, step_size, diverged = carry
        for_jitter, for_steps = jax.random.split(jax.random.fold_in(key, count))
        steps = jnp.clip(LENGTH / step_size, FEWEST_STEPS, MOST_STEPS).astype(jnp.int32)
        jittered = step_size * jax.random.uniform(for_jitter, (), law.mean.dtype, 0.5, 1.0)
        keys = jax.random.split(for_steps, number)
        states, info = jax.vmap(lambda key, state: kernel(key, state, in_standard, jittered, ones, steps))(keys, states)
        if adapts:
            better = step_size * jnp.exp(0.5 * (info.acceptance_rate.mean() - ACCEPTANCE))
            step_size = jnp.clip(better, SMALLEST_STEP, 1.0)
        return states, step_size, diverged + info.is_divergent.mean(dtype=diverged.dtype) / iterations

    first = (states, crowd.step_size, jnp.zeros((), law.mean.dtype))
    states, step_size, diverged = lax.fori_loop(0, iterations, iterate, first)
    return jax.vmap(law.place)(states.position), step_size, diverged


def gather(law: Normal, key: Key, number: int) -> Crowd:
    """Gather a crowd that has not settled yet, near the middle of a normal law."""
    z = FIRST_SPREAD * jax.random.normal(key, (number, len(law.mean)), law.mean.dtype)
    zero = jnp.zeros((), law.mean.dtype)
    return Crowd(law.mean + z @ law.root.T, law, zero + FIRST_STEP, zero, jnp.int32(0))


def settle(log_surrogate: LogDensity, crowd: Crowd, key: Key, rounds: int | jax.Array) -> Crowd:
    """Settle a crowd of chains on the surrogate: in rounds, each of which scales its steps by the crowd before it."""
    for_rounds, for_constant = jax.random.split(key)
    can_be = jnp.isfinite(jax.vmap(log_surrogate)(crowd.positions))
    crowd = crowd._replace(positions=jnp.where(can_be[:, None], crowd.positions, crowd.law.mean))

    def settle_more(number: jax.Array, crowd: Crowd) -> Crowd:
        for_moves, for_others = jax.random.split(jax.random.fold_in(for_rounds, number))
        positions, step_size, _ = move_crowd(log_surrogate, crowd, for_moves, ROUND, adapts=True)
        # Chains that began where no step is short enough take others' places: they would spoil the moments of all.
        has_moved = (positions != crowd.positions).any(axis=1)
        others = jax.random.categorical(for_others, jnp.where(has_moved, 0.0, -jnp.inf), shape=has_moved.shape)
        positions = jnp.where((has_moved | ~has_moved.any())[:, None], positions, positions[others])
        return crowd._replace(positions=positions, law=Normal.of_draws(positions), step_size=step_size)

    settled = lax.fori_loop(0, rounds, settle_more, crowd)
    constant = log_constant_of(log_surrogate, settled, for_constant)
    return settled._replace(log_constant=constant, forgetting=jnp.int32(0))


def log_constant_of(log_surrogate: LogDensity, crowd: Crowd, key: Key) -> Scalar:
    """Return the log of ∫ π_s, by a bridge between a crowd on π_s and as many draws of the normal law with its moments.

    (Meng and Wong 1996.) With l = π_s / law, it is the r that solves E_law[l / (l + r)] = E_πs[r / (l + r)].
    """
    law = crowd.law

    def log_ratio(q: Vector) -> Scalar:
        found = log_surrogate(q) - law.log_density(q)
        return jnp.where(jnp.isfinite(found), found, -jnp.inf)

    z = jax.random.normal(key, crowd.positions.shape, law.mean.dtype)
    own, normal = (jax.vmap(log_ratio)(q) for q in (crowd.positions, law.mean + z @ law.root.T))

    def nearer(_: jax.Array, log_r: Scalar) -> Scalar:
        above = jax.scipy.special.logsumexp(-jnp.logaddexp(0.0, log_r - normal))
        return above - jax.scipy.special.logsumexp(-jnp.logaddexp(own, log_r))

    return lax.fori_loop(0, BRIDGES, nearer, jnp.median(own))


def mixed_density(log_surrogate: LogDensity, crowd: Crowd) -> LogDensity:
    """Return log g of a surrogate on which a crowd has settled, up to a constant."""

    def log_density(q: Vector) -> Scalar:
        return crowd.law.log_mixed(q, log_surrogate(q) - crowd.log_constant)

    return log_density


def draw_crowd(
    log_surrogate: LogDensity, crowd: Crowd, key: Key, number: int
) -> tuple[jax.Array, jax.Array, LocalChains, Count]:
    """Draw proposals from g by chains that start from the crowd and are run until they have forgotten it.

    How long that takes is found out once, and kept with the crowd: draws that are to count must not choose when they
    are taken.

    Returns:
      The proposals (number, dimension), their log g up to a constant, how independent they are, and how many times
      `FORGETTING` iterations they were run.
    """
    for_start, for_moves = jax.random.split(key)
    chosen = jax.random.choice(for_start, len(crowd.positions), (number,), replace=number > len(crowd.positions))
    log_density = mixed_density(log_surrogate, crowd)
    begun = crowd.positions[chosen]

    def move_on(carry: tuple[Count, jax.Array, LocalChains]) -> tuple[Count, jax.Array, LocalChains]:
        times, positions, _ = carry
        here = jax.random.fold_in(for_moves, times)
        ended, _, divergences = move_crowd(log_density, crowd._replace(positions=positions), here, FORGETTING)
        by_chance = 3 / np.sqrt(number)
        remembered = jnp.maximum(correlation(begun, ended) - by_chance, 0.0)
        return times + 1, ended, LocalChains(remembered, r_hat_between(crowd.positions, ended), divergences)

    def is_wanting(carry: tuple[Count, jax.Array, LocalChains]) -> jax.Array:
        times, _, said = carry
        has_not_forgotten = (times < MOST_FORGETTING) & ~(said.correlation <= FORGETTING_LIMIT)
        return jnp.where(crowd.forgetting > 0, times < crowd.forgetting, has_not_forgotten)

    unknown = jnp.full((), jnp.inf, begun.dtype)
    first = (jnp.int32(0), begun, LocalChains(unknown, unknown, unknown))
    times, ended, said = lax.while_loop(is_wanting, move_on, first)
    return ended, jax.vmap(log_density)(ended), said, times


def correlation(one: jax.Array, other: jax.Array) -> Scalar:
    """Return the largest correlation, over columns, of two tables of equal shape, or of distances from their means.

    Chains may have forgotten on which side they began and not how far out, as in a funnel.
    """

    def standard(table: jax.Array) -> jax.Array:
        apart = table - table.mean(axis=0)
        return apart / (jnp.sqrt(jnp.square(apart).mean(axis=0)) + 1e-30)

    def largest(one: jax.Array, other: jax.Array) -> Scalar:
        return jnp.abs((standard(one) * standard(other)).mean(axis=0)).max()

    return jnp.maximum(largest(one, other), largest(*(jnp.abs(standard(table)) for table in (one, other))))


def r_hat_between(one: jax.Array, other: jax.Array) -> Scalar:
    """Return the largest R-hat of two sets of draws (number, dimension), of values and distances from their median."""

    def of(one: jax.Array, other: jax.Array) -> jax.Array:
        within = 0.5 * (one.var(axis=0) + other.var(axis=0)) + 1e-30
        return jnp.sqrt(1 + 0.5 * (one.mean(axis=0) - other.mean(axis=0)) ** 2 / within).max()

    middle = jnp.median(jnp.concatenate([one, other]), axis=0)
    return jnp.maximum(of(one, other), of(jnp.abs(one - middle), jnp.abs(other - middle)))
