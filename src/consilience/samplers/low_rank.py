"""Surrogate of very many parameters: a normal law whose precision is diagonal plus low rank.

A Hessian of d parameters has d(d+1)/2 numbers, which nobody can send where d is many thousands. What a sampler gains
from it is in a few directions, and in the diagonal:

    precision = S⁻¹ (I + U Θ Uᵀ) S⁻¹ ,    S = diag(s),  Uᵀ U = I,  U of shape (d, r)

It is found by products of the Hessian with r vectors at a time, by one exact sum of r·d numbers. First up to a mode of
the posterior: every step's products are of the directions that the last ones have turned to, which makes a subspace
iteration of the climb. There, the diagonal is estimated from random signs (Hutchinson 1989, with what is known of low
rank taken out), and a few more products give the directions in which diagonal scaling leaves most to be done. The root
of the covariance follows in closed form, S (I + U diag((1 + θ)^-½ - 1) Uᵀ): nobody ever holds a d × d array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from .._types import Count, Flag, Key, LogDensity, Scalar, Vector
from ..neighbors import Neighbors, Repeated
from .metropolis import select

RANK = 48  # vectors in a message
REFINEMENTS, DIAGONAL_AT = 7, 3  # sums at the mode, one of them for the diagonal, the others for directions
TRIALS = 100  # proposals by which the law is judged
MOST_STEPS = 30
ARRIVED = 0.05  # of the decrement of Newton's method, in nats
FIRST_DAMPING, MOST_DAMPING = 1e-2, 1e8
RIDGE = 0.05  # precision of a parameter of which the prior says nothing
LEAST_LEFT = 0.1  # of what is left of the precision, in units of the prior's
LEAST = -0.95  # of θ: the law is at most so much wider than its diagonal says
PRODUCTS_AT_ONCE = 8


class LowRankNormal(NamedTuple):
    """A normal law N(mean, CCᵀ) with C = S (I + U diag(c - 1) Uᵀ)."""

    mean: Vector
    scale: Vector  # the diagonal of S
    directions: jax.Array  # U, (dimension, rank), with orthonormal columns
    lengths: Vector  # c, sd along them, in units of the scale

    @classmethod
    def standard(cls, like: Vector) -> LowRankNormal:
        """Return N(0, I)."""
        rank = min(RANK, len(like))
        return cls(
            jnp.zeros_like(like), jnp.ones_like(like), jnp.eye(len(like), rank, dtype=like.dtype), like[:rank] * 0 + 1
        )

    def standardise(self, q: Vector) -> Vector:
        apart = (q - self.mean) / self.scale
        return apart + self.directions @ ((1 / self.lengths - 1) * (self.directions.T @ apart))

    def place(self, z: Vector) -> Vector:
        return self.mean + self.scale * (z + self.directions @ ((self.lengths - 1) * (self.directions.T @ z)))

    def covariant(self, gradient: Vector) -> Vector:
        """Return CCᵀ times a gradient: how far its mean is from where that is the slope."""
        scaled = self.scale * gradient
        return self.scale * (scaled + self.directions @ ((self.lengths**2 - 1) * (self.directions.T @ scaled)))


class Products(NamedTuple):
    """Value and gradient of the log-likelihood at a point, and its Hessian times some vectors."""

    value: Scalar
    gradient: Vector
    products: jax.Array  # (dimension, rank)


def products_of(log_likelihood: LogDensity, neighbors: Neighbors, at: Vector, vectors: jax.Array) -> Products:
    """Ask the network for derivatives at a point and along vectors that all agents have, by one exact sum."""

    def product(vector: Vector) -> Vector:
        return jax.jvp(jax.grad(log_likelihood), (at,), (vector,))[1]

    value, gradient = jax.value_and_grad(log_likelihood)(at)
    products = lax.map(product, vectors.T, batch_size=PRODUCTS_AT_ONCE).T
    return Products(*neighbors.total((value, gradient, products), at=at))


class LowRankFit(NamedTuple):
    """A law, and the proposals by which it is judged, after so many sums of a climb."""

    law: LowRankNormal
    proposals: jax.Array
    log_weights: jax.Array
    climbs: Count


class Ascent(NamedTuple):
    """A climb so far: what the root has said of it is every agent's, to the last bit."""

    q: Vector  # the best so far
    gradient: Vector  # there, of the log posterior
    height: Scalar
    vectors: jax.Array  # approximate eigenvectors there, of the Hessian in the prior's scale
    values: Vector  # and eigenvalues
    proposed: Vector  # as the root says, and so are the directions and whether it has arrived
    directions: jax.Array  # orthonormal, to which the next products are
    damping: Scalar
    has_arrived: Flag
    sums: Count


