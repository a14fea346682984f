"""Optional dependencies: imported where they are used, missed with the exact install line."""

from __future__ import annotations

import importlib
from types import ModuleType


def require(module: str, extra: str) -> ModuleType:
    """Import `module`, or say which extra of consilience brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        # A module that is there but misses a dependency of its own says so itself.
        if missing.name is None or missing.name != module.split(".")[0]:
            raise
        raise ModuleNotFoundError(
            f"this needs {missing.name}, which is not installed: pip install 'consilience[{extra}]'",
            name=missing.name,
        ) from None
