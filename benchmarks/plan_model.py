"""What the peers of `benchmarks.plan` sample: softmax regression on digits, two classes an agent, as wide as wanted.

Beside every agent's file, as a model of its owner's would be.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import consilience as cs
from consilience.experiments.images import bundled_digits

AGENTS, CLASSES, PIXELS = 5, 10, 64


def dimension(features: int) -> int:
    """Weights and a bias for every class."""
    return CLASSES * (features + 1)


def posterior(features: int = PIXELS) -> cs.Posterior:
    start = {"weights": jnp.zeros((features, CLASSES)), "bias": jnp.zeros(CLASSES)}
    return cs.Posterior.classifier(lambda w, x: x @ w["weights"] + w["bias"], prior_precision=10.0, init=start)


def rows(index: int, features: int = PIXELS) -> dict[str, Any]:
    """An agent's: pixels, or so many random projections of them that are cut off at zero."""
    train, _ = bundled_digits()
    mine = cs.shard(train, AGENTS, by="label")[index]
    if features == PIXELS:
        return dict(mine)
    mixing = np.random.default_rng(0).standard_normal((PIXELS, features)).astype(np.float32) / PIXELS
    return {"x": np.asarray(jax.nn.relu(mine["x"] @ mixing)), "y": mine["y"]}