class FitCounts(NamedTuple):
    """Contexts in which a fit's questions are counted."""

    telling: Repeated
    climbing: Repeated
    refining: Repeated
    scoring: Repeated

    def times(self, fits: Count, climbs: Count) -> None:
        """Say how many fits there were, one or none, and how many sums in its climb."""
        counts = (climbs + fits, climbs, REFINEMENTS * fits, fits)  # a climb's last point is told and not looked at
        for loop, count in zip(self, counts, strict=True):
            loop.times(count, (fits, climbs), is_common=True)


def fit_low_rank(
    log_prior: LogDensity, log_likelihood: LogDensity, neighbors: Neighbors, counts: FitCounts, start: Vector, key: Key
) -> LowRankFit:
    """Fit a normal law with a precision of diagonal plus low rank, over the network."""
    for_climb, for_signs, for_draws = jax.random.split(key, 3)
    scale = _prior_scale(log_prior, start)

    def tell(said: Any) -> Any:
        with counts.telling:
            return neighbors.follow_root(said, ())[0]

    def derive(at: Vector, vectors: jax.Array) -> Products:
        with counts.climbing:
            return products_of(log_likelihood, neighbors, at, vectors)

    def ask(at: Vector, directions: jax.Array, scale: Vector) -> tuple[jax.Array, Products]:
        with counts.refining:
            (at, vectors), _ = neighbors.follow_root((at, scale[:, None] * directions), ())
            return vectors / scale[:, None], products_of(log_likelihood, neighbors, at, vectors)

    ends = _climb(log_prior, tell, derive, scale, start, for_climb)
    law = _refined(log_prior, ask, scale, ends, for_signs)
    z = jax.random.normal(for_draws, (TRIALS, len(start)), start.dtype)
    with counts.scoring:
        proposals, _ = neighbors.follow_root(jax.vmap(law.place)(z))
        own = lax.map(log_likelihood, proposals, batch_size=PRODUCTS_AT_ONCE)
        values = neighbors.total(own, at=proposals.ravel())
    log_weights = values + jax.vmap(log_prior)(proposals) + 0.5 * jnp.square(z).sum(axis=1)
    return LowRankFit(law, proposals, log_weights, ends.sums)


def _prior_scale(log_prior: LogDensity, at: Vector) -> Vector:
    """Return the prior's sd, if its parameters are independent; they need not be for what is drawn to be right."""
    curvature = -jax.jvp(jax.grad(log_prior), (at,), (jnp.ones_like(at),))[1]
    return 1 / jnp.sqrt(jnp.where(curvature > 1e-3 * RIDGE, curvature, RIDGE))


def _ritz(directions: jax.Array, products: jax.Array) -> tuple[jax.Array, Vector]:
    """Return approximate eigenvectors and eigenvalues of a matrix, given its products with orthonormal directions."""
    small = directions.T @ products
    values, vectors = jnp.linalg.eigh(0.5 * (small + small.T))
    return directions @ vectors, values


def _orthonormal(products: jax.Array) -> jax.Array:
    """Return an orthonormal basis of what some vectors span; of one that is not finite, the first axes."""
    basis, _ = jnp.linalg.qr(products)
    return jnp.where(jnp.isfinite(basis).all(), basis, jnp.eye(len(products), products.shape[1], dtype=products.dtype))


