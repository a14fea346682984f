"""Fit of a surrogate of the posterior that everybody holds, over the network, in tens of sums.

    log π_s(q) = log prior(q) + quadratic(φ(q))

The prior is everybody's, so only the likelihood is approximated (`expansion`). The fit goes

1. up to a mode of likelihood and prior (or a weak ridge, where the prior is not normal: a hierarchy's posterior has no
   mode of use) from several dispersed starts in the same messages, one sum a step;
2. where the prior is not normal, to the mean of π_s, found without the network, where the likelihood is expanded anew,
   twice, with one sum each;
3. through trial passes: proposals from π_s, scored by one sum; a least-squares quadratic through the scores becomes
   the next surrogate, and the best one that was tried is kept.

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
from .expansion import Coordinates, Derivatives, Expansion, Hill, climb, expand, other_mode, total_of, triangle_of
from .proposals import Crowd, LocalChains, Normal, draw_crowd, draw_normal, settle
from .weights import WeightReport, report_on

MOST_STARTS = 8
NUMBERS_OF_STARTS = 1 << 18  # of Hessians in one message, which bounds the number of starts
START_WIDTH = 2.0  # of starts around the given one, where the prior is not normal
RIDGE = 0.05  # precision of the ridge around the given start, where the prior is not normal
CROWD = 512  # chains that look for the mean of a surrogate
EXPANSIONS = 2  # at the mean, where the prior is not normal
MOST_PASSES = 5
MANY = 100  # parameters
FEWEST_TRIALS, FEWEST_OF_MANY = 2000, 1000  # proposals by which a surrogate is judged; of more than 100 parameters
GOOD_EVENNESS = 0.9  # of weights, at which no further pass is worth its sum
MASS_LOST = 3.0  # in nats: a surrogate that reaches so much less than another has shrunk
MOST_FEATURES = 1500  # of a least-squares quadratic
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


class Known(NamedTuple):
    """What everybody knows of the model, and how the network is asked about the rest."""

    log_prior: LogDensity
    coordinates: Coordinates | None
    has_normal_prior: bool
    like: Vector  # a start, of the model's dimension and dtype
    num_trials: int  # proposals of a trial pass
    score: Callable[[jax.Array, Any], tuple[jax.Array, Any, jax.Array]]
    derive: Callable[[jax.Array], tuple[jax.Array, Derivatives]]


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
      sums: numbers of sums: while climbing, expanding anew, and scoring.
    """

    expansion: Expansion
    crowd: Crowd
    trial: tuple[jax.Array, jax.Array]
    report: WeightReport
    is_good: Flag
    has_mode: Flag
    second_mode: Scalar
    local: LocalChains
    sums: tuple[Count, Count, Count]


