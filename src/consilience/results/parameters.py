"""Conversion of what was kept of a draw back to what was sampled, which is what a model's functions take."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from .._refused import Refused
from .._types import Params

if TYPE_CHECKING:
    from .run import Run


def sampled_parameters(run: Run) -> Callable[[Any], Params]:
    """Return a jax function from a kept vector to the parameters that the posterior's functions take.

    A run where `keep=` has left some of them out is refused.
    """
    kept = run.layout
    unconstrain = None if run.posterior is None else run.posterior.unconstrain
    if unconstrain is not None:

        def parameters(vector: Any) -> Params:
            return unconstrain(kept.unravel(vector))

        try:
            jax.eval_shape(parameters, jnp.zeros(kept.dimension, kept.dtype))
        except (KeyError, TypeError):
            raise _not_kept() from None
        return parameters
    if run.parameters is not None:
        forms = (dict(zip(form.names, form.shapes, strict=True)) for form in (kept, run.parameters))
        if next(forms) != next(forms):
            raise _not_kept()
    return kept.unravel


def _not_kept() -> Refused:
    fix = "Leave out keep=, or keep what is predicted itself: keep=lambda params: ..."
    return Refused("", "predictions need all parameters, and keep= has left some out", fix)
