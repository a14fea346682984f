"""Sorting the sites of a NumPyro model into prior and likelihood; others are refused with what to write instead.

The model is run on dummy batches alone. What depends on the values of the batch is found by following its inputs
through the traced program; what depends on its number of rows, by tracing it with two rows and with three.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import distributions as dist
from numpyro.handlers import seed, substitute
from numpyro.infer.initialization import init_to_uniform

from .._compat import inputs_of
from .._types import Batch, Params
from .layout import RESERVED
from .numpyro_refusals import REFUSALS, explain_errors, refusal
from .numpyro_runs import (
    Model,
    batch_shapes,
    columns_hint,
    constrained,
    dummy_batch,
    log_density,
    prior_terms,
    random_values,
    run_model,
    trace_sites,
)


@dataclass(frozen=True)
class Sites:
    """Names of the sites of a NumPyro model, by their role in prior and likelihood.

    Attributes:
      latents: sites that are sampled, with the shape and dtype of their unconstrained values.
      prior_factors: factors that do not depend on the batch: a part of the prior.
      row_axes: for observed sites and all other factors, the axis of the log density along which the rows lie.
      observed: observed sites, which are among those of `row_axes`.
      bounded: observed sites whose values can be seen to be impossible whatever the parameters are.
      shown: deterministic sites that do not depend on the batch.
      of_rows: deterministic sites that do, with the axis along which the rows lie, None where they have none.
      dims: names of the axes of latent and shown sites that are in plates.
    """

    latents: dict[str, jax.ShapeDtypeStruct]
    prior_factors: list[str]
    row_axes: dict[str, int]
    observed: list[str]
    bounded: list[str]
    shown: list[str]
    of_rows: dict[str, int | None]
    dims: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class SiteOutline:
    """Kind, shape and plates of a site, as found by one trace of the model."""

    kind: str  # latent, observed, factor, deterministic, plate; or a key of REFUSALS
    shape: tuple[int, ...] = ()  # of the value or, for an observed site and a factor, of the log density
    plates: tuple[str | None, ...] = ()  # names of the plates along the axes of the value
    unconstrained: Any = None  # shape and dtype of a latent site's unconstrained value


def read_sites(model: Model, batch: Batch, per_row: bool = True) -> Sites:
    """Sort the sites of `model` by their role, given the form of its batches; their values are not looked at.

    Args:
      per_row: whether log densities of observed sites must have an axis of the rows; without, it is that of the values.
    """
    two, three = (_outlines(model, batch_shapes(batch, rows)) for rows in (2, 3))
    _check_kinds_and_shapes(two, three, columns_hint(model))
    latents = {name: site.unconstrained for name, site in two.items() if site.kind == "latent"}
    inputs = _inputs(model, latents, batch_shapes(batch, 2))
    by_rows = _changed_by_rows(model, latents, batch)
    for name in latents:
        if name in by_rows or "batch" in inputs[name]:
            raise refusal("prior of the batch", name)

    def constant(name: str) -> bool:
        return "batch" not in inputs[name] and name not in by_rows and two[name].shape == three[name].shape

    of_kind = {
        kind: [n for n, site in two.items() if site.kind == kind] for kind in ("observed", "factor", "deterministic")
    }
    prior_factors = [name for name in of_kind["factor"] if constant(name)]
    for name in of_kind["observed"]:
        if constant(name):
            raise refusal("constant observation", name)
    likelihood = [name for name in [*of_kind["observed"], *of_kind["factor"]] if name not in prior_factors]
    if not likelihood:
        raise refusal("no observation", hint=columns_hint(model))
    shown = [name for name in of_kind["deterministic"] if constant(name)]
    return Sites(
        latents=latents,
        prior_factors=prior_factors,
        row_axes={name: _row_axis(name, two[name].shape, three[name].shape) if per_row else 0 for name in likelihood},
        observed=of_kind["observed"],
        bounded=[name for name in of_kind["observed"] if inputs.get(f"{name} inside", {"params"}) <= {"batch"}],
        shown=shown,
        of_rows={n: _only_axis(two[n].shape, three[n].shape) for n in of_kind["deterministic"] if n not in shown},
        dims=_dims(two, [*latents, *shown]),
    )


def _outlines(model: Model, shapes: Batch) -> dict[str, SiteOutline]:
    """Trace the model once, and return an outline of every site."""
    found: dict[str, SiteOutline] = {}

    def find(key: jax.Array, batch: Batch) -> None:
        start = substitute(seed(model, key), substitute_fn=init_to_uniform)
        found.update({name: _outline(site) for name, site in trace_sites(start, batch).items()})

    with explain_errors(model, shapes):
        jax.eval_shape(find, jax.random.key(0), shapes)
    return found


def _outline(site: dict[str, Any]) -> SiteOutline:
    kind = site["type"]
    if kind == "plate":
        size, subsample_size = site["args"]
        return SiteOutline("plate" if subsample_size in (None, size) else "subsample")
    if kind == "deterministic":
        depth = max((-frame.dim for frame in site["cond_indep_stack"]), default=0)
        # A deterministic site does not say which axes are plates': they are named only where all of its axes are.
        has_doubt = jnp.ndim(site["value"]) != depth
        return SiteOutline(kind, jnp.shape(site["value"]), () if has_doubt else _plates(site, event_dim=0))
    if kind != "sample":
        return SiteOutline(kind)
    if site["is_observed"]:
        kind = "factor" if _is_within(site["fn"], dist.Unit) else "observed"
        return SiteOutline(kind, log_density(site).shape)
    if site["fn"].support.is_discrete:
        return SiteOutline("discrete")
    if site["scale"] is not None:
        return SiteOutline("scaled")
    u = dist.biject_to(site["fn"].support).inv(site["value"])
    unconstrained = jax.ShapeDtypeStruct(jnp.shape(u), jnp.result_type(u))
    return SiteOutline("latent", jnp.shape(site["value"]), _plates(site, site["fn"].event_dim), unconstrained)


def _plates(site: dict[str, Any], event_dim: int) -> tuple[str | None, ...]:
    """Return the name of the plate along each axis of a site's value, None where there is none."""
    names: list[str | None] = [None] * jnp.ndim(site["value"])
    for frame in site["cond_indep_stack"]:
        axis = len(names) - event_dim + frame.dim
        if 0 <= axis < len(names) and np.shape(site["value"])[axis] == frame.size:
            names[axis] = frame.name
    return tuple(names)


