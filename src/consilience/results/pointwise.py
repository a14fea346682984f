"""Log-likelihoods of single rows, by observed variable: what leave-one-out cross-validation is computed from.

A model may observe several variables, such as two outcomes of a patient: each has log-likelihoods of its own. A row
that a mask leaves out is no observation of that variable, and is not among its rows. Where a likelihood is one number
for all rows of a site, the site is one observation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import numpy as np

from .._refused import Refused
from .._types import Batch
from ..model import Observed, Posterior, outcome_name
from .per_draw import per_draw

if TYPE_CHECKING:
    from .run import Run


def log_likelihoods(run: Run, shard: Batch, agent: int | str = 0) -> dict[str, np.ndarray]:
    """Compute the log-likelihoods of some rows under an agent's draws, by observed variable: (chain, draw, row) each.

    Args:
      shard: rows of data, as the run's agents have them.
      agent: the agent whose draws are taken, its number or its name. Where all hold one chain, any will do.

    Rows that a mask leaves out are left out here too: `observed_rows` has the others, in this order.
    """
    posterior = posterior_of(run)
    if not is_by_row(run):
        name = outcome_name(posterior.observed, posterior.task, shard)
        whole = per_draw(run, lambda key, params: {name: posterior.log_likelihood(params, shard)}, agent=agent)
        return {name: whole[name][..., None]}
    found = per_draw(run, lambda key, params: posterior.pointwise(params, shard), agent=agent)
    return {name: found[name][..., one.counted] for name, one in observed_rows(run, shard).items()}


def observed_rows(run: Run, shard: Batch) -> dict[str, Observed]:
    """Return the observed variables in some rows of data: their values, and which rows are observations of them."""
    posterior = posterior_of(run)
    found = posterior.observations(shard) if is_by_row(run) else Posterior.observations(posterior, shard)
    return jax.tree.map(np.asarray, found)


def is_by_row(run: Run) -> bool:
    """Tell whether a run's likelihood has a number for every row; if not, a site is one observation."""
    return posterior_of(run).per_row


def posterior_of(run: Run) -> Posterior:
    """Return what a run has sampled; refuse a run that was loaded without it."""
    if run.posterior is None:
        raise Refused(
            "",
            "this run was loaded without its model",
            "Write cs.load(path, posterior=..., shards=...), with what was sampled.",
        )
    return run.posterior
