"""Chains of Theorems 3.2 and 3.3: the agents, the stacked and the centralized chain, coupled by random numbers."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from .._types import Key, Scalar, Vector
from .theory_ratios import stacked_ratios
from .theory_target import AGENTS, DIMENSION, Setting, for_each_step_size, group_means, local_derivatives, starts

RISK = 20.0  # -log ρ/ε² is rarely more than this


class Agents(NamedTuple):
    """The state of Algorithm 1 over all agents."""

    position: jax.Array  # ω, (agent, dimension)
    gradient: jax.Array  # g
    curvature: jax.Array  # ℵ, (agent,)
    local_gradient: jax.Array
    local_curvature: jax.Array


def start_agents(position: Vector, shards: jax.Array) -> Agents:
    """Put all agents at one place, with g = g_loc_prev = ∇ℓ_i there and ℵ = a_loc_prev = 0."""
    positions = jnp.broadcast_to(position, (len(shards), len(position)))
    gradient, curvature = local_derivatives(positions, jnp.zeros_like(positions), shards)
    return Agents(positions, gradient, curvature, gradient, curvature)


def step_agents(
    state: Agents,
    momenta: jax.Array,
    log_uniforms: jax.Array,
    step_size: Scalar,
    shards: jax.Array,
    weights: jax.Array,
    metropolis: bool = True,
) -> tuple[Agents, jax.Array]:
    """Make one iteration of Algorithm 1 with one round; return the new state, and which agents accepted."""
    local_gradient, local_curvature = local_derivatives(state.position, momenta, shards)
    gradient = weights @ (state.gradient + local_gradient - state.local_gradient)
    curvature = weights @ (state.curvature + local_curvature - state.local_curvature)
    proposals = state.position + step_size * (momenta + step_size * gradient)
    log_ratio = -0.5 * step_size**2 * (curvature + (gradient**2).sum(axis=1))
    accepted = log_ratio >= log_uniforms if metropolis else jnp.ones(len(shards), bool)
    position = weights @ jnp.where(accepted[:, None], proposals, state.position)
    return Agents(position, gradient, curvature, local_gradient, local_curvature), accepted


class StackedStep(NamedTuple):
    """The last step of a chain whose agents are all at one point after it: ω̃ or ω̂."""

    position: Vector
    gradient: Vector  # g that led there
    curvature: Scalar  # ℵ
    accepted: jax.Array  # by which agents


def step_stacked(
    position: Vector,
    momenta: jax.Array,
    log_uniforms: jax.Array,
    step_size: Scalar,
    shards: jax.Array,
    ratio: str | None,
) -> StackedStep:
    """Move ω to the mean over i of ω + ε(p_i + εg) where agent i accepts, and of ω where not. No ratio: all accept."""
    gradient, curvature, log_ratios = stacked_ratios(position, momenta, step_size, shards)
    accepted = jnp.ones(len(shards), bool) if ratio is None else log_ratios[ratio] >= log_uniforms
    proposals = position + step_size * (momenta + step_size * gradient)
    moved = jnp.where(accepted[:, None], proposals, position).mean(axis=0)
    return StackedStep(moved, gradient, curvature, accepted)


def disagreement(values: jax.Array) -> Scalar:
    """Return the mean over agents of the squared distance to their mean."""
    return ((values - values.mean(axis=0)) ** 2).sum() / len(values)


def noise(key: Key, runs: int) -> tuple[jax.Array, jax.Array]:
    """Draw momenta p_i and log-uniforms log u_i of one iteration, (run, agent, ...)."""
    momentum_key, uniform_key = jax.random.split(key)
    momenta = jax.random.normal(momentum_key, (runs, AGENTS, DIMENSION))
    return momenta, jnp.log(jax.random.uniform(uniform_key, (runs, AGENTS)))


def stratified_log_uniforms(key: Key, runs: int, horizon: int, step_size: Scalar) -> tuple[jax.Array, jax.Array]:
    """Draw log u, (t, run, agent); return them with weights of the runs that make averages those of plain uniforms.

    At small ε a proposal is rejected only by u > 1 - δ, δ = RISK ε² or so: hardly any run has a rejection. So every
    other run is drawn from those with at least one u in that zone, the rest from those with none, and each is weighted
    by twice its stratum's probability. The place of the first u in the zone is a truncated geometric variable.
    """
    count = horizon * AGENTS
    zone = jnp.minimum(0.5, RISK * step_size**2)
    first_key, zone_key, place_key = jax.random.split(key, 3)
    none = (1 - zone) ** count
    first = jnp.floor(jnp.log1p(-jax.random.uniform(first_key, (runs, 1)) * (1 - none)) / jnp.log1p(-zone))
    first = jnp.minimum(first, count - 1)
    later = jax.random.uniform(zone_key, (runs, count)) < zone
    index = jnp.arange(count)
    risky = jnp.arange(runs) % 2 == 1
    inside = risky[:, None] & ((index == first) | ((index > first) & later))
    place = jax.random.uniform(place_key, (runs, count))
    log_uniforms = jnp.where(inside, jnp.log1p(-zone * place), jnp.log((1 - zone) * place))
    weights = jnp.where(risky, 2 * (1 - none), 2 * none)
    return log_uniforms.reshape(runs, horizon, AGENTS).swapaxes(0, 1), weights


@partial(jax.jit, static_argnames=("groups", "runs", "horizon"))
def consensus(
    key: Key, step_sizes: jax.Array, setting: Setting, groups: int, runs: int, horizon: int
) -> dict[str, jax.Array]:
    """Measure mean squared disagreement of ω, g and ℵ after each step, (ε, t, group), from common draws of π."""
    pool, shards, weights = setting

    def measure(key: Key, step_size: Scalar) -> dict[str, jax.Array]:
        start_key, key = jax.random.split(key)
        step = jax.vmap(partial(step_agents, step_size=step_size, shards=shards, weights=weights))

        def iterate(state: Agents, key: Key) -> tuple[Agents, dict[str, jax.Array]]:
            state, _ = step(state, *noise(key, groups * runs))
            found = {"position": state.position, "gradient": state.gradient, "curvature": state.curvature[..., None]}
            return state, group_means({name: jax.vmap(disagreement)(value) for name, value in found.items()}, groups)

        start = jax.vmap(start_agents, (0, None))(starts(start_key, pool, groups * runs), shards)
        return jax.lax.scan(iterate, start, jax.random.split(key, horizon))[1]

    return for_each_step_size(measure, key, step_sizes)


class Coupled(NamedTuple):
    """The state of the chains that share p and u. The average ω̄ is that of the agents."""

    agents: Agents
    stacked: Vector  # ω̃
    centralized: Vector  # ω̂
    free_agents: Agents  # without Metropolis steps
    free_stacked: Vector  # also ω̂ without Metropolis steps: nothing is rejected


def start_coupled(position: Vector, shards: jax.Array) -> Coupled:
    agents = start_agents(position, shards)
    return Coupled(agents, position, position, agents, position)


def step_coupled(
    state: Coupled,
    momenta: jax.Array,
    log_uniforms: jax.Array,
    step_size: Scalar,
    shards: jax.Array,
    weights: jax.Array,
) -> tuple[Coupled, dict[str, Scalar]]:
    """Make one step of all chains; return their state, and what is measured after the step."""
    shared = (momenta, log_uniforms, step_size, shards)
    agents, accepted = step_agents(state.agents, *shared, weights)
    free_agents, _ = step_agents(state.free_agents, *shared, weights, metropolis=False)
    stacked = step_stacked(state.stacked, *shared, "published")
    centralized = step_stacked(state.centralized, *shared, "exact")
    free_stacked = step_stacked(state.free_stacked, *shared, None)
    average, free_average = agents.position.mean(axis=0), free_agents.position.mean(axis=0)

    def squared(one: jax.Array, other: jax.Array) -> Scalar:
        return ((one - other) ** 2).sum()

    found = {
        "stacked to centralized, squared": squared(stacked.position, centralized.position),
        "stacked to average": jnp.sqrt(squared(stacked.position, average)),
        "stacked to average, squared": squared(stacked.position, average),
        "stacked to average, free": jnp.sqrt(squared(free_stacked.position, free_average)),
        "stacked to average, gradient": jnp.sqrt(squared(stacked.gradient, agents.gradient.mean(axis=0))),
        "stacked to average, curvature": jnp.abs(stacked.curvature - agents.curvature.mean()),
        "centralized to average": jnp.sqrt(squared(centralized.position, average)),
        "rejected": (~accepted).mean(dtype=float),
        "decisions differ": (stacked.accepted != accepted).mean(dtype=float),
    }
    moved = Coupled(agents, stacked.position, centralized.position, free_agents, free_stacked.position)
    return moved, found


@partial(jax.jit, static_argnames=("groups", "runs", "horizon"))
def coupled(
    key: Key, step_sizes: jax.Array, setting: Setting, groups: int, runs: int, horizon: int
) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
    """Run the coupled chains; return what is measured, (ε, group): after the last step, and averaged over steps."""
    pool, shards, weights = setting

    def measure(key: Key, step_size: Scalar) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        start_key, uniform_key, key = jax.random.split(key, 3)
        log_uniforms, shares = stratified_log_uniforms(uniform_key, groups * runs, horizon, step_size)
        step = jax.vmap(partial(step_coupled, step_size=step_size, shards=shards, weights=weights))

        def iterate(state: Coupled, inputs: tuple[Key, jax.Array]) -> tuple[Coupled, dict[str, jax.Array]]:
            key, log_uniforms = inputs
            state, found = step(state, jax.random.normal(key, (groups * runs, AGENTS, DIMENSION)), log_uniforms)
            return state, group_means({name: shares * value for name, value in found.items()}, groups)

        start = jax.vmap(start_coupled, (0, None))(starts(start_key, pool, groups * runs), shards)
        found = jax.lax.scan(iterate, start, (jax.random.split(key, horizon), log_uniforms))[1]
        return {name: v[-1] for name, v in found.items()}, {name: v.mean(axis=0) for name, v in found.items()}

    return for_each_step_size(measure, key, step_sizes)
