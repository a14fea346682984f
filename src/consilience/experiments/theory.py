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

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._lazy import LazyModule
from ..network import Network
from .theory_chains import consensus, coupled
from .theory_ratios import STEP_OF_RATIO, ratio_errors
from .theory_target import AGENTS, Setting, examples, posterior_draws

special: Any = LazyModule("scipy.special")

CONFIDENCE = 0.95
MARGIN = 0.1  # how far from its limit a slope over a finite range of ε may lie
GROWTH_FROM = 0.1  # the part of the horizon after which growth in t is looked for: the start is forgotten by then


@dataclass(frozen=True)
class TheorySizes:
    """Sizes of the measurements: numbers of runs and steps, and ranges of the step size ε.

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
class OrderClaim:
    """A claim about the order of a quantity in ε, or about its growth in t.

    Attributes:
      theorem: "3.1", "3.2" or "3.3".
      exponent: of ε, or of t.
      source: "paper", or "ours".
      kind: "bound": the quantity is at most C ε^exponent, which a larger exponent satisfies as well. "order": it has
        this exponent. "growth": it grows no faster than t^exponent.
      root: whether the quantity is the square root of what is averaged.
    """

    theorem: str
    name: str
    quantity: str
    exponent: float
    source: str
    kind: str
    root: bool = False


CLAIMS = (
    OrderClaim("3.1", "published", "published log ρ, Euler step: rms error", 3, "paper", "bound", root=True),
    OrderClaim("3.1", "corrected", "corrected log ρ, Euler step: rms error", 3, "ours", "order", root=True),
    OrderClaim("3.1", "trapezoid", "trapezoid log ρ, leapfrog step: rms error", 3, "ours", "order", root=True),
    OrderClaim("3.1", "leapfrog nothing", "log ρ = 0, leapfrog step: rms error", 3, "ours", "order", root=True),
    OrderClaim("3.1", "one step, published", "E‖ω̃ - ω̂‖² after one step, published ratio", 5, "paper", "bound"),
    OrderClaim("3.1", "one step, corrected", "E‖ω̃ - ω̂‖² after one step, corrected ratio", 5, "ours", "order"),
    OrderClaim(
        "3.1", "stacked to centralized, squared", "E‖ω̃ - ω̂‖² after T steps, published ratio", 5, "paper", "bound"
    ),
    OrderClaim("3.2", "position", "rms disagreement in ω, late", 1, "paper", "bound", root=True),
    OrderClaim("3.2", "gradient", "rms disagreement in g, late", 1, "paper", "bound", root=True),
    OrderClaim("3.2", "first gradient", "rms disagreement in g, after one step", 1, "paper", "bound", root=True),
    OrderClaim("3.2", "curvature", "rms disagreement in ℵ, late", 1, "paper", "bound", root=True),
    OrderClaim("3.2", "growth", "rms disagreement in ω, as t grows", 0, "paper", "growth", root=True),
    OrderClaim("3.3", "stacked to average", "E‖ω̃ - ω̄‖ after T steps", 3, "paper", "bound"),
    OrderClaim("3.3", "stacked to average, free", "E‖ω̃ - ω̄‖ after T steps, no Metropolis", 3, "paper", "bound"),
    OrderClaim("3.3", "stacked to average, gradient", "E‖g̃ - ḡ‖ after T steps", 3, "paper", "bound"),
    OrderClaim("3.3", "stacked to average, curvature", "E‖ℵ̃ - ℵ̄‖ after T steps", 3, "paper", "bound"),
    OrderClaim("3.3", "stacked to average, squared", "rms of ω̃ - ω̄ after T steps", 2, "ours", "order", root=True),
    OrderClaim("3.3", "decisions differ", "rate of decisions that differ, ω̃ and ω", 2, "ours", "order"),
    OrderClaim("3.3", "centralized to average", "E‖ω̂ - ω̄‖ after T steps", 2.5, "paper", "bound"),
)


@dataclass(frozen=True)
class ScalingCurve:
    """A quantity against ε (or t), and how its exponent compares with the claim.

    Attributes:
      at: the values of ε, or of t.
      groups: means over each group of runs, (point, group), of the quantity, or of its square where it is a root.
    """

    claim: OrderClaim
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
        """Verdict of the slope's interval on the claim, with MARGIN for the bend of a finite range."""
        low, high = self.slope.low - self.claim.exponent, self.slope.high - self.claim.exponent
        if self.claim.kind == "growth":
            low, high = -high, -low
        if low >= -MARGIN and (self.claim.kind != "order" or high <= MARGIN):
            return "holds"
        if high < -MARGIN or (self.claim.kind == "order" and low > MARGIN):
            return "fails"
        return "undecided"


