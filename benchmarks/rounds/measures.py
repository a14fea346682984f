"""What a run cost, how well it mixed, and how right it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from arviz_stats.base import array_stats

PIECES = 16  # of all chains, at least, between which means are compared


class Moments(NamedTuple):
    """Means and variances of a posterior's parameters, and how well they are known."""

    mean: np.ndarray
    variance: np.ndarray
    mean_error: np.ndarray
    ratio_error: float  # of the mean over parameters of variance over true variance


def pieces_of(draws: np.ndarray) -> np.ndarray:
    """Cut chains (draw, chain, parameter) into pieces that are nearly independent: (draw, piece, parameter)."""
    chains = draws.shape[1]
    each = max(1, -(-PIECES // chains))
    length = len(draws) // each
    return draws[: each * length].reshape(each, length, chains, -1).swapaxes(0, 1).reshape(length, each * chains, -1)


def moments(draws: np.ndarray) -> Moments:
    """Return the moments of draws (draw, chain, parameter), their errors from the spread between pieces of chains."""
    cut = pieces_of(draws.astype(float))
    number = cut.shape[1]
    of_piece = cut.mean(axis=0)
    mean, error = of_piece.mean(axis=0), of_piece.std(axis=0, ddof=1) / np.sqrt(number)
    squares = ((cut - mean) ** 2).mean(axis=0)
    variance = squares.mean(axis=0) + error**2
    ratio_error = float((squares / variance).mean(axis=1).std(ddof=1) / np.sqrt(number))
    return Moments(mean, variance, error, ratio_error)


def accuracy(draws: np.ndarray, truth: Moments) -> dict[str, Any]:
    """Return the variance ratio and the worst bias in sd, with standard errors that hold the reference's own."""
    cut, sd = pieces_of(draws.astype(float)), np.sqrt(truth.variance)
    number = cut.shape[1]
    of_piece = cut.mean(axis=0)
    center, error = of_piece.mean(axis=0), of_piece.std(axis=0, ddof=1) / np.sqrt(number)
    ratios = (((cut - center) ** 2).mean(axis=0) / truth.variance).mean(axis=1)
    ratio = float(ratios.mean() + (error**2 / truth.variance).mean())
    bias, errors = (center - truth.mean) / sd, np.hypot(error, truth.mean_error) / sd
    worst = int(np.argmax(np.abs(bias)))
    return {
        "variance_ratio": ratio,
        "variance_ratio_se": float(np.hypot(ratios.std(ddof=1) / np.sqrt(number), ratio * truth.ratio_error)),
        "worst_bias": float(abs(bias[worst])),
        "worst_bias_se": float(errors[worst]),
    }


def mixing(draws: np.ndarray) -> dict[str, Any]:
    """Return the least ESS of any parameter, of three kinds, and the largest R-hat; draws are (draw, chain, parameter).

    That of squares is of how far a parameter is from its mean: trajectories may mix means and not that.
    """
    draws = draws.astype(float)
    if (np.ptp(draws, axis=0) == 0).any():  # a chain that never moved, which arviz would call perfect
        return {"ess_bulk": 0.0, "ess_tail": 0.0, "ess_squares": 0.0, "ess": 0.0, "r_hat": None}
    stats, axes = array_stats, {"chain_axis": 1, "draw_axis": 0}
    squares = (draws - draws.mean(axis=(0, 1))) ** 2
    kinds = {
        "ess_bulk": stats.ess(draws, method="bulk", **axes),
        "ess_tail": stats.ess(draws, method="tail", prob=(0.05, 0.95), **axes),
        "ess_squares": stats.ess(squares, method="bulk", **axes),
    }
    found = {name: float(np.min(values)) for name, values in kinds.items()}
    r_hat = float(np.max(stats.rhat(draws, method="rank", **axes)))
    return {**found, "ess": min(found.values()), "r_hat": r_hat}


def sums_of(stats: Mapping[str, np.ndarray], num_proposals: int, scored: int) -> int:
    """Return how many sums iterations took, of chains side by side, without those of a fit.

    Args:
      stats: figures of the iterations, (iteration, chain).
      scored: number of these iterations that use scored proposals.
    """
    if "surrogate_split" in stats:
        if not stats["surrogate_split"].any():
            return -(-scored // num_proposals)
        return int(stats["num_integration_steps"].max(axis=1).sum())
    return lockstep_sums(stats["num_integration_steps"])


def lockstep_sums(steps: np.ndarray) -> int:
    """Return the sums of NUTS, given the leapfrog steps of iterations and chains: each doubling waits for the longest.

    Of s steps, the k-th doubling has 2^k, but for the last, which has what is left.
    """
    steps = steps.astype(int)
    total = 0
    for doubling in range(int(np.log2(max(1, steps.max()))) + 1):
        total += int(np.clip(steps - (2**doubling - 1), 0, 2**doubling).max(axis=1).sum())
    return total


def chain_sums(stats: Mapping[str, np.ndarray]) -> float | None:
    """Return the leapfrog steps of all chains together, each a sum if that chain were alone; None of scored draws."""
    if "surrogate_split" in stats and not stats["surrogate_split"].any():
        return None
    return float(stats["num_integration_steps"].sum())