def _climb(
    log_prior: LogDensity,
    tell: Callable[[Any], Any],
    derive: Callable[[Vector, jax.Array], Products],
    scale: Vector,
    start: Vector,
    key: Key,
) -> Ascent:
    """Climb the posterior by a damped Newton method, whose Hessian is of low rank in the prior's scale.

    A step that leads down is taken back with all that was seen there, and damped eight times as much.

    Args:
      tell: returns the root's copy of what it is given. When to stop follows from eigenvalues, which another processor
        rounds in another way: it is the root that stops, with the point that it would look at next.
      derive: returns the network's derivatives at a point, and along vectors, by one exact sum.
    """
    rank = min(RANK, len(start))

    def look(state: Ascent) -> Ascent:
        at, found = state.proposed, derive(state.proposed, scale[:, None] * state.directions)
        height, gradient = found.value + log_prior(at), found.gradient + jax.grad(log_prior)(at)
        products = -scale[:, None] * found.products
        is_smooth = jnp.isfinite(height) & jnp.isfinite(gradient).all() & jnp.isfinite(products).all()
        is_up = is_smooth & (height >= state.height)
        products = jnp.where(is_up, products, state.directions)
        q, gradient, height, vectors, values = jax.tree.map(
            lambda new, old: jnp.where(is_up, new, old),
            (at, gradient, height, *_ritz(state.directions, products)),
            (state.q, state.gradient, state.height, state.vectors, state.values),
        )
        sizes = jnp.abs(values)
        rest = sizes.min()  # of directions that were not looked at, at most about so much
        damping = jnp.where(is_up, state.damping / 8, jnp.maximum(8 * state.damping, FIRST_DAMPING))
        slope = scale * gradient

        def solved(more: Scalar) -> Vector:
            along = vectors.T @ slope
            return (slope - vectors @ along) / (1 + rest + more) + vectors @ (along / (1 + sizes + more))

        decrement = 0.5 * jnp.vdot(slope, solved(jnp.zeros_like(damping)))
        # From a start at which something is not finite there is no way up, and it is not asked about again.
        has_arrived = (is_up & (decrement < ARRIVED)) | (damping > MOST_DAMPING) | ~jnp.isfinite(height)
        proposed = q + scale * solved(damping * (1 + sizes.max()))
        proposed, directions, has_arrived = tell((proposed, _orthonormal(products), has_arrived))
        sums = state.sums + 1
        return Ascent(q, gradient, height, vectors, values, proposed, directions, damping, has_arrived, sums)

    drawn = _orthonormal(jax.random.normal(key, (len(start), rank), start.dtype))
    proposed, directions, nobody = tell((start, drawn, jnp.array(False)))
    first = Ascent(
        start,
        jnp.zeros_like(start),
        jnp.full((), -jnp.inf, start.dtype),
        directions,
        jnp.zeros(rank, start.dtype),
        proposed,
        directions,
        jnp.full((), FIRST_DAMPING, start.dtype),
        nobody,
        jnp.int32(0),
    )
    return lax.while_loop(lambda state: ~state.has_arrived & (state.sums < MOST_STEPS), look, first)


def _refined(log_prior: LogDensity, ask: Any, scale: Vector, ends: Ascent, key: Key) -> LowRankNormal:
    """Return the law at the end of a climb.

    With P the precision there and S the scale, of which the prior's sd is the first, SPS = I + UΘUᵀ + what is left. The
    scale takes in the diagonal of what is left, of what random signs say of it, and U is found anew.
    """
    q, rank = ends.q, ends.directions.shape[1]
    signs = jax.random.rademacher(key, (len(q), rank), q.dtype)

    def of_prior(vectors: jax.Array) -> jax.Array:
        return jax.vmap(lambda v: jax.jvp(jax.grad(log_prior), (q,), (v,))[1], 1, 1)(vectors)

    def look(number: Count, state: Refined) -> Refined:
        is_diagonal = number == DIAGONAL_AT
        asked, found = ask(q, jnp.where(is_diagonal, signs, state.basis), state.scale)
        whole = -state.scale[:, None] * (found.products + of_prior(state.scale[:, None] * asked))
        vectors, values = _ritz(asked, whole - asked)
        better = Refined(state.scale, _orthonormal(whole - asked), vectors, values)
        left = whole - state.vectors @ (state.values[:, None] * (state.vectors.T @ asked))
        wider = 1 / jnp.sqrt(jnp.maximum((asked * left).mean(axis=1), LEAST_LEFT))
        scaled = state._replace(scale=state.scale * wider, basis=_orthonormal(wider[:, None] * state.vectors))
        return select(is_diagonal, scaled, better)

    first = Refined(scale, ends.directions, ends.directions, jnp.zeros(rank, q.dtype))
    found = lax.fori_loop(0, REFINEMENTS, look, first)
    lengths = 1 / jnp.sqrt(1 + jnp.maximum(found.values, LEAST))
    law = LowRankNormal(q, found.scale, found.vectors, lengths)
    return law._replace(mean=q + law.covariant(ends.gradient))


class Refined(NamedTuple):
    scale: Vector  # the diagonal of S
    basis: jax.Array  # orthonormal, to which the next products are
    vectors: jax.Array  # U
    values: Vector  # θ
