"""Output of commands about a run: text to read, or JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from ..results import Run, Summary


def new_table(header: Sequence[str], left: Sequence[str], wrapped: Sequence[str] = (), **options: Any) -> Table:
    """Make a table for the terminal, of numbers but for the columns `left`; only those `wrapped` may be broken."""
    table = Table(title_justify="left", box=SIMPLE_HEAD, padding=(0, 1), **options)
    for name in header:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=name not in wrapped)
    return table


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
        "predictions": None if summary.predictions is None else summary.predictions._asdict(),
        "consensus_error": summary.consensus_error,
        "acceptance": summary.acceptance,
        "divergences": summary.divergences,
        "redone": summary.redone,
        "e_bfmi": None if summary.e_bfmi is None else summary.e_bfmi.tolist(),
        "rounds": summary.traffic.rounds,
        "messages": summary.traffic.messages,
        "bytes": summary.traffic.bytes,
        "more_chains": summary.more_chains,
        "verdict": summary.verdict,
        "warnings": list(summary.warnings),
    }


def result_text(run: Run, as_json: bool, paths: Mapping[str, str]) -> str:
    """Return a run's summary, its scores if there are any, and where everything is: as text, or as JSON."""
    if as_json:
        return json_text({**run_data(run), "paths": paths})
    scores = run.evaluation
    width = max(map(len, paths))
    lines = [f"{run.summary()}\n", *([] if scores is None else [f"{scores}\n"])]
    return "\n".join([*lines, *(f"{what:<{width}}  {path}" for what, path in paths.items())])


def json_text(data: Any) -> str:
    """Return data as JSON, with null for NaN, which JSON does not have, and text for infinity."""
    return json.dumps(_plain(data), indent=2, allow_nan=False)


def print_json(data: Any) -> None:
    print(json_text(data))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None if math.isnan(value) else str(value)
    return value