def ask(log_likelihood: LogDensity, neighbors: Neighbors) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the two questions that are put to the network: for scores, and for derivatives, at given points.

    The root's points are everybody's, and what it says beside them: decisions taken from these and from sums are the
    same on all agents, to the last bit.
    """

    def score(points: jax.Array, beside: Any) -> tuple[jax.Array, Any, jax.Array]:
        (points, beside), _ = neighbors.follow_root((points, beside), ())
        own = lax.map(log_likelihood, points, batch_size=min(LIKELIHOODS_AT_ONCE, len(points)))
        return points, beside, neighbors.total(own, at=points.ravel())

    def derive(points: jax.Array) -> tuple[jax.Array, Derivatives]:
        points, _ = neighbors.follow_root(points, ())

        def of_one(q: Vector) -> Any:
            value, gradient = jax.value_and_grad(log_likelihood)(q)
            hessian = jax.jacfwd(jax.grad(log_likelihood))(q)
            return triangle_of(Derivatives(value, gradient, hessian))

        own = lax.map(of_one, points)
        return points, total_of(neighbors.total(own, at=points.ravel()))

    return score, derive


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
    ends = climb(_starts(known, for_starts), hill, known.derive)
    best, second_mode = other_mode(ends, hill)
    q, found = ends.q[best], jax.tree.map(lambda leaf: leaf[best], ends.found)
    prior_sd = jnp.asarray(RIDGE**-0.5, q.dtype)
    expansion = expand(known.coordinates, q, found, prior_sd)
    expansions = 0 if known.has_normal_prior else EXPANSIONS
    if expansions:

        def expand_at_mean(number: jax.Array, carry: tuple[Vector, Expansion]) -> tuple[Vector, Expansion]:
            q, expansion = carry
            crowd = _settled(known, expansion, q, jax.random.fold_in(for_crowd, number))
            points, found = known.derive(crowd.law.mean[None])
            return points[0], expand(known.coordinates, points[0], jax.tree.map(lambda x: x[0], found), prior_sd)

        q, expansion = lax.fori_loop(0, expansions, expand_at_mean, (q, expansion))
    chosen, passes = _passes(known, expansion, q, for_passes)
    sums = (ends.sums, jnp.int32(expansions), passes)
    return chosen._replace(has_mode=ends.is_mode.any(), second_mode=second_mode, sums=sums)


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


def _settled(known: Known, expansion: Expansion, q: Vector, key: Key) -> Crowd:
    """Return chains that have settled on a surrogate; of a normal one, its moments are all that is needed."""
    law = normal_of(known, expansion, q)
    if known.has_normal_prior:
        zero = jnp.zeros((), q.dtype)
        return Crowd(jnp.zeros((0, len(q)), q.dtype), law, zero, zero, zero)
    return settle(log_surrogate(known, expansion), law, key, CROWD)


def draw_proposals(
    known: Known, expansion: Expansion, crowd: Crowd, key: Key, number: int
) -> tuple[jax.Array, jax.Array, LocalChains]:
    """Draw independent proposals; return them, their log prior less log g, and how independent they are."""
    if known.has_normal_prior:
        q, log_g = draw_normal(crowd.law, key, number)
        local = LocalChains.none(known.like)
    else:
        q, log_g, local = draw_crowd(log_surrogate(known, expansion), crowd, key, number)
    return q, jax.vmap(known.log_prior)(q) - log_g, local


class Pass(NamedTuple):
    """A trial pass: the best surrogate so far, and the one to be tried next.

    Attributes:
      log_mass: log mean weight of the best one's proposals: of the posterior's mass, as far as they reach.
      most: the largest of any pass.
    """

    number: Count
    best: Fit
    expansion: Expansion
    log_mass: Scalar
    most: Scalar


def _passes(known: Known, expansion: Expansion, q: Vector, key: Key) -> tuple[Fit, Count]:
    number = known.num_trials

    def attempt(state: Pass) -> Pass:
        for_crowd, for_draws = jax.random.split(jax.random.fold_in(key, state.number))
        crowd = _settled(known, state.expansion, q, for_crowd)
        proposals, base, local = draw_proposals(known, state.expansion, crowd, for_draws, number)
        # What agents compute by themselves rounds apart, and chains of a crowd go other ways then: all use the root's.
        beside = base, state.expansion, crowd.law, local
        proposals, (base, expansion, law, local), values = known.score(proposals, beside)
        crowd = crowd._replace(law=law)
        log_weights = jnp.where(jnp.isfinite(values + base), values + base, -jnp.inf)
        report = report_on(log_weights)
        # Weights look even where proposals have shrunk to a point. But then they have lost most of the mass.
        log_mass = jax.scipy.special.logsumexp(log_weights) - np.log(number)
        most = jnp.maximum(state.most, log_mass)
        is_whole = log_mass >= most - MASS_LOST
        is_good = report.is_good & is_whole & local.have_settled
        tried = no_fit(known)._replace(
            expansion=expansion,
            crowd=crowd,
            trial=(proposals, log_weights),
            report=report,
            is_good=is_good,
            local=local,
        )
        is_better = is_whole & (report.evenness > state.best.report.evenness)
        is_better |= (state.number == 0) | (state.log_mass < most - MASS_LOST)
        best, log_mass = jax.tree.map(
            lambda new, old: jnp.where(is_better, new, old), (tried, log_mass), (state.best, state.log_mass)
        )
        again = refit(known, expansion, proposals, values, log_weights)
        return Pass(state.number + 1, best, again, log_mass, most)

    nothing = jnp.full((), -jnp.inf, q.dtype)
    first = attempt(Pass(jnp.int32(0), no_fit(known), expansion, nothing, nothing))

    def is_wanting(state: Pass) -> Flag:
        report = state.best.report
        enough = report.is_good & (report.evenness >= GOOD_EVENNESS)
        return ~enough & (state.number < MOST_PASSES)

    done = lax.while_loop(is_wanting, attempt, first)
    return done.best, done.number


def no_fit(known: Known) -> Fit:
    """Return a fit of the right form that is worse than any."""
    like = known.like
    zero, identity = jnp.zeros((), like.dtype), jnp.eye(len(like), dtype=like.dtype)
    phi = jnp.zeros_like(like if known.coordinates is None else known.coordinates(like))
    expansion = Expansion(phi, Derivatives(zero, phi, jnp.zeros((len(phi), len(phi)), like.dtype)))
    positions = jnp.zeros((0 if known.has_normal_prior else CROWD, len(like)), like.dtype)
    crowd = Crowd(positions, Normal(jnp.zeros_like(like), identity), zero, zero, zero)
    trial = jnp.zeros((known.num_trials, len(like)), like.dtype), jnp.zeros(known.num_trials, like.dtype)
    report = WeightReport(zero - 1, zero + jnp.inf, zero + 1, zero, jnp.array(False))
    no = jnp.array(False)
    return Fit(expansion, crowd, trial, report, no, no, zero, LocalChains.none(like), (jnp.int32(0),) * 3)


def refit(
    known: Known, expansion: Expansion, points: jax.Array, values: jax.Array, log_weights: jax.Array
) -> Expansion:
    """Return the quadratic with a least-squares quadratic added that goes through the scores' residuals.

    Points count by their weights, cut off at ten times the mean. Where there are fewer than two points for each
    coefficient, only the diagonal of the curvature is fitted.
    """
    phi = points if known.coordinates is None else jax.vmap(known.coordinates)(points)
    number, dimension = phi.shape
    weights = jnp.exp(log_weights - log_weights.max())
    weights = jnp.minimum(weights / weights.mean(), 10.0) + 0.05
    mean = jnp.average(phi, axis=0, weights=weights)
    sd = jnp.sqrt(jnp.average((phi - mean) ** 2, axis=0, weights=weights)) + 1e-30
    u = (phi - mean) / sd
    rows, columns = np.triu_indices(dimension)
    if len(rows) + dimension + 1 > min(number // 2, MOST_FEATURES):
        rows = columns = np.arange(dimension)
    if 2 * dimension + 1 > number // 2:
        return expansion
    features = jnp.concatenate([jnp.ones((number, 1), u.dtype), u, u[:, rows] * u[:, columns]], axis=1)
    is_known = jnp.isfinite(values)
    residual = jnp.where(is_known, values - jax.vmap(expansion.at)(phi), 0.0)
    weighted = features * (weights * is_known)[:, None]
    gram = weighted.T @ features + 1e-3 * weights.sum() / number * jnp.eye(features.shape[1], dtype=u.dtype)
    found = jax.scipy.linalg.solve(gram, weighted.T @ residual, assume_a="pos")
    slope, bend = found[1 : dimension + 1], found[dimension + 1 :]
    curvature = jnp.zeros((dimension, dimension), u.dtype).at[rows, columns].add(bend)
    curvature = (curvature + curvature.T) / sd[:, None] / sd
    here = expansion.center
    added = Expansion(mean, Derivatives(found[0], slope / sd, curvature))
    old = expansion.at_center
    gradient = old.gradient + jax.grad(added.at)(here)
    summed = Derivatives(old.value + added.at(here), gradient, old.hessian + curvature)
    again = expand(None, here, summed, jnp.asarray(RIDGE**-0.5, u.dtype))
    is_sound = jnp.isfinite(found).all()
    return jax.tree.map(lambda new, old: jnp.where(is_sound, new, old), again, expansion)
