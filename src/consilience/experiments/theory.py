"""The paper's three theorems, measured: how errors of its chains fall with the step size ε.

Four chains share momenta p_i and uniforms u_i: the agents ω_i of Algorithm 1, their average ω̄, the stacked chain ω̃ (all
agents at one point, which is averaged after every step) and the centralized chain ω̂ (the same with exact energies).
Slopes come from least squares on the logarithms, with intervals from independent groups of runs; every ε has random
numbers of its own, so that its point in the regression is independent of the others.

The target is logistic regression: U_i(ω) = Σ_n log(1 + exp(-z_inᵀω)) + λ|ω|²/2m for the examples z_in of agent i
(features times label ±1), which differ from agent to agent in place and in the share of either label. U = Σ_i U_i, and
V = U/m is what the tracked mean gradient belongs to. M is the identity, and every iteration has one round of gossip.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import stdtrit

from .._types import Key, Scalar, Vector
from ..network import Network
from ..samplers.published import gradient_and_curvature

AGENTS = 5
DIMENSION = 3
EXAMPLES = 8  # of each agent
PRIOR_PRECISION = 1.0
DATA_SEED = 0

HMC_STEP_SIZE = 0.15
HMC_LEAPFROG_STEPS = 10
HMC_ITERATIONS = 40

CONFIDENCE = 0.95
MARGIN = 0.1  # how far from its limit a slope over a finite range of ε may lie
STEP_OF_RATIO = {"published": "euler", "corrected": "euler", "trapezoid": "leapfrog"}
RISK = 20.0  # -log ρ/ε² is rarely more than this
GROWTH_FROM = 0.1  # the part of the horizon after which growth in t is looked for: the start is forgotten by then


@dataclass(frozen=True)
class Scale:
    """How much to run.

    Attributes:
      groups: independent groups of runs, from which intervals are computed.
      pool: draws from the posterior; every run starts at one of them.
      ratio_draws: positions and momenta per group and ε, for the acceptance ratios.
      coupled_runs: runs of the coupled chains per group and ε, an even number.
      horizon: their number of steps.
      consensus_runs: runs of the agents alone per group and ε.
      consensus_horizon: their number of steps.
      ratio_steps, coupled_steps, consensus_steps: smallest and largest ε, and how many.
    """

    groups: int = 24
    pool: int = 4096
    ratio_draws: int = 1000
    coupled_runs: int = 2000
    horizon: int = 10
    consensus_runs: int = 20
    consensus_horizon: int = 400
    ratio_steps: tuple[float, float, int] = (1e-3, 3e-2, 9)
    coupled_steps: tuple[float, float, int] = (2e-3, 2e-2, 8)
    consensus_steps: tuple[float, float, int] = (1e-3, 1e-1, 9)


@dataclass(frozen=True)
class Slope:
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Claim:
    """What is said of a quantity.

    Attributes:
      theorem: "3.1", "3.2" or "3.3".
      exponent: of ε, or of t.
      source: "paper", or "ours".
      kind: "bound": the quantity is at most C ε^exponent, which a larger exponent satisfies as well. "order": it has
        this exponent. "growth": it grows no faster than t^exponent.
      root: the quantity is the root of what is averaged.
    """

    theorem: str
    name: str
    quantity: str
    exponent: float
    source: str
    kind: str
    root: bool = False


CLAIMS = (
    Claim("3.1", "published", "published log ρ, Euler step: rms error", 3, "paper", "bound", root=True),
    Claim("3.1", "corrected", "corrected log ρ, Euler step: rms error", 3, "ours", "order", root=True),
    Claim("3.1", "trapezoid", "trapezoid log ρ, leapfrog step: rms error", 3, "ours", "order", root=True),
    Claim("3.1", "leapfrog nothing", "log ρ = 0, leapfrog step: rms error", 3, "ours", "order", root=True),
    Claim("3.1", "one step, published", "E‖ω̃ - ω̂‖² after one step, published ratio", 5, "paper", "bound"),
    Claim("3.1", "one step, corrected", "E‖ω̃ - ω̂‖² after one step, corrected ratio", 5, "ours", "order"),
    Claim("3.1", "stacked to centralized, squared", "E‖ω̃ - ω̂‖² after T steps, published ratio", 5, "paper", "bound"),
    Claim("3.2", "position", "rms disagreement in ω, late", 1, "paper", "bound", root=True),
    Claim("3.2", "gradient", "rms disagreement in g, late", 1, "paper", "bound", root=True),
    Claim("3.2", "first gradient", "rms disagreement in g, after one step", 1, "paper", "bound", root=True),
    Claim("3.2", "curvature", "rms disagreement in ℵ, late", 1, "paper", "bound", root=True),
    Claim("3.2", "growth", "rms disagreement in ω, as t grows", 0, "paper", "growth", root=True),
    Claim("3.3", "stacked to average", "E‖ω̃ - ω̄‖ after T steps", 3, "paper", "bound"),
    Claim("3.3", "stacked to average, free", "E‖ω̃ - ω̄‖ after T steps, no Metropolis", 3, "paper", "bound"),
    Claim("3.3", "stacked to average, gradient", "E‖g̃ - ḡ‖ after T steps", 3, "paper", "bound"),
    Claim("3.3", "stacked to average, curvature", "E‖ℵ̃ - ℵ̄‖ after T steps", 3, "paper", "bound"),
    Claim("3.3", "stacked to average, squared", "rms of ω̃ - ω̄ after T steps", 2, "ours", "order", root=True),
    Claim("3.3", "decisions differ", "rate of decisions that differ, ω̃ and ω", 2, "ours", "order"),
    Claim("3.3", "centralized to average", "E‖ω̂ - ω̄‖ after T steps", 2.5, "paper", "bound"),
)


@dataclass(frozen=True)
class Curve:
    """A quantity against ε (or t), and how its exponent compares with the claim.

    Attributes:
      at: the values of ε, or of t.
      groups: means over each group of runs, (point, group), of the quantity, or of its square where it is a root.
    """

    claim: Claim
    at: np.ndarray
    groups: np.ndarray

    @property
    def values(self) -> np.ndarray:
        """The quantity at every point, from all groups."""
        return np.sqrt(self.groups.mean(axis=1)) if self.claim.root else self.groups.mean(axis=1)

    @cached_property
    def slope(self) -> Slope:
        slope = fit(self.at, self.groups)
        return Slope(slope.value / 2, slope.low / 2, slope.high / 2) if self.claim.root else slope

    @property
    def verdict(self) -> str:
        """What the interval says of the claim, with MARGIN for the bend of a finite range."""
        low, high = self.slope.low - self.claim.exponent, self.slope.high - self.claim.exponent
        if self.claim.kind == "growth":
            low, high = -high, -low
        if low >= -MARGIN and (self.claim.kind != "order" or high <= MARGIN):
            return "holds"
        if high < -MARGIN or (self.claim.kind == "order" and low > MARGIN):
            return "fails"
        return "undecided"


@dataclass(frozen=True)
class Outcome:
    """What was measured.

    Attributes:
      curves: by name.
      over_nothing: rms error of log ρ over that of log ρ = 0 for the same step, at the smallest ε, by ratio.
      course: rms disagreement of the agents in ω and in g after every step, (ε, t), by name.
      rejected: the agents' rate of rejection in the coupled runs, (ε,).
    """

    scale: Scale
    seed: int
    network: Network
    curves: dict[str, Curve]
    over_nothing: dict[str, float]
    course: dict[str, np.ndarray]
    rejected: np.ndarray


# --- regression --------------------------------------------------------------------------------------


def fit(at: np.ndarray, groups: np.ndarray) -> Slope:
    """The slope of log mean(groups) in log at, by least squares; its interval by the jackknife over groups."""
    count = groups.shape[1]
    centred = np.log(at) - np.log(at).mean()
    weights = centred / (centred @ centred)
    without_one = (groups.sum(axis=1, keepdims=True) - groups) / (count - 1)
    value = float(weights @ np.log(groups.mean(axis=1)))
    left_out = weights @ np.log(without_one)
    error = float(np.sqrt((count - 1) / count * ((left_out - left_out.mean()) ** 2).sum()))
    width = error * float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2))
    return Slope(value, value - width, value + width)


# --- the target ---------------------------------------------------------------------------------------


def examples() -> np.ndarray:
    """z_in, (agent, example, dimension): features around a place of the agent's own, times the label."""
    rng = np.random.default_rng(DATA_SEED)
    places = rng.standard_normal((AGENTS, 1, DIMENSION))
    features = places + rng.standard_normal((AGENTS, EXAMPLES, DIMENSION))
    truth = rng.standard_normal(DIMENSION)
    positive = rng.uniform(size=(AGENTS, EXAMPLES)) < 1 / (1 + np.exp(-features @ truth))
    return np.where(positive, 1.0, -1.0)[..., None] * features


