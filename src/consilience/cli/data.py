"""A run's data: a file's columns or a loader's arrays, as one shard per agent, with held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from .._checks import nearest
from .._refused import Refused
from .._types import Batch
from ..model import as_batch, rows, shard
from .columns import Columns, read_columns
from .config import DataTable, SplitTable
from .modules import call, named

PARTS = ("train", "test", "ood")
MOST_SHOWN = 12  # agents


@dataclass(frozen=True)
class Data:
    """A run's data: the agents' shards to sample with, and held-out rows to score on.

    Attributes:
      shards: one for each agent, or a function of an agent's number: then only those of agents here are loaded.
      owners: the agents' names, where the data has them.
      columns: names of the columns of the table x, where it is of a file.
    """

    shards: list[Batch] | Callable[[int], Batch]
    owners: tuple[str, ...] | None
    test: Batch | None
    ood: Batch | None
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def by_owner(self) -> list[Batch] | dict[str, Batch] | Callable[[int], Batch]:
        """The shards, by the agents' names where there are some, as `cs.sample` takes them."""
        if self.owners is None or callable(self.shards):
            return self.shards
        return dict(zip(self.owners, self.shards, strict=True))

    def __str__(self) -> str:
        if callable(self.shards):
            return "every agent's rows are loaded where it lives"
        counts = [rows("data", part) for part in self.shards]
        if self.owners is not None:
            each = ", ".join(f"{name} {count}" for name, count in zip(self.owners, counts, strict=True))
        elif len(counts) > MOST_SHOWN:
            each = f"{min(counts)} to {max(counts)} each"
        else:
            each = ", ".join(map(str, counts))
        held_out = "" if self.test is None else f", {rows('test', self.test):,} held out"
        return f"{sum(counts):,} rows on {len(counts)} agent{'s' * (len(counts) > 1)} ({each}){held_out}"


def load_data(data: DataTable, split: SplitTable, folder: Path, agents: int) -> Data:
    """Load the data of `agents` agents: a shard for each, and held-out rows if there are any."""
    parts, owner, names = _from_file(data, folder) if data.loader is None else _from_loader(data, folder)
    if isinstance(parts["train"], list) or callable(parts["train"]):
        what = "a function of an agent's number" if callable(parts["train"]) else "a list, one shard per agent"
        for key in ("agent", "test_fraction", "standardize"):
            if getattr(data, key):
                raise Refused(f"[data] {key}", f"the loader gives {what}", f"Leave {key} out.")
        return Data(parts["train"], None, parts.get("test"), parts.get("ood"))
    if data.test_fraction is not None:
        if "test" in parts:
            raise Refused("[data] test_fraction", "the loader gives a test set itself", "Leave test_fraction out.")
        parts, owner = _hold_out(parts, owner, data.test_fraction, data.test_seed)
    if data.standardize:
        parts = _standardized(parts, names)
    owners = None
    if owner is None:
        shards = shard(parts["train"], agents, **asdict(split))
    else:
        owners, indices = _by_owner(data, owner, agents)
        shards = shard(parts["train"], agents, by=indices)
    columns = {"x": tuple(names)} if names else {}
    return Data(shards, owners, parts.get("test"), parts.get("ood"), columns)


class Loaded(NamedTuple):
    """Data as a file or a loader has them: their parts, the owner of each row of train, and names of x's columns."""

    parts: dict[str, Batch]
    owner: np.ndarray | None
    names: Sequence[str] = ()


def _from_file(data: DataTable, folder: Path) -> Loaded:
    """Read the parts train and perhaps test from files."""
    assert data.file is not None
    files = {"train": data.file} | ({"test": data.test} if data.test else {})
    read = {part: read_columns(folder / name) for part, name in files.items()}
    owner = None if data.agent is None else read["train"].words(data.agent)
    if read["train"].arrays:
        return Loaded({part: _without(dict(columns.columns), data.agent) for part, columns in read.items()}, owner)
    others = [name for name in read["train"].names if name not in (data.target, data.agent)]
    names = others if data.features is None else data.features
    if not names:
        raise Refused("", f"{read['train'].path} has no columns for features beside target and agent")
    _check_test_columns(read, [*names, *([] if data.target is None else [data.target])])
    parts = {part: {"x": _features(columns, names)} for part, columns in read.items()}
    if data.target is not None:
        targets = {part: columns.numbers(data.target, is_target=True) for part, columns in read.items()}
        dtype = jax.dtypes.canonicalize_dtype(int if all(map(_are_labels, targets.values())) else float)
        for part, values in targets.items():
            parts[part]["y"] = values.astype(dtype)
    return Loaded(parts, owner, names)


