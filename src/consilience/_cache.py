"""The cache folder, for downloads and compiled code, and the kind of processor that compiled code is for."""

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
    return _processor_entry("model name") or f"{platform.machine()} {platform.processor()}".strip()


def processor_features() -> str:
    """Return the feature flags of this machine's processor, where the system tells: kinds may share a name."""
    return _processor_entry("flags") or _processor_entry("Features")


def _processor_entry(what: str) -> str:
    """Return an entry of Linux's /proc/cpuinfo for the first processor; nothing on other systems."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(what)), "")