def local_log_density(position: Vector, shard: jax.Array) -> Scalar:
    """ℓ_i = -U_i at `position`, for the examples (example, dimension) of one agent."""
    prior = -0.5 * PRIOR_PRECISION / AGENTS * jnp.vdot(position, position)
    return jax.nn.log_sigmoid(shard @ position).sum() + prior


def log_density(position: Vector, shards: jax.Array) -> Scalar:
    """log π = Σ_i ℓ_i."""
    return jax.vmap(local_log_density, (None, 0))(position, shards).sum()


@partial(jax.jit, static_argnames="count")
def posterior_draws(key: Key, shards: jax.Array, count: int) -> jax.Array:
    """Draws from π, each the end of an exact Hamiltonian Monte Carlo chain of its own that starts at zero."""
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
    """`count` of the pool's draws, with replacement."""
    return pool[jax.random.randint(key, (count,), 0, len(pool))]


# --- Theorem 3.1: acceptance ratios ---------------------------------------------------------------------


class Ratios(NamedTuple):
    """log ρ before min(0, ·), of one Euler and one leapfrog step from the same ω and p."""

    euler_exact: Scalar  # -ΔH
    published: Scalar  # -½ε²(pᵀ∇²U p + |g|²)
    corrected: Scalar  # -½ε²(p*ᵀ∇²U p* - |g|²)
    leapfrog_exact: Scalar  # -ΔH
    trapezoid: Scalar  # -⅛ε²(|g*|² - |g|²)


