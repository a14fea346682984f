"""Where things are kept that can be had again: downloads, compiled code."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def cache_folder() -> Path:
    """Return the user's cache: $XDG_CACHE_HOME/consilience, or ~/.cache/consilience."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "consilience"


def processor() -> str:
    """Return the kind of this machine's processor, by name where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else f"{platform.machine()} {platform.processor()}".strip()
