"""Rows that say whose they are, `batch["agent"]`: by the agents' names, or by their numbers, which are checked.

jax takes the last element where an index is too large, so that a number that no agent has would give another agent's
prediction without a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from .._refused import Refused
from .._types import Batch
from ..model import AGENT
from .selection import agent_number

if TYPE_CHECKING:
    from .run import Run


def by_number(run: Run, what: str, data: Batch) -> Batch:
    """Return rows with the agents' numbers in place of their names; refuse names and numbers that no agent has."""
    if run.owner is not None or not isinstance(data, Mapping) or AGENT not in data:
        return data
    given = np.asarray(data[AGENT])
    if given.dtype.kind in "OU":
        try:
            known = {name: agent_number(run, str(name)) for name in np.unique(given.astype(str))}
        except Refused as refusal:
            raise refusal.about(f"{what}: {refusal.subject}") from None
        return {**data, AGENT: np.array([known[name] for name in given.astype(str)], np.int32)}
    if given.dtype.kind in "iu" and given.size and _has_numbers_of_agents(run):
        for number in (given.min(), given.max()):
            if not 0 <= number < run.network.size:
                fix = f"Number whose rows they are from 0 to {run.network.size - 1}, or write agents' names."
                raise Refused(f"{what}: {AGENT}", f"there is no agent {number}", fix)
    return data


def _has_numbers_of_agents(run: Run) -> bool:
    """Tell whether `agent` in the run's data is each agent's own number, and no column that is only called so."""
    shards = run.shards or ()
    return len(shards) == run.network.size > 1 and all(
        isinstance(shard, Mapping) and AGENT in shard and bool((np.asarray(shard[AGENT]) == number).all())
        for number, shard in enumerate(shards)
    )
