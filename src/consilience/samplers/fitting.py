"""Fit of a surrogate of the posterior that everybody holds, over the network, in tens of sums.

    log π_s(q) = log prior(q) + quadratic(φ(q))

The prior is everybody's, so only the likelihood is approximated (`expansion`). The fit goes

1. up to a mode of likelihood and prior (or a weak ridge, where the prior is not normal: a hierarchy's posterior has no
   mode of use) from several dispersed starts in the same messages, one sum a step;
2. through trial passes, one sum each: proposals from π_s are scored, and at some of them every agent differentiates its
   part of the log-likelihood twice. What is summed are means over these points, and the quadratic with the mean slope
   and curvature is the next surrogate: over draws of a normal π_s it is the one nearest to the likelihood (Stein's
   lemma), and it knows of more than one point. The best surrogate that was tried is kept.

What is decided on the way, when to stop and which surrogate is the best, follows from numbers that processors of two
kinds round in two ways. So it is the root that decides, and the surrogate that all end with is the root's.

All of this only chooses a surrogate. It is the same for all chains, and its random numbers are its own, so that what
is drawn afterwards is independent of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._types import Count, Flag, Key, LogDensity, Number, Scalar, Vector
from ..neighbors import Neighbors
from .expansion import (
    Coordinates,
    Derivatives,
    Expansion,
    Hill,
    bent_down,
    blend,
    climb,
    expand,
    mean_of,
    other_mode,
    total_of,
    triangle_of,
)
from .proposals import (
    ROUNDS,
    ROUNDS_AGAIN,
    Crowd,
    LocalChains,
    Normal,
    draw_crowd,
    draw_normal,
    gather,
    settle,
)
from .weights import WeightReport, report_on

MOST_STARTS = 8
NUMBERS_OF_STARTS = 1 << 18  # of Hessians in one message, which bounds the number of starts
START_WIDTH = 2.0  # of starts around the given one, where the prior is not normal
RIDGE = 0.05  # precision of the ridge around the given start, where the prior is not normal
CROWD = 512  # chains that look for the mean of a surrogate
MEAN_POINTS, NUMBERS_OF_POINTS = 64, 1 << 22  # over which derivatives are averaged; of their Hessians' numbers, at most
MOST_PASSES = 6
BOLD_PASSES, CAUTION = 2, 0.6  # passes that take a new quadratic as it is; its share in later ones, which may swing
MANY = 100  # parameters
FEWEST_TRIALS, FEWEST_OF_MANY = 2000, 1000  # proposals by which a surrogate is judged; of more than 100 parameters
GOOD_EVENNESS = 0.9  # of weights, at which no further pass is worth its sum
LARGEST_ROUNDING = 1.0  # of a sum of log-likelihoods, in nats
MASS_LOST = 3.0  # in nats: a surrogate that reaches so much less than another has shrunk
SECOND_MODE_LIMIT = 1e-3  # of the mass of another mode over that of the surrogate's
LIKELIHOODS_AT_ONCE = 64
OUT_OF_REACH = 0.9999  # of χ²: an end of a climb that is farther from the best mode is another one


class FitSettings(NamedTuple):
    """What a fit needs to know beside the model; a sampler's `resolve` and `starting_at` fill it in."""

    origin: Any = None  # where the first chain starts
    distance: Number = 0.0  # squared Mahalanobis distance from a mode beyond which another end is another mode

    @classmethod
    def of(cls, dimension: int) -> FitSettings:
        """Return the settings for a model of so many parameters."""
        from scipy.stats import chi2

        return cls(None, float(chi2.ppf(OUT_OF_REACH, dimension)))


class FitQuestions(NamedTuple):
    """What the network is asked during a fit.

    Attributes:
      tell: takes points to look at next, and who has arrived, and returns what the root says of these.
      decide: takes decisions, and returns the root's.
      derive: takes points that all agents have, and returns the derivatives of Σ_i L_i there, by one sum.
      score: takes points, and what is known beside them; returns the root's, and Σ_i L_i there, by one sum.
      examine: as `score`, and returns in the same sum the quadratic with the mean slope and curvature at the first of
        these points, in the coordinates that the likelihood sees.
    """

    tell: Callable[[Any], Any]
    decide: Callable[[Any], Any]
    derive: Callable[[jax.Array], Derivatives]
    score: Callable[[jax.Array, Any], tuple[jax.Array, Any, jax.Array]]
    examine: Callable[[jax.Array, Any], tuple[jax.Array, Any, jax.Array, Expansion]]


