"""What the reproductions of the paper's experiments have in common.

Each experiment has a file of its own, in the same order: what the paper did, its settings and ours, what it claims, the
runs, and the figure. The verdict on a claim is computed from the runs. What comes out is a `Record`, which is plain
data: tables, figures and pages are made from it, here or years later.

An experiment's seeds are the chains of one run: they differ in all random numbers, and in nothing else.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._types import Batch, Params
from ..network import Network
from ..posterior import Posterior
from ..results import Run
from ..results.files import write_whole
from ..results.identity import surroundings
from ..samplers import Sampler
from ..sampling import sample

SMALL, PAPER_SCALE = SCALES = ("small", "paper")
PAPER, OURS = "paper", "ours"  # where a setting or a claim comes from
AFTER_PAPER = "after the paper"  # a setting that is scaled, or shortened, with the experiment
PRECISIONS = {"float32": "highest", "tf32": "tensorfloat32"}  # of products on a GPU, and what jax calls them
CURVE_POINTS = 40
QUICKER, QUICK_DRAWS, QUICK_WARMUP = 100, 10, 20
RECORD, FIGURE, REPORT, RUNS = "results.json", "figure.png", "report.html", "runs"


@dataclass(frozen=True)
class Options:
    """How an experiment is to be run.

    Attributes:
      scale: "small", or "paper".
      seeds: chains; None: as many as the scale has.
      out: the experiment's folder.
      precision: of products of float32 numbers on a GPU: "float32", or "tf32", which is faster and has 11 bits.
      quick: far too few iterations to mean anything, to see that all works.
    """

    scale: str = SMALL
    seeds: int | None = None
    out: Path = Path("reproduction")
    precision: str = "float32"
    progress: bool = True
    quick: bool = False

    @property
    def is_small(self) -> bool:
        return self.scale == SMALL

    @property
    def paper(self) -> str:
        """Where the settings of the paper's methods come from."""
        return AFTER_PAPER if self.is_small or self.quick else PAPER


@dataclass(frozen=True)
class Target:
    """A posterior, as data on a network. Where features are split, agents do not sample what a pooled run does."""

    name: str
    shards: Sequence[Batch]
    network: Network


@dataclass(frozen=True)
class Method:
    """One line of an experiment's table: a sampler with its settings, on a target.

    Attributes:
      source: PAPER, where the settings are the paper's, AFTER_PAPER or OURS.
      seeds: chains, where they are not the experiment's.
      init: where it starts, where that is not the experiment's start.
    """

    name: str
    sampler: Sampler
    target: Target
    source: str
    num_samples: int
    num_warmup: int = 0
    thin: int = 1
    seeds: int | None = None
    init: Params | None = None


@dataclass(frozen=True)
class Curve:
    """A score of all draws so far, averaged over agents: mean and sd over the seeds, after some iterations."""

    iterations: list[int]
    mean: list[float]
    sd: list[float]


@dataclass(frozen=True)
class Row:
    """What was measured of a method.

    Attributes:
      scores: by name, one number for every seed.
      curves: by name.
      milliseconds: per iteration of all chains together, compilation included.
      acceptance: of the iterations with a Metropolis step; None where there are none.
      rounds, megabytes: sent by all agents together, warm-up included.
    """

    name: str
    source: str
    target: str
    sampler: str
    iterations: int
    warmup: int
    thin: int
    seeds: int
    seconds: float
    milliseconds: float
    acceptance: float | None
    rounds: int
    megabytes: float
    scores: dict[str, list[float]]
    curves: dict[str, Curve] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Row:
        """Of plain data, in which what is no number is None."""

        def numbers(values: list[Any]) -> list[Any]:
            return [float("nan") if value is None else value for value in values]

        scores = {name: numbers(values) for name, values in plain["scores"].items()}
        curves = {
            name: Curve(**{part: numbers(values) for part, values in curve.items()})
            for name, curve in plain["curves"].items()
        }
        return cls(**{**plain, "scores": scores, "curves": curves})

    def mean(self, score: str) -> float:
        return float(np.mean(self.scores[score]))

    def sd(self, score: str) -> float:
        """Over the seeds; NaN where there is one, or where one is infinite."""
        with np.errstate(invalid="ignore"):
            return float(np.std(self.scores[score], ddof=1)) if len(self.scores[score]) > 1 else float("nan")


@dataclass(frozen=True)
class Judged:
    """A claim, what was measured, and whether it holds: computed, and None where the measurement cannot tell."""

    claim: str
    source: str
    measured: str
    holds: bool | None

    @property
    def verdict(self) -> str:
        return "undecided" if self.holds is None else "holds" if self.holds else "does not hold"


