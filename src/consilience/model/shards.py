"""The agents' data (shards), checked, padded to one length, masked and stacked.

Shards of unequal length are padded by repeating a row of their own. (Rows of zeros would do for values, but
a likelihood can be infinite there, and the gradient of a masked infinity is NaN.)

Padded rows cost as much as real ones. Where shards are so unequal that this matters, and all agents are on one device,
they are stacked by size instead: agents with about as many rows are one class, padded to the longest of the class. How
an agent's lane finds its own among them is in `local.py`. On a mesh every device runs the same code over its own lanes,
and a peer has one shard: there all shards are padded to one length, or there is nothing to pad.

The likelihood of a whole site (`per_row=False`) would be another one with padded rows in it, and no mask can take them
out: there all agents of a class have equally many rows, and nothing is padded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import nearest
from .._refused import Refused
from .._types import AnyArray, Batch
from .frames import by_column, is_frame, table_of
from .layout import leaf_name

MOST_PADDED = 1.5  # times the real rows: up to here all shards are padded to one length
MOST_CLASSES = 8
# Another class costs a few operations: it must save so many padded rows, and so large a share of the real ones.
LEAST_SAVED = 64
LEAST_SHARE = 1 / 16


class Shard(NamedTuple):
    """One agent's examples or, stacked along a leading axis, those of several agents."""

    batch: Batch
    mask: AnyArray | None  # which examples are real; None where all are

    @property
    def lane_axes(self) -> Any:
        """Axes of agents, for a `vmap` over them."""
        return 0

    @property
    def padded_form(self) -> Shard:
        """Shapes and dtypes, stacked."""
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), self)


class ShardsBySize(NamedTuple):
    """All agents' examples, stacked by classes of size; in an agent's lane, all of them and which is its own."""

    own: AnyArray  # place of each agent in `order`
    order: AnyArray  # numbers of all agents, class by class
    classes: tuple[Shard, ...]

    @property
    def lane_axes(self) -> Any:
        """Axes of agents, for a `vmap` over them."""
        return ShardsBySize(0, None, None)  # type: ignore[arg-type]

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of all arrays: with them, what is compiled is known."""
        return tuple(leaf.shape for leaf in jax.tree.leaves(self))

    @property
    def padded_form(self) -> Shard:
        """Shapes and dtypes that the same examples have when all are padded to one length."""
        batches = [part.batch for part in self.classes]
        longest = max(jax.tree.leaves(batch)[0].shape[1] for batch in batches)

        def form(leaf: AnyArray) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((len(self.order), longest, *leaf.shape[2:]), leaf.dtype)

        mask: Any = jax.ShapeDtypeStruct((len(self.order), longest), bool)
        return Shard(jax.tree.map(form, batches[0]), mask)


Shards = Shard | ShardsBySize


def stack_shards(shards: Sequence[Batch], size: int) -> Shard:
    """Check all agents' examples, and stack them along a leading axis of agents."""
    return jax.tree.map(jnp.asarray, stack_on_host(check_shards(shards, size)))


def stack_on_host(shards: Sequence[Batch], lengths: Sequence[int] = (), whole: bool = False) -> Shard:
    """Return checked shards stacked along a leading axis, as numpy arrays of the dtypes that a device will hold.

    Args:
      lengths: numbers of rows of all agents' shards, where `shards` are not all of them.
      whole: whether to refuse shards that would have to be padded.
    """
    own = [len(jax.tree.leaves(shard)[0]) for shard in shards]
    lengths = lengths or own
    longest = max(lengths)
    if whole and min(lengths) < longest:
        reason = (
            f"agents have {min(lengths)} to {longest} rows; on devices all are padded to one length, and padded rows "
            f"would change the likelihood of a whole site"
        )
        raise Refused("per_row=False", reason, "Leave out runtime=cs.Devices(), or give all agents as many rows.")

    def stacked(*leaves: np.ndarray) -> np.ndarray:
        kept = jax.dtypes.canonicalize_dtype(leaves[0].dtype)
        return np.stack([_padded(leaf, longest).astype(kept, copy=False) for leaf in leaves])

    mask = None if min(lengths) == longest else np.arange(longest) < np.array(own)[:, None]
    return Shard(jax.tree.map(stacked, *shards), mask)


def stack_by_size(shards: Sequence[Batch], lengths: Sequence[int] = (), whole: bool = False) -> Shards:
    """Return checked shards of all agents as `stack_on_host` does, or by size where padding would cost much more.

    Args:
      whole: whether no shard may be padded: classes are of equal length then.
    """
    lengths = lengths or [len(jax.tree.leaves(shard)[0]) for shard in shards]
    order, cuts = _equal_lengths(np.array(lengths)) if whole else _size_classes(np.array(lengths))
    if not len(cuts) or (not whole and len(shards) * max(lengths) <= MOST_PADDED * sum(lengths)):
        return stack_on_host(shards)
    classes = tuple(stack_on_host([shards[agent] for agent in agents]) for agents in np.split(order, cuts))
    return ShardsBySize(np.argsort(order).astype(np.int32), order.astype(np.int32), classes)


