"""What the peers of `benchmarks.plan` sample: softmax regression on digits, two classes an agent, as wide as wanted.

Beside every agent's file, as a model of its owner's would be.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import consilience as cs
from consilience.engine import Chains
from consilience.experiments.images import bundled_digits
from consilience.model import Layout, stack_shards
from consilience.runs import simulation

AGENTS, CLASSES, PIXELS = 5, 10, 64
SAMPLERS: dict[str, Any] = {
    "mala": cs.mala(0.01, inverse_mass_matrix=1.0),
    "hmc": cs.hmc(0.01, inverse_mass_matrix=1.0),
    "dmala": cs.dmala(0.01, inverse_mass_matrix=1.0),
}


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


def alone(sampler: Any, index: int, features: int) -> Chains:
    """An agent's part of the work, with nobody to talk to."""
    mine, network = rows(index, features), cs.Network.complete(1)
    model = posterior(features).bind(mine)
    layout = Layout.of(model.init)
    resolved, start = sampler.resolve(network, layout.dimension), jnp.zeros((1, layout.dimension))
    return simulation(model, layout, stack_shards([mine], 1), network, resolved, start, jax.random.key(0)).started()
