"""Batches that know their agent: its number, in every row, where a model asks for batch["agent"]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import jax
import numpy as np

from .._refused import Refused
from .._types import Batch
from .shards import as_batch

T = TypeVar("T")

AGENT = "agent"  # name of the agent's number in a batch
WHOSE_ROWS = (  # what rows need that are not an agent's own
    f'Say whose each row is by the agents\' numbers, 0 first. Write {{**rows, "{AGENT}": np.full(len(rows["x"]), 0)}}.'
)


def with_agents(shards: Sequence[Batch], numbers: Sequence[int]) -> list[Batch]:
    """Return shards, which are dicts, with the agent's number for each row, under the name "agent"."""
    return [
        {**shard, AGENT: np.full(len(jax.tree.leaves(shard)[0]), number, np.int32)}
        for shard, number in zip(shards, numbers, strict=True)
    ]


def numbered_if_asked(
    use: Callable[[Sequence[Batch]], T], shards: Sequence[Batch], numbers: Sequence[int]
) -> tuple[T, Sequence[Batch]]:
    """Return what a function of shards returns, and these, with the agents' numbers where its model asks for them."""
    try:
        return use(shards), shards
    except (KeyError, Refused) as error:
        if not (isinstance(shards[0], dict) and AGENT not in shards[0] and _lacks(AGENT, error)):
            raise
    shards = with_agents(shards, numbers)
    return use(shards), shards


def refuse_without_agent(subject: str, error: BaseException) -> None:
    """Refuse rows without the agent's number where that is what an error was about."""
    if _lacks(AGENT, error):
        raise Refused(subject, 'the model asks for batch["agent"], which these rows do not have', WHOSE_ROWS) from None


def _lacks(name: str, error: BaseException | None) -> bool:
    """Tell whether an error, or what has caused it, is that a dict lacks this key."""
    if isinstance(error, KeyError) and error.args == (name,):
        return True
    return error is not None and _lacks(name, error.__cause__)


def shards_as_sampled(shards: Sequence[Batch] | Mapping[str, Batch], names: Sequence[str]) -> list[Batch]:
    """Return all agents' shards as a run took them: in its order, as arrays.

    Args:
      names: the agents' names, in the network's order; empty where they have none.
    """
    if isinstance(shards, Mapping):
        if set(shards) != set(names):
            given, there = (", ".join(map(repr, some)) for some in (shards, names))
            reason = f"they are of {given}, and the run is of {there or 'agents without names'}"
            raise Refused("shards", reason, "Pass the shards that were sampled.")
        shards = [shards[name] for name in names]
    return [as_batch(f"agent {names[k] if names else k}", shard) for k, shard in enumerate(shards)]


def without_agents(shards: Sequence[Batch]) -> list[Batch]:
    """Return shards without what `with_agents` has given them."""
    return [{name: leaf for name, leaf in shard.items() if name != AGENT} for shard in shards]
