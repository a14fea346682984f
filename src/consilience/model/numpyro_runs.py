"""Running a NumPyro model: its sites and their log densities, given its latent variables and a batch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist
from numpyro.handlers import substitute, trace
from numpyro.infer.util import constrain_fn

from .._types import Batch, Key, Params

Model = Callable[[Batch], Any]


def column_arguments(model: Model) -> list[str]:
    """Return the names of a model's arguments, but for those that have a value other than None."""
    parameters = inspect.signature(model).parameters.values()
    return [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and (parameter.default is parameter.empty or parameter.default is None)
    ]


def columns_hint(model: Model) -> str:
    """Say what to write where a model has a parameter for each column, y=None among them, and none for the batch."""
    names = column_arguments(model)
    if len(names) < 2:
        return ""
    given = ", ".join(f'batch["{name}"]' for name in names)
    return f" For model({', '.join(names)}) write cs.Posterior.from_numpyro(lambda batch: model({given}))."


def trace_sites(model: Model, batch: Batch) -> dict[str, Any]:
    """Run a model and return its sites, unchecked by NumPyro: a dummy batch has standard deviations of zero."""
    with numpyro.validation_enabled(False):
        return trace(model).get_trace(batch)


def run_model(model: Model, values: Mapping[str, Any], batch: Batch) -> dict[str, Any]:
    """Run a model with its latent variables at `values`, and return its sites."""
    return trace_sites(substitute(model, data=values), batch)


def constrained(model: Model, params: Params, batch: Batch, deterministic: bool = False) -> dict[str, Any]:
    """Return the latent variables of unconstrained parameters, with deterministic sites if they are wanted."""
    with numpyro.validation_enabled(False):
        return constrain_fn(model, (batch,), {}, params, return_deterministic=deterministic)


def log_density(site: dict[str, Any]) -> jax.Array:
    """Return the log density of a site at its value, with its scale, summed over nothing but the event."""
    value = jnp.asarray(site["fn"].log_prob(site["value"]))
    return value if site["scale"] is None else site["scale"] * value


def prior_terms(model: Model, params: Params, batch: Batch, factors: list[str]) -> dict[str, jax.Array]:
    """Return log p(z) + log |det ∂z/∂u| of every latent site, and the named factors."""
    values = constrained(model, params, batch)
    sites = run_model(model, values, batch)
    terms = {name: log_density(sites[name]).sum() for name in [*params, *factors]}
    for name, u in params.items():
        jacobian = dist.biject_to(sites[name]["fn"].support).log_abs_det_jacobian(u, values[name])
        terms[name] += jnp.sum(jacobian)
    return terms


def random_values(key: Key, latents: Mapping[str, jax.ShapeDtypeStruct]) -> Params:
    """Draw unconstrained values of the latent variables, uniform in (-2, 2)."""
    keys = jax.random.split(key, len(latents))
    return {
        name: jax.random.uniform(key, value.shape, value.dtype, -2, 2)
        for key, (name, value) in zip(keys, latents.items(), strict=True)
    }


def batch_shapes(batch: Batch, rows: int) -> Batch:
    """Return the shapes and dtypes, as on the device, of a batch like this with `rows` rows."""
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((rows, *np.shape(leaf)[1:]), jax.dtypes.canonicalize_dtype(leaf.dtype)), batch
    )


def dummy_batch(batch: Batch, rows: int) -> Batch:
    """Make a batch of zeros, of the shapes and dtypes of `batch`, with `rows` rows."""
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), batch_shapes(batch, rows))
