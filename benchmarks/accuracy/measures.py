"""How right draws are, how well they mixed, and what they cost."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from arviz_stats.base import array_stats
from scipy import stats as distributions

import consilience as cs

from .cells import Length, Recipe
from .targets import Truth

SERIES = (10, 26)  # agents and parameters, at most, whose ESS and R-hat are computed
BIAS_LEVEL = 1e-3
BLOCK = 64  # draws


def distinct(run: cs.Run) -> np.ndarray:
    """The draws (draw, chain, agent, parameter), one agent's where all hold the same."""
    return run.positions[:, :, : run.copies]


def is_finite(run: cs.Run) -> bool:
    return all(np.isfinite(values).all() for values in (distinct(run), *run.raw_stats.values()))


def accuracy(draws: np.ndarray, truth: Truth) -> dict[str, Any]:
    """Variance ratio and worst bias, their standard errors from the spread between chains.

    Parameters and agents are correlated, chains are not: the ratio is averaged over parameters and agents within each
    chain, and the chains' values are compared. Deviations are from an agent's mean over all chains, whose own error is
    added back.
    """
    chains = draws.shape[1]
    sd = np.sqrt(truth.variance)
    of_chain = draws.mean(axis=0, dtype=float)  # (chain, agent, parameter)
    center = of_chain.mean(axis=0)
    squares = np.zeros_like(of_chain)
    for first in range(0, len(draws), BLOCK):
        squares += ((draws[first : first + BLOCK] - center) ** 2).sum(axis=0)
    center_error = of_chain.std(axis=0, ddof=1) / np.sqrt(chains)  # (agent, parameter)
    ratios = (squares / len(draws) / truth.variance).mean(axis=(1, 2))
    ratio = ratios.mean() + (center_error**2 / truth.variance).mean()

    bias = (center - truth.mean) / sd
    error = np.sqrt(center_error**2 + truth.mean_error**2) / sd
    agent, parameter = np.unravel_index(np.argmax(np.abs(bias)), bias.shape)
    largest = np.max(np.abs(bias) / np.maximum(error, np.finfo(float).tiny))
    chance = bias.size * 2 * distributions.t.sf(largest, chains - 1)
    return {
        "variance_ratio": float(ratio),
        "variance_ratio_se": float(np.hypot(ratios.std(ddof=1) / np.sqrt(chains), ratio * truth.ratio_error)),
        "worst_bias": float(abs(bias[agent, parameter])),
        "worst_bias_se": float(error[agent, parameter]),
        "worst_bias_at": [int(agent), int(parameter)],
        "bias_beyond_noise": bool(chance < BIAS_LEVEL),
    }


def mixing(draws: np.ndarray) -> dict[str, Any]:
    """Bulk ESS of all chains together, and rank-normalised R-hat, of evenly spaced agents and parameters."""
    agents, parameters = (
        np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))
        for count, most in zip(draws.shape[2:], SERIES, strict=True)
    )
    some = draws[:, :, agents][..., parameters].astype(float)
    if (np.ptp(some, axis=0) == 0).any():  # a chain that never moved: arviz would call it perfect
        return {"ess_min": 0.0, "ess_typical": 0.0, "r_hat": None}
    ess = array_stats.ess(some, chain_axis=1, draw_axis=0, method="bulk")
    r_hat = array_stats.rhat(some, chain_axis=1, draw_axis=0, method="rank")
    return {"ess_min": float(ess.min()), "ess_typical": float(np.median(ess)), "r_hat": float(np.max(r_hat))}


def cost(done: cs.Run, recipe: Recipe, length: Length, warm_up: Callable[[], cs.Run]) -> dict[str, float]:
    """Of the sampling phase, all chains: one agent's gradients, and what the network sent.

    Samplers that tune themselves send more while they do so: `warm_up` runs that once more, with one draw, and its
    traffic is taken off. All others send the same in every iteration, or only at the end.
    """
    sent = np.array(traffic(done), float)
    if not recipe.is_tuned:
        sent *= length.kept / done.iterations
    elif recipe.kind != "one-shot":
        with warnings.catch_warnings(action="ignore"):
            sent = (sent - traffic(warm_up())) * length.kept / max(1, length.kept - 1)
    steps = done.raw_stats.get("num_integration_steps")
    if steps is None:
        gradients = float(recipe.gradients * length.kept * done.positions.shape[1])
    else:
        gradients = float(steps.mean(axis=2, dtype=float).sum() * length.thin)  # of one agent
    rounds, messages, sent_bytes = sent.tolist()
    return {"gradients": gradients, "rounds": rounds, "messages": messages, "megabytes": sent_bytes / 1e6}


def traffic(run: cs.Run) -> tuple[int, int, int]:
    return run.traffic.rounds, run.traffic.messages, run.traffic.bytes
