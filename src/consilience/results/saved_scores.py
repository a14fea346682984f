"""Saving and reading predictive scores in a run's folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..store import FORMAT, SCORES, check_format, refusal, write_whole
from .scores import scores_from_dict


def save_scores(folder: Path, scores: Any) -> None:
    write_whole(folder / SCORES, (json.dumps({"format": FORMAT, **scores.to_dict()}, indent=2) + "\n").encode())


def read_scores(folder: Path) -> Any:
    """Read the scores in a run's folder; None where none have been saved."""
    path = folder / SCORES
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise refusal(path, f"it is damaged: {error}", "Delete it: evaluate computes it anew.") from None
    check_format(path, found)
    del found["format"]
    return scores_from_dict(found)
