"""Import a dependency when it is first used: `import consilience` takes as long as jax, and little more."""

from __future__ import annotations

import importlib
from typing import Any


class LazyModule:
    """A stand-in for a module, which is imported when one of its names is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # tools that inspect all objects ask for these: not a use
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)
