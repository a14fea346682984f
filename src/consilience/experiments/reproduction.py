"""Reproduction of the paper's experiments: the run, and the record that comes out.

Each experiment has a file of its own, in the same order: what the paper did, and its settings; the model; the data; the
methods that `conduct` runs and measures; the claims to judge; the figure; and `EXPERIMENT`, which names them all. The
verdict on a claim is computed from the runs. The result is a `Record`.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax

from ..results import Run
from ..store import surroundings, write_whole
from .claims import Claim, Exact, judge
from .record import Judged, MethodRow, Options, Record

PRECISIONS = {"float32": "highest", "tf32": "tensorfloat32"}  # of matrix products on a GPU, and JAX's names for them
RECORD, FIGURE, REPORT = "results.json", "figure.png", "report.html"
RESOLUTION = 130  # of figures, dots per inch


@dataclass(frozen=True)
class Findings:
    """Results of an experiment, from which its record is made.

    Attributes:
      data: description of the data, in words.
      runs: runs by the rows' names.
      exact: references that claims compare the rows with.
      notes: what a reader has to know to read the table.
      drawn: other data that the figure is drawn from.
      judged: claims that are decided already.
      precision, seeds: those of the experiment, where they are not the options'.
    """

    data: str
    rows: list[MethodRow] = field(default_factory=list)
    runs: Mapping[str, Run] = field(default_factory=dict)
    exact: Sequence[Exact] = ()
    notes: list[str] = field(default_factory=list)
    drawn: dict[str, Any] = field(default_factory=dict)
    judged: Sequence[Judged] = ()
    precision: str | None = None
    seeds: int | None = None


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper.

    Attributes:
      reference: where in the paper it is.
      conduct: function that runs the experiment, given the options and the number of seeds.
      figure: function that draws a record of it.
      seeds: number of seeds, by scale.
      data: names of the data sets that the paper's scale needs.
      columns: scores in the table, with the decimals of each.
    """

    name: str
    title: str
    reference: str
    conduct: Callable[[Options, int], Findings]
    figure: Callable[[Record], Any]
    seeds: Mapping[str, int]
    data: tuple[str, ...] = ()
    columns: Mapping[str, int] = field(default_factory=dict)
    claims: Sequence[Claim] = ()

    def draw(self, record: Record, path: Path) -> None:
        """Write the figure of a record to `path`."""
        self.figure(record).savefig(path, dpi=RESOLUTION)


def reproduce(experiment: Experiment, options: Options) -> Record:
    """Run an experiment, and write its record, its figure and the report on its runs."""
    began = time.perf_counter()
    seeds = options.seeds or experiment.seeds[options.scale]
    options.out.mkdir(parents=True, exist_ok=True)
    with jax.default_matmul_precision(PRECISIONS[options.precision]):
        findings = experiment.conduct(options, seeds)
    device = jax.devices()[0]
    on_cpu = device.platform == "cpu"  # which has no other precision than float32
    record = Record(
        experiment=experiment.name,
        title=experiment.title,
        reference=experiment.reference,
        scale=options.scale,
        seeds=findings.seeds or seeds,
        precision=findings.precision or (Options.precision if on_cpu else options.precision),
        command=command(experiment.name, options),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=sum(row.seconds for row in findings.rows) or time.perf_counter() - began,
        hardware={
            "device": f"CPU, {os.cpu_count()} cores" if on_cpu else device.device_kind,
            "machine": platform.machine(),
        },
        versions={name: str(value) for name, value in surroundings().items() if not name.startswith("jax_")},
        data=findings.data,
        columns=dict(experiment.columns),
        rows=findings.rows,
        claims=[*findings.judged, *judge(experiment.claims, [*findings.rows, *findings.exact], options)],
        notes=findings.notes,
        drawn=findings.drawn,
    )
    write_whole(options.out / RECORD, record.to_json().encode())
    experiment.draw(record, options.out / FIGURE)
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
