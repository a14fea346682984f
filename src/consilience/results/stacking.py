"""Weights of models from their leave-one-out figures: stacking, and pseudo-BMA.

Stacking maximises Σ_i Σ_{j of owner i} log Σ_k w_k exp(elpd_jk) over weights w that are not negative and add up to one
(Yao, Vehtari, Simpson and Gelman 2018). The sum is one over owners, and so is its gradient: an owner answers weights
with a value and a gradient, K + 1 numbers, and shows no row. Pseudo-BMA needs nothing but each model's sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .._extras import require

WEIGHTS = ("stacking", "pseudo-BMA")

Score = Callable[[np.ndarray], tuple[float, np.ndarray]]


def owner_score(elpd: np.ndarray) -> Score:
    """Return an owner's part of what stacking maximises, and of its gradient, as a function of the weights.

    Args:
      elpd: of this owner's observations, (models, observations).
    """
    densities = np.exp(elpd - elpd.max(axis=0, initial=-np.inf)).T  # of each observation in units of its largest

    def score(weights: np.ndarray) -> tuple[float, np.ndarray]:
        mixed = densities @ weights
        return float(np.log(mixed).sum()), (densities / mixed[:, None]).sum(axis=0)

    return score


def stacking(owners: Sequence[Score], models: int) -> np.ndarray:
    """Return the weights that maximise the sum of all owners' scores."""
    optimize = require("scipy.optimize", "report")

    def negative(weights: np.ndarray) -> tuple[float, np.ndarray]:
        values, gradients = zip(*(owner(weights) for owner in owners), strict=True)
        return -sum(values), -np.sum(gradients, axis=0)

    found = optimize.minimize(
        negative,
        np.full(models, 1 / models),
        jac=True,
        bounds=optimize.Bounds(np.zeros(models), np.ones(models)),
        constraints=optimize.LinearConstraint(np.ones(models), 1.0, 1.0),
    )
    return np.asarray(found.x)


def pseudo_bma(elpd: np.ndarray) -> np.ndarray:
    """Return weights in proportion to exp(elpd) of all rows together."""
    densities = np.exp(elpd - elpd.max())
    return np.asarray(densities / densities.sum())
