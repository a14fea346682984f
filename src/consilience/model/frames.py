"""Data frames, of pandas or polars: tables whose columns have names; neither library is needed.

A frame that is a leaf of the data, {"x": frame, "y": ...}, is a table (rows, columns). A frame that is all of an
agent's data is a dict of its columns, each of its own dtype: `batch["age"]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from .._refused import Refused
from .._types import Batch
from .layout import leaf_name

Columns = Mapping[str, tuple[str, ...]]  # names of the columns of tables, by the tables' names


def is_frame(data: Any) -> bool:
    """Tell whether `data` is a data frame, by what pandas's and polars's have in common."""
    return not isinstance(data, Mapping | type) and hasattr(data, "columns") and hasattr(data, "to_numpy")


def by_column(what: str, data: Batch) -> Batch:
    """Return a frame as a dict of its columns, and all other data as they are."""
    return _columns(what, "the frame", data) if is_frame(data) else data


def table_of(what: str, name: str, frame: Any) -> np.ndarray:
    """Return a frame's columns side by side, (rows, columns), in a dtype that holds all of them."""
    columns = _columns(what, name, frame)
    if not columns:
        raise Refused(what, f"{name} has no columns")
    for column, values in columns.items():
        if values.dtype.kind not in "biuf":
            reason = f"column {column!r} of {name} has dtype {values.dtype}; numbers are needed"
            raise Refused(what, reason, f"Number its values, or leave it out: {name}.drop(columns=[{column!r}]).")
    return np.stack([*columns.values()], axis=1)


def _columns(what: str, name: str, frame: Any) -> dict[str, np.ndarray]:
    """Return the columns of a frame by name; refuse names that occur twice."""
    names = [str(column) for column in frame.columns]
    for column in names:
        if names.count(column) > 1:
            raise Refused(what, f"two columns of {name} are called {column!r}", "Rename one.")
    return {name: frame[column].to_numpy() for name, column in zip(names, frame.columns, strict=True)}


def take_rows(leaf: Any, chosen: np.ndarray) -> Any:
    """Return some rows of an array, or of a frame, whose columns keep their names."""
    if not is_frame(leaf):
        return np.asarray(leaf)[chosen]
    return leaf.iloc[chosen] if hasattr(leaf, "iloc") else leaf[chosen]


def column_names(agents: Sequence[str], shards: Sequence[Batch]) -> Columns:
    """Return the names of the columns of all tables that are frames; refuse agents whose columns are not alike."""
    found = [
        {
            leaf_name(path, root="data"): tuple(map(str, leaf.columns))
            for path, leaf in jax.tree_util.tree_leaves_with_path(shard)
            if is_frame(leaf) and shard is not leaf
        }
        for shard in shards
    ]
    for agent, own in zip(agents, found, strict=True):
        for table in own.keys() & found[0].keys():
            check_columns_alike(agent, table, own[table], agents[0], found[0][table])
    return found[0]


def check_columns_alike(agent: str, table: str, own: Sequence[str], first: str, model: Sequence[str]) -> None:
    """Refuse a table whose columns are not those of the first agent's, or in another order."""
    if list(own) == list(model):
        return
    unlike = [f"lacks {column!r}" for column in model if column not in own]
    unlike += [f"has {column!r}" for column in own if column not in model]
    reason = f"the columns of {table} are in another order than {first}'s"
    if unlike:
        reason = f"{table} {' and '.join(unlike)}, unlike {first}'s"
    raise Refused(agent, reason, f"Write {table}[[{', '.join(map(repr, model))}]].")


def check_columns(columns: Any, shard: Batch) -> Columns:
    """Return the names that a user gives to the columns of tables; refuse those that do not fit the data."""
    shapes = {leaf_name(path, root="data"): np.shape(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(shard)}
    first = next((table for table, shape in shapes.items() if len(shape) == 2), "x")
    fix = f'Write columns={{"{first}": ["age", "dose"]}}.'
    if not isinstance(columns, Mapping):
        raise Refused(f"columns = {columns!r}", "a dict with a list of names for each table is needed", fix)
    for table, names in columns.items():
        if table not in shapes:
            raise Refused("columns", f"the data have no {table!r}; they have {', '.join(map(repr, shapes))}", fix)
        if isinstance(names, str) or len(shapes[table]) != 2 or len(names) != shapes[table][1]:
            reason = f"{table} has shape {shapes[table]}, and its columns are named {names!r}"
            raise Refused("columns", reason, "Give a table (rows, columns) one name for each column.")
        for name in names:
            if list(names).count(name) > 1:
                raise Refused("columns", f"two columns of {table} are called {name!r}", "Rename one.")
    return {table: tuple(map(str, names)) for table, names in columns.items()}
