"""Posterior distributions: a prior, each agent's likelihood, and its data, which it never shows to the others."""

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
