"""Starts from a surrogate: where chains begin, and the coordinates in which they move, from a fit over the network.

A surrogate that everybody holds (`fitting`) knows the posterior's scales before the first draw, so that a sampler need
not find them in a warm-up of thousands of sums. With N(μ, CCᵀ) the normal law with the surrogate's moments, a chain
moves in z = C⁻¹(q - μ) with a unit mass matrix, which is the same as moving in q with M⁻¹ = CCᵀ:

- it begins at one of the proposals by which the surrogate was judged, drawn by their weights;
- its step size begins at what a normal posterior of that many parameters asks for, and dual averaging adapts it in a
  short warm-up.

Coordinates and start are fixed before the first draw that counts, so that what was exact stays exact. A surrogate that
is of no use is not used: the chain begins where it is told to, and warms up as it would without one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtri

from .._types import Count, Flag, Key, Number, Scalar, Vector
from ..neighbors import Neighbors, Repeated
from .adaptation import Adaptation, Schedule, TunedSampler, WindowAdaptation
from .base import Kernel
from .fitting import (
    SECOND_MODE_LIMIT,
    Fit,
    FitQuestions,
    FitSettings,
    Known,
    fit_surrogate,
    is_quadratic,
    number_of_trials,
    questions,
    shared,
)
from .low_rank import REFINEMENTS, FitCounts, LowRankNormal, fit_low_rank
from .metropolis import select
from .proposals import Normal
from .weights import choose

T = TypeVar("T")

FIT_SEED = 0x5D6F  # the fit has random numbers of its own: it only chooses
MOST_DENSE = 2000  # parameters of which whole Hessians are sent
FEWEST_STARTS = 50  # places, in effect, among which chains find their starts
GAIN = 0.3  # of dual averaging, where its first step is nearly right
LARGEST_STEP = 1.5  # in the surrogate's sd: leapfrog steps of 2 diverge


class FirstFit:
    """The fit of a surrogate in a sampler's first iteration, the same for all chains.

    Args:
      logdensity: ℓ_i, this agent's part of the log density.
      like: a vector of the model's dimension and dtype.
      fewest_trials: proposals that a trial pass has at least.
    """

    def __init__(
        self, logdensity: Any, neighbors: Neighbors, like: Vector, settings: FitSettings, fewest_trials: int = 0
    ) -> None:
        self.logdensity, self.neighbors, self.like, self.settings = logdensity, neighbors, like, settings
        self.has_normal_prior = has_normal_prior(logdensity.posterior, logdensity.layout, like.dtype)
        self.num_trials = number_of_trials(len(like), fewest_trials)

    def known(self, loops: Loops | None = None) -> Known:
        """Return what everybody knows, and questions to the network; those of a fit are counted by `loops`."""
        ask = questions(self.logdensity.log_likelihood, self.logdensity.coordinates, self.neighbors)
        origin = self.like if self.settings.origin is None else jnp.asarray(self.settings.origin, self.like.dtype)
        return Known(
            self.logdensity.log_prior,
            self.logdensity.coordinates,
            self.has_normal_prior,
            origin,
            self.num_trials,
            ask if loops is None else loops.counting(ask),
        )

    def in_first(self, iteration: Count, keep: Callable[[Fit], T], old: T) -> T:
        """Fit in the first iteration, and return what `keep` makes of the fit; in all others return `old`."""
        loops = Loops(*(self.neighbors.repeated() for _ in Loops._fields))

        def fit() -> tuple[T, tuple[Count, Count]]:
            known = self.known(loops)
            found = fit_surrogate(known, jax.random.key(FIT_SEED), self.settings.distance)
            with loops.sharing:
                return keep(shared(known._replace(ask=self.known().ask), found)), found.sums

        is_first = iteration == 0
        kept, sums = lax.cond(is_first, fit, lambda: (old, (jnp.int32(0), jnp.int32(0))))
        loops.times(is_first.astype(jnp.int32), *sums)
        return kept


class Loops(NamedTuple):
    """Counts of what a fit asks: in its climb, in its trial passes, and at its end."""

    telling: Repeated
    deriving: Repeated
    examining: Repeated
    deciding: Repeated
    sharing: Repeated

    def counting(self, ask: FitQuestions) -> FitQuestions:
        """Return questions of a fit, each counted."""

        def within(loop: Repeated, question: Callable[..., Any]) -> Callable[..., Any]:
            def asked(*arguments: Any) -> Any:
                with loop:
                    return question(*arguments)

            return asked

        return FitQuestions(
            within(self.telling, ask.tell),
            within(self.deciding, ask.decide),
            within(self.deriving, ask.derive),
            ask.score,
            within(self.examining, ask.examine),
        )

    def times(self, fits: Count, climbs: Count, passes: Count) -> None:
        """Say how many fits there were, one or none, and how many sums in each part."""
        after = (fits, climbs, passes)
        counts = (climbs + fits, climbs, passes, passes, fits)  # a climb's last points are told and not looked at
        for loop, count in zip(self, counts, strict=True):
            loop.times(count, after, is_common=True)


@lru_cache(maxsize=32)
def has_normal_prior(posterior: Any, layout: Any, dtype: Any) -> bool:
    """Tell whether a surrogate is normal: it is where the prior is, and the likelihood sees the parameters."""

    def log_prior(w: Vector) -> Scalar:
        return jnp.asarray(posterior.log_prior(layout.unravel(w)), w.dtype)

    # In coordinates of the likelihood's own the surrogate is not normal, whatever the prior is.
    return posterior.coordinates is None and is_quadratic(log_prior, layout.dimension, dtype)


class Fitted(NamedTuple):
    """What a start needs of a fit, whichever it was.

    Attributes:
      law: the normal law with the surrogate's moments.
      proposals, log_weights: those by which it is judged.
      second_mode: mass of another mode that some start found, over that of the one the surrogate is made at.
      sums: that it took.
    """

    law: Any
    proposals: jax.Array
    log_weights: jax.Array
    second_mode: Scalar
    sums: Count


class FirstStart:
    """A fit in a sampler's first iteration, for a start: of a whole Hessian, or of one that is diagonal plus low rank.

    Args:
      logdensity: ℓ_i, this agent's part of the log density.
      like: a vector of the model's dimension and dtype.
    """

    def __init__(self, logdensity: Any, neighbors: Neighbors, like: Vector, settings: FitSettings) -> None:
        self.logdensity, self.neighbors, self.like, self.settings = logdensity, neighbors, like, settings

    def in_first(self, iteration: Count, keep: Callable[[Fitted], T], old: T) -> T:
        """Fit in the first iteration, and return what `keep` makes of the fit; in all others return `old`."""
        if is_dense(self.like):
            first_fit = FirstFit(self.logdensity, self.neighbors, self.like, self.settings)
            return first_fit.in_first(iteration, lambda fit: keep(_fitted(fit)), old)
        counts = FitCounts(*(self.neighbors.repeated() for _ in FitCounts._fields))
        density, origin = self.logdensity, self.settings.origin
        start = self.like if origin is None else jnp.asarray(origin, self.like.dtype)

        def fit() -> tuple[T, Count]:
            key = jax.random.key(FIT_SEED)
            found = fit_low_rank(density.log_prior, density.log_likelihood, self.neighbors, counts, start, key)
            law, proposals, log_weights, climbs = found
            no_mode, sums = jnp.zeros((), start.dtype), climbs + REFINEMENTS + 1
            return keep(Fitted(law, proposals, log_weights, no_mode, sums)), climbs

        is_first = iteration == 0
        kept, climbs = lax.cond(is_first, fit, lambda: (old, jnp.int32(0)))
        counts.times(is_first.astype(jnp.int32), climbs)
        return kept


def is_dense(like: Vector) -> bool:
    """Tell whether a start is found by whole Hessians."""
    return len(like) <= MOST_DENSE


def _fitted(fit: Fit) -> Fitted:
    return Fitted(law_of(fit), *fit.trial, fit.second_mode, sum(fit.sums, jnp.int32(0)))


class Start(NamedTuple):
    """What a chain takes from a surrogate, and what is known of it: the same for all chains and agents.

    Attributes:
      law: the normal law in whose standardised coordinates chains move; the standard one where none is used.
      is_used: whether the surrogate was good enough.
      second_mode: mass of another mode that some start found, over that of the one the surrogate is made at.
      spread: half the distance of the log weights' 16 % and 84 % quantiles, as sd is of a normal law, in nats.
      sums: of the fit.
    """

    law: Normal | LowRankNormal
    is_used: Flag
    second_mode: Scalar
    spread: Scalar
    sums: Count

    @classmethod
    def without(cls, like: Vector) -> Start:
        """Return that of a chain that takes nothing from a surrogate."""
        law = (Normal if is_dense(like) else LowRankNormal).standard(like)
        zero = jnp.zeros((), like.dtype)
        return cls(law, jnp.array(False), zero, zero, jnp.int32(0))

    @classmethod
    def of(cls, fitted: Fitted, like: Vector) -> Start:
        """Return that from a fit, if it is good enough."""
        none, law, spread = cls.without(like), fitted.law, spread_of(fitted.log_weights)
        is_used = (spread <= start_spread_limit(len(like))) & (fitted.second_mode <= SECOND_MODE_LIMIT)
        is_used &= jnp.stack([jnp.isfinite(leaf).all() for leaf in law]).all()
        return cls(select(is_used, law, none.law), is_used, fitted.second_mode, spread, fitted.sums)

    @property
    def said(self) -> dict[str, jax.Array]:
        """Figures for a run's statistics."""
        return {
            "start_used": self.is_used,
            "start_second_mode": self.second_mode,
            "start_spread": self.spread,
            "start_sums": self.sums,
        }


