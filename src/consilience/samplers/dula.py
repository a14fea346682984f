"""`dula`: decentralized unadjusted Langevin with decaying steps, the paper's decentralized baseline."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp

from .._checks import check_one_of, check_positive, real_number
from .._refused import Refused
from .._types import Count, Key, LogDensity, Number, Scalar, Vector
from ..neighbors import Neighbors
from ..network import Network
from .base import Kernel, Sampler, own_key
from .settings import register_settings, static

PAPER_CONSENSUS_STEP_SIZE = 0.48


class DULAState(NamedTuple):
    position: Vector
    iteration: Count


class DULAInfo(NamedTuple):
    step_size: Scalar  # α_k


@register_settings
@dataclass(frozen=True, eq=False)
class DULA(Sampler):
    """Decentralized unadjusted Langevin of Parayil, Bai, George and Gurram (2020), with full gradients.

    Iteration k of agent i, with a = `step_size`, β₀ = `consensus_step_size`, and a_ij = 1 on the edges:

        ω_i ← ω_i - β_k Σ_j a_ij (ω_i - ω_j) + α_k m ∇ℓ_i(ω_i) + √(2 α_k) v_i ,      v_i ~ N(0, I)
        α_k = a / (k + b₁)^δ₂ ,    β_k = β₀ / (k + b₂)^δ₁ ,    ½ + δ₁ < δ₂ < 1

    **Known bias.** There is no Metropolis step, so steps that do not vanish bias the result, and steps that do shrink
    faster than the chain explores. With `noise="published"`, as written above, the network mean moreover runs at
    temperature 1/m: its variance is 1/m of the posterior's. `noise="corrected"` draws √(2 α_k m) v_i instead.

    Args:
      step_size: a, the appendix's ε.
      noise: "published" or "corrected".
      consensus_step_size: β₀. None: the paper's 0.48, or 1/λ_max(L) where that is less. The iteration diverges where
        β₀ > 2/λ_max(L), L the graph's Laplacian; a value above it warns.
      delta1, delta2, b1, b2: the decay of the two steps; the paper's values by default.
    """

    step_size: Number
    consensus_step_size: Number = None
    delta1: Number = 0.01
    delta2: Number = 0.55
    b1: Number = 230.0
    b2: Number = 230.0
    noise: str = static("published")

    name = "dula"

    @property
    def bias(self) -> str:
        cooling = " and its network mean runs at temperature 1/m" if self.noise == "published" else ""
        return (
            f"D-ULA has no Metropolis step{cooling}; its decaying steps stop exploring before they stop being biased."
        )

    def __post_init__(self) -> None:
        for setting in ("step_size", "b1", "b2", "consensus_step_size"):
            if setting != "consensus_step_size" or self.consensus_step_size is not None:
                check_positive(f"{self.name}: {setting}", getattr(self, setting))
        check_one_of(f"{self.name}: noise", self.noise, ("published", "corrected"))
        delta1, delta2 = real_number(self.delta1), real_number(self.delta2)
        if not (delta1 >= 0 and 0.5 + delta1 < delta2 < 1):
            raise Refused(
                f"{self.name}: delta1 = {self.delta1}, delta2 = {self.delta2}",
                "the steps must decay with 0 ≤ delta1 and ½ + delta1 < delta2 < 1",
                "For example delta1=0.01, delta2=0.55.",
            )

    def resolve(self, network: Network, dimension: int, num_warmup: int = 0) -> DULA:
        # One agent alone has no Laplacian; its consensus term is zero whatever the step.
        limit = 1 / network.laplacian_norm if network.size > 1 else math.inf
        if self.consensus_step_size is None:
            return replace(self, consensus_step_size=min(PAPER_CONSENSUS_STEP_SIZE, limit))
        if network.size > 1 and self.consensus_step_size > 2 * limit:
            warnings.warn(
                f"dula: consensus_step_size = {self.consensus_step_size:g} is above 2/λ_max(L) = {2 * limit:.3g} on "
                f"this network, where mixing drives the agents apart. Use {limit:.3g}, the default here, or less.",
                stacklevel=3,
            )
        return self

    def build(self, logdensity: LogDensity, neighbors: Neighbors, like: Vector) -> Kernel:
        temperature = neighbors.size if self.noise == "corrected" else 1

        def init(position: Vector) -> DULAState:
            return DULAState(position, jnp.zeros((), jnp.int32))

        def noise(key: Key) -> Vector:
            return jax.random.normal(own_key(key, neighbors), like.shape, like.dtype)

        def move(noise: Vector, state: DULAState) -> tuple[DULAState, DULAInfo]:
            k = state.iteration.astype(like.dtype)
            alpha = jnp.asarray(self.step_size / (k + self.b1) ** self.delta2, like.dtype)
            beta = jnp.asarray(self.consensus_step_size / (k + self.b2) ** self.delta1, like.dtype)
            position = (
                state.position
                - beta * neighbors.laplacian(state.position)
                + alpha * neighbors.size * jax.grad(logdensity)(state.position)
                + jnp.sqrt(2 * alpha * temperature) * noise
            )
            return DULAState(position, state.iteration + 1), DULAInfo(alpha)

        return Kernel(init, noise, move)
