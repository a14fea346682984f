"""Labels of a run: names of its agents and of columns of its data, and labels along the axes of what is kept.

An axis of a parameter has the names of a table's columns if each of its elements acts through one column alone, in
order, as w does in `batch["x"] @ w`. That is computed, and never concluded from equal lengths. With G the gradient of
the log-likelihood in the parameter at a random point, for some rows, and G_j the same with column j set to zero:

    slice j of G_j is exactly zero, for all j;    no slice of G is zero;    no slice i ≠ j of G_j is zero

An axis has the agents' names, and is called `site`, if each of its elements acts on the rows of one agent alone, as in
`offset[batch["agent"]]`: with G_j the gradient where all rows are agent j's, slice j of G_j is not zero, and all others
are exactly zero.

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
from ..model import AGENT, RESERVED, Columns, Groups, Layout, View, leaf_name
from ..store import Table
from .preparing import Prepared

ROWS = 16  # of the batch on which it is computed what acts through which column
SITE = "site"  # name of an axis with an element for each agent
MOST_COLUMNS = 1000  # or agents: each costs a gradient
Axes = list[tuple[int, int]]  # places of leaves in a layout, and an axis of each


@dataclass(frozen=True)
class Labels:
    """Names and labels of a run.

    Attributes:
      agents: names of all agents, in the network's order; empty where they have none.
      columns: names of the columns of tables in the data, by the tables' names.
      dims: names of axes of what is kept.
      coords: labels along axes that have a name.
      numbered: whether the agents' data were given their numbers, batch["agent"].
      groups: labels of each agent's groups, where the posterior has some; empty where every agent is one.
    """

    agents: tuple[str, ...]
    columns: Columns
    dims: Mapping[str, tuple[str, ...]]
    coords: Mapping[str, tuple[Any, ...]]
    numbered: bool = False
    groups: Groups = ()

    def recorded(self) -> Table:
        """Return what a run's record has under labels: those that there are."""
        found: Table = {"agents": list(self.agents), "columns": _lists(self.columns), "coords": _lists(self.coords)}
        found |= {"numbered": self.numbered, "groups": [list(labels) for labels in self.groups]}
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
        groups = tuple(map(tuple, table.get("groups", ())))
        return cls(tuple(table.get("agents", ())), columns, dims, coords, table.get("numbered", False), groups)


def find_labels(
    prepared: Prepared, columns: Columns, groups: Groups, batch: Batch, numbered: bool, is_whole: bool
) -> Labels:
    """Return the labels of a run: those that the model and the data have, and those that follow from them.

    Args:
      groups: labels of each agent's groups.
      batch: some agent's data.
      numbered: whether the data were given their agents' numbers, batch["agent"].
      is_whole: whether those are numbers of the network's agents, none of whom is left out.
    """
    posterior, kept, names = prepared.posterior, prepared.view.layout, prepared.network.names
    dims = {name: tuple(axes) for name, axes in posterior.dims.items()}
    coords = {name: tuple(_plain(label) for label in labels) for name, labels in posterior.coords.items()}
    _check_coords(coords, dims, kept)
    found = [(f"{table}_column", own, _axes_of_columns(prepared, batch, table)) for table, own in columns.items()]
    if numbered and is_whole and names:
        found.append((SITE, names, _axes_of_agents(prepared, batch)))
    for dim, labels, through in found:
        given = [name for name in _named_axes(dims, kept, through) if coords.get(name, tuple(labels)) == tuple(labels)]
        otherwise = given[0] if given else _free_name(dim, kept)
        for leaf, axis in through:
            name, shape = kept.names[leaf], kept.shapes[leaf]
            axes = dims.get(name, tuple(f"{name}_dim_{k}" for k in range(len(shape))))
            named = _named_axes(dims, kept, [(leaf, axis)])
            own = named[0] if named else otherwise
            if coords.setdefault(own, tuple(labels)) == tuple(labels):
                dims[name] = (*axes[:axis], own, *axes[axis + 1 :])
    return Labels(names, columns, dims, coords, numbered, [tuple(map(_plain, labels)) for labels in groups])