class Known(NamedTuple):
    """What everybody knows of the model, and how the network is asked about the rest."""

    log_prior: LogDensity
    coordinates: Coordinates | None
    has_normal_prior: bool
    like: Vector  # a start, of the model's dimension and dtype
    num_trials: int  # proposals of a trial pass
    ask: FitQuestions


class Fit(NamedTuple):
    """A surrogate, and what is known of it.

    Attributes:
      expansion: the quadratic.
      crowd: chains that have settled on the surrogate, and its moments; of one without positions it is normal.
      trial: the proposals of the pass that chose it, with their log weights.
      report: what that pass says.
      is_good: whether the certificate holds so far.
      has_mode: whether some start has reached a mode.
      second_mode: Laplace mass of another mode that some start found, over that of the one the surrogate is made at.
      local: how independent proposals by local chains are.
      sums: numbers of sums: while climbing, and of trial passes.
    """

    expansion: Expansion
    crowd: Crowd
    trial: tuple[jax.Array, jax.Array]
    report: WeightReport
    is_good: Flag
    has_mode: Flag
    second_mode: Scalar
    local: LocalChains
    sums: tuple[Count, Count]


def questions(log_likelihood: LogDensity, coordinates: Coordinates | None, neighbors: Neighbors) -> FitQuestions:
    """Return what the network is asked, of a model with this agent's part of the log-likelihood.

    The root's points are everybody's, and what it says beside them: values that follow from these and from sums alone
    are the same on all agents, to the last bit.
    """

    def tell(said: Any) -> Any:
        return neighbors.follow_root(said, ())[0]

    def of_one(q: Vector) -> Derivatives:
        value, gradient = jax.value_and_grad(log_likelihood)(q)
        return Derivatives(value, gradient, jax.jacfwd(jax.grad(log_likelihood))(q))

    def derive(points: jax.Array) -> Derivatives:
        own = lax.map(lambda q: triangle_of(of_one(q)), points)
        return total_of(neighbors.total(own, at=points.ravel()))

    def values_at(points: jax.Array) -> jax.Array:
        return lax.map(log_likelihood, points, batch_size=min(LIKELIHOODS_AT_ONCE, len(points)))

    def score(points: jax.Array, beside: Any) -> tuple[jax.Array, Any, jax.Array]:
        points, beside = tell((points, beside))
        return points, beside, neighbors.total(values_at(points), at=points.ravel())

    def examine(points: jax.Array, beside: Any) -> tuple[jax.Array, Any, jax.Array, Expansion]:
        points, beside = tell((points, beside))
        first = points[: number_of_points(*points.shape)]
        mean = mean_of(coordinates, first, lax.map(of_one, first))
        values, found = neighbors.total((values_at(points), triangle_of(mean)), at=points.ravel())
        phi = first if coordinates is None else jax.vmap(coordinates)(first)
        return points, beside, values, Expansion(phi.mean(axis=0), total_of(found))

    return FitQuestions(tell, tell, derive, score, examine)


def is_quadratic(function: LogDensity, dimension: int, dtype: Any) -> bool:
    """Tell whether a function of a vector seems to be quadratic, from its second derivatives at a few points.

    What is drawn is exact either way: weights are computed with the function itself.
    """

    def curvature(q: Vector, along: Vector) -> Vector:
        return jax.jvp(jax.grad(function), (q,), (along,))[1]

    with jax.ensure_compile_time_eval():
        drawn = np.random.default_rng(0).standard_normal((5, dimension))
        points = jnp.asarray(drawn, dtype)
        found = np.asarray(jax.jit(jax.vmap(curvature, (0, None)))(points[1:], points[0]))
    scale = np.abs(found).max()
    return bool(np.isfinite(found).all() and scale > 0 and np.ptp(found, axis=0).max() <= 1e-4 * scale)