def _size_classes(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the agents in the order of their `lengths`, and where to cut it into classes of about one length.

    Cuts are made one by one, each where it saves most padded rows.
    """
    order = np.argsort(lengths, kind="stable")
    ordered, places = lengths[order], np.arange(1, len(lengths))
    ends = np.array([0, len(lengths)])  # of the classes so far
    while len(ends) <= MOST_CLASSES and len(places):
        own = np.searchsorted(ends, places)  # each would cut the class from ends[own - 1] to ends[own]
        saved = (places - ends[own - 1]) * (ordered[ends[own] - 1] - ordered[places - 1])
        if saved.max() < max(LEAST_SAVED, LEAST_SHARE * lengths.sum()):
            break
        ends = np.sort(np.append(ends, places[saved.argmax()]))
    return order, ends[1:-1]


def _equal_lengths(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the agents in the order of their `lengths`, and where to cut it into classes of equal length."""
    order = np.argsort(lengths, kind="stable")
    return order, np.flatnonzero(np.diff(lengths[order])) + 1


def rows(what: str, data: Batch) -> int:
    """Count the examples in `data`; refuse leaves that do not agree on the number."""
    leaves = jax.tree_util.tree_leaves_with_path(data)
    if not leaves:
        raise Refused(what, "there are no arrays")
    first = None
    for path, leaf in leaves:
        name = leaf_name(path, root="the array")
        if np.ndim(leaf) == 0:
            reason = f"{name} is a single number; examples go along the first axis of arrays"
            raise Refused(what, reason, "Write lists as np.asarray(...).")
        if first is None:
            first = (name, len(leaf))
        elif len(leaf) != first[1]:
            raise Refused(what, f"{first[0]} has {first[1]} rows but {name} has {len(leaf)}")
    assert first is not None
    return first[1]


def as_arrays(what: str, data: Batch) -> Batch:
    """Return `data` with numpy arrays as leaves; refuse leaves whose meaning an array would lose."""

    def convert(path: Any, leaf: Any) -> np.ndarray:
        name = leaf_name(path, root="the data")
        if is_frame(leaf):
            return table_of(what, name, leaf)
        if hasattr(leaf, "toarray"):
            raise Refused(what, f"{name} is a sparse matrix", f"Write {name}.toarray().")
        if isinstance(leaf, np.ma.MaskedArray) and np.ma.is_masked(leaf):
            raise Refused(what, f"{name} has masked entries", "Drop or impute them.")
        return np.asarray(leaf)

    return jax.tree_util.tree_map_with_path(convert, data)


def as_batch(what: str, data: Batch) -> Batch:
    """Return a batch with numpy arrays as leaves; a data frame is a dict of its columns."""
    return as_arrays(what, by_column(what, data))


def own_shards(shards: Sequence[Batch] | Callable[[int], Batch], size: int, own: range) -> list[Batch]:
    """Return the shards of the agents `own`, unchecked, from all agents' or from a function of an agent's number."""
    if callable(shards):
        return [shards(agent) for agent in own]
    _check_number(shards, size)
    return [*shards[own.start : own.stop]]


def check_shards(shards: Sequence[Batch], size: int) -> list[Batch]:
    """Return shards as numpy arrays; refuse them if not one per agent and all of one form, naming the agent."""
    _check_number(shards, size)
    return check_alike(shards, [f"agent {agent}" for agent in range(size)])


def form(shard: Batch) -> str:
    """Describe what all agents' data must have alike: names, dtypes, and the shapes of one example."""
    leaves = jax.tree_util.tree_leaves_with_path(shard)
    return ", ".join(f"{leaf_name(path, root='data')} {leaf.dtype}{[*leaf.shape[1:]]}" for path, leaf in leaves)


def _check_number(shards: Sequence[Batch], size: int) -> None:
    if not isinstance(shards, list | tuple):
        raise Refused(
            "shards",
            f"a {type(shards).__name__}, where a list with one pytree of arrays per agent is needed",
            f"Write shards=cs.shard(data, agents={size}), [data] for one agent, or a function of an agent's number.",
        )
    if len(shards) != size:
        raise Refused("shards", f"there are {len(shards)} shards for {size} agents: every agent needs exactly one")


def check_alike(shards: Sequence[Batch], names: Sequence[str]) -> list[Batch]:
    """Return the shards of some agents as numpy arrays; refuse those not of one form.

    Args:
      names: what messages call these agents.
    """
    shards = [as_batch(name, shard) for name, shard in zip(names, shards, strict=True)]
    for agent, shard in zip(names, shards, strict=True):
        if rows(agent, shard) == 0:
            raise Refused(agent, "it has no examples", "Leave it out of the network, or give it some.")
        _check_like(agent, shard, names[0], shards[0])
    return shards


def _check_like(agent: str, shard: Batch, first: str, model: Batch) -> None:
    """Refuse a shard that cannot be computed with, or is not of the form of `model`, that of the agent `first`."""
    if str(jax.tree.structure(shard)) != str(jax.tree.structure(model)):
        raise _unlike(agent, shard, first, model)
    for (path, leaf), reference in zip(jax.tree_util.tree_leaves_with_path(shard), jax.tree.leaves(model), strict=True):
        name = leaf_name(path, root="its data")
        if not (jnp.issubdtype(leaf.dtype, jnp.number) or leaf.dtype == bool):
            fix = "Number its values, or leave it out."
            raise Refused(agent, f"{name} has dtype {leaf.dtype}; numbers are needed", fix)
        if leaf.shape[1:] != reference.shape[1:]:
            shapes = f"has shape {leaf.shape[1:]}, {first}'s has {reference.shape[1:]}"
            raise Refused(agent, f"an example of {name} {shapes}")
        if leaf.dtype != reference.dtype:
            reason = f"{name} has dtype {leaf.dtype}, {first}'s has {reference.dtype}"
            fix = f"Convert both: .astype({str(np.result_type(leaf, reference))!r})."
            raise Refused(agent, reason, fix)
        _check_values(agent, name, leaf)


def _unlike(agent: str, shard: Batch, first: str, model: Batch) -> Refused:
    """Return the refusal of a shard that has other arrays than that of the agent `first`, or others in it."""
    own, others = ([leaf_name(path, root="") for path, _ in _leaves(data)] for data in (shard, model))
    missing = [name for name in others if name not in own]
    extra = [name for name in own if name not in others]
    if type(shard) is not type(model) or not (missing or extra) or "" in (*own, *others):
        kinds = [f"a {type(data).__name__} of {len(_leaves(data))} arrays" for data in (shard, model)]
        return Refused(agent, f"its data is {kinds[0]}, {first}'s {kinds[1]}", "Give all agents data of one form.")
    lacks, has = (", ".join(map(repr, names)) for names in (missing, extra))
    said = [f"lacks {lacks}"] * bool(missing) + [f"has {has}"] * bool(extra)
    near = {name: nearest(name, missing) for name in extra}
    renamed = [f"Rename {name!r} to {better!r}." for name, better in near.items() if better]
    fix = renamed[0] if renamed else f"Give all agents the same: {', '.join(map(repr, others))}."
    return Refused(agent, f"its data {' and '.join(said)}, unlike {first}'s", fix)


def _leaves(data: Batch) -> list[Any]:
    return jax.tree_util.tree_leaves_with_path(data)


def _check_values(agent: str, name: str, leaf: np.ndarray) -> None:
    """Refuse NaN, and numbers that the device's dtype cannot hold: jax would wrap them or make them infinite."""
    bad = np.isnan(leaf) if jnp.issubdtype(leaf.dtype, jnp.floating) else np.zeros(leaf.shape, bool)
    if bad.any():
        rows_with = np.unique(np.argwhere(bad)[:, 0])
        reason = f"{name} has NaN in {len(rows_with)} of {len(leaf)} rows, the first is row {rows_with[0]}"
        raise Refused(agent, reason, "Drop or impute them.")
    kept = jax.dtypes.canonicalize_dtype(leaf.dtype)
    if kept == leaf.dtype:
        return
    with np.errstate(over="ignore"):
        cast = leaf.astype(kept)
    lost = cast != leaf if leaf.dtype.kind in "iu" else np.isfinite(leaf) & ~np.isfinite(cast)
    if lost.any():
        place = np.argwhere(lost)[0]
        raise Refused(
            agent,
            f"{name} has {leaf[tuple(place)]} in row {place[0]}, which {kept} cannot hold",
            'Rescale it, or switch on double precision: jax.config.update("jax_enable_x64", True).',
        )


@contextmanager
def infinities_explained(agents: Sequence[str], shards: Sequence[Batch]) -> Iterator[None]:
    """Add to the refusal of an agent's density where its data are infinite, as limits of what is censored may be."""
    try:
        yield
    except Refused as refusal:
        mine = [shard for agent, shard in zip(agents, shards, strict=True) if agent == refusal.subject]
        for path, leaf in jax.tree_util.tree_leaves_with_path(mine[:1]):
            if leaf.dtype.kind == "f" and np.isinf(leaf).any():
                name, place = leaf_name(path[1:], root="its data"), np.argwhere(np.isinf(leaf))[0]
                reason = f"{refusal.reason}, and {name} is {leaf[tuple(place)]} in row {place[0]}"
                raise type(refusal)(refusal.subject, reason, "Correct that row, or drop it.") from refusal.__cause__
        raise


def _padded(leaf: np.ndarray, length: int) -> np.ndarray:
    return np.concatenate([leaf, np.repeat(leaf[:1], length - len(leaf), axis=0)])
