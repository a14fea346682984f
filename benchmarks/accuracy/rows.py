"""A cell is run and becomes a row."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import consilience as cs
from consilience.model import Layout

from .cells import NETWORKS, Cell
from .measures import accuracy, cost, distinct, is_finite, mixing
from .steps import Situation, fitting_halvings
from .targets import Truth, problem

Row = dict[str, Any]


def measure(cell: Cell, reference: Truth | None = None) -> Row:
    """The row of a cell: figures, or why there are none. `reference` is the truth where the target has none."""
    row = empty(cell) | {"status": "ok", "error": None}
    began = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            row |= figures(cell, reference)
        row["warnings"] = sorted({str(one.message)[:300] for one in caught})
    except Exception as error:
        traceback.print_exc()
        row |= {"status": "failed", "error": f"{type(error).__name__}: {error}"[:500]}
    row["seconds"] = round(time.perf_counter() - began, 1)
    return row


def died(cell: Cell) -> Row:
    return empty(cell) | {"status": "failed", "error": "its process died", "seconds": None}


def empty(cell: Cell) -> Row:
    return {"target": cell.target, "network": cell.network, "sampler": cell.sampler, "settings": cell.settings}


def figures(cell: Cell, reference: Truth | None) -> Row:
    network, recipe, length = NETWORKS[cell.network](), cell.recipe, cell.length
    posterior, shards, layout, known = problem(cell.target, network.size)
    truth = known or reference
    if truth is None:
        raise RuntimeError("the reference run failed, so there is nothing to compare with.")
    run = partial(
        cs.sample,
        posterior,
        shards,
        network,
        init=starts(layout, truth),
        num_chains=cell.scale.chains,
        seed=cell.seed,
        progress=False,
    )
    rate, end = cell.size.turnovers / length.kept, length.warmup + length.kept
    here = Situation(cell.target, network.size, truth.largest_variance, rate, length.warmup, end)
    halvings = None
    if not recipe.is_tuned:
        half = cell.size.pilot // 2

        def pilot(factor: float) -> cs.Run:
            return run(recipe.make(here.slowed(factor)), num_warmup=half, num_samples=1, thin=half)

        halvings = fitting_halvings(pilot, truth)
        here = here.slowed(2**halvings)
    sampler = recipe.make(here)
    done = run(sampler, num_warmup=length.warmup, num_samples=length.draws, thin=length.thin)
    friction = getattr(sampler, "friction", None)
    found = {
        "step_size": step_size(done),
        "friction": None if friction is None else float(friction),
        "halvings": halvings,
        "bias_stated": done.sampler.bias,
    }
    if not is_finite(done):
        return found | {"status": "diverged", "error": "left the numbers"}
    found |= accuracy(distinct(done), truth) | mixing(distinct(done))
    found |= cost(done, recipe, length, lambda: run(sampler, num_warmup=length.warmup, num_samples=1))
    return found | {
        "acceptance": done.acceptance,
        "divergences": done.divergences,
        "redone": done.redone,
        "consensus_error": done.consensus_error,
        "run_seconds": round(done.seconds, 1),
    }


def starts(layout: Layout, truth: Truth) -> Callable[[Any], Any]:
    """Every chain at a place of its own: normal, around the true mean, with the true sd of every parameter."""
    mean, sd = (jnp.asarray(x, layout.dtype) for x in (truth.mean, np.sqrt(truth.variance)))
    return lambda key: layout.unravel(mean + sd * jax.random.normal(key, mean.shape, mean.dtype))


def step_size(run: cs.Run) -> float:
    """As set, or the mean of what the chains found, or of a decaying one."""
    if "step_size" in run.raw_stats:
        return float(run.raw_stats["step_size"].mean(dtype=float))
    return float(run.sampler.step_size)
