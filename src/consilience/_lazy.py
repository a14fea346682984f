"""Import a dependency when it is first used: `import consilience` takes as long as jax, and little more."""

from __future__ import annotations

import importlib
from typing import Any

from ._extras import require


class LazyModule:
    """A stand-in for a module, which is imported when one of its names is asked for.

    Args:
      extra: the extra of consilience that brings the module, where it is optional.
    """

    def __init__(self, name: str, extra: str | None = None) -> None:
        self._name, self._extra = name, extra

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # tools that inspect all objects ask for these: not a use
            raise AttributeError(attribute)
        module = importlib.import_module(self._name) if self._extra is None else require(self._name, self._extra)
        return getattr(module, attribute)
