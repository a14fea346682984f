"""The posterior that is sampled: a prior, each agent's likelihood, and its data, which it never shows to the others."""

from .frames import Columns, check_columns, check_columns_alike, column_names, is_frame
from .layout import RESERVED, Layout, leaf_name
from .local import LocalLogDensity
from .numbered import (
    AGENT,
    WHOSE_ROWS,
    numbered_if_asked,
    refuse_without_agent,
    shards_as_sampled,
    with_agents,
    without_agents,
)
from .observed import Observed, outcome_name
from .own import Groups, KeptOwn, OwnVariables, check_own, layout_of_groups, numbered_groups
from .posterior import Posterior, StartValues, check_posterior, check_start, start_values
from .shards import (
    Shard,
    Shards,
    ShardsBySize,
    as_arrays,
    as_batch,
    check_alike,
    check_shards,
    form,
    infinities_explained,
    own_shards,
    rows,
    stack_by_size,
    stack_on_host,
    stack_shards,
)
from .split import pool, shard
from .tasks import Classification, Regression, Task
from .view import Keep, View, kept_function