def ratios(position: Vector, momentum: Vector, step_size: Scalar, shards: jax.Array) -> Ratios:
    """One agent that holds all data: H = U + ½|p|², g = -∇U.

    Euler: p* = p + εg, ω* = ω + εp*. With p = p* - εg, U(ω*) - U(ω) = -εgᵀp* + ½ε²p*ᵀ∇²U p* + O(ε³) and
    ½|p*|² - ½|p|² = εgᵀp* - ½ε²|g|² give ΔH = ½ε²(p*ᵀ∇²U p* - |g|²) + O(ε³).

    Leapfrog: p½ = p + ½εg, ω* = ω + εp½, p* = p½ + ½εg*. Then ½|p*|² - ½|p|² = ½ε(g + g*)ᵀp½ + ⅛ε²(|g*|² - |g|²), whose
    first term is minus the trapezoid rule for ΔU.
    """

    def density(position: Vector) -> Scalar:
        return log_density(position, shards)

    def exact(proposal: Vector, end: Vector) -> Scalar:
        return density(proposal) - density(position) - 0.5 * (jnp.vdot(end, end) - jnp.vdot(momentum, momentum))

    gradient, curvature = gradient_and_curvature(density, position, momentum)
    squared = jnp.vdot(gradient, gradient)
    end = momentum + step_size * gradient
    _, end_curvature = gradient_and_curvature(density, position, end)
    half = momentum + 0.5 * step_size * gradient
    leapfrog_proposal = position + step_size * half
    leapfrog_gradient = jax.grad(density)(leapfrog_proposal)
    return Ratios(
        exact(position + step_size * end, end),
        -0.5 * step_size**2 * (curvature + squared),
        -0.5 * step_size**2 * (end_curvature - squared),
        exact(leapfrog_proposal, half + 0.5 * step_size * leapfrog_gradient),
        -0.125 * step_size**2 * (jnp.vdot(leapfrog_gradient, leapfrog_gradient) - squared),
    )


