"""What is sampled: a prior, one agent's likelihood, and the data it never shows."""

from .layout import Layout
from .local import LocalLogDensity
from .posterior import Posterior, StartValues, check_posterior, check_start, start_values
from .shards import Shard, stack_shards
from .split import pool, shard
from .tasks import Classification, Regression, Task

__all__ = [
    "Classification",
    "Layout",
    "LocalLogDensity",
    "Posterior",
    "Regression",
    "Shard",
    "StartValues",
    "Task",
    "check_posterior",
    "check_start",
    "pool",
    "shard",
    "stack_shards",
    "start_values",
]
