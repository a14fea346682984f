"""Checks of the held-out data that predictions are tested on, made before anything is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._refused import Refused
from .._types import Batch, Params
from ..model import (
    AGENT,
    WHOSE_ROWS,
    Classification,
    Regression,
    Task,
    as_arrays,
    as_batch,
    check_columns_alike,
    column_names,
    is_frame,
    rows,
)
from .expectation import value_shape

if TYPE_CHECKING:
    from .run import Run


def task_of(run: Run, task: Task | None) -> Task:
    """Return the task that was given, or else the posterior's; refuse where there is neither."""
    if task is None and run.posterior is not None:
        task = run.posterior.task
    if task is None and run.posterior is None:
        raise Refused(
            "what is predicted is not known",
            "the run was loaded without its model",
            "Write cs.load(path, posterior=..., shards=...).evaluate(test).",
        )
    if task is None:
        raise Refused(
            "what is predicted is not known",
            "neither the call nor the run's posterior has a task",
            "Write for example task=cs.Classification(lambda params, x: jax.nn.softmax(x @ params['w'])), or use "
            "run.predict(fn, x).",
        )
    if not isinstance(task, Classification | Regression):
        fix = "Write task=cs.Classification(...) or cs.Regression(...)."
        raise Refused("", f"task is a {type(task).__name__}", fix)
    return task


def check_drawn(run: Run) -> None:
    """Refuse a run without draws."""
    if run.num_draws == 0:
        raise Refused("", "the run has no draws yet", "Sample on: the same cs.sample(...) with resume=True.")


def check_columns_of(run: Run, what: str, data: Batch) -> None:
    """Refuse data frames whose columns are not those of the agents' tables, or stand in another order."""
    found = dict(column_names([what], [data]))
    if is_frame(data) and len(run.columns) == 1:
        found = dict.fromkeys(run.columns, tuple(map(str, data.columns)))
    for table in sorted(found.keys() & run.columns.keys()):
        check_columns_alike(what, table, found[table], run.agent_names[0], run.columns[table])


def test_rows(run: Run, task: Task, test: Batch) -> tuple[Batch, np.ndarray]:
    """Return inputs and outcomes of the test set; refuse those that are not of the form of the agents' data."""
    if not is_frame(test):  # whose columns are found by their names
        check_columns_of(run, "test", test)
    test = as_batch("test", test)
    of_what = {task.y: "scores compare predictions with what happened"}
    of_what |= dict.fromkeys(_names(task), "predictions are made from it")
    for name, reason in of_what.items() if isinstance(test, Mapping) else ():
        if name not in test:
            has = ", ".join(repr(key) for key in test)
            fix = f"Write test={{{_named(task)}, {task.y!r}: ...}}; predictions alone are run.predict(fn, x)."
            raise Refused(f"test has {has} and no {name!r}", reason, WHOSE_ROWS if name == AGENT else fix)
    if rows("test", test) == 0:
        fix = "Write test={name: a[:100] for name, a in ...}."
        raise Refused("test has no rows", "there is nothing to score", fix)
    try:
        x, outcomes = task.inputs(test), task.outcomes(test)
    except Refused as refusal:
        raise refusal.about(f"test: {refusal.subject}") from None
    trained = of_shards(run, task.inputs)
    if trained:
        _check_like("test", x, trained[0], "the agents' data")
    _check_finite("test", (x, outcomes))
    return x, outcomes.astype(int) if isinstance(task, Classification) else outcomes.astype(float)


def _names(task: Task) -> Sequence[str]:
    """Return the names of a task's inputs."""
    return [task.x] if isinstance(task.x, str) else task.x


def _named(task: Task) -> str:
    return ", ".join(f"{name!r}: ..." for name in _names(task))


def strange_rows(run: Run, task: Task, ood: Batch, x: Batch) -> Batch:
    """Return the out-of-distribution inputs; refuse those that are not of the form of `x`, the test set's inputs."""
    if isinstance(ood, Mapping) and all(name in ood for name in _names(task)):
        ood = task.inputs(ood)
    check_columns_of(run, "ood", ood)
    if rows("ood", ood) == 0:
        raise Refused("ood has no rows", "there is nothing to tell from the test set", "Leave out ood=.")
    ood = as_arrays("ood", ood)
    _check_like("ood", ood, x, "the test set")
    _check_finite("ood", ood)
    return ood


