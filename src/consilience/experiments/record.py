"""Records of experiments: measurements as plain data, from which tables, figures and pages are made at any time."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .._lazy import LazyModule

msgspec: Any = LazyModule("msgspec", "cli")

SMALL, PAPER_SCALE = SCALES = ("small", "paper")
PAPER, OURS = "paper", "ours"  # where a setting or a claim comes from
AFTER_PAPER = "after the paper"  # a setting that is scaled, or shortened, with the experiment


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

    def at_scale(self, small: Any, paper: Any) -> Any:
        """Return the value that holds at this scale."""
        return small if self.is_small else paper

    @property
    def paper(self) -> str:
        """Source of the settings of the paper's methods: PAPER, or AFTER_PAPER where they are scaled or shortened."""
        return AFTER_PAPER if self.is_small or self.quick else PAPER


@dataclass(frozen=True)
class Curve:
    """A score of all draws so far, averaged over agents: its mean and sd over the seeds, after some iterations."""

    iterations: list[int]
    mean: list[float]
    sd: list[float]


class Scored:
    """Scores of a method or a reference, by the score's name: one number for every seed."""

    name: str
    scores: dict[str, list[float]]

    def mean(self, score: str) -> float:
        return float(np.mean(self.scores[score]))

    def sd(self, score: str) -> float:
        """Return a score's sd over the seeds; NaN where there is one seed, or where a value is infinite."""
        with np.errstate(invalid="ignore"):
            return float(np.std(self.scores[score], ddof=1)) if len(self.scores[score]) > 1 else float("nan")


@dataclass(frozen=True)
class MethodRow(Scored):
    """The measurements of one method: a row of the table.

    Attributes:
      curves: cumulative scores, by the score's name.
      milliseconds: per iteration of all chains together, compilation included.
      acceptance: rate over the iterations with a Metropolis step; None where there are none.
      rounds, megabytes: communication of all agents together, warm-up included.
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


@dataclass(frozen=True)
class Judged:
    """A claim, what was measured, and whether it holds: computed, and None where the measurements do not decide."""

    claim: str
    source: str
    measured: str
    holds: bool | None

    @property
    def verdict(self) -> str:
        return "undecided" if self.holds is None else "holds" if self.holds else "does not hold"


@dataclass(frozen=True)
class Record:
    """The record of an experiment that was run, with all that a table, a figure or a page needs.

    Attributes:
      seconds: time of all its runs together, interruptions left out.
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
    rows: list[MethodRow]
    claims: list[Judged]
    notes: list[str]
    drawn: dict[str, Any]

    def row(self, name: str) -> MethodRow:
        return next(row for row in self.rows if row.name == name)

    def to_json(self) -> str:
        """Return the record as JSON, with a line for every field."""
        plain = {name: json.dumps(value, ensure_ascii=False) for name, value in _rounded(asdict(self)).items()}
        return "{\n" + ",\n".join(f'"{name}": {text}' for name, text in plain.items()) + "\n}\n"

    @classmethod
    def from_json(cls, text: str) -> Record:
        return msgspec.convert(_revived(json.loads(text)), cls)


def _rounded(value: Any) -> Any:
    """Round plain data to six digits, as many as mean something; NaN becomes None, infinity a word."""
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
    """Undo `_rounded`: None in a list was NaN, and "inf" was infinity."""
    if isinstance(value, dict):
        return {key: _revived(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [float("nan") if entry is None else _revived(entry) for entry in value]
    return float(value) if value in ("inf", "-inf") else value
