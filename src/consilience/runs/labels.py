"""Labels of a run: names of its agents and of columns of its data, and labels along the axes of what is kept.

An axis of a parameter has the names of a table's columns if each of its elements acts through one column alone, in
order, as w does in `batch["x"] @ w`. That is computed, and never concluded from equal lengths. With G the gradient of
the log-likelihood in the parameter at a random point, for some rows, and G_j the same with column j set to zero:

    slice j of G_j is exactly zero, for all j;    no slice of G is zero;    no slice i ≠ j of G_j is zero

What is shown or kept in place of the parameters, such as scaled ones, has the labels too if its element j changes with
slice j of such parameters and with no other slice of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._refused import Refused
from .._types import Batch, Params
from ..model import RESERVED, Columns, Layout, View, leaf_name
from ..store import Table
from .preparing import Prepared

ROWS = 4  # of the batch on which it is computed what acts through which column
MOST_COLUMNS = 1000  # of a table: each costs some gradients
Axes = list[tuple[int, int]]  # places of leaves in a layout, and an axis of each


@dataclass(frozen=True)
class Labels:
    """Names and labels of a run.

    Attributes:
      agents: names of all agents, in the network's order; empty where they have none.
      columns: names of the columns of tables in the data, by the tables' names.
      dims: names of axes of what is kept.
      coords: labels along axes that have a name.
    """

    agents: tuple[str, ...]
    columns: Columns
    dims: Mapping[str, tuple[str, ...]]
    coords: Mapping[str, tuple[Any, ...]]

    def recorded(self) -> Table:
        """Return what a run's record has under labels: those that there are."""
        found = {"agents": list(self.agents), "columns": _lists(self.columns), "coords": _lists(self.coords)}
        return {name: labels for name, labels in found.items() if labels}

    def to_table(self) -> Table:
        """Return all labels as a table that JSON can hold."""
        return {**self.recorded(), "dims": _lists(self.dims)}

    @classmethod
    def from_table(cls, table: Table) -> Labels:
        """Return the labels of a table that `to_table` made."""
        columns, dims, coords = (
            {name: tuple(values) for name, values in table.get(part, {}).items()}
            for part in ("columns", "dims", "coords")
        )
        return cls(tuple(table.get("agents", ())), columns, dims, coords)


def find_labels(prepared: Prepared, columns: Columns, batch: Batch) -> Labels:
    """Return the labels of a run: those that the model and the data have, and those that follow from them.

    Args:
      batch: some agent's data.
    """
    posterior, kept = prepared.posterior, prepared.view.layout
    dims = {name: tuple(axes) for name, axes in posterior.dims.items()}
    coords = {name: tuple(_plain(label) for label in labels) for name, labels in posterior.coords.items()}
    _check_coords(coords, dims, kept)
    for table, names in columns.items():
        through = _axes_of_columns(prepared, batch, table, len(names))
        for leaf, axis in through:
            name, shape = kept.names[leaf], kept.shapes[leaf]
            axes = dims.get(name, tuple(f"{name}_dim_{k}" for k in range(len(shape))))
            own = axes[axis] if name in dims else _free_name(f"{table}_column", kept)
            if coords.setdefault(own, tuple(names)) == tuple(names):
                dims[name] = (*axes[:axis], own, *axes[axis + 1 :])
    return Labels(prepared.network.names, columns, dims, coords)


def _check_coords(coords: Mapping[str, Sequence[Any]], dims: Mapping[str, Sequence[str]], kept: Layout) -> None:
    """Refuse labels of axes that no parameter has, or that are not as many as the axis is long."""
    for dim, labels in coords.items():
        if not any(dim in axes for axes in dims.values()):
            fix = f'Name the axis of a parameter so: dims={{"w": ("{dim}",)}}.'
            raise Refused("coords", f"no axis is called {dim!r}", fix)
        for name, shape in zip(kept.names, kept.shapes, strict=True):
            for own, length in zip(dims.get(name, ()), shape, strict=False):
                if own == dim and length != len(labels):
                    reason = f"{dim!r} has {len(labels)} labels, and that axis of {name} has length {length}"
                    raise Refused("coords", reason, "Write one label for each element, in order.")


