"""Methods of an experiment: samplers with settings, run as any user would, and the rows of their results.

An experiment's seeds are the chains of one run: they differ in all random numbers, and in nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .._types import Batch, Params
from ..model import Posterior
from ..network import Network
from ..results import Run
from ..runs import sample
from ..samplers import Sampler
from .record import Curve, MethodRow, Options

RUNS = "runs"  # the folder with a folder for every run
CURVE_POINTS = 40
QUICKER, QUICK_DRAWS, QUICK_WARMUP = 100, 10, 20

Runs = Mapping[str, Run]  # by the methods' names
Values = Mapping[str, Sequence[float] | np.ndarray]  # a score of every seed, or a cumulative one: (agent, chain, draw)


@dataclass(frozen=True)
class SplitData:
    """Shards of data on a network. Where features are split, their posterior is not that of a pooled run."""

    name: str
    shards: Sequence[Batch]
    network: Network


@dataclass(frozen=True)
class Method:
    """One line of an experiment's table: a sampler with its settings, on a target.

    Attributes:
      source: where the settings come from: PAPER, AFTER_PAPER or OURS.
      seeds: number of chains; None: the experiment's.
      init: parameters to start from; None: the experiment's.
    """

    name: str
    sampler: Sampler
    target: SplitData
    source: str
    num_samples: int
    num_warmup: int = 0
    thin: int = 1
    seeds: int | None = None
    init: Params | None = None


def run_methods(
    posterior: Posterior,
    methods: Sequence[Method],
    options: Options,
    seeds: int,
    init: Params,
    measure: Callable[[Method, Runs], tuple[Values, Values]],
    **averaged: Any,
) -> tuple[list[MethodRow], Runs]:
    """Run the methods one after the other, each in a folder of its own, from which it resumes; return rows and runs.

    Args:
      measure: gives a method's scores, and those of its cumulative scores that are drawn as curves.
      averaged: arguments `keep`, `moments` and `watch` of `cs.sample`.
    """
    runs = {
        method.name: sample(
            posterior,
            method.target.shards,
            method.target.network,
            method.sampler,
            num_samples=max(QUICK_DRAWS, method.num_samples // QUICKER) if options.quick else method.num_samples,
            num_warmup=min(QUICK_WARMUP, method.num_warmup) if options.quick else method.num_warmup,
            num_chains=method.seeds or seeds,
            thin=method.thin,
            init=init if method.init is None else method.init,
            out=options.out / RUNS / method.name.replace(" ", "-").replace(",", ""),
            resume=True,
            progress=options.progress and method.name,
            **averaged,
        )
        for method in methods
    }
    return [row_of(method, runs[method.name], *measure(method, runs)) for method in methods], runs


def row_of(method: Method, run: Run, scores: Values, cumulative: Values) -> MethodRow:
    """Make a method's row of the table from its run, its scores and its cumulative scores."""
    return MethodRow(
        name=method.name,
        source=method.source,
        target=method.target.name,
        sampler=f"{run.sampler.name}({settings(method.sampler)})",
        iterations=run.iterations,
        warmup=run.iterations - run.num_draws * run.thin,
        thin=run.thin,
        seeds=run.num_chains,
        seconds=run.seconds,
        milliseconds=1e3 * run.seconds / run.iterations,
        acceptance=_acceptance(method.sampler, run),
        rounds=run.traffic.rounds,
        megabytes=run.traffic.bytes / 1e6,
        scores={name: [float(v) for v in values] for name, values in scores.items()},
        curves={name: curve_of(run, np.asarray(values)) for name, values in cumulative.items()},
    )


def _acceptance(sampler: Sampler, run: Run) -> float | None:
    """Return the acceptance rate of the iterations with a Metropolis step, where the first ones have none."""
    free = getattr(sampler, "metropolis_after", 0)
    if not free or run.acceptance is None:
        return run.acceptance
    accepted = np.asarray(run.raw_stats["is_accepted"])
    first = -(-max(0, free - (run.iterations - len(accepted) * run.thin)) // run.thin)  # first adjusted draw
    return float(accepted[first:].mean(dtype=float)) if first < len(accepted) else None


def settings(sampler: Sampler) -> str:
    """Return the sampler's settings that are not its defaults, as text."""
    given = ((one.name, getattr(sampler, one.name), one.default) for one in fields(sampler))  # type: ignore[arg-type]
    return ", ".join(f"{name}={_written(value)}" for name, value, default in given if value is not default)


def _written(value: Any) -> str:
    is_real = isinstance(value, float) or (hasattr(value, "dtype") and np.ndim(value) == 0)
    return f"{float(value):.4g}" if is_real else repr(value)


def curve_of(run: Run, values: np.ndarray) -> Curve:
    """Make a curve of a cumulative score (agent, chain, draw), at some of the draws: the first, and evenly spaced."""
    draws = values.shape[-1]
    some = np.unique(
        np.concatenate([np.geomspace(1, draws, CURVE_POINTS), np.linspace(1, draws, CURVE_POINTS)]).round().astype(int)
    )
    by_seed = values.mean(axis=0)[:, some - 1]
    warmup = run.iterations - run.num_draws * run.thin
    return Curve(
        iterations=(warmup + some * run.thin).tolist(),
        mean=by_seed.mean(axis=0, dtype=float).tolist(),
        sd=(by_seed.std(axis=0, ddof=1, dtype=float) if len(by_seed) > 1 else np.zeros(len(some))).tolist(),
    )
