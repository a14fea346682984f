"""Central intervals, as summaries, predictions and the report's figures have them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def central(probability: float) -> tuple[float, float]:
    """Return the quantiles between which the central interval of a probability lies, with equal tails."""
    tail = (1 - probability) / 2
    return tail, 1 - tail


def mean_quantiles(series: np.ndarray, quantiles: Sequence[float]) -> np.ndarray:
    """Return quantiles of series (copy, chain, draw, number) over chains and draws, averaged over copies.

    Their axes are (quantile, number).
    """
    pooled = series.reshape(len(series), -1, series.shape[-1])
    return np.asarray(np.quantile(pooled, list(quantiles), axis=1).mean(axis=1))
