"""The posterior that is sampled: a prior, each agent's likelihood, and its data, which it never shows to the others."""

from .layout import RESERVED, Layout, leaf_name
from .local import LocalLogDensity
from .observed import Observed, outcome_name
from .posterior import Posterior, StartValues, check_posterior, check_start, start_values
from .shards import (
    Shard,
    Shards,
    ShardsBySize,
    as_arrays,
    check_shards,
    form,
    own_shards,
    rows,
    stack_by_size,
    stack_on_host,
    stack_shards,
)
from .split import pool, shard
from .tasks import Classification, Regression, Task
from .view import Keep, View, kept_function

__all__ = [
    "RESERVED",
    "Classification",
    "Keep",
    "Layout",
    "LocalLogDensity",
    "Observed",
    "Posterior",
    "Regression",
    "Shard",
    "Shards",
    "ShardsBySize",
    "StartValues",
    "Task",
    "View",
    "as_arrays",
    "check_posterior",
    "check_shards",
    "check_start",
    "form",
    "kept_function",
    "leaf_name",
    "outcome_name",
    "own_shards",
    "pool",
    "rows",
    "shard",
    "stack_by_size",
    "stack_on_host",
    "stack_shards",
    "start_values",
]