def law_of(fit: Fit) -> Normal:
    """Return the normal law with a surrogate's moments.

    Those that come from a crowd of chains, of which there are not many for many parameters, are drawn towards
    independence: correlations count by n / (n + d), of n chains and d parameters.
    """
    law, (number, dimension) = fit.crowd.law, fit.crowd.positions.shape
    if number == 0:
        return law
    covariance = law.root @ law.root.T
    diagonal = jnp.diag(jnp.diagonal(covariance))
    share = number / (number + dimension)
    return law._replace(root=jnp.linalg.cholesky(share * covariance + (1 - share) * diagonal))


def spread_of(log_weights: jax.Array) -> Scalar:
    """Return half the distance of the 16 % and 84 % quantiles of log weights; impossible proposals count as far off."""
    ordered = jnp.sort(jnp.where(jnp.isfinite(log_weights), log_weights, -jnp.inf))
    low, high = (ordered[int(share * (len(ordered) - 1))] for share in (0.16, 0.84))
    return jnp.where(jnp.isfinite(high - low), 0.5 * (high - low), jnp.inf)


def start_spread_limit(dimension: int) -> float:
    """Return the largest spread of log weights with which a surrogate gives a start.

    A normal law whose precision is four times too small in every direction has 2√d.
    """
    return float(3 + 2 * np.sqrt(dimension))