def _check_test_columns(read: Mapping[str, Columns], needed: Sequence[str]) -> None:
    """Refuse a test file without a column that the training file has."""
    for name in needed:
        if "test" in read and name in read["train"].names and name not in read["test"].names:
            near = nearest(name, [other for other in read["test"].names if other not in needed])
            fix = f"Rename its column {near}." if near else "Add it to that file, with the same columns for all rows."
            reason = f"{read['test'].path} has no column {name}, which {read['train'].path} has"
            raise Refused("[data] test", reason, fix)


def _are_labels(values: np.ndarray) -> bool:
    """Tell whether all values are whole numbers that int32 can hold."""
    return bool((values == np.round(values)).all() and np.abs(values).max() <= np.iinfo(np.int32).max)


def _features(columns: Columns, names: Sequence[str]) -> np.ndarray:
    return np.stack([columns.numbers(name) for name in names], axis=1).astype(jax.dtypes.canonicalize_dtype(float))


def _from_loader(data: DataTable, folder: Path) -> Loaded:
    assert data.loader is not None
    loader = named("[data] loader", data.loader, folder)
    loaded = call("[data] arguments", data.loader, loader, data.arguments)
    parts = dict(loaded) if isinstance(loaded, dict) and "train" in loaded and set(loaded) <= set(PARTS) else None
    parts = {name: part for name, part in parts.items() if part is not None} if parts else {"train": loaded}
    if data.agent is None:
        return Loaded(parts, None)
    if not isinstance(parts["train"], dict) or data.agent not in parts["train"]:
        raise Refused("[data] agent", f"what {data.loader} returns has no {data.agent!r}")
    owner = np.asarray(parts["train"][data.agent]).astype(str)
    return Loaded({name: _without(part, data.agent) for name, part in parts.items()}, owner)


def _without(part: Batch, key: str | None) -> Batch:
    return {name: leaf for name, leaf in part.items() if name != key} if isinstance(part, dict) else part


def _hold_out(
    parts: dict[str, Batch], owner: np.ndarray | None, fraction: float, seed: int
) -> tuple[dict[str, Batch], np.ndarray | None]:
    count = rows("data", parts["train"])
    held = round(fraction * count)
    if not 0 < held < count:
        raise Refused(f"[data] test_fraction = {fraction}", f"of {count} rows, {held} would be held out")
    order = np.random.default_rng(seed).permutation(count)
    test, train = np.sort(order[:held]), np.sort(order[held:])
    every = as_batch("data", parts["train"])
    chosen = [jax.tree.map(lambda leaf, part=part: leaf[part], every) for part in (train, test)]
    return {**parts, "train": chosen[0], "test": chosen[1]}, None if owner is None else owner[train]


def _standardized(parts: dict[str, Batch], names: Sequence[str]) -> dict[str, Batch]:
    """Return all parts with features scaled to mean 0 and sd 1, by the training rows."""

    def called(feature: int) -> str:
        return names[feature] if names else f"feature {feature} of x"

    train = parts["train"]
    if not isinstance(train, dict) or "x" not in train or np.ndim(train["x"]) != 2:
        raise Refused("[data] standardize", "the data has no table x of features", "Leave standardize out.")
    features = np.asarray(train["x"])
    dtype = features.dtype if features.dtype.kind == "f" else jax.dtypes.canonicalize_dtype(float)
    for row, feature in np.argwhere(~np.isfinite(features))[:1]:
        reason = f"{called(feature)} is {features[row, feature]} in row {row}"
        raise Refused("[data] standardize", reason, "Drop or impute it.")
    mean, sd = features.mean(axis=0, dtype=float), features.std(axis=0, dtype=float)
    for feature in np.flatnonzero(sd == 0)[:1]:
        raise Refused("[data] standardize", f"{called(feature)} is the same in all rows", "Leave it out.")

    def scaled(x: Any) -> np.ndarray:
        return ((np.asarray(x) - mean) / sd).astype(dtype)

    return {
        name: {**part, "x": scaled(part["x"])} if isinstance(part, dict) else scaled(part)
        for name, part in parts.items()
    }


def _by_owner(data: DataTable, owner: np.ndarray, agents: int) -> tuple[tuple[str, ...], list[np.ndarray]]:
    """Return the agents' names, in order, and the indices of their rows."""
    names = sorted(set(owner.tolist()), key=lambda name: (float(name) if name.isdigit() else np.inf, name))
    if len(names) != agents:
        few = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        reason = f"{data.agent} names {len(names)} agents ({few}), and the network has {agents}"
        raise Refused("[data] agent", reason, f'Write, for example, kind = "ring:{len(names)}" in [network].')
    return tuple(names), [np.flatnonzero(owner == name) for name in names]
