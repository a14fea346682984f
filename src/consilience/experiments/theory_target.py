"""The target of the theory's measurements: logistic regression over unlike agents, and draws from its posterior."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Key, Scalar, Vector
from ..samplers import gradient_and_curvature

AGENTS = 5
DIMENSION = 3
EXAMPLES = 8  # of each agent
PRIOR_PRECISION = 1.0
DATA_SEED = 0
HMC_STEP_SIZE = 0.15
HMC_LEAPFROG_STEPS = 10
HMC_ITERATIONS = 40


class Setting(NamedTuple):
    """Draws of the posterior to start from, the agents' examples, and the mixing weights."""

    pool: jax.Array
    shards: jax.Array
    weights: jax.Array


def examples() -> np.ndarray:
    """Make the examples z_in, (agent, example, dimension): features around a centre of the agent's, times the label."""
    rng = np.random.default_rng(DATA_SEED)
    places = rng.standard_normal((AGENTS, 1, DIMENSION))
    features = places + rng.standard_normal((AGENTS, EXAMPLES, DIMENSION))
    truth = rng.standard_normal(DIMENSION)
    positive = rng.uniform(size=(AGENTS, EXAMPLES)) < 1 / (1 + np.exp(-features @ truth))
    return np.where(positive, 1.0, -1.0)[..., None] * features


def local_log_density(position: Vector, shard: jax.Array) -> Scalar:
    """Return ℓ_i = -U_i at `position`, for the examples (example, dimension) of one agent."""
    prior = -0.5 * PRIOR_PRECISION / AGENTS * jnp.vdot(position, position)
    return jax.nn.log_sigmoid(shard @ position).sum() + prior


def log_density(position: Vector, shards: jax.Array) -> Scalar:
    """Return log π = Σ_i ℓ_i at `position`."""
    return jax.vmap(local_log_density, (None, 0))(position, shards).sum()


@partial(jax.jit, static_argnames="count")
def posterior_draws(key: Key, shards: jax.Array, count: int) -> jax.Array:
    """Draw from π: each draw is the end of an exact Hamiltonian Monte Carlo chain of its own that starts at zero."""
    gradient = jax.grad(log_density)

    def leapfrog(carry: tuple[Vector, Vector], _: None) -> tuple[tuple[Vector, Vector], None]:
        position, momentum = carry
        half = momentum + 0.5 * HMC_STEP_SIZE * gradient(position, shards)
        position = position + HMC_STEP_SIZE * half
        return (position, half + 0.5 * HMC_STEP_SIZE * gradient(position, shards)), None

    def iterate(position: Vector, key: Key) -> tuple[Vector, None]:
        momentum_key, uniform_key = jax.random.split(key)
        momentum = jax.random.normal(momentum_key, position.shape)
        (proposal, last), _ = jax.lax.scan(leapfrog, (position, momentum), None, HMC_LEAPFROG_STEPS)
        change = log_density(proposal, shards) - log_density(position, shards)
        log_ratio = change - 0.5 * (jnp.vdot(last, last) - jnp.vdot(momentum, momentum))
        accepted = log_ratio >= jnp.log(jax.random.uniform(uniform_key))
        return jnp.where(accepted, proposal, position), None

    def chain(key: Key) -> Vector:
        return jax.lax.scan(iterate, jnp.zeros(shards.shape[-1]), jax.random.split(key, HMC_ITERATIONS))[0]

    return jax.vmap(chain)(jax.random.split(key, count))


def starts(key: Key, pool: jax.Array, count: int) -> jax.Array:
    """Choose `count` of the pool's draws at random, with replacement."""
    return pool[jax.random.randint(key, (count,), 0, len(pool))]


def for_each_step_size(measure: Callable[[Key, Scalar], Any], key: Key, step_sizes: jax.Array) -> Any:
    """Measure with each step size ε, with random numbers of its own; results get a first axis (ε,)."""
    return jax.lax.map(lambda inputs: measure(*inputs), (jax.random.split(key, len(step_sizes)), step_sizes))


def group_means(values: dict[str, jax.Array], groups: int) -> dict[str, jax.Array]:
    """Average values of runs, (run,), over each group of runs that follow each other, (group,)."""
    return {name: value.reshape(groups, -1).mean(axis=1) for name, value in values.items()}


def local_derivatives(positions: jax.Array, momenta: jax.Array, shards: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return ∇ℓ_i(ω_i) and p_iᵀ∇²U_i(ω_i)p_i of every agent."""

    def one(position: Vector, momentum: Vector, shard: jax.Array) -> tuple[Vector, Scalar]:
        return gradient_and_curvature(lambda at: local_log_density(at, shard), position, momentum)

    return jax.vmap(one)(positions, momenta, shards)
