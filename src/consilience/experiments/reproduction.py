"""Reproduction of the paper's experiments: the options, the run, and the record that comes out.

Each experiment has a file of its own, in the same order: what the paper did, its settings and ours, what it claims, the
runs, and the figure. The verdict on a claim is computed from the runs. The result is a `Record`.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax

from ..results import Run
from ..store import surroundings, write_whole
from .record import AFTER_PAPER, PAPER, Judged, Record, Row

SMALL, PAPER_SCALE = SCALES = ("small", "paper")
PRECISIONS = {"float32": "highest", "tf32": "tensorfloat32"}  # of matrix products on a GPU, and JAX's names for them
RECORD, FIGURE, REPORT, RUNS = "results.json", "figure.png", "report.html", "runs"


@dataclass(frozen=True)
class Options:
    """Options for running an experiment.

    Attributes:
      scale: "small", or "paper".
      seeds: number of chains; None: that of the experiment at this scale.
      out: the experiment's folder.
      precision: of float32 matrix products on a GPU: "float32", or "tf32", which is faster and has 11 bits.
      quick: run far too few iterations to mean anything, to see that all works.
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
        """Source of the settings of the paper's methods: PAPER, or AFTER_PAPER where they are scaled or shortened."""
        return AFTER_PAPER if self.is_small or self.quick else PAPER


@dataclass(frozen=True)
class Findings:
    """Results of an experiment, from which its record is made.

    Attributes:
      data: description of the data, in words.
      columns: scores in the table, with the decimals of each.
      notes: what a reader has to know to read the table.
      precision, seeds: those of the experiment, where they are not the options'.
      drawn: other data that the figure is drawn from.
      runs: runs by the rows' names.
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
      seeds: number of seeds, by scale.
      data: names of the data sets that the paper's scale needs.
      conduct: function that runs the experiment.
      figure: function that draws a record of it to a file.
    """

    name: str
    title: str
    reference: str
    seeds: Mapping[str, int]
    data: tuple[str, ...]
    conduct: Callable[[Options, int], Findings]
    figure: Callable[[Record, Path], None]


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
        from ..report import report

        report(findings.runs, options.out / REPORT, f"{experiment.title}: the runs")
    return record


def command(name: str, options: Options) -> str:
    """Return the command line that runs the experiment again."""
    line = f"consilience reproduce {name} --scale {options.scale}"
    line += f" --seeds {options.seeds}" * (options.seeds is not None)
    line += f" --precision {options.precision}" * (options.precision != Options.precision)
    return line + " --quick" * options.quick


def precision(options: Options) -> str:
    """Return the precision of matrix products: a CPU has no other than float32."""
    return options.precision if jax.devices()[0].platform != "cpu" else Options.precision


def hardware() -> dict[str, str]:
    device = jax.devices()[0]
    return {
        "device": device.device_kind if device.platform != "cpu" else f"CPU, {os.cpu_count()} cores",
        "machine": platform.machine(),
    }