def _axes_of_columns(prepared: Prepared, batch: Batch, table: str, count: int) -> Axes:
    """Return the axes of what is kept whose elements go with the columns of a table, one by one."""
    layout, view = prepared.layout, prepared.view
    candidates = _axes_of_length(layout, count)
    paths, structure = jax.tree_util.tree_flatten_with_path(_some_rows(batch))
    place = [leaf_name(path, root="data") for path, _ in paths].index(table)
    leaves = [leaf for _, leaf in paths]
    if count > MOST_COLUMNS or not candidates or not jnp.issubdtype(leaves[place].dtype, jnp.floating):
        return []

    def value(params: Params, numbers: jax.Array) -> jax.Array:
        rows = jax.tree.unflatten(structure, [*leaves[:place], numbers, *leaves[place + 1 :]])
        return prepared.posterior.log_likelihood(params, rows).sum()

    point = _near(prepared.starts[0])
    slopes, without = _slopes(value, layout, candidates, point, leaves[place])
    off = ~np.eye(count, dtype=bool)
    acting = [
        candidate
        for candidate, slope, rest in zip(candidates, slopes, without, strict=True)
        if (slope > 0).all() and (np.diag(rest) == 0).all() and (rest[off] > 0).all()
    ]
    acting = _one_each(acting)
    if view.function is None or not acting:
        return acting
    shown = _axes_of_length(view.layout, count)
    changes = _changes(view, layout, acting, shown, count, point)
    return _one_each(
        [
            one
            for one, change in zip(shown, changes, strict=True)
            if (np.diag(change) > 0).all() and not change[off].any()
        ]
    )


def _axes_of_length(layout: Layout, length: int) -> Axes:
    return [(leaf, axis) for leaf, shape in enumerate(layout.shapes) for axis, n in enumerate(shape) if n == length]


def _one_each(axes: Axes) -> Axes:
    """Return the first axis of each leaf."""
    return [(leaf, axis) for k, (leaf, axis) in enumerate(axes) if leaf not in [other for other, _ in axes[:k]]]


def _near(start: jax.Array) -> jax.Array:
    """Return a point drawn near a start."""
    return start + jax.random.uniform(jax.random.key(0), start.shape, start.dtype, -0.3, 0.3)


def _some_rows(batch: Batch) -> Batch:
    count = len(jax.tree.leaves(batch)[0])
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[np.arange(ROWS) % count]), batch)


def _slopes(
    value: Callable[[Params, jax.Array], jax.Array], layout: Layout, axes: Axes, point: jax.Array, like: jax.Array
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the largest slope in each slice of each axis, (column,), and that with a column set to zero, a row each.

    Args:
      value: the log-likelihood of some rows, given the parameters and a table.
      like: a table of that shape; it gets random numbers, as its own may be zero already.
    """
    numbers = jax.random.uniform(jax.random.key(1), like.shape, like.dtype, 0.5, 1.5)

    @jax.jit
    def both(w: jax.Array) -> Any:
        def largest(values: jax.Array) -> list[jax.Array]:
            return _by_slice(jax.tree.leaves(jax.grad(value)(layout.unravel(w), values)), axes)

        without = jax.lax.map(lambda column: largest(numbers.at[:, column].set(0)), jnp.arange(like.shape[1]))
        return largest(numbers), without

    return jax.device_get(both(point))


def _changes(view: View, layout: Layout, acting: Axes, shown: Axes, count: int, point: jax.Array) -> list[np.ndarray]:
    """Return how much each slice of what is shown changes with slice j of the parameters, a row for each j."""

    def along(column: jax.Array) -> list[jax.Array]:
        leaves = [jnp.zeros(shape, layout.dtype) for shape in layout.shapes]
        for leaf, axis in acting:
            leaves[leaf] = jnp.moveaxis(jnp.moveaxis(leaves[leaf], axis, 0).at[column].set(1), 0, axis)
        direction = jnp.concatenate([leaf.ravel() for leaf in leaves])
        _, change = jax.jvp(view, (point,), (direction,))
        return _by_slice(jax.tree.leaves(view.layout.unravel(change)), shown)

    compute: Callable[[jax.Array], list[jax.Array]] = jax.jit(lambda columns: jax.lax.map(along, columns))
    return jax.device_get(compute(jnp.arange(count)))


def _by_slice(leaves: Sequence[jax.Array], axes: Axes) -> list[jax.Array]:
    """Return the largest absolute value in each slice along the given axes."""
    return [
        jnp.abs(jnp.moveaxis(leaves[leaf], axis, 0)).reshape(leaves[leaf].shape[axis], -1).max(1) for leaf, axis in axes
    ]


def _free_name(name: str, kept: Layout) -> str:
    """Return a name for an axis that no parameter and no axis of all draws has."""
    while name in (*kept.names, *RESERVED):
        name += "_"
    return name


def _plain(label: Any) -> Any:
    """Return a label as a text or a number that a record can hold."""
    value = label.item() if isinstance(label, np.generic) else label
    return value if isinstance(value, str | int | float) else str(value)


def _lists(table: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    return {name: list(values) for name, values in table.items()}
