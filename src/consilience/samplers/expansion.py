"""Expansion of the network's log-likelihood: the quadratic that everybody holds, and the search for its centre.

Agent i's log-likelihood L_i(q), without the prior, is expanded to second order at one agreed point q̂. With
g = Σ g_i and H = Σ H_i, by one exact sum, everybody knows

    Σ_i L_i(q)  ≈  L̂ + g·(φ - φ̂) + ½ (φ - φ̂)ᵀ H (φ - φ̂) ,    φ = φ(q), φ̂ = φ(q̂)

in the coordinates φ that the likelihood sees: the parameters themselves, or a function of them, such as the effects of
a model whose parameters are their standardised form. What agents send are derivatives in q; those in φ follow, where
the likelihood depends on q through φ alone and J = ∂φ/∂q has full row rank at q̂:

    g_φ = J⁺ᵀ g ,    H_φ = J⁺ᵀ (H - Σ_k g_φ,k ∇²φ_k) J⁺ .
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from .._types import Number, Scalar, Vector

Coordinates = Callable[[Vector], Vector]

MOST_STEPS = 40  # of Newton's method
TRAVELS = 8  # steps to a point with given coordinates
FIRST_DAMPING, MOST_DAMPING = 1e-3, 1e8
DECREMENT = 1e-3  # of Newton's method, in nats, at which it has arrived
NEAR = 1.0  # the same, within which an end is at a mode, though rounding or patience stopped it on its way
LEVEL = 1e-5  # of the largest curvature: so much the other way may be rounding
SMALLEST_CURVATURE = 1e-8  # of the largest


class Derivatives(NamedTuple):
    """Value, gradient and Hessian of the log-likelihood at a point, or at several."""

    value: Scalar
    gradient: Vector
    hessian: jax.Array


class Expansion(NamedTuple):
    """A quadratic in φ, by the value, gradient and Hessian at its centre."""

    center: Vector  # φ̂
    at_center: Derivatives

    def at(self, phi: Vector) -> Scalar:
        """Return the value at φ."""
        apart = phi - self.center
        value, gradient, hessian = self.at_center
        return value + jnp.vdot(gradient, apart) + 0.5 * jnp.vdot(apart, hessian @ apart)


def expand(coordinates: Coordinates | None, q: Vector, found: Derivatives, prior_sd: Scalar) -> Expansion:
    """Return the expansion at q, in `coordinates`, with curvature that goes down in every direction.

    Args:
      found: derivatives of the whole log-likelihood at q, in the parameters.
      prior_sd: a length over which the prior may be trusted to end what the quadratic does not.
    """
    phi = q if coordinates is None else coordinates(q)
    return bent_down(phi, derivatives_in(coordinates, q, found), prior_sd)


def bent_down(phi: Vector, found: Derivatives, prior_sd: Scalar) -> Expansion:
    """Return the expansion at φ, given derivatives in φ, with curvature that goes down in every direction."""
    return Expansion(phi, found._replace(hessian=_bent_down(found.gradient, found.hessian, prior_sd)))


def derivatives_in(coordinates: Coordinates | None, q: Vector, found: Derivatives) -> Derivatives:
    """Return derivatives in `coordinates`, given those in the parameters at q."""
    if coordinates is None:
        return found
    lifted = lift(coordinates, q)
    gradient = lifted.T @ found.gradient
    bend = jax.hessian(lambda at: jnp.vdot(gradient, coordinates(at)))(q)
    return Derivatives(found.value, gradient, _symmetric(lifted.T @ (found.hessian - bend) @ lifted))


def mean_of(coordinates: Coordinates | None, points: jax.Array, found: Derivatives) -> Derivatives:
    """Return the mean of derivatives at several points, in `coordinates`.

    Over draws of a normal law, the mean slope and curvature are those of the quadratic that is nearest to a function
    (Stein's lemma), and tell more than its values do.
    """
    each = jax.vmap(lambda q, one: derivatives_in(coordinates, q, one))(points, found)
    return jax.tree.map(lambda leaf: leaf.mean(axis=0), each)


def blend(old: Expansion, new: Expansion, share: Scalar) -> Expansion:
    """Return the quadratic (1 - share)·old + share·new, at the new one's centre."""
    at = new.center
    there = Derivatives(old.at(at), jax.grad(old.at)(at), old.at_center.hessian)
    return Expansion(at, jax.tree.map(lambda a, b: (1 - share) * a + share * b, there, new.at_center))


def lift(coordinates: Coordinates, q: Vector) -> jax.Array:
    """Return J⁺ at q, of shape (dimension, coordinates): the smallest change of q for a change of the coordinates."""
    jacobian = jax.jacfwd(coordinates)(q)
    # J⁺ = Jᵀ(JJᵀ)⁻¹, of rows of unit length, so that coordinates of unlike scales do not spoil it
    lengths = jnp.linalg.norm(jacobian, axis=1)
    rows = jacobian / lengths[:, None]
    return jnp.linalg.solve(rows @ rows.T, rows).T / lengths


def travel(coordinates: Coordinates | None, q: Vector, step: jax.Array) -> Vector:
    """Return parameters whose coordinates are φ(q) + step: by Newton's method, which asks nobody."""
    if coordinates is None:
        return q + step
    target = coordinates(q) + step

    def nearer(_: jax.Array, at: Vector) -> Vector:
        return at + lift(coordinates, at) @ (target - coordinates(at))

    found = lax.fori_loop(0, TRAVELS, nearer, q)
    return jnp.where(jnp.isfinite(found).all(), found, q + lift(coordinates, q) @ step)


def _bent_down(gradient: Vector, hessian: jax.Array, prior_sd: Scalar) -> jax.Array:
    """Return the Hessian with no eigenvalue above zero, in coordinates that are scaled to unit curvature.

    Along an eigenvector on which the gradient does not vanish the quadratic would rise for ever: there it is bent down
    far enough to turn within two of the prior's sd.
    """
    curvature = jnp.abs(jnp.diagonal(hessian))
    scale = 1 / jnp.sqrt(jnp.maximum(curvature, SMALLEST_CURVATURE * jnp.maximum(curvature.max(), 1.0)))
    values, vectors = jnp.linalg.eigh(_symmetric(hessian * scale[:, None] * scale))
    slopes = jnp.abs(vectors.T @ (scale * gradient))
    reach = 2 * prior_sd / jnp.maximum(jnp.linalg.norm(vectors * scale[:, None], axis=0), 1e-30)
    bent = jnp.where(values < 0, values, -slopes / reach)
    return _symmetric((vectors * bent) @ vectors.T / scale[:, None] / scale)


def _symmetric(matrix: jax.Array) -> jax.Array:
    return 0.5 * (matrix + jnp.swapaxes(matrix, -1, -2))


class Climb(NamedTuple):
    """Newton's method from several starts at once.

    What the root has said is every agent's, to the last bit: where to look next, and who has arrived.
    """

    q: jax.Array  # (starts, dimension), the best so far
    found: Derivatives  # there, of the log-likelihood, in the parameters
    height: jax.Array  # of what is climbed
    proposed: jax.Array  # the next points to look at
    damping: jax.Array
    has_arrived: jax.Array
    is_mode: jax.Array  # whether the hill goes down from there, on all sides
    sums: jax.Array


class Hill(NamedTuple):
    """What is climbed: the log-likelihood and a concave `guard`, in the coordinates that the likelihood sees."""

    coordinates: Coordinates | None
    guard: Callable[[Vector], Scalar]  # of the coordinates
    distance: Number  # squared Mahalanobis distance within which two ends are one mode

    def phi(self, q: Vector) -> jax.Array:
        """Return the coordinates of q."""
        return q if self.coordinates is None else self.coordinates(q)

    def height(self, q: jax.Array, found: Derivatives) -> jax.Array:
        """Return the height at several points; -∞ where something is not finite there."""
        height = found.value + jax.vmap(lambda at: self.guard(self.phi(at)))(q)
        smooth = jnp.isfinite(found.gradient).all(axis=1) & jnp.isfinite(found.hessian).all(axis=(1, 2))
        return jnp.where(jnp.isfinite(height) & smooth, height, -jnp.inf)

    def derivatives(self, q: jax.Array, found: Derivatives) -> Derivatives:
        """Return the derivatives of the height in the coordinates, at several points."""

        def of_one(q: Vector, found: Derivatives) -> Derivatives:
            own, phi = derivatives_in(self.coordinates, q, jax.tree.map(_finite, found)), self.phi(q)
            guard = Derivatives(self.guard(phi), jax.grad(self.guard)(phi), jax.hessian(self.guard)(phi))
            return jax.tree.map(jnp.add, own, guard)

        return jax.vmap(of_one)(q, found)

    def apart(self, q: jax.Array, precision: jax.Array, best: jax.Array) -> jax.Array:
        """Return the squared Mahalanobis distances of several points from the best of them."""
        phi = jax.vmap(self.phi)(q)
        return jnp.einsum("sd,de,se->s", phi - phi[best], precision[best], phi - phi[best])


def climb(
    starts: jax.Array, hill: Hill, tell: Callable[[Any], Any], derive: Callable[[jax.Array], Derivatives]
) -> Climb:
    """Climb a hill by a damped Newton method from several starts side by side.

    Steps are those of saddle-free Newton: curvatures that go up count as going down as fast. A step that leads down is
    taken back, and damped eight times as much. All have arrived when the best one has, at a mode, and every other one
    too or in its neighbourhood. A start that is on a saddle's top stays there, and the others climb on.

    Args:
      tell: returns the root's copy of what it is given. When to stop follows from eigenvalues, which another processor
        rounds in another way: it is the root that stops, with the points that it would look at next.
      derive: returns the network's derivatives at points (starts, dimension), by one exact sum.
    """

    def propose(q: jax.Array, found: Derivatives, height: jax.Array, damping: jax.Array, sums: Any) -> Climb:
        whole = hill.derivatives(q, found)
        values, vectors = jnp.linalg.eigh(-_symmetric(whole.hessian))
        size = jnp.maximum(jnp.abs(values), SMALLEST_CURVATURE * jnp.abs(values).max(axis=1, keepdims=True))
        along = jnp.einsum("sde,sd->se", vectors, whole.gradient)
        steps = jnp.einsum("sde,se->sd", vectors, along / (size * (1 + damping[:, None]) + damping[:, None]))
        decrement = 0.5 * jnp.sum(along**2 / size, axis=1)
        is_peaked = jnp.isfinite(height) & (values.min(axis=1) > -LEVEL * jnp.abs(values).max(axis=1))
        best = jnp.argmax(height)
        has_arrived = (decrement < DECREMENT) | (damping > MOST_DAMPING) | ~jnp.isfinite(height)
        is_near = hill.apart(q, -whole.hessian, best) < hill.distance
        has_arrived |= is_near & (decrement[best] < DECREMENT) & is_peaked[best]
        proposed = jax.vmap(lambda at, step: travel(hill.coordinates, at, step))(q, steps)
        return Climb(q, found, height, proposed, damping, has_arrived, is_peaked & (decrement < NEAR), sums)

    def look(state: Climb) -> Climb:
        at, found = state.proposed, derive(state.proposed)
        height = hill.height(at, found)
        is_up = ((height >= state.height) & jnp.isfinite(height) & ~state.has_arrived) | (state.sums == 0)

        def better(new: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(is_up.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        q, found, height = jax.tree.map(better, (at, found, height), (state.q, state.found, state.height))
        damping = jnp.where(is_up, state.damping / 8, jnp.maximum(8 * state.damping, FIRST_DAMPING))
        damping = jnp.where(damping < FIRST_DAMPING / 64, 0.0, damping)
        damping = jnp.where(state.sums == 0, FIRST_DAMPING, damping)
        after = propose(q, found, height, damping, state.sums + 1)
        proposed, has_arrived = tell((after.proposed, after.has_arrived))
        return after._replace(proposed=proposed, has_arrived=has_arrived)

    number, dimension = starts.shape
    nothing = jnp.zeros(number, starts.dtype)
    unknown = Derivatives(nothing, jnp.zeros_like(starts), jnp.zeros((number, dimension, dimension), starts.dtype))
    starts, nobody = tell((starts, jnp.zeros(number, bool)))
    first = Climb(starts, unknown, nothing - jnp.inf, starts, nothing, nobody, nobody, jnp.int32(0))
    return lax.while_loop(lambda state: ~state.has_arrived.all() & (state.sums < MOST_STEPS), look, first)


def _finite(values: jax.Array) -> jax.Array:
    """Return values with zeros in place of those that are not finite, which lead nowhere and are not used."""
    return jnp.where(jnp.isfinite(values), values, 0.0)


def other_mode(ends: Climb, hill: Hill) -> tuple[jax.Array, Scalar]:
    """Return the number of the best end, and the largest Laplace mass of an end in another mode over the best one's.

    Ends that are at no mode, such as a saddle's top, count only where there are no others: then the highest is best.
    """
    precision = -_symmetric(hill.derivatives(ends.q, ends.found).hessian)
    values = jnp.maximum(jnp.linalg.eigvalsh(precision), 1e-6)
    log_mass = ends.height - 0.5 * jnp.log(values).sum(axis=1)
    height = jnp.where(
        jnp.isfinite(log_mass), ends.height, -jnp.inf
    )  # not of an end whose coordinates do not move there
    log_mass = jnp.where(ends.is_mode, log_mass, -jnp.inf)
    best = jnp.argmax(jnp.where(ends.is_mode.any(), log_mass, height))
    far = hill.apart(ends.q, precision, best) > hill.distance
    return best, jnp.where(far & ends.is_mode, jnp.exp(log_mass - log_mass[best]), 0.0).max()


def total_of(found: Any) -> Derivatives:
    """Return derivatives whose Hessians were sent as upper triangles."""
    value, gradient, triangle = found
    dimension = gradient.shape[-1]
    rows, columns = jnp.triu_indices(dimension)
    hessian = jnp.zeros((*gradient.shape, dimension), gradient.dtype).at[..., rows, columns].set(triangle)
    hessian = hessian.at[..., columns, rows].set(triangle)
    return Derivatives(value, gradient, hessian)


def triangle_of(found: Derivatives) -> tuple[Scalar, Vector, jax.Array]:
    """Return derivatives with the upper triangle of the Hessian: d(d+1)/2 + d + 1 numbers to send."""
    rows, columns = jnp.triu_indices(found.gradient.shape[-1])
    return found.value, found.gradient, found.hessian[..., rows, columns]
