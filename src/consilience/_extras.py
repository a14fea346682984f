"""Optional dependencies: imported where they are used; where one is missing, the error has the exact install line."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType


def require(module: str, extra: str) -> ModuleType:
    """Import `module`, or say which extra of consilience brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        # A module that is there but misses a dependency of its own says so itself.
        if missing.name is None or missing.name != module.split(".")[0]:
            raise
        raise _missing(missing.name, extra) from None


def check_installed(module: str, extra: str) -> None:
    """Refuse to go on without `module`, and say which extra brings it; do not import it, which may take a second."""
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise _missing(module, extra)


def _missing(module: str, extra: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(
        f"this needs {module}, which is not installed: pip install 'consilience[{extra}]'", name=module
    )
