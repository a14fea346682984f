"""Fingerprints of a posterior alone, without sampler and network: of its prior, and of its likelihood.

They are traced on two rows of the data's form, never on data. So they are the same for all agents and on all runtimes,
however many rows an agent has and however these are padded, and can be computed again wherever the model is at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from .._types import Batch
from ..model import Layout, Posterior
from .fingerprint import fingerprint

ROWS_TRACED = 2  # of the batch on which models are compared


def code_of_posterior(posterior: Posterior, layout: Layout, row: Any | None) -> dict[str, str]:
    """Compute the fingerprints of a posterior's prior and likelihood; what cannot be traced so has none.

    Args:
      layout: that of the parameters.
      row: form of one row of the data: a pytree of shapes and dtypes. None: it is not known, and the likelihood has no
        fingerprint.
    """
    dtype = jax.dtypes.canonicalize_dtype(float)  # a run's record does not say that of each parameter
    params = jax.tree.unflatten(layout.treedef, [jax.ShapeDtypeStruct(shape, dtype) for shape in layout.shapes])
    found = {"prior": _code(posterior.log_prior, params)}
    of_rows = []  # own variables
    if posterior.own_log_prior is not None:
        one = Layout.of(posterior.own_init, "own_init", "own")
        forms = [jax.ShapeDtypeStruct(shape, dtype) for shape in one.shapes]
        found["own_prior"] = _code(posterior.own_log_prior, jax.tree.unflatten(one.treedef, forms), params)
        forms = [jax.ShapeDtypeStruct((ROWS_TRACED, *shape), dtype) for shape in one.shapes]
        of_rows = [jax.tree.unflatten(one.treedef, forms)]
    if row is not None:
        batch = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((ROWS_TRACED, *leaf.shape), leaf.dtype), row)
        found["likelihood"] = _code(posterior.log_likelihood, params, *of_rows, batch)
    return {name: code for name, code in found.items() if code is not None}


def row_of(shard: Batch) -> Any:
    """Return the form of one row of a shard, in the dtypes that a device will hold."""
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], jax.dtypes.canonicalize_dtype(leaf.dtype)), shard
    )


def _code(function: Callable[..., Any], *forms: Any) -> str | None:
    try:
        return fingerprint(jax.make_jaxpr(function)(*forms)).code
    except Exception:  # of the user's function: one that takes two rows only where all agents have so many
        return None
