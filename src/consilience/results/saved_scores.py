"""Saving and reading predictive scores in a run's folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..store import SCORES, write_whole
from .scores import scores_from_dict


def save_scores(folder: Path, scores: Any) -> None:
    write_whole(folder / SCORES, (json.dumps(scores.to_dict(), indent=2) + "\n").encode())


def read_scores(folder: Path) -> Any:
    """Read the scores in a run's folder; None where none have been saved."""
    path = folder / SCORES
    return scores_from_dict(json.loads(path.read_text())) if path.exists() else None
