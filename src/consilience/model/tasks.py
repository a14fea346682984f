"""Prediction tasks, classification and regression: a model predicts a label or a number for every row.

Data are a dict with inputs and outcomes under the names `x` and `y`, or a tuple with inputs first and outcomes last.
Where inputs are several columns of a dict, x=("x", "agent"), the model's functions are given a dict of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._refused import Refused
from .._types import Batch, Key, Number, Params
from .numbered import AGENT, WHOSE_ROWS


@dataclass(frozen=True, eq=False)
class Classification:
    """A classification task: label y of a row x has probability probabilities(params, x)[y].

    Args:
      probabilities: `probabilities(params, x)` is a table (rows, classes).
      x: name of the inputs in the data; of several, ("x", "agent"), the model is given a dict.
      y: name of the labels, which are whole numbers from 0.
    """

    probabilities: Callable[[Params, Any], jax.Array]
    x: str | Sequence[str] = "x"
    y: str = "y"

    def inputs(self, batch: Batch) -> Any:
        """Return the inputs of a batch."""
        return _inputs(batch, self.x)

    def outcomes(self, batch: Batch) -> Any:
        """Return the labels of a batch; refuse them where they are not one whole number a row."""
        labels = _one_a_row(_column(batch, self.y, -1), self.y, f"{self.y}.argmax(axis=1) if its rows are one-hot")
        if not (jnp.issubdtype(labels.dtype, jnp.integer) or labels.dtype == bool):
            reason = f"its dtype is {labels.dtype}; labels are whole numbers"
            raise Refused(self.y, reason, f"Write {self.y}.astype(np.int32).")
        return labels

    def classes(self, params: Params, batch: Batch) -> int:
        """Return the number of classes, found by tracing `probabilities`."""
        return int(jax.eval_shape(self.probabilities, params, self.inputs(batch)).shape[-1])

    def draw(self, key: Key, params: Params, batch: Batch) -> dict[str, jax.Array]:
        """Draw labels for the rows of a batch, from their probabilities."""
        logits = jnp.log(self.probabilities(params, self.inputs(batch)))
        return {self.y: jax.random.categorical(key, logits)}

    def check(self, agent: str, params: Params, batch: Batch) -> None:
        """Refuse the labels of an agent, told by its name, that the model has no class for."""
        labels, classes = np.asarray(self.outcomes(batch)), self.classes(params, batch)
        for row in np.flatnonzero((labels < 0) | (labels >= classes))[:1]:
            larger = f", or give the model {labels.max() + 1} classes" if labels.min() >= 0 else ""
            raise Refused(
                agent,
                f"{self.y} is {labels[row]} in row {row}, and the model's classes are 0 to {classes - 1}",
                f"Number the labels of all agents from 0{larger}: before they are dealt out, "
                f"{self.y} = np.unique({self.y}, return_inverse=True)[1].",
            )


@dataclass(frozen=True, eq=False)
class Regression:
    """A regression task with Gaussian noise: y = mean(params, x) + sd(params)·ε with ε ~ N(0, 1).

    Args:
      mean: `mean(params, x)` is one number a row.
      sd: `sd(params)` is a number, or one a row.
      x: name of the inputs in the data; of several, ("x", "agent"), the model is given a dict.
      y: name of the outcomes.
    """

    mean: Callable[[Params, Any], jax.Array]
    sd: Callable[[Params], Number]
    x: str | Sequence[str] = "x"
    y: str = "y"

    def inputs(self, batch: Batch) -> Any:
        """Return the inputs of a batch."""
        return _inputs(batch, self.x)

    def outcomes(self, batch: Batch) -> Any:
        """Return the outcomes of a batch; refuse them where they are not one number a row."""
        return _one_a_row(_column(batch, self.y, -1), self.y, "a NumPyro model for outcomes of several numbers")

    def draw(self, key: Key, params: Params, batch: Batch) -> dict[str, jax.Array]:
        """Draw outcomes for the rows of a batch, noise included."""
        mean = self.mean(params, self.inputs(batch))
        return {self.y: mean + self.sd(params) * jax.random.normal(key, mean.shape, mean.dtype)}

    def check(self, agent: str, params: Params, batch: Batch) -> None:
        """Refuse the outcomes of an agent, told by its name, that are not of the shape of the model's means."""
        mean = jax.eval_shape(self.mean, params, self.inputs(batch)).shape
        outcomes = np.shape(self.outcomes(batch))
        if mean != outcomes:
            shapes = f"{self.y} has shape {outcomes} and the model's mean {mean}"
            raise Refused(agent, f"{shapes}; one number a row is needed")


Task = Classification | Regression


def checked_logits(apply: Callable[[Params, Any], jax.Array]) -> Callable[[Params, Any], jax.Array]:
    """Return `apply` with a check that it gives a table of logits, of two classes or more."""

    def logits(params: Params, x: Any) -> jax.Array:
        table = apply(params, x)
        shape, rows = jnp.shape(table), _rows(x)
        if len(shape) != 2 or shape[0] != rows or shape[1] == 1:
            joined = {(rows,): "jnp.stack", (rows, 1): "jnp.concatenate"}.get(shape)
            fix = f"For two classes write {joined}([0 * z, z], axis=1)." if joined else ""
            reason = f"it must give logits (rows, classes); for {rows} rows it gave shape {shape}"
            raise Refused("apply(params, x)", reason, fix)
        return table

    return logits


def checked_means(apply: Callable[[Params, Any], jax.Array]) -> Callable[[Params, Any], jax.Array]:
    """Return `apply` with a check that it gives one number a row."""

    def means(params: Params, x: Any) -> jax.Array:
        values = apply(params, x)
        shape, rows = jnp.shape(values), _rows(x)
        if shape != (rows,):
            fix = "Write apply(params, x)[:, 0]." if shape == (rows, 1) else ""
            reason = f"it must give one number a row; for {rows} rows it gave shape {shape}"
            raise Refused("apply(params, x)", reason, fix)
        return values

    return means


def _inputs(batch: Batch, names: str | Sequence[str]) -> Any:
    """Return a batch's inputs: of several names, a dict of them."""
    if isinstance(names, str):
        return _column(batch, names, 0)
    if not isinstance(batch, Mapping):
        reason = f"they are a {type(batch).__name__}, and the inputs are called {', '.join(map(repr, names))}"
        raise Refused("the data", reason, "Write a dict.")
    return {name: _column(batch, name, 0) for name in names}


def _column(batch: Batch, name: str, place: int) -> Any:
    """Return a batch's inputs or outcomes: by name in a dict, or by their place in a tuple."""
    if isinstance(batch, Mapping):
        if name not in batch:
            reason = f"they have {', '.join(map(repr, batch))}, and no {name!r}"
            fix = WHOSE_ROWS if name == AGENT else "Say which are inputs and outcomes: x=..., y=..."
            raise Refused("the data", reason, fix) from KeyError(name)
        return batch[name]
    if isinstance(batch, tuple | list):
        return batch[place]
    fix = "Write a dict with inputs and outcomes, or a tuple (x, y)."
    raise Refused("the data", f"they are a {type(batch).__name__}", fix)


def _one_a_row(outcomes: Any, name: str, fix: str) -> Any:
    shape = np.shape(outcomes)
    if len(shape) != 1:
        fix = f"{name}[:, 0]" if shape[1:] == (1,) else fix
        raise Refused(name, f"its shape is {shape}; one number a row is needed", f"Write {fix}.")
    return outcomes


def _rows(x: Any) -> int:
    return len(jax.tree.leaves(x)[0])