def seen_classes(
    run: Run, task: Classification, seen: Sequence[Sequence[int]] | None, classes: int
) -> tuple[tuple[int, ...], ...] | None:
    """Return the classes that each agent has data of: those given, or those in its shard; None where not known."""
    given = of_shards(run, task.outcomes) if seen is None else seen
    if given is None:
        return None
    found = tuple(tuple(int(c) for c in np.unique(np.asarray(labels, dtype=int))) for labels in given)
    if len(found) != run.agents or any(not 0 <= c < classes for labels in found for c in labels):
        raise Refused(
            f"seen = {seen!r}",
            f"the classes of each of {run.agents} agents are needed, from 0 to {classes - 1}",
            f"Write seen=[np.unique(shard[{task.y!r}]) for shard in shards].",
        )
    return found


def check_labels(labels: np.ndarray, classes: int) -> None:
    """Refuse a label that the model has no class for."""
    for row in np.flatnonzero((labels < 0) | (labels >= classes))[:1]:
        raise Refused(
            "test",
            f"the label of row {row} is {labels[row]}, and the model's classes are 0 to {classes - 1}",
            "Number labels as in the agents' data, or leave such rows out: "
            "test = {k: v[keep] for k, v in test.items()}.",
        )


def check_shape(
    run: Run, function: Callable[[Params, Any], jax.Array], x: Batch, shape: tuple[int | None, ...], what: str
) -> tuple[int, ...]:
    """Return the shape of `function(params, x)`; refuse it where it is wrong, or what was kept does not suffice.

    Args:
      shape: the shape that is needed, with None where any length will do.
      what: the function's name, for error messages.
    """
    needed = "(" + ", ".join("classes" if n is None else str(n) for n in shape) + ("," * (len(shape) == 1)) + ")"
    try:
        found = value_shape(run, function, x).shape
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise Refused(
            f"{what} cannot be computed from what was kept, {', '.join(run.layout.names) or 'which is nothing'}",
            f"{type(error).__name__}: {error}",
            "It is given the parameters as they were kept. Sample without keep=, or pass a task= of what was kept.",
        ) from error
    if len(found) != len(shape) or any(n not in (None, m) for n, m in zip(shape, found, strict=True)):
        fix = "For two classes write jnp.stack([1 - p, p], axis=1)." if None in shape and len(found) == 1 else ""
        raise Refused("", f"{what} must have shape {needed} here, and has {found}", fix)
    return found


def of_shards(run: Run, part: Callable[[Batch], Any]) -> list[Any] | None:
    """Return inputs or outcomes of each agent; None where the run has no data, or the task is of other data."""
    if run.shards is None:
        return None
    try:
        return [part(shard) for shard in run.shards]
    except (TypeError, ValueError):
        return None


def _check_like(what: str, found: Batch, like: Batch, whose: str) -> None:
    """Refuse inputs whose rows have another shape than those of `like`."""
    shapes = [jax.tree.map(lambda leaf: np.shape(leaf)[1:], inputs) for inputs in (found, like)]
    if shapes[0] != shapes[1]:
        raise Refused(
            what,
            f"a row of its inputs has shape {shapes[0]}, and one of {whose} {shapes[1]}",
            f"Prepare both alike, for example x.reshape(len(x), *{shapes[1]}).",
        )


def _check_finite(what: str, data: Batch) -> None:
    for leaf in jax.tree.leaves(data):
        if not np.issubdtype(leaf.dtype, np.inexact):
            continue
        bad = np.flatnonzero(~np.isfinite(leaf.reshape(len(leaf), -1)).all(axis=1))
        if len(bad):
            raise Refused(
                what,
                f"{len(bad)} of {len(leaf)} rows have values that are not finite, row {bad[0]} first: no score of them "
                f"has a meaning",
                "Drop them, x = x[np.isfinite(x).all(axis=1)], or impute.",
            )
