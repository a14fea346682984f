"""`dmala`: gradient-tracking decentralized MALA, corrected."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from .._checks import check_one_of, whole_number
from .._types import Count, Flag, Key, LogDensity, Number, Scalar, Vector
from ..neighbors import Neighbors
from ..network import Averaging, Network, averaging, averaging_with
from .adaptation import Adaptation, TunedSampler, WindowAdaptation
from .base import Kernel
from .mass import kinetic_energy, momentum_of, velocity
from .metropolis import MetropolisNoise, log_acceptance, metropolis_noise, select
from .settings import register_settings, static
from .starting import FirstStart, Moves, Start, started_kernel

ANCHOR_EVERY = 1000  # iterations
LARGEST_CONTRACTION = 0.13  # up to which no bias was seen on any network tried


class DMALAState(NamedTuple):
    position: Vector  # ω_i
    gradient: Vector  # g_i, the tracked network mean of the ∇ℓ_j
    local_value: Scalar  # ℓ_i(ω_i)
    local_gradient: Vector  # ∇ℓ_i(ω_i)
    adaptation: Adaptation
    iteration: Count


class DMALAInfo(NamedTuple):
    acceptance_rate: Scalar
    is_accepted: Flag
    step_size: Scalar


class StartedDMALAInfo(NamedTuple):
    acceptance_rate: Scalar
    is_accepted: Flag
    step_size: Scalar
    start_used: Flag
    start_second_mode: Scalar
    start_spread: Scalar
    start_sums: Count


Counting = Callable[[], AbstractContextManager]  # in which collectives are counted, where that needs to be said


@register_settings
@dataclass(frozen=True, eq=False)
class DMALA(TunedSampler):
    """Decentralized gradient-tracking MALA over gossip: the paper's idea with drift, energy and decisions corrected.

    All agents draw the same momentum p ~ N(0, M) and u; one leapfrog step of ε = `step_size`, A the averaging of
    `rounds` rounds:

        p½ = p + ½ε m g_i ;            ω*_i = [A (ω + ε M⁻¹ p½)]_i
        g*_i = [A (g + ∇ℓ(ω*) - ∇ℓ(ω))]_i ;      p*_i = p½ + ½ε m g*_i
        log ρ = Σ_i [ℓ_i(ω*_i) - ℓ_i(ω_i)] - ½ mean_i (p*_iᵀM⁻¹p*_i - pᵀM⁻¹p)                 energy="exact"
        log ρ = -(ε²/8) m² mean_i (g*_iᵀM⁻¹g*_i - g_iᵀM⁻¹g_i)                                energy="trapezoid"
        accepted by all if log ρ ≥ log u, by none otherwise; then (ω, g, ∇ℓ) stay as they were everywhere

    g starts at the exact mean of the ∇ℓ_i, by one sum over the tree: started at the agents' own gradients it would stay
    there until a proposal made with them is accepted. Every thousand iterations it is set to that mean again, because
    rounding moves Σ g_i away from Σ ∇ℓ_i.

    **Known bias.** Averaging by gossip leaves the agents slightly apart, so the step is reversible only nearly: with
    `rounds="auto"` variances come out within a few percent. The trapezoid rule for the energy, which needs gradients
    alone, is moreover exact for Gaussian posteriors only. `cs.mala` is exact and sends fewer messages, all of them over
    a spanning tree; here the tree carries one number an iteration, and a vector at the start, at the end of a warm-up's
    windows and every thousand iterations.

    With `start="surrogate"` start, mass matrix and step size come from a surrogate of the posterior, as those of
    `cs.nuts` do, in a warm-up of 150 iterations. Its fit takes tens of exact sums of gradients and Hessians, over the
    tree.

    An iteration costs 2·rounds rounds of gossip with a vector each, the exact sum of a number, and a flooded decision.

    Args:
      step_size: ε. None: found during warm-up. With a start from a surrogate, in units of the surrogate's sd where
        that is used, of ω where it is of no use.
      inverse_mass_matrix: M⁻¹: a number, a vector or a matrix. None: a diagonal, found during warm-up, the same on all
        agents: they average what their draws say at the end of each window.
      rounds: rounds of each averaging. "auto": those of a Chebyshev polynomial that shrinks disagreement to a tenth, or
        of the finite-time polynomial, which ends it, if not more. A number: the best that at most so many rounds can
        do, with a warning where that is too little.
      energy: the formula for log ρ, "exact" or "trapezoid".
      target_acceptance: the acceptance rate that the step size is tuned for.
      start: "surrogate": take start, mass matrix and step size from a surrogate; a step size that is given is kept, in
        those units. None: begin where the run says.
    """

    _: KW_ONLY
    target_acceptance: Number = 0.65
    factors: Any = field(default=None, repr=False)  # filled in by `resolve`, as is the next
    contraction: Number | None = field(default=None, repr=False)
    rounds: int | str = static("auto")
    energy: str = static("exact")

    name = "dmala"
    gossips_averages = True
    has_one_step = True

    @property
    def bias(self) -> str:
        left = "" if self.contraction is None else f" (here {self.contraction:.2g} of the disagreement is left)"
        text = f"approximate: its averages are by gossip{left}, so that its steps are reversible only nearly."
        if self.energy == "trapezoid":
            text += " Its trapezoid energy is biased wherever the posterior is not Gaussian."
        return text

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds != "auto":
            whole_number(f'{self.name}: rounds (a number, or "auto")', self.rounds, 1)
        check_one_of(f"{self.name}: energy", self.energy, ("exact", "trapezoid"))

    def resolve(self, network: Network, dimension: int, num_warmup: int = 0) -> DMALA:
        auto = isinstance(self.rounds, str)
        chosen = averaging(network) if auto else averaging_with(network, int(self.rounds))
        if chosen.contraction > LARGEST_CONTRACTION:
            self._warn_of_too_few(network, chosen)
        factors = jnp.asarray(chosen.factors, dtype=float)
        tuned = super().resolve(network, dimension, num_warmup)
        return replace(tuned, factors=factors, contraction=float(chosen.contraction))

    def _warn_of_too_few(self, network: Network, chosen: Averaging) -> None:
        enough = averaging(network).rounds
        warnings.warn(
            f"dmala: rounds = {self.rounds} shrink the agents' disagreement to δ = {chosen.contraction:.2g} of what it "
            f"was, and only up to {LARGEST_CONTRACTION} is known to be harmless: expect bias and few acceptances. Use "
            f'rounds={enough} or more here, which is what rounds="auto" takes.',
            stacklevel=4,
        )

    def build(self, logdensity: LogDensity, neighbors: Neighbors, like: Vector) -> Kernel:
        def noise(key: Key) -> MetropolisNoise:
            return metropolis_noise(key, None, like)  # of unit mass: the mass matrix is part of the state

        tuning = self.tuning(like)
        if self.start is None:
            chain = _Chain(self, logdensity, neighbors, tuning)

            def move(noise: MetropolisNoise, state: DMALAState) -> tuple[DMALAState, DMALAInfo]:
                moved, info = chain.move(noise, state)
                return moved, DMALAInfo(**info)

            return Kernel(chain.init, noise, move)

        def moves_of(start: Start, tuning: WindowAdaptation) -> Moves:
            chain = _Chain(self, lambda z: logdensity(start.law.place(z)), neighbors, tuning)
            return Moves(chain.init, chain.move)

        first_start = FirstStart(logdensity, neighbors, like, self.fit_settings)
        return started_kernel(self, first_start, tuning, noise, moves_of, lambda info: StartedDMALAInfo(**info))


class _Chain:
    """One agent's side of a chain, in the coordinates of a log density."""

    def __init__(self, sampler: DMALA, logdensity: LogDensity, neighbors: Neighbors, tuning: WindowAdaptation) -> None:
        self.sampler, self.neighbors, self.tuning = sampler, neighbors, tuning
        self.value_and_gradient = jax.value_and_grad(logdensity)

    def init(self, position: Vector) -> DMALAState:
        value, gradient = self.value_and_gradient(position)
        mean = self.neighbors.total(gradient) / self.neighbors.size
        return DMALAState(position, mean, value, gradient, self.tuning.init(), jnp.zeros((), jnp.int32))

    def move(
        self, noise: MetropolisNoise, state: DMALAState, is_idle: Flag | None = None
    ) -> tuple[DMALAState, dict[str, jax.Array]]:
        """Move by one iteration, or not at all where `is_idle`, and return the state and what is said of it by name."""
        state = state._replace(gradient=_anchored(state, self.neighbors, is_idle))
        step_size = state.adaptation.step_size
        if is_idle is None:
            moved, log_ratio, is_accepted = self._step(noise, state, nullcontext, nullcontext)
        else:
            loops = averaging, deciding = self.neighbors.repeated(), self.neighbors.repeated()
            moved, log_ratio, is_accepted = lax.cond(
                is_idle,
                lambda: (state, jnp.full((), -jnp.inf, step_size.dtype), jnp.array(False)),
                lambda: self._step(noise, state, lambda: averaging, lambda: deciding),
            )
            for loop in loops:
                loop.times((~is_idle).astype(jnp.int32), moved)
        info = DMALAInfo(jnp.exp(log_ratio), is_accepted, step_size)._asdict()
        adaptation = self._tuned(state, moved.position, info["acceptance_rate"], is_idle)
        return moved._replace(adaptation=adaptation, iteration=state.iteration + 1), info

    def _step(
        self, noise: MetropolisNoise, state: DMALAState, first: Counting, second: Counting
    ) -> tuple[DMALAState, Scalar, Flag]:
        """Propose, and decide; collectives are counted within `first` and `second`, with one average in each."""
        neighbors, size, factors = self.neighbors, self.neighbors.size, self.sampler.factors
        step_size, mass = state.adaptation.step_size, state.adaptation.inverse_mass_matrix
        p = momentum_of(noise.momentum, mass)
        half = p + 0.5 * step_size * size * state.gradient
        with first():
            position = neighbors.average(state.position + step_size * velocity(mass, half), factors)
        value, local_gradient = self.value_and_gradient(position)
        with second():
            gradient = neighbors.average(state.gradient + local_gradient - state.local_gradient, factors)

        if self.sampler.energy == "exact":
            proposed = half + 0.5 * step_size * size * gradient
            kinetic = kinetic_energy(mass, proposed) - kinetic_energy(mass, p)
            part = value - state.local_value - kinetic / size
        else:
            squares = kinetic_energy(mass, gradient) - kinetic_energy(mass, state.gradient)
            part = -0.25 * step_size**2 * size * squares
        with second():
            log_ratio = log_acceptance(neighbors.total(part))
            # The sum is the same everywhere, but log u is each agent's own computation: one bit decides for all.
            is_accepted = neighbors.all(log_ratio >= noise.log_uniform)
        proposal = DMALAState(position, gradient, value, local_gradient, state.adaptation, state.iteration)
        return select(is_accepted, proposal, state), log_ratio, is_accepted

    def _tuned(self, state: DMALAState, position: Vector, acceptance_rate: Scalar, is_idle: Flag | None) -> Adaptation:
        neighbors, tuning = self.neighbors, self.tuning
        if not tuning.tunes:
            return state.adaptation
        agreement = neighbors.repeated()

        def agree(found: Adaptation) -> Adaptation:
            """Take the mean of the agents' inverse masses, and the root's step size."""
            with agreement:  # the mean goes along with the step size, so that one collective waits for the other
                mean = neighbors.total(found.inverse_mass_matrix) / neighbors.size
                shared = (mean, found.step_size, found.averaging)
                (mass, step_size, averaging), _ = neighbors.follow_root(shared, ())
            return found._replace(step_size=step_size, inverse_mass_matrix=mass, averaging=averaging)

        is_warming_up = tuning.is_warming_up(state.iteration)
        if is_idle is not None:
            is_warming_up &= ~is_idle
        adaptation = lax.cond(
            is_warming_up,
            lambda old: tuning.update(old, state.iteration, position, acceptance_rate, agree),
            lambda old: old,
            state.adaptation,
        )
        agreement.times((is_warming_up & tuning.ends_window(state.iteration)).astype(jnp.int32), adaptation)
        return adaptation


def _anchored(state: DMALAState, neighbors: Neighbors, is_idle: Flag | None) -> Vector:
    """Return g, set to the exact mean every thousand iterations: rounding makes Σ g_i walk away from Σ ∇ℓ_i.

    This is at the start of an iteration, where all that follows depends on it: agents in different processes
    must not be free to order two collectives each in its own way.
    """
    anchoring = neighbors.repeated()

    def exact_mean(local_gradient: Vector) -> Vector:
        with anchoring:
            return neighbors.total(local_gradient) / neighbors.size

    is_due = (state.iteration > 0) & (state.iteration % ANCHOR_EVERY == 0)
    if is_idle is not None:
        is_due &= ~is_idle
    gradient = lax.cond(is_due, exact_mean, lambda _: state.gradient, state.local_gradient)
    anchoring.times(is_due.astype(jnp.int32), gradient)
    return gradient
