"""Three regressions of the same rows on three owners of unequal size, for what compares models."""

import inspect
import warnings
from dataclasses import replace
from functools import cache
from math import log, pi

import arviz_stats
import jax.numpy as jnp
import numpy as np
from arviz_base import from_dict

import consilience as cs
from consilience.model import Layout

RANDOM = np.random.default_rng(0)
SIZES = (7, 30, 53)
X = RANDOM.normal(size=(sum(SIZES), 3))
Y = X @ [1.0, 2.0, 0.4] + RANDOM.normal(size=len(X))
X[3], Y[3] = 12.0, 20.0  # a row on which the posterior hangs
CUTS = np.cumsum(SIZES)[:-1]
SHARDS = [{"x": x, "y": y} for x, y in zip(np.split(X, CUTS), np.split(Y, CUTS), strict=True)]
RING = cs.Network.ring(3)
MODELS = {"all": (3, 1.0), "two": (2, 1.0), "wide": (3, 2.0)}  # columns, and the noise's sd


def model(columns, sd):
    def mean(params, x):
        return x[:, :columns] @ params["w"] + params["b"]

    return cs.Posterior.regressor(mean, noise_sd=sd, init={"b": 0.0, "w": jnp.zeros(columns)})


@cache
def a_run():
    """Any run of these agents; in double precision where the caller has switched it on."""
    return cs.sample(model(3, 1.0), SHARDS, RING, cs.published(0.01), num_samples=1, num_warmup=0, progress=False)


def exact(name, copies=1):
    """A run with exact draws of the posterior, which is normal: one chain's for all agents, or each agent's own."""
    columns, sd = MODELS[name]
    posterior, layout = model(columns, sd), Layout.of(model(columns, sd).init)
    inputs = np.column_stack([np.ones(len(X)), X[:, :columns]])  # b comes before w
    covariance = np.linalg.inv(inputs.T @ inputs / sd**2 + np.eye(columns + 1))
    mean = covariance @ inputs.T @ Y / sd**2
    kept = np.random.default_rng(1).multivariate_normal(mean, covariance, (250, 2, copies))
    run = replace(a_run(), kept=kept, posterior=posterior, layout=layout, parameters=layout)
    return replace(run, sampler=cs.nuts(), raw_stats={})


def pointwise(name, draws, shards=SHARDS):
    """Log-likelihoods (chain, draw, row), in plain numpy."""
    columns, sd = MODELS[name]
    x, y = (np.concatenate([shard[key] for shard in shards]) for key in ("x", "y"))
    means = draws["w"] @ x[:, :columns].T + draws["b"][..., None]
    return -0.5 * ((y - means) / sd) ** 2 - log(sd) - 0.5 * log(2 * pi)


def pooled(name, run, agent=0, shards=SHARDS):
    """The run as ArviZ has it: an agent's draws, and all rows pooled."""
    draws = {key: values[agent] for key, values in run.draws.items()}
    return from_dict({"posterior": draws, "log_likelihood": {"y": pointwise(name, draws, shards)}})


def arviz_compare(trees, **options):
    """ArviZ's table of models, the best first, as 0.8 has it: 1.3 rounds it, and its differences are negative."""
    rounds = "round_to" in inspect.signature(arviz_stats.compare).parameters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of high k-hat
        table = arviz_stats.compare(trees, **options, **({"round_to": "none"} if rounds else {}))
    if "warning" not in table:
        table["warning"] = table["diag_elpd"] != ""
        table["elpd_diff"] = -table["elpd_diff"]
    return table


def arviz_loo(tree):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of high k-hat
        return arviz_stats.loo(tree, pointwise=True)
