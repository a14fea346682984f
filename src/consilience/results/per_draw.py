"""Functions of the parameters whose values are kept for every draw, such as what is predicted for each observation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._refused import Refused
from .._types import Key, Params
from .held_out import check_drawn
from .selection import agent_number

if TYPE_CHECKING:
    from .run import Run

DRAWS_AT_ONCE = 64


def per_draw(
    run: Run,
    function: Callable[[Key, Params], Mapping[str, jax.Array]],
    seed: int = 0,
    *,
    agent: int | str | None = None,
) -> dict[str, np.ndarray]:
    """Compute a function of a key and the parameters for all draws, block by block: (agent, chain, draw, ...) each.

    Of one agent's draws, (chain, draw, ...), where `agent` is its number or its name.
    """
    check_drawn(run)
    own = slice(None) if agent is None else [copy_of(run, agent)]
    parameters = sampled_parameters(run)
    of_draws = jax.jit(
        lambda keys, vectors: jax.lax.map(lambda both: function(both[0], parameters(both[1])), (keys, vectors))
    )
    key, parts, first = jax.random.key(seed), [], 0
    for block in run.blocks(DRAWS_AT_ONCE):
        block = block[:, :, own]
        vectors = block.reshape(-1, block.shape[-1])
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, first + np.arange(len(vectors)))
        first += len(vectors)
        values = of_draws(keys, vectors)
        parts.append(
            {name: np.asarray(value).reshape(*block.shape[:3], *value.shape[1:]) for name, value in values.items()}
        )
    whole = {name: np.swapaxes(np.concatenate([part[name] for part in parts]), 0, 2) for name in parts[0]}
    if agent is not None:
        return {name: value[0] for name, value in whole.items()}
    agents = run.agents  # what all of them share was computed once, and is shown for each
    return {name: np.broadcast_to(value, (agents, *value.shape[1:])) for name, value in whole.items()}


def copy_of(run: Run, agent: int | str) -> int:
    """Return which copy of the draws is an agent's."""
    return agent_number(run, agent) if run.copies > 1 else 0


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
            jax.eval_shape(parameters, kept.vector)
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