@dataclass(frozen=True)
class Findings:
    """What an experiment gives.

    Attributes:
      data: in words.
      columns: the scores that the table has, and the decimals of each.
      notes: what a reader has to know to read the table.
      precision, seeds: where they are not the options'.
      drawn: other data that the figure is drawn from.
      runs: by the rows' names.
    """

    data: str
    rows: list[Row]
    claims: list[Judged]
    columns: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    drawn: dict[str, Any] = field(default_factory=dict)
    runs: Mapping[str, Run] = field(default_factory=dict)
    precision: str | None = None
    seeds: int | None = None


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper.

    Attributes:
      reference: where in the paper it is.
      seeds: of either scale.
      data: names of the data sets that the paper's scale needs.
      conduct: runs it.
      figure: draws a record of it to a file.
    """

    name: str
    title: str
    reference: str
    seeds: Mapping[str, int]
    data: tuple[str, ...]
    conduct: Callable[[Options, int], Findings]
    figure: Callable[[Record, Path], None]


@dataclass(frozen=True)
class Record:
    """An experiment that was run, with all that a table, a figure or a page needs.

    Attributes:
      seconds: that its runs took together, interruptions left out.
    """

    experiment: str
    title: str
    reference: str
    scale: str
    seeds: int
    precision: str
    command: str
    created: str
    seconds: float
    hardware: dict[str, str]
    versions: dict[str, str]
    data: str
    columns: dict[str, int]
    rows: list[Row]
    claims: list[Judged]
    notes: list[str]
    drawn: dict[str, Any]

    def row(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)

    def to_json(self) -> str:
        """A line for every field."""
        plain = {name: json.dumps(value, ensure_ascii=False) for name, value in _rounded(asdict(self)).items()}
        return "{\n" + ",\n".join(f'"{name}": {text}' for name, text in plain.items()) + "\n}\n"

    @classmethod
    def from_json(cls, text: str) -> Record:
        plain = _revived(json.loads(text))
        rows = [Row.from_dict(row) for row in plain["rows"]]
        return cls(**{**plain, "rows": rows, "claims": [Judged(**claim) for claim in plain["claims"]]})


def reproduce(experiment: Experiment, options: Options) -> Record:
    """Run an experiment, and write its record, its figure and the report on its runs."""
    began = time.perf_counter()
    seeds = options.seeds or experiment.seeds[options.scale]
    options.out.mkdir(parents=True, exist_ok=True)
    with jax.default_matmul_precision(PRECISIONS[options.precision]):
        findings = experiment.conduct(options, seeds)
    record = Record(
        experiment=experiment.name,
        title=experiment.title,
        reference=experiment.reference,
        scale=options.scale,
        seeds=findings.seeds or seeds,
        precision=findings.precision or precision(options),
        command=command(experiment.name, options),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=sum(row.seconds for row in findings.rows) or time.perf_counter() - began,
        hardware=hardware(),
        versions={name: str(value) for name, value in surroundings().items() if not name.startswith("jax_")},
        data=findings.data,
        columns=findings.columns,
        rows=findings.rows,
        claims=findings.claims,
        notes=findings.notes,
        drawn=findings.drawn,
    )
    write_whole(options.out / RECORD, record.to_json().encode())
    experiment.figure(record, options.out / FIGURE)
    if findings.runs:
        from ..report.page import report

        report(findings.runs, options.out / REPORT, f"{experiment.title}: the runs")
    return record


def command(name: str, options: Options) -> str:
    """The line that runs it again."""
    line = f"consilience reproduce {name} --scale {options.scale}"
    line += f" --seeds {options.seeds}" * (options.seeds is not None)
    line += f" --precision {options.precision}" * (options.precision != Options.precision)
    return line + " --quick" * options.quick


def precision(options: Options) -> str:
    """Of products: a CPU has no other than float32."""
    return options.precision if jax.devices()[0].platform != "cpu" else Options.precision


def hardware() -> dict[str, str]:
    device = jax.devices()[0]
    return {
        "device": device.device_kind if device.platform != "cpu" else f"CPU, {os.cpu_count()} cores",
        "machine": platform.machine(),
    }


# --- running ----------------------------------------------------------------------------------------


def run_all(
    posterior: Posterior,
    methods: Sequence[Method],
    options: Options,
    seeds: int,
    init: Params,
    **averaged: Any,
) -> dict[str, Run]:
    """Run the methods one after the other, as any user would, each with a folder of its own to go on from.

    Args:
      averaged: `keep`, `moments` and `watch` of `cs.sample`.
    """
    return {
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


def row_of(
    method: Method,
    run: Run,
    scores: Mapping[str, Sequence[float] | np.ndarray],
    curves: Mapping[str, Curve] | None = None,
) -> Row:
    """What a table says of a run."""
    return Row(
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
        curves=dict(curves or {}),
    )


def _acceptance(sampler: Sampler, run: Run) -> float | None:
    """Of the iterations with a Metropolis step, where the first ones have none."""
    free = getattr(sampler, "metropolis_after", 0)
    if not free or run.acceptance is None:
        return run.acceptance
    accepted = np.asarray(run.raw_stats["is_accepted"])
    first = -(-max(0, free - (run.iterations - len(accepted) * run.thin)) // run.thin)  # draw with one throughout
    return float(accepted[first:].mean(dtype=float)) if first < len(accepted) else None


def settings(sampler: Sampler) -> str:
    """Those that were given."""
    given = ((one.name, getattr(sampler, one.name), one.default) for one in fields(sampler))  # type: ignore[arg-type]
    return ", ".join(f"{name}={_written(value)}" for name, value, default in given if value is not default)


def _written(value: Any) -> str:
    is_real = isinstance(value, float) or (hasattr(value, "dtype") and np.ndim(value) == 0)
    return f"{float(value):.4g}" if is_real else repr(value)


def curve_of(run: Run, values: np.ndarray) -> Curve:
    """Of a score of all draws so far, (agent, chain, draw), at some of the draws: the first ones, and evenly spaced."""
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


def _rounded(value: Any) -> Any:
    """Plain data with as many digits as mean something; NaN is null, infinity a word."""
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(entry) for entry in value]
    if isinstance(value, float):
        if not np.isfinite(value):
            return None if np.isnan(value) else str(value)
        return float(f"{value:.6g}")
    return value


def _revived(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _revived(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_revived(entry) for entry in value]
    return float(value) if value in ("inf", "-inf") else value