def _named_axes(dims: Mapping[str, Sequence[str]], kept: Layout, axes: Axes) -> list[str]:
    """Return the names that the model itself gives to some of these axes."""
    own = [(kept.names[leaf], axis) for leaf, axis in axes]
    return [dims[name][axis] for name, axis in own if name in dims and dims[name][axis] != f"{name}_dim_{axis}"]


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


def _axes_of_columns(prepared: Prepared, batch: Batch, table: str) -> Axes:
    """Return the axes of what is kept whose elements go with the columns of a table, one by one."""
    paths, structure = jax.tree_util.tree_flatten_with_path(_some_rows(batch))
    place = [leaf_name(path, root="data") for path, _ in paths].index(table)
    leaves = [leaf for _, leaf in paths]
    like, count = leaves[place], leaves[place].shape[1]
    if not jnp.issubdtype(like.dtype, jnp.floating):
        return []
    # The table gets random numbers, as its own may be zero already.
    numbers = jax.random.uniform(jax.random.key(1), like.shape, like.dtype, 0.5, 1.5)

    def value(params: Params, column: jax.Array) -> jax.Array:  # of the last column + 1: nothing is set to zero
        rows = [*leaves[:place], numbers.at[:, column].set(0, mode="drop"), *leaves[place + 1 :]]
        return prepared.log_likelihood(params, jax.tree.unflatten(structure, rows)).sum()

    def goes_with(slopes: np.ndarray) -> bool:
        without, whole = slopes[:count], slopes[count]
        return bool((whole > 0).all() and (np.diag(without) == 0).all() and (without[_off(count)] > 0).all())

    return _axes_that(goes_with, value, prepared, count, count + 1)


def _axes_of_agents(prepared: Prepared, batch: Batch) -> Axes:
    """Return the axes of what is kept whose elements act on one agent's rows each."""
    count, rows = prepared.network.size, _some_rows(batch)

    def value(params: Params, agent: jax.Array) -> jax.Array:
        return prepared.log_likelihood(params, {**rows, AGENT: jnp.full_like(rows[AGENT], agent)}).sum()

    def goes_with(slopes: np.ndarray) -> bool:
        return bool((np.diag(slopes) > 0).all() and not slopes[_off(count)].any())

    return _axes_that(goes_with, value, prepared, count, count)


def _axes_that(
    goes_with: Callable[[np.ndarray], bool],
    value: Callable[[Params, jax.Array], jax.Array],
    prepared: Prepared,
    count: int,
    cases: int,
) -> Axes:
    """Return the axes of what is kept, `count` long, that go with columns or agents.

    Args:
      goes_with: tells it of an axis of the parameters from the largest slope in each of its slices, (case, slice).
      value: the log-likelihood of some rows in each case, with a column set to zero or of an agent.
    """
    layout, view = prepared.layout, prepared.view
    candidates = _axes_of_length(layout, count)
    if count > MOST_COLUMNS or not candidates:
        return []
    point = _near(prepared.starts[0])
    slopes = _slopes(value, layout, candidates, cases, point)
    acting = _one_each([one for one, found in zip(candidates, slopes, strict=True) if goes_with(found)])
    if view.function is None or not acting:
        return acting
    shown = _axes_of_length(view.layout, count)
    changes = _changes(view, layout, acting, shown, count, point)
    go_along = [(np.diag(change) > 0).all() and not change[_off(count)].any() for change in changes]
    return _one_each([one for one, goes_along in zip(shown, go_along, strict=True) if goes_along])


def _off(count: int) -> np.ndarray:
    """Return where a matrix is off its diagonal."""
    return ~np.eye(count, dtype=bool)


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
    chosen = np.linspace(0, count - 1, ROWS).astype(int)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[chosen]), batch)


def _slopes(
    value: Callable[[Params, jax.Array], jax.Array], layout: Layout, axes: Axes, cases: int, point: jax.Array
) -> list[np.ndarray]:
    """Return the largest slope in each slice of each axis, a row for each case."""

    @jax.jit
    def of_all(w: jax.Array) -> list[jax.Array]:
        def largest(case: jax.Array) -> list[jax.Array]:
            return _by_slice(jax.tree.leaves(jax.grad(value)(layout.unravel(w), case)), axes)

        return jax.lax.map(largest, jnp.arange(cases))

    return jax.device_get(of_all(point))


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
