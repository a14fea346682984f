"""Splitting of one data set over agents, for experiments; real agents bring their own data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from .._checks import check_one_of, check_positive, refuse_unknown_keywords, whole_number
from .._refused import Refused
from .._types import Batch
from .frames import is_frame, take_rows
from .shards import as_batch, check_shards, rows

DIRICHLET_TRIES = 100
SPLITS = ("iid", "label", "dirichlet", "features")


@refuse_unknown_keywords("cs.shard")
def shard(
    data: Batch,
    agents: int,
    by: str | Sequence[Any] = "iid",
    *,
    seed: int = 0,
    label: Any = None,
    alpha: float = 0.5,
    feature: Any = None,
    blocks: Sequence[Any] | None = None,
) -> list[Batch]:
    """Split `data`, a pytree of arrays with one leading axis, into one pytree per agent.

    Data frames stay data frames, so that their columns keep their names; but "features" makes arrays of them.

    Args:
      by: how to split.
        "iid": at random, in equal parts (up to one row).
        "label": by class, the classes in order and in equal parts: ten digits over five agents are two each.
        "dirichlet": every class is dealt out in proportions drawn from Dirichlet(`alpha`): the smaller `alpha`, the
        less alike the agents. Drawn again where an agent would have nothing.
        "features": every agent has all rows, but sees a block of features only, the others zeroed. **This changes
        the target**: the posterior is Π_i lik(y | x_i masked) · prior, not that of the whole rows.
        A list of index arrays, one per agent: each row exactly once.
      seed: seed of the random splits.
      label: for "label" and "dirichlet": the key of the labels in `data`, or an array of them. Without it, `data["y"]`,
        or the last of a tuple.
      alpha: for "dirichlet": the concentration of the distribution.
      feature: for "features": the key of the features in `data`. Without it, `data["x"]`, the first of a tuple, or the
        whole of a bare array.
      blocks: for "features": the sizes of the agents' blocks, or one index array each. Without it, equal parts.
    """
    whole_number("agents", agents, 1)
    count = rows("data", data)
    given, data = data, as_batch("data", data)
    if isinstance(by, str) and by == "features":
        return _split_by_features(data, agents, feature, blocks)
    random = np.random.default_rng(seed)
    if isinstance(by, list | tuple | np.ndarray):
        parts = _split_by_indices(by, agents, count)
    elif by == "iid":
        parts = [np.sort(part) for part in np.array_split(random.permutation(count), agents)]
    elif by == "label":
        parts = _split_by_label(_labels(data, label, count), agents)
    elif by == "dirichlet":
        parts = _split_by_dirichlet(_labels(data, label, count), agents, alpha, random)
    else:
        check_one_of("by", by, SPLITS, ", nor a list of index arrays")
    for agent, part in enumerate(parts):
        if len(part) == 0:
            raise Refused(f"by={by!r}", f"agent {agent} would have no examples: {count} rows, {agents} agents")
    return [jax.tree.map(lambda leaf, part=part: take_rows(leaf, part), given) for part in parts]


def pool(shards: Sequence[Batch] | Mapping[str, Batch]) -> list[Batch]:
    """Join all agents' examples in one shard, for `Network.complete(1)`: only for data that may be put together.

    For shards split by features its posterior is the product that the agents sample, not the posterior of whole rows.
    """
    if isinstance(shards, Mapping) and all(isinstance(shard, Mapping) or is_frame(shard) for shard in shards.values()):
        shards = [*shards.values()]
    if not isinstance(shards, list | tuple) or not shards:
        raise Refused("pool", "it takes a list of shards, one pytree of arrays per agent, or these by agents' names")
    return [jax.tree.map(lambda *leaves: np.concatenate(leaves), *check_shards(shards, len(shards)))]


def _labels(data: Batch, label: Any, count: int) -> np.ndarray:
    chosen = label is not None and not isinstance(label, str | int | np.integer)
    values = np.asarray(label if chosen else data[_find_key(data, label, "label", "y", -1)])
    if values.shape != (count,):
        raise Refused("label", f"one class per row is needed, shape ({count},); it has shape {values.shape}")
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise Refused("label", f"the class of row {np.flatnonzero(np.isnan(values))[0]} is NaN: it belongs to nobody")
    if values.dtype.kind == "f" and (values != np.round(values)).any():
        row = np.flatnonzero(values != np.round(values))[0]
        reason = f"it is {values[row]:g} in row {row}, a measurement and not a class"
        raise Refused("label", reason, 'Write label=np.digitize(y, limits), classes of your own, or by="iid".')
    return values


def _find_key(data: Batch, choice: Any, argument: str, key: str, position: int) -> Any:
    """Return the key of the labels or features: `choice`, or by default `key` in a dict and `position` in a tuple."""
    if isinstance(data, dict):
        place = key if choice is None else choice
        if place not in data:
            raise Refused(argument, f"data has {', '.join(map(repr, data))}", f"Say which, {argument}=...")
        return place
    if not isinstance(data, list | tuple):
        raise Refused(argument, "data is a single array", "Pass a dict such as {'x': ..., 'y': ...}.")
    place = position if choice is None else choice
    names: tuple[str, ...] = getattr(data, "_fields", ())
    if place in names:
        return names.index(place)
    if not isinstance(place, int | np.integer) or not -len(data) <= place < len(data):
        raise Refused(f"{argument} = {place!r}", f"data is a tuple of {len(data)}", "Say which by its number.")
    return place % len(data)


def _split_by_label(labels: np.ndarray, agents: int) -> list[np.ndarray]:
    classes = np.unique(labels)
    if len(classes) < agents:
        reason = f"{len(classes)} classes cannot be dealt to {agents} agents, each needs one of its own"
        raise Refused('by="label"', reason, 'Use by="dirichlet".')
    return [np.flatnonzero(np.isin(labels, own)) for own in np.array_split(classes, agents)]


def _split_by_dirichlet(labels: np.ndarray, agents: int, alpha: float, random: np.random.Generator) -> list[np.ndarray]:
    check_positive("alpha", alpha)
    for _ in range(DIRICHLET_TRIES):
        owner = np.empty(len(labels), dtype=int)
        for one in np.unique(labels):
            members = random.permutation(np.flatnonzero(labels == one))
            cuts = np.cumsum(random.dirichlet(np.full(agents, alpha)))[:-1] * len(members)
            # A random offset, so that rounding favours no agent.
            owner[members] = np.searchsorted(cuts, np.arange(len(members)) + random.uniform(), side="right")
        if len(np.unique(owner)) == agents:
            return [np.flatnonzero(owner == agent) for agent in range(agents)]
    reason = f"in {DIRICHLET_TRIES} draws some of the {agents} agents always had nothing"
    raise Refused(f'by="dirichlet", alpha = {alpha}', reason, "Use a larger alpha or fewer agents.")


def _split_by_indices(parts: Sequence[Any], agents: int, count: int) -> list[np.ndarray]:
    if len(parts) != agents:
        raise Refused("by", f"there are {len(parts)} index lists for {agents} agents")
    parts = [np.asarray(part) for part in parts]
    owner = np.full(count, -1)
    for agent, part in enumerate(parts):
        if part.ndim != 1 or (part.size and part.dtype.kind not in "iu"):
            raise Refused("by", f"agent {agent}'s indices must be a list of whole numbers")
        if part.size and not 0 <= part.min() <= part.max() < count:
            raise Refused("by", f"agent {agent} is given a row outside 0 ... {count - 1}")
        for row in part:
            if owner[row] >= 0:
                reason = f"row {row} is given to agent {owner[row]} and to agent {agent}: it would count twice"
                raise Refused("by", reason, "Give each row to one agent.")
            owner[row] = agent
    left = np.flatnonzero(owner < 0)
    if left.size:
        reason = f"{left.size} rows belong to no agent, the first is row {left[0]}"
        raise Refused("by", reason, "Give them to one, or leave them out of data.")
    return [part.astype(int) for part in parts]


def _split_by_features(data: Batch, agents: int, feature: Any, blocks: Sequence[Any] | None) -> list[Batch]:
    if isinstance(data, np.ndarray):
        if feature is not None:
            raise Refused(f"feature = {feature!r}", "data is a single array, and all of it is features")
        return [shard["x"] for shard in _split_by_features({"x": data}, agents, None, blocks)]
    key = _find_key(data, feature, "feature", "x", 0)
    features = data[key]
    if np.ndim(features) != 2:
        raise Refused("feature", f"a table (rows, features) is needed; it has shape {np.shape(features)}")
    width = features.shape[1]

    def of_agent(own: np.ndarray) -> Batch:
        masked = np.zeros_like(features)
        masked[:, own] = features[:, own]
        return _replace_leaf(data, key, masked)

    return [of_agent(own) for own in _blocks(agents, width, blocks)]


def _replace_leaf(data: Batch, key: Any, value: np.ndarray) -> Batch:
    """Return a copy of `data`, a dict or a tuple, with `value` at `key`."""
    if isinstance(data, dict):
        return {**data, key: value}
    parts = [value if k == key else part for k, part in enumerate(data)]
    return type(data)(*parts) if hasattr(data, "_fields") else type(data)(parts)


def _blocks(agents: int, width: int, blocks: Sequence[Any] | None) -> list[np.ndarray]:
    if blocks is None:
        parts = np.array_split(np.arange(width), agents)
    elif all(np.ndim(block) == 0 for block in blocks):
        parts = np.split(np.arange(width), np.cumsum(blocks)[:-1]) if sum(blocks) == width else []
    else:
        parts = [np.asarray(block) for block in blocks]
        if not all(part.ndim == 1 and part.dtype.kind in "iu" for part in parts):
            raise Refused("blocks", "they are sizes, or lists of whole numbers, one per agent")
    dealt = np.sort(np.concatenate([np.empty(0, int), *parts]))
    if len(parts) != agents or min(map(len, parts)) == 0 or not np.array_equal(dealt, np.arange(width)):
        example = [len(part) for part in np.array_split(np.arange(width), agents)]
        reason = f"{agents} agents need {agents} non-empty blocks that hold each of the {width} features once"
        raise Refused("blocks", reason, f"For example blocks={example}.")
    return parts
