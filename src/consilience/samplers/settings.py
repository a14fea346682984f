"""Settings of samplers: frozen dataclasses, checked when they are created.

Numbers (step sizes, mass matrices) are leaves of a pytree, so that trying another value compiles nothing anew;
everything else, marked `static()`, decides which code is compiled.
"""

from __future__ import annotations

from dataclasses import field, fields
from typing import Any, TypeVar

import jax

from .._checks import refuse_unknown_settings

T = TypeVar("T", bound=type)


def static(default: Any) -> Any:
    """Declare a setting that selects code: part of the compiled program's identity."""
    return field(default=default, metadata={"static": True})


def register_settings(cls: T) -> T:
    """Make a dataclass of settings a pytree. Its checks run when it is created, and never while it is traced."""
    numbers = [f.name for f in fields(cls) if not f.metadata.get("static")]  # type: ignore[arg-type]
    choices = [f.name for f in fields(cls) if f.metadata.get("static")]  # type: ignore[arg-type]

    def flatten(settings: Any) -> tuple[list[Any], tuple[Any, ...]]:
        return [getattr(settings, name) for name in numbers], tuple(getattr(settings, name) for name in choices)

    def unflatten(chosen: tuple[Any, ...], values: Any) -> Any:
        settings: Any = object.__new__(cls)
        for name, value in zip([*numbers, *choices], [*values, *chosen], strict=True):
            object.__setattr__(settings, name, value)
        return settings

    jax.tree_util.register_pytree_node(cls, flatten, unflatten)
    name = getattr(cls, "name", None)
    return refuse_unknown_settings(f"cs.{name if isinstance(name, str) else cls.__name__}")(cls)
