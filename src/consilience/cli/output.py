"""Output of commands about a run: text to read, or JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..results import Run, Summary

QUIET = "No progress, and nothing but the result on stdout."  # the help of --quiet, in all commands


def run_data(run: Run) -> dict[str, Any]:
    """Return a run's summary and scores as plain data."""
    scores = run.evaluation
    return {"summary": summary_data(run.summary()), "scores": None if scores is None else scores.to_dict()}


def summary_data(summary: Summary) -> dict[str, Any]:
    """Return a summary as plain data, with one entry per parameter."""
    columns = {name: values.tolist() for name, values in summary.columns.items()}
    return {
        "title": summary.title,
        "parameters": [
            {"name": name} | {column: values[k] for column, values in columns.items()}
            for k, name in enumerate(summary.names)
        ],
        "consensus_error": summary.consensus_error,
        "acceptance": summary.acceptance,
        "divergences": summary.divergences,
        "redone": summary.redone,
        "e_bfmi": None if summary.e_bfmi is None else summary.e_bfmi.tolist(),
        "rounds": summary.traffic.rounds,
        "messages": summary.traffic.messages,
        "bytes": summary.traffic.bytes,
        "verdict": summary.verdict,
        "warnings": list(summary.warnings),
    }


def run_text(run: Run) -> str:
    """Return a run's summary as text, with its scores if there are any."""
    scores = run.evaluation
    return f"{run.summary()}\n" + ("" if scores is None else f"\n{scores}\n")


def print_json(data: Any) -> None:
    """Print data as JSON on stdout, with null for NaN, which JSON does not have, and text for infinity."""
    print(json.dumps(_plain(data), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None if math.isnan(value) else str(value)
    return value
