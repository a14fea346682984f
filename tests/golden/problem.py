"""A small skewed posterior: logistic regression with two parameters, few rows, and shards of unequal length.

The numbers are written out, so that no generator of random numbers stands between this file and the draws. Peers run
this very file as their model.
"""

import jax
import jax.numpy as jnp
import numpy as np

import consilience as cs

# What each agent has seen: x, and whether y was 1.
ROWS = [
    [(-1.3, 0), (0.4, 1), (2.1, 1), (-0.2, 0), (0.9, 1)],
    [(1.7, 1), (-0.6, 1), (0.1, 0)],
    [(-2.2, 0), (-0.9, 0), (0.3, 1), (1.1, 1), (-1.6, 0), (0.7, 0), (2.6, 1)],
    [(0.5, 1), (-0.4, 0), (1.4, 1), (-1.1, 1)],
]


def rows(index):
    """Return the shard of one agent."""
    x, y = zip(*ROWS[index], strict=True)
    return {"x": np.array(x), "y": np.array(y, float)}


def log_prior(params):
    return -0.5 * (params["intercept"] ** 2 + (params["slope"] / 2) ** 2)


def log_likelihood(params, batch):
    logits = params["intercept"] + params["slope"] * batch["x"]
    return batch["y"] * logits - jnp.logaddexp(0.0, logits)


def start(key):
    """Return a start of its own for every chain."""
    intercept, slope = 0.5 * jax.random.normal(key, (2,))
    return {"intercept": intercept, "slope": 1.0 + slope}


posterior = cs.Posterior(log_prior, log_likelihood, init=start)