def number_of_starts(dimension: int) -> int:
    """Return how many starts climb side by side: eight, or fewer where their Hessians fill a message."""
    return max(2, min(MOST_STARTS, NUMBERS_OF_STARTS // dimension**2))


def number_of_points(number: int, dimension: int) -> int:
    """Return at how many of so many points derivatives are averaged: at fewer where their Hessians take long."""
    return min(number, max(8, min(MEAN_POINTS, NUMBERS_OF_POINTS // dimension**2)))


def number_of_trials(dimension: int, num_proposals: int = 0) -> int:
    """Return by how many proposals a surrogate is judged; `num_proposals`: those that are scored at once later."""
    return max(FEWEST_TRIALS if dimension <= MANY else FEWEST_OF_MANY, num_proposals)


def log_surrogate(known: Known, expansion: Expansion) -> LogDensity:
    """Return log π_s, up to a constant."""

    def log_density(q: Vector) -> Scalar:
        phi = q if known.coordinates is None else known.coordinates(q)
        return known.log_prior(q) + expansion.at(phi)

    return log_density


def normal_of(known: Known, expansion: Expansion, at: Vector) -> Normal:
    """Return the surrogate as a normal law, by its slope and curvature at a point: exact where the prior is normal."""
    density = log_surrogate(known, expansion)
    law = Normal.of_precision(at, -jax.hessian(density)(at))
    if not known.has_normal_prior:
        return law
    return law._replace(mean=at + law.root @ (law.root.T @ jax.grad(density)(at)))


def fit_surrogate(known: Known, key: Key, distance: Number) -> Fit:
    """Fit a surrogate over the network.

    Args:
      distance: squared Mahalanobis distance from a mode beyond which another end of a climb is another mode.
    """
    for_starts, for_crowd, for_passes = jax.random.split(key, 3)
    hill = Hill(known.coordinates, _guard(known), distance)
    ends = climb(_starts(known, for_starts), hill, known.ask.tell, known.ask.derive)
    best, second_mode = other_mode(ends, hill)
    q, found = ends.q[best], jax.tree.map(lambda leaf: leaf[best], ends.found)
    expansion = expand(known.coordinates, q, found, _prior_sd(known))
    chosen, passes = _passes(known, expansion, _gathered(known, expansion, q, for_crowd), for_passes)
    sums = (ends.sums, passes)
    return chosen._replace(has_mode=ends.is_mode.any(), second_mode=second_mode, sums=sums)


def shared(known: Known, fit: Fit) -> Fit:
    """Return a fit as the root has it, but for the trial, which all have alike."""
    nothing = jax.tree.map(lambda leaf: leaf[:0], fit.trial)
    return known.ask.tell(fit._replace(trial=nothing))._replace(trial=fit.trial)


def _prior_sd(known: Known) -> Scalar:
    return jnp.asarray(RIDGE**-0.5, known.like.dtype)


def _starts(known: Known, key: Key) -> jax.Array:
    """Return the given start, and dispersed ones: draws of a normal prior, or uniform around the given one."""
    like, number = known.like, number_of_starts(len(known.like))
    if known.has_normal_prior:
        zero = jnp.zeros_like(like)
        law = Normal.of_precision(zero, -jax.hessian(known.log_prior)(zero))
        law = law._replace(mean=law.root @ (law.root.T @ jax.grad(known.log_prior)(zero)))
        apart = jax.vmap(law.place)(jax.random.normal(key, (number - 1, len(like)), like.dtype))
    else:
        shape = (number - 1, len(like))
        apart = like + jax.random.uniform(key, shape, like.dtype, -START_WIDTH, START_WIDTH)
    return jnp.concatenate([like[None], apart])


def _guard(known: Known) -> LogDensity:
    """Return what is climbed beside the likelihood: a normal prior, or a weak ridge in its place."""
    if known.has_normal_prior and known.coordinates is None:
        return known.log_prior
    center = known.like if known.coordinates is None else known.coordinates(known.like)
    return lambda phi: -0.5 * RIDGE * jnp.sum((phi - center) ** 2)


def _gathered(known: Known, expansion: Expansion, q: Vector, key: Key) -> Crowd:
    """Return chains that are to settle on a surrogate; of a normal one, its moments are all that is needed."""
    law = normal_of(known, expansion, q)
    return gather(law, key, 0 if known.has_normal_prior else CROWD)


def _settled(known: Known, expansion: Expansion, crowd: Crowd, key: Key, rounds: jax.Array) -> Crowd:
    """Return chains that have settled on a surrogate, given where they are."""
    if known.has_normal_prior:
        return crowd._replace(law=normal_of(known, expansion, crowd.law.mean))
    return settle(log_surrogate(known, expansion), crowd, key, rounds)


def draw_proposals(
    known: Known, expansion: Expansion, crowd: Crowd, key: Key, number: int
) -> tuple[jax.Array, jax.Array, LocalChains, Crowd]:
    """Draw independent proposals.

    Returns:
      Proposals, their log prior less log g, how independent they are, and the crowd, which now knows how long its
      chains take to forget.
    """
    if known.has_normal_prior:
        q, log_g = draw_normal(crowd.law, key, number)
        local = LocalChains.none(known.like)
    else:
        q, log_g, local, times = draw_crowd(log_surrogate(known, expansion), crowd, key, number)
        if len(q) >= len(crowd.positions):  # they have been run for longer
            crowd = crowd._replace(positions=q[: len(crowd.positions)])
        crowd = crowd._replace(forgetting=times)
    return q, jax.vmap(known.log_prior)(q) - log_g, local, crowd


class Pass(NamedTuple):
    """A trial pass: the best surrogate so far, and the one to be tried next.

    Attributes:
      crowd: chains that have settled on the surrogate before.
      log_mass: log mean weight of the best one's proposals: of the posterior's mass, as far as they reach.
      most: the largest of any pass.
    """

    number: Count
    is_over: Flag
    best: Fit
    expansion: Expansion
    crowd: Crowd
    log_mass: Scalar
    most: Scalar


def _passes(known: Known, expansion: Expansion, crowd: Crowd, key: Key) -> tuple[Fit, Count]:
    number = known.num_trials

    def attempt(state: Pass) -> Pass:
        for_crowd, for_draws = jax.random.split(jax.random.fold_in(key, state.number))
        rounds = jnp.where(state.number == 0, ROUNDS, ROUNDS_AGAIN)
        crowd = _settled(known, state.expansion, state.crowd, for_crowd, rounds)
        proposals, base, local, crowd = draw_proposals(known, state.expansion, crowd, for_draws, number)
        proposals, base, values, mean = known.ask.examine(proposals, base)
        log_weights = jnp.where(jnp.isfinite(values + base), values + base, -jnp.inf)
        report = report_on(log_weights)
        # Weights look even where proposals have shrunk to a point. But then they have lost most of the mass.
        log_mass = jax.scipy.special.logsumexp(log_weights) - np.log(number)
        most = jnp.maximum(state.most, log_mass)
        is_whole = log_mass >= most - MASS_LOST
        # Where a posterior rises for ever a climb ends so high that rounding makes all weights the same.
        rounding = float(np.finfo(values.dtype).eps) * jnp.abs(jnp.where(jnp.isfinite(values), values, 0.0)).max()
        is_good = report.is_good & is_whole & local.have_settled & (rounding < LARGEST_ROUNDING)
        tried = no_fit(known)._replace(
            expansion=state.expansion,
            crowd=crowd,
            trial=(proposals, log_weights),
            report=report,
            is_good=is_good,
            local=local,
        )
        is_better = is_whole & (report.evenness > state.best.report.evenness)
        is_better |= (state.number == 0) | (state.log_mass < most - MASS_LOST)
        is_enough = is_better & is_good & (report.evenness >= GOOD_EVENNESS)
        is_better, is_over = known.ask.decide((is_better, is_enough | (state.number + 1 >= MOST_PASSES)))
        best, log_mass = jax.tree.map(
            lambda new, old: jnp.where(is_better, new, old), (tried, log_mass), (state.best, state.log_mass)
        )
        again = improved(state.expansion, mean, jnp.where(state.number < BOLD_PASSES, 1.0, CAUTION), _prior_sd(known))
        return Pass(state.number + 1, is_over, best, again, crowd, log_mass, most)

    nothing = jnp.full((), -jnp.inf, known.like.dtype)
    first = Pass(jnp.int32(0), jnp.array(False), no_fit(known), expansion, crowd, nothing, nothing)
    done = lax.while_loop(lambda state: ~state.is_over, attempt, first)
    return done.best, done.number


def improved(expansion: Expansion, mean: Expansion, share: Number, prior_sd: Scalar) -> Expansion:
    """Return the next surrogate's quadratic, given the mean of derivatives over proposals from this one."""
    new = blend(expansion, mean, jnp.asarray(share, prior_sd.dtype))
    new = bent_down(new.center, new.at_center, prior_sd)
    are_finite = jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(new)]).all()
    return jax.tree.map(lambda new, old: jnp.where(are_finite, new, old), new, expansion)


def no_fit(known: Known) -> Fit:
    """Return a fit of the right form that is worse than any."""
    like = known.like
    zero, identity = jnp.zeros((), like.dtype), jnp.eye(len(like), dtype=like.dtype)
    phi = jnp.zeros_like(like if known.coordinates is None else known.coordinates(like))
    expansion = Expansion(phi, Derivatives(zero, phi, jnp.zeros((len(phi), len(phi)), like.dtype)))
    positions = jnp.zeros((0 if known.has_normal_prior else CROWD, len(like)), like.dtype)
    crowd = Crowd(positions, Normal(jnp.zeros_like(like), identity), zero, zero, jnp.int32(0))
    trial = jnp.zeros((known.num_trials, len(like)), like.dtype), jnp.zeros(known.num_trials, like.dtype)
    report = WeightReport(zero - 1, zero + jnp.inf, zero + 1, zero, jnp.array(False))
    no, none = jnp.array(False), jnp.int32(0)
    return Fit(expansion, crowd, trial, report, no, no, zero, LocalChains.none(like), (none, none))
