"""Momenta: p ~ N(0, M), with M given by its inverse, as BlackJAX has it.

The inverse mass matrix is None (the identity), a number, a vector (a diagonal, in the order in which the parameters'
leaves are laid end to end) or a dense matrix.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from .._types import Key, Scalar, Vector


def check_mass(sampler: str, inverse_mass: Any, dimension: int | None = None) -> Any:
    """`inverse_mass` as an array; refuses one that is not positive, or not of the model's dimension."""
    if inverse_mass is None or isinstance(inverse_mass, jax.core.Tracer):
        return inverse_mass
    try:
        matrix = np.asarray(inverse_mass, dtype=float)
    except (TypeError, ValueError):
        return inverse_mass  # a placeholder of a pytree transformation
    if matrix.ndim == 2:
        symmetric = matrix.shape[0] == matrix.shape[1] and np.allclose(matrix, matrix.T)
        good = symmetric and np.linalg.eigvalsh(matrix).min() > 0
    else:
        good = matrix.ndim < 2 and bool((matrix > 0).all() and np.isfinite(matrix).all())
    if not good:
        raise ValueError(f"{sampler}: inverse_mass_matrix must be positive: a number, a diagonal, or a matrix.")
    if dimension is not None and matrix.ndim and len(matrix) != dimension:
        raise ValueError(f"{sampler}: inverse_mass_matrix is for {len(matrix)} parameters, the model has {dimension}.")
    return jnp.asarray(inverse_mass)


def momentum(key: Key, inverse_mass: Any, like: Vector) -> Vector:
    """p ~ N(0, M), of the shape and dtype of `like`."""
    normal = jax.random.normal(key, like.shape, like.dtype)
    if inverse_mass is None:
        return normal
    inverse_mass = inverse_mass.astype(like.dtype)
    if inverse_mass.ndim == 2:  # M = C⁻ᵀC⁻¹ for M⁻¹ = CCᵀ
        return solve_triangular(jnp.linalg.cholesky(inverse_mass), normal, lower=True, trans="T")
    return normal / jnp.sqrt(inverse_mass)


def velocity(inverse_mass: Any, p: Vector) -> Vector:
    """M⁻¹p."""
    if inverse_mass is None:
        return p
    inverse_mass = inverse_mass.astype(p.dtype)
    return inverse_mass @ p if inverse_mass.ndim == 2 else inverse_mass * p


def kinetic_energy(inverse_mass: Any, p: Vector) -> Scalar:
    """½ pᵀM⁻¹p."""
    return 0.5 * jnp.vdot(p, velocity(inverse_mass, p))