def one_step_distance(position: Vector, momenta: jax.Array, step_size: Scalar, shards: jax.Array) -> dict[str, Scalar]:
    """E‖ω̃ - ω̂‖² after one step of both from `position`, over the uniforms, for the published and the corrected ratio.

    Agent i decides differently with probability |q_i|, q_i = ρ_i - ρ̂_i, and then shifts ω̃ - ω̂ by sign(q_i) d_i/m,
    d_i = ε(p_i + εg). With independent u_i the expectation is m⁻²(Σ_i |q_i|(1 - |q_i|)|d_i|² + |Σ_i q_i d_i|²).
    """
    gradient, _, log_ratios = together_ratios(position, momenta, step_size, shards, ("published", "corrected", "exact"))
    shifts = step_size * (momenta + step_size * gradient)
    acceptance = {name: jnp.exp(jnp.minimum(0.0, log_ratio)) for name, log_ratio in log_ratios.items()}

    def distance(name: str) -> Scalar:
        excess = acceptance[name] - acceptance["exact"]
        spread = (jnp.abs(excess) * (1 - jnp.abs(excess)) * (shifts**2).sum(axis=1)).sum()
        return (spread + ((excess @ shifts) ** 2).sum()) / len(shards) ** 2

    return {f"one step, {name}": distance(name) for name in ("published", "corrected")}


@partial(jax.jit, static_argnames=("groups", "draws"))
def ratio_errors(
    key: Key, step_sizes: jax.Array, pool: jax.Array, shards: jax.Array, groups: int, draws: int
) -> dict[str, jax.Array]:
    """Means over each group, (ε, group), at draws from π, for one agent that holds all data and for ω̃ and ω̂.

    The first are squared errors of log ρ; "... nothing" is log ρ = 0.
    """

    def at(inputs: tuple[Key, Scalar]) -> dict[str, jax.Array]:
        key, step_size = inputs
        position_key, momentum_key = jax.random.split(key)
        positions = starts(position_key, pool, groups * draws)
        momenta = jax.random.normal(momentum_key, (groups * draws, *shards.shape[::2]))
        found = jax.vmap(ratios, (0, 0, None, None))(positions, momenta[:, 0], step_size, shards)
        errors = {
            "published": found.published - found.euler_exact,
            "corrected": found.corrected - found.euler_exact,
            "euler nothing": -found.euler_exact,
            "trapezoid": found.trapezoid - found.leapfrog_exact,
            "leapfrog nothing": -found.leapfrog_exact,
        }
        values = {name: error**2 for name, error in errors.items()}
        values |= jax.vmap(one_step_distance, (0, 0, None, None))(positions, momenta, step_size, shards)
        return {name: value.reshape(groups, draws).mean(axis=1) for name, value in values.items()}

    return jax.lax.map(at, (jax.random.split(key, len(step_sizes)), step_sizes))


# --- the chains -----------------------------------------------------------------------------------------


class Agents(NamedTuple):
    """Algorithm 1's state over all agents."""

    position: jax.Array  # ω, (agent, dimension)
    gradient: jax.Array  # g
    curvature: jax.Array  # ℵ, (agent,)
    local_gradient: jax.Array
    local_curvature: jax.Array


def local_derivatives(positions: jax.Array, momenta: jax.Array, shards: jax.Array) -> tuple[jax.Array, jax.Array]:
    """∇ℓ_i(ω_i) and p_iᵀ∇²U_i(ω_i)p_i of every agent."""

    def one(position: Vector, momentum: Vector, shard: jax.Array) -> tuple[Vector, Scalar]:
        return gradient_and_curvature(lambda at: local_log_density(at, shard), position, momentum)

    return jax.vmap(one)(positions, momenta, shards)


