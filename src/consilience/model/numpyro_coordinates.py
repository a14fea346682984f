"""Coordinates in which a NumPyro model's likelihood sees its parameters, read off the model's deterministic sites.

A hierarchy is often written in standardised form, theta = numpyro.deterministic("theta", mean + sd * z). The
likelihood depends on theta, and is far closer to quadratic in it than in mean, sd and z. So the coordinates are those
sites between parameters and likelihood, and such parameters as the likelihood sees beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._compat import inputs_of
from .._types import Batch, Params
from .numpyro_runs import Model, constrained, log_density, random_values, run_model
from .numpyro_sites import Sites

POINTS = 3  # at which it is looked whether coordinates can be moved one by one


def likelihood_coordinates(model: Model, sites: Sites, dummy: Batch) -> Callable[[Params], dict[str, jax.Array]] | None:
    """Return the coordinates that a model's likelihood sees, as a function of its parameters; None: the parameters.

    They are the parameters too where the coordinates depend on each other, so that none could be moved alone.
    """
    if not sites.shown:
        return None
    start = random_values(jax.random.key(0), sites.latents)
    values = constrained(model, start, dummy, deterministic=True)
    # Arguments are numbered: a site may be called anything.
    names = {f"site{number}": name for number, name in enumerate([*sites.latents, *sites.shown])}

    def likelihood(**given: Any) -> jax.Array:
        found = run_model(model, {names[argument]: value for argument, value in given.items()}, dummy)
        return reduce(add, [log_density(found[name]).sum() for name in sites.row_axes])

    inputs = inputs_of(likelihood, **{argument: jnp.asarray(values[name]) for argument, name in names.items()})
    seen = [name for argument, name in names.items() if argument in inputs]
    between = [name for name in seen if name in sites.shown]
    if not between:
        return None

    def coordinates(params: Params) -> dict[str, jax.Array]:
        found = constrained(model, params, dummy, deterministic=True)
        return {name: jnp.asarray(found[name]) if name in between else params[name] for name in seen}

    return coordinates if _are_free(coordinates, sites) else None


def _are_free(coordinates: Callable[[Params], dict[str, jax.Array]], sites: Sites) -> bool:
    """Tell whether coordinates can be moved one by one: whether their Jacobian has full row rank."""

    def jacobian(params: Params) -> jax.Array:
        parts = jax.jacfwd(coordinates)(params)
        rows = [
            jnp.concatenate([parts[name][latent].reshape(-1, form.size) for latent, form in sites.latents.items()], 1)
            for name in parts
        ]
        return jnp.concatenate(rows)

    for point in range(POINTS):
        found = np.asarray(jax.jit(jacobian)(random_values(jax.random.key(1 + point), sites.latents)))
        if found.shape[0] > found.shape[1] or np.linalg.matrix_rank(found, rtol=1e-4) < found.shape[0]:
            return False
    return True
