"""Small runs to report on."""

from dataclasses import replace
from functools import cache

import numpy as np

import consilience as cs
from consilience.model import Layout
from consilience.neighbors import Traffic
from consilience.results import Run

from ..targets import linear_regression

START = {"b": np.zeros(3, np.float32), "w": np.zeros((2, 3), np.float32)}


@cache
def classified() -> dict[str, Run]:
    """Three agents that have one class each, with invented draws of an exact and of a biased sampler; evaluated."""
    random = np.random.default_rng(0)
    labels = np.arange(90, dtype=np.int32) % 3
    points = (np.eye(3, 2)[labels] * 3 + random.standard_normal((90, 2))).astype(np.float32)
    train, test = ({"x": points[part], "y": labels[part]} for part in (slice(60), slice(60, 90)))
    draws = np.array([-1, -1, 1, 2, 0, -1, 0, 2, -1]) + 0.5 * random.standard_normal((120, 2, 1, 9))
    of_agents = draws + 0.02 * random.standard_normal((120, 2, 3, 9))
    common = {
        "layout": Layout.of(START),
        "network": cs.Network.ring(3),
        "posterior": cs.Posterior.classifier(lambda params, x: x @ params["w"] + params["b"]),
        "shards": cs.shard(train, agents=3, by="label"),
        "rows": (20, 20, 20),
        "iterations": 220,
        "thin": 1,
        "traffic": Traffic(1000, 6000, 240_000),
        "seconds": 2.0,
    }
    accepted = {"is_accepted": random.random((120, 2, 1)) < 0.6}
    apart = np.sqrt(((of_agents - of_agents.mean(axis=2, keepdims=True)) ** 2).mean(axis=-1))
    runs = {
        "exact": Run(draws, accepted, sampler=cs.mala(), facts={"seed": "0"}, **common),
        "<b>biased & odd</b>": Run(of_agents, {"disagreement": apart}, sampler=cs.published(0.05), **common),
    }
    for run in runs.values():
        run.evaluate(test, ood=points[60:] + 30)
    return runs


@cache
def regression() -> Run:
    """Four agents on a star, each with draws of its own, really sampled; evaluated."""
    target = linear_regression(4)
    run = cs.sample(
        cs.Posterior.regressor(lambda w, x: x @ w),
        target.shards,
        cs.Network.star(4),
        cs.dula(0.01),
        init=np.zeros(3, np.float32),
        num_samples=100,
        num_warmup=0,
        num_chains=2,
        progress=False,
    )
    run.evaluate(target.shards[0])
    return run


def with_draws(draws: np.ndarray, network: cs.Network | None = None) -> Run:
    """The regression's run with other draws, (draw, chain, agent, 3), and without its predictions."""
    run = regression()
    stats = {"is_accepted": np.ones(draws.shape[:3]), "disagreement": np.ones(draws.shape[:3])}
    return replace(run, kept=draws, raw_stats=stats, network=network or run.network, rows=None)