def start_agents(position: Vector, shards: jax.Array) -> Agents:
    """All agents at one place, with g = g_loc_prev = ∇ℓ_i there and ℵ = a_loc_prev = 0."""
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
    """One iteration of Algorithm 1 with one round, and who accepted."""
    local_gradient, local_curvature = local_derivatives(state.position, momenta, shards)
    gradient = weights @ (state.gradient + local_gradient - state.local_gradient)
    curvature = weights @ (state.curvature + local_curvature - state.local_curvature)
    proposals = state.position + step_size * (momenta + step_size * gradient)
    log_ratio = -0.5 * step_size**2 * (curvature + (gradient**2).sum(axis=1))
    accepted = log_ratio >= log_uniforms if metropolis else jnp.ones(len(shards), bool)
    position = weights @ jnp.where(accepted[:, None], proposals, state.position)
    return Agents(position, gradient, curvature, local_gradient, local_curvature), accepted


def together_ratios(
    position: Vector, momenta: jax.Array, step_size: Scalar, shards: jax.Array, which: tuple[str, ...]
) -> tuple[Vector, Scalar, dict[str, jax.Array]]:
    """g = -∇V(ω), ℵ = mean_j p_jᵀ∇²U_j(ω)p_j, and every agent's log ρ before min(0, ·), for agents that are all at ω.

    "published": -½ε²(ℵ + |g|²); "corrected": -½ε²(p*_iᵀ∇²V p*_i - |g|²); "exact": -ΔH_i for H_i = V + ½|p_i|².
    """

    def density(at: Vector) -> Scalar:
        return log_density(at, shards) / len(shards)

    def published(momentum: Vector, end: Vector) -> Scalar:
        return -0.5 * step_size**2 * (curvature + jnp.vdot(gradient, gradient))

    def corrected(momentum: Vector, end: Vector) -> Scalar:
        return -0.5 * step_size**2 * (gradient_and_curvature(density, position, end)[1] - jnp.vdot(gradient, gradient))

    def exact(momentum: Vector, end: Vector) -> Scalar:
        change = density(position + step_size * end) - density(position)
        return change - 0.5 * (jnp.vdot(end, end) - jnp.vdot(momentum, momentum))

    positions = jnp.broadcast_to(position, momenta.shape)
    local_gradient, local_curvature = local_derivatives(positions, momenta, shards)
    gradient, curvature = local_gradient.mean(axis=0), local_curvature.mean()
    rules: dict[str, Callable[[Vector, Vector], Scalar]]
    rules = {"published": published, "corrected": corrected, "exact": exact}
    ends = momenta + step_size * gradient
    return gradient, curvature, {name: jax.vmap(rules[name])(momenta, ends) for name in which}


class Together(NamedTuple):
    """A chain whose agents are all at one point after every step: ω̃ or ω̂."""

    position: Vector
    gradient: Vector  # g that led there
    curvature: Scalar  # ℵ
    accepted: jax.Array  # by whom


def step_together(
    position: Vector,
    momenta: jax.Array,
    log_uniforms: jax.Array,
    step_size: Scalar,
    shards: jax.Array,
    ratio: str | None,
) -> Together:
    """ω ← the mean over i of ω + ε(p_i + εg) where agent i accepts, and of ω where not. No ratio: all accept."""
    which = () if ratio is None else (ratio,)
    gradient, curvature, log_ratios = together_ratios(position, momenta, step_size, shards, which)
    accepted = jnp.ones(len(shards), bool) if ratio is None else log_ratios[ratio] >= log_uniforms
    proposals = position + step_size * (momenta + step_size * gradient)
    moved = jnp.where(accepted[:, None], proposals, position).mean(axis=0)
    return Together(moved, gradient, curvature, accepted)


def disagreement(values: jax.Array) -> Scalar:
    """The mean over agents of the squared distance to their mean."""
    return ((values - values.mean(axis=0)) ** 2).sum() / len(values)


