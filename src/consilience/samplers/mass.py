"""Momenta p ~ N(0, M) and mass matrices M, given by their inverse as in BlackJAX.

The inverse mass matrix is None (the identity), a number, a vector (a diagonal, in the order in which the parameters'
leaves are laid end to end) or a dense matrix.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from .._refused import Refused
from .._types import Key, Scalar, Vector


def check_mass(sampler: str, inverse_mass: Any) -> Any:
    """Return `inverse_mass` as an array; refuse one that is not positive."""
    if inverse_mass is None:
        return None
    try:
        matrix = np.asarray(inverse_mass, dtype=float)
        good = np.isfinite(matrix).all() and (_is_positive_definite(matrix) if matrix.ndim == 2 else (matrix > 0).all())
    except (TypeError, ValueError):
        good = False
    if not good or matrix.ndim > 2:
        raise Refused(
            sampler,
            "inverse_mass_matrix must be positive: a number, a vector (one number per parameter, the parameters' "
            "leaves laid end to end), or a symmetric matrix",
        )
    return jnp.asarray(inverse_mass, dtype=float)


def check_mass_dimension(sampler: str, inverse_mass: Any, dimension: int) -> None:
    """Refuse a mass matrix that is not of the model's dimension."""
    if inverse_mass is not None and inverse_mass.ndim and len(inverse_mass) != dimension:
        reason = f"inverse_mass_matrix is for {len(inverse_mass)} parameters, the model has {dimension}"
        raise Refused(sampler, reason)


def _is_positive_definite(matrix: np.ndarray) -> bool:
    square = matrix.shape[0] == matrix.shape[1]
    return square and np.allclose(matrix, matrix.T) and bool(np.linalg.eigvalsh(matrix).min() > 0)


def momentum(key: Key, inverse_mass: Any, like: Vector) -> Vector:
    """Draw a momentum p ~ N(0, M) of the shape and dtype of `like`."""
    return momentum_of(jax.random.normal(key, like.shape, like.dtype), inverse_mass)


def momentum_of(normal: Vector, inverse_mass: Any) -> Vector:
    """Make a momentum p ~ N(0, M) from a standard normal vector."""
    if inverse_mass is None:
        return normal
    inverse_mass = inverse_mass.astype(normal.dtype)
    if inverse_mass.ndim == 2:  # M = C⁻ᵀC⁻¹ for M⁻¹ = CCᵀ
        return solve_triangular(jnp.linalg.cholesky(inverse_mass), normal, lower=True, trans="T")
    return normal / jnp.sqrt(inverse_mass)


def velocity(inverse_mass: Any, p: Vector) -> Vector:
    """Compute the velocity M⁻¹p."""
    if inverse_mass is None:
        return p
    inverse_mass = inverse_mass.astype(p.dtype)
    return inverse_mass @ p if inverse_mass.ndim == 2 else inverse_mass * p


def kinetic_energy(inverse_mass: Any, p: Vector) -> Scalar:
    """Compute the kinetic energy ½ pᵀM⁻¹p."""
    return 0.5 * jnp.vdot(p, velocity(inverse_mass, p))
