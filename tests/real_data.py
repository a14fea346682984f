"""Where tests find real data that the repository does not hold."""

import os
from pathlib import Path

import pytest

from consilience.experiments import data

FOLDER = Path(os.environ.get("CONSILIENCE_DATA") or Path(__file__).parents[2] / "shared" / "data")
needs_data = pytest.mark.skipif(
    not all((FOLDER / name).is_dir() for name in data.MIRRORS),
    reason=f"{FOLDER} lacks {', '.join(data.MIRRORS)}: name the folder that has them in CONSILIENCE_DATA",
)
