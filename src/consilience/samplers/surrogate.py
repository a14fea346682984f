"""`surrogate`: exact draws in tens of sums, by proposals from a surrogate that everybody holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._checks import check, check_one_of, real_number, whole_number
from .._refused import Refused
from .._types import Count, Flag, Key, LogDensity, Number, Scalar, Vector
from ..neighbors import Neighbors
from ..network import Network
from .adaptation import Adaptation, Schedule, WindowAdaptation
from .base import Kernel, Sampler
from .fitting import Fit, FitSettings, Known, draw_proposals, log_surrogate, no_fit, number_of_starts
from .proposals import mixed_density
from .replicated import Algorithm, ReplicatedState, move_replicated, network_logdensity
from .settings import register_settings, static
from .split import flow_of, rotation, split_integrator, steps_of
from .starting import MOST_DENSE, FirstFit
from .weights import choose, report_on

CORRECTIONS = ("auto", "scored", "split")
LEAST_LOG_WEIGHT = -1e30  # where a proposal is impossible
SPLIT_WARMUP, MOST_WARM_STEPS = 60, 4  # iterations in which split trajectories find their step size; steps of each
FIRST_STEP = 0.8  # of them: two make a quarter of a turn


class ScoredProposals(NamedTuple):
    """Proposals of one chain that have been scored, and are used in their order."""

    proposals: jax.Array  # (number, dimension)
    log_weights: jax.Array
    log_uniforms: jax.Array
    pareto_k: Scalar  # of the weights
    largest_share: Scalar  # of all of them, that one has


class SurrogateState(NamedTuple):
    position: Vector
    log_weight: Scalar  # of the position
    block: ScoredProposals
    inner: Any  # BlackJAX's HMCState of split trajectories, in standardised coordinates
    adaptation: Adaptation  # of their step size
    fit: Fit
    iteration: Count

    @classmethod
    def common_fields(cls) -> tuple[str, ...]:
        """Return the fields that are the same for all chains."""
        return ("fit",)


class SurrogateInfo(NamedTuple):
    acceptance_rate: Scalar
    is_accepted: Flag
    is_divergent: Flag
    num_integration_steps: Count
    step_size: Scalar
    redone: Flag
    out_of_step: Flag
    log_weight: Scalar  # of the proposal
    block_pareto_k: Scalar  # of the weights that were scored with it
    block_largest_share: Scalar
    block_proposals: Count
    surrogate_split: Flag
    surrogate_pareto_k: Scalar
    surrogate_acceptance: Scalar
    surrogate_largest_share: Scalar
    surrogate_good: Flag
    surrogate_starts: Count
    surrogate_has_mode: Flag
    surrogate_second_mode: Scalar
    surrogate_local: Flag  # whether proposals come from local chains
    surrogate_correlation: Scalar  # of where these end with where they began
    surrogate_local_r_hat: Scalar
    surrogate_divergences: Scalar  # of theirs
    surrogate_sums: Count


@register_settings
@dataclass(frozen=True, eq=False)
class Surrogate(Sampler):
    """Exact sampling in tens of sums, by a surrogate of the posterior that all agents hold.

    Everybody knows the prior, so only the likelihood is approximated, by the sum of the agents' second-order
    expansions in coordinates φ in which it is nearly quadratic:

        log π_s(q) = log prior(q) + Σ_i [ L_i(q̂) + g_i·(φ(q) - φ̂) + ½ (φ(q) - φ̂)ᵀ H_i (φ(q) - φ̂) ]

    It is found by a damped Newton method over the network, from dispersed starts in the same messages, and improved by
    least squares through trial proposals' scores. Then, with N = `num_proposals` and g = π_s + c·t (t: a Student-t),

        q_1 ... q_N ~ g  independently, without the network;   Σ_i L_i(q_1) ... Σ_i L_i(q_N)  by one sum;
        q ← q_k if log u ≤ log w(q_k) - log w(q),  w = π / g,  at iteration k                 correction="scored"

    is independence Metropolis: exact whatever the surrogate is, since it was fixed before they were drawn, they are
    independent, and each is used once. Where its weights are too unequal, as a trial pass tells, the surrogate moves
    chains instead and the network corrects the force (split Hamiltonian Monte Carlo, Shahbaba et al. 2014), with one
    sum a step and the exact energy, a quarter of a turn an iteration:                     correction="split"

    **Known bias**: none. Proposals under a prior that is not normal come from short local chains, and are draws of g as
    far as these have forgotten their start: the summary prints how far. Modes that no start reached are invisible.

    All of the fit happens in the first iteration. Scored proposals need no warm-up, and the rest of it asks nobody;
    split trajectories take the last 60 iterations of it to find their step size. With a warm-up chains start at trial
    proposals, drawn by weight; without, where they are told to.

    Args:
      num_proposals: N, proposals that a chain scores by one sum; so many draws a chain cost one sum.
      correction: "auto" takes scored proposals where their certificate holds, split trajectories elsewhere.
      target_acceptance: the acceptance rate that split trajectories tune their step for.
    """

    num_proposals: int = static(1000)
    _: KW_ONLY
    correction: str = static("auto")
    target_acceptance: Number = 0.8
    num_warmup: Any = field(default=0, repr=False)  # filled in by `resolve`, as is what follows
    schedule: Schedule = field(default=Schedule(0), repr=False)
    fit_settings: FitSettings = field(default=FitSettings(), repr=False)

    name = "surrogate"
    replicated = True
    common_noise = True
    has_steady_cost = False

    def __post_init__(self) -> None:
        whole_number(f"{self.name}: num_proposals", self.num_proposals, 100)
        check_one_of(f"{self.name}: correction", self.correction, CORRECTIONS)
        target = self.target_acceptance
        check(f"{self.name}: target_acceptance", target, 0 < real_number(target) < 1, "a number between 0 and 1")

    def resolve(self, network: Network, dimension: int, num_warmup: int = 0) -> Surrogate:
        if dimension > MOST_DENSE:
            reason = f"its Hessians of {dimension:,} parameters would fill memory and messages; it takes {MOST_DENSE:,}"
            raise Refused(self.name, reason, 'Take cs.nuts(start="surrogate"), which needs no whole Hessian.')
        schedule = Schedule.of(min(num_warmup, SPLIT_WARMUP))
        return replace(self, num_warmup=num_warmup, schedule=schedule, fit_settings=FitSettings.of(dimension))

    def starting_at(self, position: Vector) -> Surrogate:
        return replace(self, fit_settings=self.fit_settings._replace(origin=position))

    def objection(self, figures: Mapping[str, np.ndarray]) -> Refused | None:
        if np.maximum(figures["surrogate_has_mode"], figures["surrogate_good"]).all():
            return None
        starts = int(figures["surrogate_starts"].flat[0])
        reason = f"no mode was reached from {starts} starts: the posterior rises for ever, or is not finite there"
        fix = "Look at the prior and at the columns' scales, give another start by init=, or take cs.nuts()."
        return Refused(self.name, reason, fix)

    def build(self, logdensity: LogDensity, neighbors: Neighbors, like: Vector) -> Kernel:
        return _Build(self, logdensity, neighbors, like).kernel()


class _Build:
    """The kernel of one agent: what its parts share."""

    def __init__(self, sampler: Surrogate, logdensity: Any, neighbors: Neighbors, like: Vector) -> None:
        self.sampler, self.logdensity, self.neighbors, self.like = sampler, logdensity, neighbors, like
        self.everyone = network_logdensity(logdensity, neighbors)
        self.first_fit = FirstFit(logdensity, neighbors, like, sampler.fit_settings, sampler.num_proposals)
        self.has_normal_prior = self.first_fit.has_normal_prior
        self.tuning = WindowAdaptation(sampler.schedule, sampler.target_acceptance, None, 1.0, False, like)

    def kernel(self) -> Kernel:
        return Kernel(self.init, lambda key: key, self.move)

    def init(self, position: Vector) -> SurrogateState:
        from blackjax.mcmc.hmc import HMCState

        number, zero = self.sampler.num_proposals, jnp.zeros((), position.dtype)
        nothing = jnp.zeros(number, position.dtype)
        return SurrogateState(
            position,
            zero,
            ScoredProposals(jnp.zeros((number, len(position)), position.dtype), nothing, nothing, zero, zero),
            HMCState(jnp.zeros_like(position), zero, jnp.zeros_like(position)),
            self.tuning.beginning_at(zero + FIRST_STEP),
            no_fit(self.first_fit.known()),
            jnp.zeros((), jnp.int32),
        )

    def move(self, key: Key, state: SurrogateState) -> tuple[SurrogateState, SurrogateInfo]:
        for_block, for_start, for_split = jax.random.split(key, 3)
        state = state._replace(fit=self.first_fit.in_first(state.iteration, lambda fit: fit, state.fit))
        drawn = state.iteration - jnp.asarray(self.sampler.num_warmup, jnp.int32)  # below zero: warm-up
        correction, fit = self.sampler.correction, state.fit
        splits = ~fit.is_good if correction == "auto" else jnp.array(correction == "split")
        of_scored = ("log_weight", "block_pareto_k", "block_largest_share")
        said = {name: jnp.zeros((), self.like.dtype) for name in ("acceptance_rate", "step_size", *of_scored)}
        said |= {name: jnp.array(False) for name in ("is_accepted", "is_divergent", "redone", "out_of_step")}
        said |= {"num_integration_steps": jnp.int32(0), "block_proposals": jnp.int32(self.sampler.num_proposals)}
        if correction != "split":
            state, found = self._scored(for_block, self._put(for_start, state, drawn, ~splits), drawn, ~splits)
            said |= found
        if correction != "scored":
            state = self._split_started(for_start, state, drawn, splits)
            state, found = self._split(for_split, state, drawn, splits)
            said |= {name: jnp.where(splits, value, said[name]) for name, value in found.items() if name in said}
        info = SurrogateInfo(
            **said,
            surrogate_split=splits,
            surrogate_pareto_k=fit.report.pareto_k,
            surrogate_acceptance=fit.report.acceptance,
            surrogate_largest_share=fit.report.largest_share,
            surrogate_good=fit.is_good,
            surrogate_starts=jnp.int32(number_of_starts(len(state.position))),
            surrogate_has_mode=fit.has_mode,
            surrogate_second_mode=fit.second_mode,
            surrogate_local=jnp.array(len(fit.crowd.positions) > 0),
            surrogate_correlation=fit.local.correlation,
            surrogate_local_r_hat=fit.local.r_hat,
            surrogate_divergences=fit.local.divergences,
            surrogate_sums=sum(fit.sums, jnp.int32(0)),
        )
        return state._replace(iteration=state.iteration + 1), info

    def _start(self, key: Key, state: SurrogateState, had_warmup: Flag) -> Vector:
        """Return where a chain starts: after a warm-up at one of the trial proposals, by weight, else where it is."""
        proposals, log_weights = state.fit.trial
        chosen = proposals[choose(key, log_weights)]
        return jnp.where(had_warmup & jnp.isfinite(log_weights).any(), chosen, state.position)

    # --- scored proposals ------------------------------------------------------------------------------

    def _put(self, key: Key, state: SurrogateState, drawn: Count, is_used: Flag) -> SurrogateState:
        """Put a chain where it starts, when its warm-up is over."""
        is_due = is_used & (drawn == 0)
        had_warmup = jnp.asarray(self.sampler.num_warmup) > 0
        return state._replace(position=jnp.where(is_due, self._start(key, state, had_warmup), state.position))

    def _scored(
        self, key: Key, state: SurrogateState, drawn: Count, is_used: Flag
    ) -> tuple[SurrogateState, dict[str, jax.Array]]:
        """Move a chain by one scored proposal, after a new block of them has been scored where the last is used up."""
        number, scoring = self.sampler.num_proposals, self.neighbors.repeated()
        is_due = is_used & (drawn >= 0) & (drawn % number == 0)

        def score() -> tuple[Vector, ScoredProposals, Scalar, Flag]:
            known = self.first_fit.known()
            for_draws, for_uniforms = jax.random.split(key)
            fit = state.fit
            proposals, base, *_ = draw_proposals(known, fit.expansion, fit.crowd, for_draws, number)
            points = jnp.concatenate([state.position[None], proposals])
            base = jnp.concatenate([self._log_base(known, fit, state.position)[None], base])
            log_uniforms = -jax.random.exponential(for_uniforms, (number,), self.like.dtype)
            with scoring:
                points, (base, log_uniforms), values = known.ask.score(points, (base, log_uniforms))
            log_weights = values + base
            log_weights = jnp.where(jnp.isfinite(log_weights), log_weights, -jnp.inf)
            # Where a chain starts is each agent's own computation; from there on all have the root's position.
            came_to = jnp.where(drawn == 0, points[0], state.position)
            decides = jnp.concatenate([came_to, points.ravel(), log_weights, log_uniforms])
            with scoring:
                log_weight, is_in_step = self.neighbors.follow_root(log_weights[0], _same_bits(decides))
            said = report_on(log_weights[1:])
            block = ScoredProposals(points[1:], log_weights[1:], log_uniforms, said.pareto_k, said.largest_share)
            return points[0], block, log_weight, is_in_step

        as_it_was = state.position, state.block, state.log_weight, jnp.array(True)
        before, block, log_weight, is_in_step = lax.cond(is_due, score, lambda: as_it_was)
        scoring.times(is_due.astype(jnp.int32), log_weight)
        turn = jnp.maximum(drawn, 0) % number
        proposal, proposed, log_uniform = (leaf[turn] for leaf in block[:3])
        is_moving = is_used & (drawn >= 0)
        log_ratio = proposed - log_weight
        is_accepted = is_moving & ~(log_ratio < log_uniform) & (proposed > -jnp.inf)
        position = jnp.where(is_accepted, proposal, before)
        log_weight = jnp.where(is_accepted, proposed, log_weight)
        said = {
            "acceptance_rate": jnp.where(is_moving, jnp.exp(jnp.minimum(0.0, log_ratio)), 0.0).astype(self.like.dtype),
            "is_accepted": is_accepted,
            "out_of_step": ~is_in_step,
            "log_weight": jnp.where(is_moving & jnp.isfinite(proposed), proposed, LEAST_LOG_WEIGHT),
            "block_pareto_k": block.pareto_k,
            "block_largest_share": block.largest_share,
        }
        return state._replace(position=position, log_weight=log_weight, block=block), said

    def _log_base(self, known: Known, fit: Fit, q: Vector) -> Scalar:
        """Return the log prior less log g at a position."""
        law = fit.crowd.law
        if self.has_normal_prior:
            return known.log_prior(q) - law.log_mixed(q, law.log_density(q))
        return known.log_prior(q) - mixed_density(log_surrogate(known, fit.expansion), fit.crowd)(q)

    # --- split trajectories ----------------------------------------------------------------------------

    def _split_started(self, key: Key, state: SurrogateState, drawn: Count, is_used: Flag) -> SurrogateState:
        """Start split trajectories where they are used."""
        from blackjax.mcmc import hmc

        starting = self.neighbors.repeated()
        warmup = jnp.asarray(self.sampler.schedule.length, jnp.int32)
        is_due = is_used & (drawn == -warmup)

        def start() -> Any:
            position, law = self._start(key, state, warmup > 0), state.fit.crowd.law
            with starting:
                return hmc.init(law.standardise(position), lambda z: self.everyone(law.place(z)))

        inner = lax.cond(is_due, start, lambda: state.inner)
        starting.times(is_due.astype(jnp.int32), inner)
        return state._replace(inner=inner)

    def _split(
        self, key: Key, state: SurrogateState, drawn: Count, is_used: Flag
    ) -> tuple[SurrogateState, dict[str, jax.Array]]:
        """Move a chain by one split trajectory of a quarter of a turn."""
        from blackjax.mcmc import hmc

        law, warmup = state.fit.crowd.law, jnp.asarray(self.sampler.schedule.length, jnp.int32)
        surrogate = log_surrogate(self.first_fit.known(), state.fit.expansion)

        def in_standard(z: Vector) -> Scalar:
            return -0.5 * jnp.vdot(z, z) if self.has_normal_prior else surrogate(law.place(z))

        is_warming_up = self.tuning.is_warming_up(drawn + warmup)
        flow = rotation if self.has_normal_prior else flow_of(in_standard)
        kernel = hmc.build_kernel(split_integrator(in_standard, flow))

        def step(key: Key, inner: Any, adaptation: Adaptation) -> Any:
            for_jitter, for_move = jax.random.split(key)
            angle, number = steps_of(adaptation.step_size)
            # Chains side by side would wait for the one that is trying out the smallest step.
            number = jnp.where(is_warming_up, jnp.minimum(number, MOST_WARM_STEPS), number)
            jitter = jax.random.uniform(for_jitter, (), angle.dtype, 0.8, 1.2)
            mass = jnp.ones_like(inner.position)
            return kernel(for_move, inner, lambda z: self.everyone(law.place(z)), angle * jitter, mass, number)

        algorithm = Algorithm(
            lambda z: hmc.init(z, self.everyone), step, lambda info: jnp.asarray(info.num_integration_steps, jnp.int32)
        )
        replicated = ReplicatedState(state.inner, state.adaptation, drawn + warmup)
        is_idle = ~is_used | (drawn < -warmup)
        moved, info = move_replicated(algorithm, self.neighbors, self.tuning, key, replicated, is_idle)
        position = jnp.where(is_idle, state.position, law.place(moved.inner.position))
        info["step_size"], _ = steps_of(info["step_size"])
        return state._replace(position=position, inner=moved.inner, adaptation=moved.adaptation), info


def _same_bits(vector: Vector) -> jax.Array:
    """Return a digest that agents have alike where all of a vector's bits are, whatever their processors are.

    By bits, and in whole numbers: a few nats of one weight are lost in the rounding of a projection of thousands.
    """
    words = lax.bitcast_convert_type(vector, jnp.uint32).ravel()
    mixed = words * jnp.uint32(0x9E3779B1) + jnp.arange(words.size, dtype=jnp.uint32) * jnp.uint32(0x85EBCA77)
    mixed = (mixed ^ (mixed >> 15)) * jnp.uint32(0xC2B2AE3D)
    digest = (mixed ^ (mixed >> 13)).sum(dtype=jnp.uint32) >> 8  # 24 bits, which are a whole number of any float
    return jnp.stack([digest.astype(vector.dtype), jnp.zeros((), vector.dtype)])[None]
