"""Records of experiments: measurements as plain data, from which tables, figures and pages are made at any time."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

PAPER, OURS = "paper", "ours"  # where a setting or a claim comes from
AFTER_PAPER = "after the paper"  # a setting that is scaled, or shortened, with the experiment


@dataclass(frozen=True)
class Curve:
    """A score of all draws so far, averaged over agents: its mean and sd over the seeds, after some iterations."""

    iterations: list[int]
    mean: list[float]
    sd: list[float]


@dataclass(frozen=True)
class Row:
    """The measurements of one method: a row of the table.

    Attributes:
      scores: one number for every seed, by the score's name.
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

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Row:
        """Make a row from plain data, in which NaN is None."""

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
        """Return a score's sd over the seeds; NaN where there is one seed, or where a value is infinite."""
        with np.errstate(invalid="ignore"):
            return float(np.std(self.scores[score], ddof=1)) if len(self.scores[score]) > 1 else float("nan")


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
    rows: list[Row]
    claims: list[Judged]
    notes: list[str]
    drawn: dict[str, Any]

    def row(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)

    def to_json(self) -> str:
        """Return the record as JSON, with a line for every field."""
        plain = {name: json.dumps(value, ensure_ascii=False) for name, value in _rounded(asdict(self)).items()}
        return "{\n" + ",\n".join(f'"{name}": {text}' for name, text in plain.items()) + "\n}\n"

    @classmethod
    def from_json(cls, text: str) -> Record:
        plain = _revived(json.loads(text))
        rows = [Row.from_dict(row) for row in plain["rows"]]
        return cls(**{**plain, "rows": rows, "claims": [Judged(**claim) for claim in plain["claims"]]})


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
    if isinstance(value, dict):
        return {key: _revived(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_revived(entry) for entry in value]
    return float(value) if value in ("inf", "-inf") else value
