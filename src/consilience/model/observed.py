"""Observed variables of a model: their names, their values, and which rows of the data are observations of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from .._checks import nearest
from .._refused import Refused
from .._types import AnyArray, Batch
from .tasks import Task


class Observed(NamedTuple):
    """An observed variable, row by row."""

    values: AnyArray | None  # (rows, ...); None where the model does not say what they are
    counted: AnyArray  # (rows,): which rows are observations, and not left out by a mask


def outcome_name(given: str | None, task: Task | None, batch: Batch) -> str:
    """Return the name of what a likelihood is of: as given, the task's, "y", or else "log_likelihood"."""
    if given is not None:
        return given
    if task is not None:
        return task.y
    return "y" if column(batch, "y") is not None else "log_likelihood"


def check_observed(given: str | None, batch: Batch) -> None:
    """Refuse the name of an observed variable that no array of the data has."""
    if given is None or not isinstance(batch, Mapping) or column(batch, given) is not None:
        return
    near = nearest(given, [*batch])
    fix = f"Write observed={near!r}." if near else ""
    raise Refused(f"observed = {given!r}", f"there is no such array in the data; there are {', '.join(batch)}", fix)


def base_observations(given: str | None, task: Task | None, batch: Batch) -> dict[str, Observed]:
    """Return the one variable that a likelihood of rows observes; such a likelihood has no rows left out."""
    name = outcome_name(given, task, batch)
    values = task.outcomes(batch) if task is not None and name == task.y else column(batch, name)
    return {name: Observed(values, jnp.ones(len(jax.tree.leaves(batch)[0]), bool))}


def column(batch: Batch, name: str) -> AnyArray | None:
    """Return the array of a batch that has this name; None where there is none."""
    found = batch.get(name) if isinstance(batch, Mapping) else None
    return found if hasattr(found, "shape") else None
