"""`desgld`, `desghmc`, `diging`, `extra`: Langevin steps between rounds of gossip, the literature's baselines.

One family, U_i = -ℓ_i the agents' parts of -log π and W the network's mixing matrix:

    ω ← Wω - η·drift + √(2η)·noise ,      the noise each agent's own, no Metropolis step

Averaged over the agents it is a Langevin step of size η/m along ∇U = Σ_i ∇U_i with noise of variance 2η/m, so that as
η → 0 the network mean, and with it every agent, samples π at its right temperature.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from .._checks import check_positive, whole_number
from .._refused import Refused
from .._types import Count, Key, LogDensity, Number, Vector
from ..model import LocalLogDensity
from ..neighbors import Neighbors
from ..network import Network
from .base import Kernel, Sampler, own_key
from .metropolis import Unadjusted
from .settings import register_settings, static

S = TypeVar("S", bound="GossipLangevin")
Slope = Callable[[Vector], Vector]  # ∇U_i, or an estimate of it


class LangevinNoise(NamedTuple):
    normal: Vector  # ξ_i ~ N(0, I)
    uniforms: jax.Array | None  # select the examples of the minibatch; None without one


@dataclass(frozen=True, eq=False)
class GossipLangevin(Sampler):
    """Base class of DESGLD, DESGHMC, DIGing and EXTRA: settings, gradients, noise. Each adds its state and update."""

    step_size: Number
    _: KW_ONLY
    batch_size: int | None = static(None)

    name = "gossip_langevin"
    corrects_heterogeneity = False

    @property
    def bias(self) -> str:
        text = (
            "no Metropolis step corrects its constant steps, and every agent keeps noise of its own that mixing has "
            "not averaged out: its variances are off by O(step_size)."
        )
        if not self.corrects_heterogeneity:
            text += " Agents with unlike data settle apart from each other and from the posterior mean."
        if self.batch_size is not None:
            text += " The noise of its minibatch gradients comes on top."
        return text

    def __post_init__(self) -> None:
        check_positive(f"{self.name}: step_size", self.step_size)
        if self.batch_size is not None:
            whole_number(f"{self.name}: batch_size (a number of examples, or None for all)", self.batch_size, 1)

    def resolve(self: S, network: Network, dimension: int, num_warmup: int = 0) -> S:
        return self

    def build(self, logdensity: LogDensity, neighbors: Neighbors, like: Vector) -> Kernel:
        settings = jax.tree.map(lambda number: jnp.asarray(number, like.dtype), self)
        full = _slope(logdensity)

        def init(position: Vector) -> Any:
            return settings.start(position, full)

        def noise(key: Key) -> LangevinNoise:
            for_normal, for_batch = jax.random.split(own_key(key, neighbors))
            uniforms = None
            if self.batch_size is not None:
                uniforms = jax.random.uniform(for_batch, (self.batch_size,), like.dtype)
            return LangevinNoise(jax.random.normal(for_normal, like.shape, like.dtype), uniforms)

        def move(noise: LangevinNoise, state: Any) -> tuple[Any, Unadjusted]:
            slope = full if noise.uniforms is None else _slope(_minibatch(logdensity, noise.uniforms))
            moved = settings.update(state, slope, noise.normal, neighbors)
            return moved._replace(iteration=state.iteration + 1), Unadjusted()

        return Kernel(init, noise, move)

    @abstractmethod
    def start(self, position: Vector, slope: Slope) -> Any:
        """Return the first state; `slope` is ∇U_i over all examples."""

    @abstractmethod
    def update(self, state: Any, slope: Slope, normal: Vector, neighbors: Neighbors) -> Any:
        """Return the next state, with the iteration number not yet updated."""


def _slope(logdensity: LogDensity) -> Slope:
    return jax.grad(lambda w: -logdensity(w))


def _minibatch(logdensity: LogDensity, uniforms: jax.Array) -> LogDensity:
    if not isinstance(logdensity, LocalLogDensity):
        reason = "it needs a log density that is a sum over examples, as cs.sample makes it of a cs.Posterior"
        raise Refused("batch_size", reason, "Leave it out for any other.")
    return lambda w: logdensity.minibatch(w, uniforms)


def _zero() -> Count:
    return jnp.zeros((), jnp.int32)


# --- DE-SGLD -------------------------------------------------------------------------------------------


class DESGLDState(NamedTuple):
    position: Vector  # ω_i
    iteration: Count


@register_settings
@dataclass(frozen=True, eq=False)
class DESGLD(GossipLangevin):
    """Decentralized stochastic gradient Langevin, DE-SGLD (Gürbüzbalaban, Gao, Hu and Zhu 2021), with a constant step.

        ω_i ← [Wω]_i - η ∇U_i(ω_i) + √(2η) ξ_i ,      ξ_i ~ N(0, I)

    One round of gossip an iteration, with one vector.

    **Known bias**, all of it O(η): the discretisation's, about η|∇²U|/(2m) of the variance and more where the agents'
    curvatures differ; the agent's own noise, about 2η Σ_{k≥2} u_ik²/(1 - λ_k²) on top of every variance (λ_k, u_k
    eigenpairs of W); and heterogeneity: agents with unlike data stay apart by about η(I - W)⁺∇U, and their mean off
    the posterior's. Minibatches add η² times their gradient's variance to the 2η of the noise.

    Args:
      step_size: η. Diverges from about (1 + λ_min(W))/L on, L the largest curvature of a U_i; no value is refused.
      batch_size: examples per gradient, drawn with replacement. None: all.
    """

    name = "desgld"

    def start(self, position: Vector, slope: Slope) -> DESGLDState:
        return DESGLDState(position, _zero())

    def update(self, state: DESGLDState, slope: Slope, normal: Vector, neighbors: Neighbors) -> DESGLDState:
        eta = self.step_size
        position = neighbors.mix(state.position) - eta * slope(state.position) + jnp.sqrt(2 * eta) * normal
        return state._replace(position=position)


# --- DE-SGHMC ------------------------------------------------------------------------------------------


class DESGHMCState(NamedTuple):
    position: Vector  # ω_i
    velocity: Vector  # v_i
    iteration: Count


@register_settings
@dataclass(frozen=True, eq=False)
class DESGHMC(GossipLangevin):
    """DE-SGHMC of Gürbüzbalaban, Gao, Hu and Zhu (2021): underdamped Langevin; positions are mixed, velocities are not.

        v_i ← v_i - η [γ v_i + ∇U_i(ω_i)] + √(2γη) ξ_i ,      ξ_i ~ N(0, I)
        ω_i ← [Wω]_i + η v_i                                  with the new v_i; at first v_i = 0

    The mean velocity has variance 1/m, which with the mean force ∇U/m makes the network mean sample π as η → 0.
    One round of gossip an iteration, with one vector.

    **Known bias**, all of it O(η): the discretisation's; the agent's own noise, which here moves its variance up or
    down; and heterogeneity: agents with unlike data stay apart by about (η/γ)(I - W)⁺∇U, their mean off π's.
    Minibatches add η/(2γ) times their gradient's variance to a velocity's.

    Args:
      step_size: η. Stable for η²L < (1 + λ_min(W))(2 - ηγ), L the largest curvature of a U_i; no value is refused.
      friction: γ.
      batch_size: examples per gradient, drawn with replacement. None: all.
    """

    friction: Number

    name = "desghmc"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(f"{self.name}: friction", self.friction)

    def start(self, position: Vector, slope: Slope) -> DESGHMCState:
        return DESGHMCState(position, jnp.zeros_like(position), _zero())

    def update(self, state: DESGHMCState, slope: Slope, normal: Vector, neighbors: Neighbors) -> DESGHMCState:
        eta, gamma = self.step_size, self.friction
        force = gamma * state.velocity + slope(state.position)
        velocity = state.velocity - eta * force + jnp.sqrt(2 * gamma * eta) * normal
        return state._replace(position=neighbors.mix(state.position) + eta * velocity, velocity=velocity)


# --- DIGing-SGLD ---------------------------------------------------------------------------------------


class DIGingState(NamedTuple):
    position: Vector  # ω_i
    tracker: Vector  # y_i, which follows the network mean of the ∇U_j
    slope: Vector  # ∇U_i(ω_i) as it was computed, on its minibatch
    iteration: Count


@register_settings
@dataclass(frozen=True, eq=False)
class DIGing(GossipLangevin):
    """DIGing-SGLD (Bajwa, Gürbüzbalaban, Kutbay, Zhu and Zulqarnain 2025): gradient tracking, on a fixed network.

        ω_i ← [Wω]_i - η y_i + √(2η) ξ_i ,                    ξ_i ~ N(0, I)
        y_i ← [Wy]_i + ∇U_i(new ω_i) - ∇U_i(old ω_i)          at first y_i = ∇U_i(ω_i)

    Σ_i y_i = Σ_i ∇U_i(ω_i) at all times. With minibatches the old gradient is the one that was computed then, the first
    that of all examples. One round of gossip an iteration, ω_i and y_i in one message.

    **Known bias**: O(η) of the discretisation, about η|∇²U|/(2m) of the variance, and the agent's own noise, which here
    comes back through the tracked gradients. Without noise all agents would find the same point, so unlike data do not
    set their means apart. Minibatches add η² times their gradient's variance to the 2η of the noise.

    Args:
      step_size: η. Stable below the order of (1 - β)²/L, β the second largest |λ(W)|, L the largest curvature of a U_i;
        no value is refused.
      batch_size: examples per gradient, drawn with replacement. None: all.
    """

    name = "diging"
    corrects_heterogeneity = True

    def start(self, position: Vector, slope: Slope) -> DIGingState:
        first = slope(position)
        return DIGingState(position, first, first, _zero())

    def update(self, state: DIGingState, slope: Slope, normal: Vector, neighbors: Neighbors) -> DIGingState:
        eta = self.step_size
        position, tracker = neighbors.mix((state.position, state.tracker))
        position = position - eta * state.tracker + jnp.sqrt(2 * eta) * normal
        now = slope(position)
        return state._replace(position=position, tracker=tracker + now - state.slope, slope=now)


# --- EXTRA-SGLD ----------------------------------------------------------------------------------------


class EXTRAState(NamedTuple):
    position: Vector  # ω_i
    dual: Vector  # q_i, half of the sum of all ω_i - [Wω]_i so far
    iteration: Count


@register_settings
@dataclass(frozen=True, eq=False)
class EXTRA(GossipLangevin):
    """EXTRA-SGLD (Gürbüzbalaban, Islam, Wang and Zhu 2024) with EXTRA's usual W̃ = (I + W)/2, in primal-dual form.

        ω_i ← [Wω]_i - q_i - η ∇U_i(ω_i) + √(2η) ξ_i ,        ξ_i ~ N(0, I)
        q_i ← q_i + ½ (ω_i - [Wω]_i)                          with the old ω; at first q_i = 0

    Σ_i q_i = 0 at all times. Without noise this is EXTRA of Shi, Ling, Wu and Yin (2015):
    ω'' = (I + W)ω' - W̃ω - η(∇U(ω') - ∇U(ω)). One round of gossip an iteration, with one vector.

    **Known bias**: O(η) of the discretisation, about η|∇²U|/(2m) of the variance, and the agent's own noise, of which q
    leaves more than W alone does. Without noise all agents would find the same point, so unlike data do not set
    their means apart. Minibatches add η² times their gradient's variance to the 2η of the noise.

    Args:
      step_size: η. Stable below the order of (1 + λ_min(W))/L, L the largest curvature of a U_i; no value is refused.
      batch_size: examples per gradient, drawn with replacement. None: all.
    """

    name = "extra"
    corrects_heterogeneity = True

    def start(self, position: Vector, slope: Slope) -> EXTRAState:
        return EXTRAState(position, jnp.zeros_like(position), _zero())

    def update(self, state: EXTRAState, slope: Slope, normal: Vector, neighbors: Neighbors) -> EXTRAState:
        eta = self.step_size
        mixed = neighbors.mix(state.position)
        position = mixed - state.dual - eta * slope(state.position) + jnp.sqrt(2 * eta) * normal
        return state._replace(position=position, dual=state.dual + 0.5 * (state.position - mixed))
