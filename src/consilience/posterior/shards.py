"""The agents' data side by side: checked, padded to one length, masked.

Shards of unequal length are padded by repeating a row of their own. (Rows of zeros would do for values, but
a likelihood can be infinite there, and the gradient of a masked infinity is NaN.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Batch
from .layout import leaf_name


class Shard(NamedTuple):
    """One agent's examples; stacked along a leading axis, all agents'."""

    batch: Batch
    mask: jax.Array | None  # which examples are real; None where all are


def stack_shards(shards: Sequence[Batch], size: int) -> Shard:
    """All agents' examples with a leading axis of agents, refused where one agent's are not as they should be."""
    shards = _checked(shards, size)
    lengths = [len(jax.tree.leaves(shard)[0]) for shard in shards]
    longest = max(lengths)
    batch = jax.tree.map(lambda *leaves: jnp.asarray(np.stack([_padded(leaf, longest) for leaf in leaves])), *shards)
    if min(lengths) == longest:
        return Shard(batch, None)
    return Shard(batch, jnp.arange(longest) < jnp.array(lengths)[:, None])


def rows(what: str, data: Batch) -> int:
    """The number of examples in `data`, refused where its leaves do not agree on it."""
    leaves = jax.tree_util.tree_leaves_with_path(data)
    if not leaves:
        raise ValueError(f"{what} has no arrays.")
    first = None
    for path, leaf in leaves:
        name = leaf_name(path, root="the array")
        if np.ndim(leaf) == 0:
            raise ValueError(f"{what}: {name} is a single number; examples go along the first axis.")
        if first is None:
            first = (name, len(leaf))
        elif len(leaf) != first[1]:
            raise ValueError(f"{what}: {first[0]} has {first[1]} rows but {name} has {len(leaf)}.")
    assert first is not None
    return first[1]


def _checked(shards: Sequence[Batch], size: int) -> list[Batch]:
    if not isinstance(shards, list | tuple):
        raise TypeError(
            f"shards is a {type(shards).__name__}; it must be a list with one pytree of arrays per agent. "
            f"Write shards=cs.shard(data, agents={size}), or [data] for one agent."
        )
    if len(shards) != size:
        raise ValueError(f"there are {len(shards)} shards for {size} agents: every agent needs exactly one.")
    shards = [jax.tree.map(np.asarray, shard) for shard in shards]
    for agent, shard in enumerate(shards):
        if rows(f"agent {agent}", shard) == 0:
            raise ValueError(f"agent {agent} has no examples: leave it out of the network, or give it some.")
        _check_like(agent, shard, shards[0])
    return shards


def _check_like(agent: int, shard: Batch, model: Batch) -> None:
    """Refuse what cannot be computed with, and what is not of the form of agent 0's shard."""
    forms = [str(jax.tree.structure(data)) for data in (shard, model)]
    if forms[0] != forms[1]:
        raise ValueError(f"agent {agent}: its data is {forms[0]}, agent 0's is {forms[1]}.")
    for (path, leaf), reference in zip(jax.tree_util.tree_leaves_with_path(shard), jax.tree.leaves(model), strict=True):
        name = leaf_name(path, root="its data")
        if leaf.dtype.kind not in "biuf":
            raise TypeError(f"agent {agent}: {name} has dtype {leaf.dtype}; numbers are needed.")
        if leaf.shape[1:] != reference.shape[1:]:
            raise ValueError(
                f"agent {agent}: an example of {name} has shape {leaf.shape[1:]}, agent 0's has {reference.shape[1:]}."
            )
        if leaf.dtype != reference.dtype:
            raise TypeError(
                f"agent {agent}: {name} has dtype {leaf.dtype}, agent 0's has {reference.dtype}. "
                f"Convert one of them: .astype({str(reference.dtype)!r})."
            )
        if leaf.dtype.kind == "f" and np.isnan(leaf).any():
            bad = np.unique(np.argwhere(np.isnan(leaf))[:, 0])
            raise ValueError(
                f"agent {agent}: {name} has NaN in {len(bad)} of {len(leaf)} rows, the first is row {bad[0]}. "
                f"Drop or impute them."
            )


def _padded(leaf: np.ndarray, length: int) -> np.ndarray:
    return np.concatenate([leaf, np.repeat(leaf[:1], length - len(leaf), axis=0)])