def tempered(log_weights: jax.Array) -> jax.Array:
    """Return log weights to a power, one or the largest with which at least `FEWEST_STARTS` of them count.

    Of many parameters the weights are so unlike that one would have them all, and all chains would start there.
    """
    known = jnp.isfinite(log_weights)
    apart = jnp.where(known, log_weights - jnp.where(known, log_weights, -jnp.inf).max(), 0.0)

    def number(power: Scalar) -> Scalar:
        weights = jnp.where(known, jnp.exp(power * apart), 0.0)
        return weights.sum() ** 2 / jnp.square(weights).sum()

    def halve(_: jax.Array, ends: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
        low, high = ends
        middle = 0.5 * (low + high)
        are_many = number(middle) >= FEWEST_STARTS
        return jnp.where(are_many, middle, low), jnp.where(are_many, high, middle)

    one = jnp.ones((), apart.dtype)
    low, _ = lax.fori_loop(0, 20, halve, (0 * one, one))
    power = jnp.where(number(one) >= FEWEST_STARTS, one, low)
    return jnp.where(known, power * apart, -jnp.inf)


def first_step(dimension: int, target_acceptance: Number, has_one_step: bool) -> Scalar:
    """Return the leapfrog step ε with which N(0, I) is accepted as often as asked for.

    The error of the energy has a variance of dε⁴/16 over long trajectories, dε⁶/16 over one step, and the acceptance is
    2Φ(-½ sd) of it (Beskos et al. 2013; Roberts and Rosenthal 1998).
    """
    sd = -2 * ndtri(0.5 * jnp.asarray(target_acceptance, float))
    return jnp.minimum((16 * sd**2 / dimension) ** (1 / 6 if has_one_step else 1 / 4), LARGEST_STEP)


class StartedState(NamedTuple):
    position: Vector
    inner: Any  # the sampler's own state, in standardised coordinates
    start: Start
    iteration: Count

    @classmethod
    def common_fields(cls) -> tuple[str, ...]:
        """Return the fields that are the same for all chains."""
        return ("start",)


class Moves(NamedTuple):
    """What a sampler does in the coordinates of a start; its states have `position`, `adaptation` and `iteration`."""

    init: Callable[[Vector], Any]
    move: Callable[[Any, Any, Flag], tuple[Any, dict[str, jax.Array]]]  # (noise, state, is_idle) -> state, info


def started_kernel(
    sampler: TunedSampler,
    first_start: FirstStart,
    tuning: WindowAdaptation,
    noise: Callable[[Key], Any],
    moves_of: Callable[[Start, WindowAdaptation], Moves],
    info_of: Callable[[dict[str, jax.Array]], Any],
) -> Kernel:
    """Build the kernel of a sampler that starts from a surrogate.

    Args:
      tuning: the warm-up as it is without a surrogate. With one, the step size is found in the first
        `sampler.short_warmup` iterations of it, and the rest asks nobody.
      noise: draws what the sampler needs in an iteration.
      moves_of: what the sampler does, given a start and a warm-up.
      info_of: makes its info of figures by name.
    """
    like, neighbors = first_start.like, first_start.neighbors
    length, short = jnp.asarray(tuning.schedule.length, jnp.int32), sampler.short_warmup
    step_size = first_step(len(like), sampler.target_acceptance, sampler.has_one_step)

    def init(position: Vector) -> StartedState:
        start, once = Start.without(like), neighbors.repeated()
        with once:
            inner = moves_of(start, tuning).init(position)
        once.times(1, inner)
        return StartedState(position, inner, start, jnp.zeros((), jnp.int32))

    def begun(key: Key, state: StartedState) -> StartedState:
        """Take start, coordinates and step size from the surrogate, in the first iteration."""
        sharing, starting = neighbors.repeated(), neighbors.repeated()

        def begin(fitted: Fitted) -> tuple[Start, Any]:
            with sharing:  # all agents must move in the same coordinates, to the last bit
                start, _ = neighbors.follow_root(Start.of(fitted, like), ())
            chosen = fitted.proposals[choose(key, tempered(fitted.log_weights))]
            position = jnp.where(start.is_used & (length > 0), chosen, state.position)
            with starting:
                z, _ = neighbors.follow_root(start.law.standardise(position), ())
                inner = moves_of(start, tuning).init(z)
            found: Adaptation = select(start.is_used, tuning.beginning_at(step_size), tuning.init())
            return start, inner._replace(adaptation=found)

        start, inner = first_start.in_first(state.iteration, begin, (state.start, state.inner))
        is_first = (state.iteration == 0).astype(jnp.int32)
        sharing.times(is_first, start, is_common=True)
        starting.times(is_first, inner)
        return state._replace(start=start, inner=inner)

    def move(given: tuple[Key, Any], state: StartedState) -> tuple[StartedState, Any]:
        key, drawn = given
        state = begun(key, state)
        start, iteration = state.start, state.iteration
        schedule = select(start.is_used, Schedule(jnp.minimum(short, length)), tuning.schedule)
        is_idle = start.is_used & (iteration >= short) & (iteration < length)
        inner = state.inner._replace(iteration=iteration)
        # A step that is nearly right is lost to the noise of a few iterations, if all of that is heard.
        now = tuning._replace(schedule=schedule, gain=jnp.where(start.is_used, GAIN, 1.0))
        inner, info = moves_of(start, now).move(drawn, inner, is_idle)
        position = start.law.place(inner.position)
        return StartedState(position, inner, start, iteration + 1), info_of({**info, **start.said})

    def drawn(key: Key) -> tuple[Key, Any]:
        for_start, for_moves = jax.random.split(key)
        return for_start, noise(for_moves)

    return Kernel(init, drawn, move)
