"""What is sampled: a prior, one agent's likelihood, and the data it never shows."""

from .layout import Layout
from .posterior import Posterior, check_posterior, check_start
from .shards import Shard, stack_shards
from .split import pool, shard

__all__ = ["Layout", "Posterior", "Shard", "check_posterior", "check_start", "pool", "shard", "stack_shards"]