@dataclass(frozen=True)
class TheoryOutcome:
    """Measurements of the three theorems.

    Attributes:
      curves: measured quantities, by the claim's name.
      over_nothing: rms error of log ρ over that of log ρ = 0 for the same step, at the smallest ε, by ratio.
      course: rms disagreement of the agents in ω and in g after every step, (ε, t), by name.
      rejected: the agents' rate of rejection in the coupled runs, (ε,).
    """

    sizes: TheorySizes
    seed: int
    network: Network
    curves: dict[str, ScalingCurve]
    over_nothing: dict[str, float]
    course: dict[str, np.ndarray]
    rejected: np.ndarray


def fit(at: np.ndarray, groups: np.ndarray) -> Slope:
    """Fit the slope of log mean(groups) in log at, by least squares; its interval is by the jackknife over groups."""
    count = groups.shape[1]
    centred = np.log(at) - np.log(at).mean()
    weights = centred / (centred @ centred)
    without_one = (groups.sum(axis=1, keepdims=True) - groups) / (count - 1)
    value = float(weights @ np.log(groups.mean(axis=1)))
    left_out = weights @ np.log(without_one)
    error = float(np.sqrt((count - 1) / count * ((left_out - left_out.mean()) ** 2).sum()))
    width = error * float(special.stdtrit(count - 1, 0.5 + CONFIDENCE / 2))
    return Slope(value, value - width, value + width)


def theory(sizes: TheorySizes | None = None, seed: int = 0) -> TheoryOutcome:
    """Measure the three theorems, in double precision."""
    sizes = sizes or TheorySizes()
    network = Network.ring(AGENTS)
    ratio_steps, consensus_steps, coupled_steps = (
        np.geomspace(*steps) for steps in (sizes.ratio_steps, sizes.consensus_steps, sizes.coupled_steps)
    )
    with jax.enable_x64():
        keys = jax.random.split(jax.random.key(seed), 4)
        shards = jnp.asarray(examples())
        setting = Setting(posterior_draws(keys[0], shards, sizes.pool), shards, jnp.asarray(network.weights))
        groups = sizes.groups
        found = (
            ratio_errors(keys[1], ratio_steps, setting, groups, sizes.ratio_draws),
            consensus(keys[2], consensus_steps, setting, groups, sizes.consensus_runs, sizes.consensus_horizon),
            coupled(keys[3], coupled_steps, setting, groups, sizes.coupled_runs, sizes.horizon),
        )
        errors, spread, (last, mean) = jax.device_get(found)

    late = np.arange(int(GROWTH_FROM * sizes.consensus_horizon), sizes.consensus_horizon)
    measured: dict[str, tuple[np.ndarray, np.ndarray]]
    measured = {name: (ratio_steps, means) for name, means in errors.items()}
    measured |= {name: (consensus_steps, means[:, -1]) for name, means in spread.items()}
    measured |= {name: (coupled_steps, means) for name, means in last.items()}
    measured["first gradient"] = consensus_steps, spread["gradient"][:, 0]
    measured["growth"] = late + 1.0, spread["position"][-1, late]
    measured["decisions differ"] = coupled_steps, mean["decisions differ"]

    def over_nothing(ratio: str, step: str) -> float:
        return float(np.sqrt(errors[ratio][0].mean() / errors[f"{step} nothing"][0].mean()))

    return TheoryOutcome(
        sizes,
        seed,
        network,
        {claim.name: ScalingCurve(claim, *measured[claim.name]) for claim in CLAIMS},
        {name: over_nothing(name, step) for name, step in STEP_OF_RATIO.items()},
        {name: np.sqrt(spread[name].mean(axis=-1)) for name in ("position", "gradient")},
        mean["rejected"].mean(axis=1),
    )


def power(exponent: float) -> str:
    """Return ε with its exponent as text: 3 gives ε³, and 2.5 gives ε²·⁵."""
    return "ε" + f"{exponent:g}".translate(str.maketrans("0123456789.", "⁰¹²³⁴⁵⁶⁷⁸⁹·"))