def noise(key: Key, runs: int) -> tuple[jax.Array, jax.Array]:
    """p_i and log u_i of one iteration, (run, agent, ...)."""
    momentum_key, uniform_key = jax.random.split(key)
    momenta = jax.random.normal(momentum_key, (runs, AGENTS, DIMENSION))
    return momenta, jnp.log(jax.random.uniform(uniform_key, (runs, AGENTS)))


def stratified_log_uniforms(key: Key, runs: int, horizon: int, step_size: Scalar) -> tuple[jax.Array, jax.Array]:
    """log u, (t, run, agent), and the weights of the runs, with which averages are what plain uniforms give.

    At small ε a proposal is rejected only by u > 1 - δ, δ = RISK ε² or so: hardly any run has a rejection. So every
    other run is drawn from those with at least one u in that zone, the rest from those with none, and each is weighted
    by twice its stratum's probability. The first u in the zone has the law of a geometric variable that is cut off.
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
    key: Key,
    step_sizes: jax.Array,
    pool: jax.Array,
    shards: jax.Array,
    weights: jax.Array,
    groups: int,
    runs: int,
    horizon: int,
) -> dict[str, jax.Array]:
    """Mean squared disagreement of ω, g and ℵ after every step, (ε, t, group), from agreed starts drawn from π."""

    def at(inputs: tuple[Key, Scalar]) -> dict[str, jax.Array]:
        key, step_size = inputs
        start_key, key = jax.random.split(key)
        step = jax.vmap(partial(step_agents, step_size=step_size, shards=shards, weights=weights))

        def iterate(state: Agents, key: Key) -> tuple[Agents, dict[str, jax.Array]]:
            state, _ = step(state, *noise(key, groups * runs))
            found = {
                "position": state.position,
                "gradient": state.gradient,
                "curvature": state.curvature[..., None],
            }
            squares = {name: jax.vmap(disagreement)(values) for name, values in found.items()}
            return state, {name: square.reshape(groups, runs).mean(axis=1) for name, square in squares.items()}

        start = jax.vmap(start_agents, (0, None))(starts(start_key, pool, groups * runs), shards)
        return jax.lax.scan(iterate, start, jax.random.split(key, horizon))[1]

    return jax.lax.map(at, (jax.random.split(key, len(step_sizes)), step_sizes))


class Coupled(NamedTuple):
    """The chains that share p and u. The average ω̄ is that of the agents."""

    agents: Agents
    stacked: Vector  # ω̃
    centralized: Vector  # ω̂
    free_agents: Agents  # without Metropolis steps
    free_stacked: Vector  # which is ω̂, too, where nothing is rejected


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
    """One step of all, and what is measured after it."""
    shared = (momenta, log_uniforms, step_size, shards)
    agents, accepted = step_agents(state.agents, *shared, weights)
    free_agents, _ = step_agents(state.free_agents, *shared, weights, metropolis=False)
    stacked = step_together(state.stacked, *shared, "published")
    centralized = step_together(state.centralized, *shared, "exact")
    free_stacked = step_together(state.free_stacked, *shared, None)
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
    key: Key,
    step_sizes: jax.Array,
    pool: jax.Array,
    shards: jax.Array,
    weights: jax.Array,
    groups: int,
    runs: int,
    horizon: int,
) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
    """What `step_coupled` measures, (ε, group): after the last step, and averaged over steps."""

    def at(inputs: tuple[Key, Scalar]) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        key, step_size = inputs
        start_key, uniform_key, key = jax.random.split(key, 3)
        log_uniforms, shares = stratified_log_uniforms(uniform_key, groups * runs, horizon, step_size)
        step = jax.vmap(partial(step_coupled, step_size=step_size, shards=shards, weights=weights))

        def iterate(state: Coupled, inputs: tuple[Key, jax.Array]) -> tuple[Coupled, dict[str, jax.Array]]:
            key, log_uniforms = inputs
            state, found = step(state, jax.random.normal(key, (groups * runs, AGENTS, DIMENSION)), log_uniforms)
            return state, {name: (shares * v).reshape(groups, runs).mean(axis=1) for name, v in found.items()}

        start = jax.vmap(start_coupled, (0, None))(starts(start_key, pool, groups * runs), shards)
        found = jax.lax.scan(iterate, start, (jax.random.split(key, horizon), log_uniforms))[1]
        return {name: v[-1] for name, v in found.items()}, {name: v.mean(axis=0) for name, v in found.items()}

    return jax.lax.map(at, (jax.random.split(key, len(step_sizes)), step_sizes))


# --- all of it ------------------------------------------------------------------------------------------


def theory(scale: Scale | None = None, seed: int = 0) -> Outcome:
    """Measure the three theorems, in double precision."""
    scale = scale or Scale()
    network = Network.ring(AGENTS)
    ratio_steps, consensus_steps, coupled_steps = (
        np.geomspace(*steps) for steps in (scale.ratio_steps, scale.consensus_steps, scale.coupled_steps)
    )
    with jax.enable_x64():
        keys = jax.random.split(jax.random.key(seed), 4)
        shards, weights = jnp.asarray(examples()), jnp.asarray(network.weights)
        pool = posterior_draws(keys[0], shards, scale.pool)
        errors = jax.device_get(
            ratio_errors(keys[1], jnp.asarray(ratio_steps), pool, shards, scale.groups, scale.ratio_draws)
        )
        spread = jax.device_get(
            consensus(
                keys[2],
                jnp.asarray(consensus_steps),
                pool,
                shards,
                weights,
                scale.groups,
                scale.consensus_runs,
                scale.consensus_horizon,
            )
        )
        last, mean = jax.device_get(
            coupled(
                keys[3],
                jnp.asarray(coupled_steps),
                pool,
                shards,
                weights,
                scale.groups,
                scale.coupled_runs,
                scale.horizon,
            )
        )

    late = np.arange(int(GROWTH_FROM * scale.consensus_horizon), scale.consensus_horizon)
    measured: dict[str, tuple[np.ndarray, np.ndarray]]
    measured = {name: (ratio_steps, groups) for name, groups in errors.items()}
    measured |= {name: (consensus_steps, groups[:, -1]) for name, groups in spread.items()}
    measured |= {name: (coupled_steps, groups) for name, groups in last.items()}
    measured["first gradient"] = consensus_steps, spread["gradient"][:, 0]
    measured["growth"] = late + 1.0, spread["position"][-1, late]
    measured["decisions differ"] = coupled_steps, mean["decisions differ"]

    def over_nothing(ratio: str, step: str) -> float:
        return float(np.sqrt(errors[ratio][0].mean() / errors[f"{step} nothing"][0].mean()))

    return Outcome(
        scale,
        seed,
        network,
        {claim.name: Curve(claim, *measured[claim.name]) for claim in CLAIMS},
        {name: over_nothing(name, step) for name, step in STEP_OF_RATIO.items()},
        {name: np.sqrt(spread[name].mean(axis=-1)) for name in ("position", "gradient")},
        mean["rejected"].mean(axis=1),
    )


def table(outcome: Outcome) -> str:
    """The claims and what was measured, as Markdown."""
    lines = [
        "| theorem | quantity | claim | measured slope | 95 % interval | range | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    for curve in outcome.curves.values():
        claim, slope = curve.claim, curve.slope
        growth = claim.kind == "growth"
        sign = "bounded" if growth else power(claim.exponent)
        cells = [
            claim.theorem,
            claim.quantity,
            f"{sign}, {claim.source}",
            f"{slope.value:z.3f}",
            f"{slope.low:z.3f} to {slope.high:z.3f}",
            f"{'t' if growth else 'ε'} = {curve.at[0]:g} to {curve.at[-1]:g}",
            curve.verdict,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def power(exponent: float) -> str:
    """ε with its exponent, as 3 is written ε³ and 2.5 is ε²·⁵."""
    return "ε" + f"{exponent:g}".translate(str.maketrans("0123456789.", "⁰¹²³⁴⁵⁶⁷⁸⁹·"))
