"""Settings of samplers: frozen dataclasses, checked when they are created.

Numbers (step sizes, mass matrices) are leaves of a pytree, so that trying another value compiles nothing anew;
everything else, marked `static()`, decides which code is compiled.
"""

from __future__ import annotations

from dataclasses import field, fields
from typing import Any, TypeVar

import jax
import numpy as np

T = TypeVar("T")


def static(default: Any) -> Any:
    """Declare a setting that selects code: part of the compiled program's identity."""
    return field(default=default, metadata={"static": True})


def register_settings(cls: type[T]) -> type[T]:
    """Make a dataclass of settings a pytree. Its checks run when it is created, and never while it is traced."""
    numbers = [f.name for f in fields(cls) if not f.metadata.get("static")]  # type: ignore[arg-type]
    choices = [f.name for f in fields(cls) if f.metadata.get("static")]  # type: ignore[arg-type]

    def flatten(settings: T) -> tuple[list[Any], tuple[Any, ...]]:
        return [getattr(settings, name) for name in numbers], tuple(getattr(settings, name) for name in choices)

    def unflatten(chosen: tuple[Any, ...], values: Any) -> T:
        settings = object.__new__(cls)
        for name, value in zip([*numbers, *choices], [*values, *chosen], strict=True):
            object.__setattr__(settings, name, value)
        return settings

    jax.tree_util.register_pytree_node(cls, flatten, unflatten)
    return cls


def check_positive(sampler: str, **settings: Any) -> None:
    """Refuse a setting that is not one positive, finite number."""
    for name, value in settings.items():
        number = real_number(value)
        if number is None or not 0 < number < np.inf:
            raise ValueError(f"{sampler}: {name} = {value!r} must be a positive number.")


def real_number(value: Any) -> float | None:
    """Return `value` as a float if it is one real number, of whatever library; else None."""
    if isinstance(value, bool | str) or np.ndim(value) != 0 or np.asarray(value).dtype.kind not in "iuf":
        return None
    return float(value)


def check_flag(sampler: str, **settings: Any) -> None:
    """Refuse a setting that is neither True nor False."""
    for name, value in settings.items():
        if not isinstance(value, bool):
            raise ValueError(f"{sampler}: {name} = {value!r} must be True or False.")


def check_probability(sampler: str, **settings: Any) -> None:
    """Refuse a setting that is not a number strictly between 0 and 1."""
    for name, value in settings.items():
        number = real_number(value)
        if number is None or not 0 < number < 1:
            raise ValueError(f"{sampler}: {name} = {value!r} must be between 0 and 1.")