def _check_kinds_and_shapes(two: dict[str, SiteOutline], three: dict[str, SiteOutline], hint: str) -> None:
    """Refuse kinds of sites that cannot be sampled, and latent sites whose shape depends on the number of rows.

    The hint is for latent sites that would be observed ones if the model took the batch as its argument.
    """
    for name, site in two.items():
        if site.kind in REFUSALS:
            raise refusal(site.kind, name, hint=hint)
    if two.keys() != three.keys():
        raise refusal("sites by rows", min(two.keys() ^ three.keys()))
    if not any(site.kind == "latent" for site in two.values()):
        raise refusal("no latent")
    for name, site in two.items():
        if site.kind == "latent" and site.shape != three[name].shape:
            masked = name.removesuffix("_unobserved")
            if masked != name and f"{masked}_observed" in two:  # as NumPyro names them
                raise refusal("obs_mask", masked)
            raise refusal("latent by rows", name, two=site.shape, three=three[name].shape, hint=hint)


def _quantities(model: Model, params: Params, batch: Batch) -> dict[str, Any]:
    """Compute by site what may depend on the batch: a latent's prior and value, a deterministic value, a likelihood."""
    values, terms = constrained(model, params, batch), prior_terms(model, params, batch, [])
    found: dict[str, Any] = {name: (terms[name], values[name]) for name in params}
    for name, site in run_model(model, values, batch).items():
        if site["type"] == "deterministic":
            found[name] = site["value"]
        elif site["type"] == "sample" and site["is_observed"]:
            found[name] = log_density(site)
            if _can_be_outside(site["fn"]):
                found[f"{name} inside"] = site["fn"].support(site["value"])  # which values are in the support
    return found


def _can_be_outside(fn: Any) -> bool:
    """Tell whether a distribution's support can be checked number by number, without rounding or masks."""
    support = fn.support
    while isinstance(support, dist.constraints.independent):
        support = support.base_constraint
    return support is not None and support.event_dim == 0 and not _is_within(fn, dist.MaskedDistribution | dist.Unit)


def _is_within(fn: Any, kind: Any) -> bool:
    """Tell whether a distribution, or one that it wraps, is of this kind."""
    return isinstance(fn, kind) or (hasattr(fn, "base_dist") and _is_within(fn.base_dist, kind))


def _inputs(model: Model, latents: dict[str, jax.ShapeDtypeStruct], shapes: Batch) -> dict[str, frozenset[str]]:
    """Find which of "params" and "batch" each of the `_quantities` depends on."""
    found = inputs_of(partial(_quantities, model), params=latents, batch=shapes)
    return {name: frozenset().union(*jax.tree.leaves(part)) for name, part in found.items()}


def _changed_by_rows(model: Model, latents: dict[str, jax.ShapeDtypeStruct], batch: Batch) -> set[str]:
    """Find the `_quantities` that differ between two rows and three, at a point drawn at random."""

    def both(key: jax.Array) -> list[dict[str, Any]]:
        point = random_values(key, latents)
        return [_quantities(model, point, dummy_batch(batch, rows)) for rows in (2, 3)]

    two, three = jax.jit(both)(jax.random.key(0))

    def same(one: jax.Array, other: jax.Array) -> bool:
        return np.shape(one) == np.shape(other) and np.allclose(one, other, rtol=1e-5, atol=1e-6, equal_nan=True)

    return {name for name in two if not jax.tree.all(jax.tree.map(same, two[name], three[name]))}


def _row_axis(name: str, two: tuple[int, ...], three: tuple[int, ...]) -> int:
    """Find the axis of the rows in a log density, given its shapes for two rows and for three."""
    if (axis := _only_axis(two, three)) is not None:
        return axis
    has_several = sum(lengths == (2, 3) for lengths in zip(two, three, strict=False)) > 1
    raise refusal("rows by rows" if has_several else "no row axis", name, two=two, three=three)


def _only_axis(two: tuple[int, ...], three: tuple[int, ...]) -> int | None:
    """Find the one axis in which shapes for two rows and for three differ, if it is that of the rows."""
    unequal = [axis for axis, lengths in enumerate(zip(two, three, strict=False)) if lengths[0] != lengths[1]]
    is_of_rows = len(two) == len(three) and [(two[axis], three[axis]) for axis in unequal] == [(2, 3)]
    return unequal[0] if is_of_rows else None


def _dims(outlines: dict[str, SiteOutline], names: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the axes' names of sites in plates, but for plates called like a site, or like an axis of all draws."""
    used = {*RESERVED, *names}
    plates = {name: [p if p not in used else None for p in outlines[name].plates] for name in names}
    return {
        name: tuple(plate or f"{name}_dim_{axis}" for axis, plate in enumerate(axes))
        for name, axes in plates.items()
        if any(axes)
    }
