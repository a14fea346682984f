"""Posteriors of NumPyro models.

A model(batch) has latent sites z, each in its prior's support, and observed sites y. NumPyro's bijections z = T(u) take
the unconstrained u, which are sampled, to z:

    log_prior(u)             = Σ_latent [ log p(z) + log |det ∂T/∂u| ] + factors that do not depend on the batch
    log_likelihood(u, batch) = Σ_observed log p(y | z), one number per row of the batch

The model is read from the form of the data, never on data: compiled code holds none, and is the same for all agents.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from operator import add
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import distributions as dist
from numpyro.handlers import seed, substitute, uncondition
from numpyro.infer.initialization import init_to_value

from .._compat import inputs_of, mask_of, observation_and_key
from .._refused import Refused
from .._types import Batch, Key, Params
from .numbered import AGENT, WHOSE_ROWS
from .numpyro_coordinates import likelihood_coordinates
from .numpyro_refusals import check_takes_batch
from .numpyro_rows import check_each_row, check_rows_independent
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
from .numpyro_sites import Sites, read_sites
from .observed import Observed, column
from .posterior import Posterior
from .tasks import Task


def numpyro_posterior(
    model: Model,
    init: Mapping[str, Any] | None,
    task: Task | None,
    dims: Mapping[str, Sequence[str]],
    coords: Mapping[str, Sequence[Any]],
    per_row: bool = True,
) -> Posterior:
    """Return the posterior of a NumPyro model, to be read when it is bound to data."""
    if not callable(model):
        fix = "Pass the function with the numpyro.sample statements."
        raise Refused("the model", f"it is a {type(model).__name__}, not a function", fix)
    try:
        inspect.signature(model).bind(None)
    except TypeError:
        raise Refused("the model", "it must take one argument, the batch", columns_hint(model).strip()) from None
    start = dict(init or {})
    return UnboundNumpyroPosterior(
        _needs_data, _needs_data, task=task, dims=dims, coords=coords, per_row=per_row, model=model, start=start
    )


def _needs_data(*_: Any) -> Any:
    raise Refused("a NumPyro model", "it is read with data at hand", "Write posterior.bind(batch), as cs.sample does.")


@dataclass(frozen=True, eq=False)
class UnboundNumpyroPosterior(Posterior):
    """The posterior of a NumPyro model before the form of its data, shapes and dtypes, is known.

    Bound again to data of one form it is the same posterior, so that a second run finds the first one's compiled code.
    """

    model: Model
    start: Mapping[str, Any]
    bound: dict[Any, NumpyroPosterior] = field(default_factory=dict, init=False, repr=False)

    def bind(self, batch: Batch) -> Posterior:
        check_takes_batch(self.model, batch)
        leaves, structure = jax.tree.flatten(batch_shapes(batch, 1))
        form = (structure, *((leaf.shape, leaf.dtype) for leaf in leaves))
        if form not in self.bound:
            read = NumpyroModel(
                self.model, read_sites(self.model, batch, self.per_row), dummy_batch(batch, 2), self.start
            )
            read.check_start()
            self.bound[form] = read.posterior(self)
        bound = self.bound[form]
        if self.per_row:
            check_rows_independent(bound.model, batch)
        return bound


@dataclass(frozen=True, eq=False)
class NumpyroPosterior(Posterior):
    """The posterior of a NumPyro model that is bound to the form of its data."""

    model: NumpyroModel

    def check_data(self, agent: str, params: Params, batch: Batch) -> None:
        """Refuse rows that the model's distributions cannot give, or that have indices out of range."""
        super().check_data(agent, params, batch)
        if self.per_row:
            check_each_row(agent, self.model, params, batch)

    def pointwise(self, params: Params, batch: Batch) -> dict[str, jax.Array]:
        """Return the log-likelihood of every row, (rows,), by site; they add up to `log_likelihood`."""
        return self.model.pointwise(params, batch)

    def observations(self, batch: Batch) -> dict[str, Observed]:
        """Return the values of the sites of `pointwise`, and which rows no mask leaves out."""
        return _observations(self.model, batch)

    def log_priors(self, params: Params) -> dict[str, jax.Array]:
        """Return the log density of the prior, without Jacobians, site by site."""
        return self.model.log_priors(params)


@dataclass(frozen=True, eq=False)
class NumpyroModel:
    """A NumPyro model with its sites, and a dummy batch for all that does not depend on the batch."""

    model: Model
    sites: Sites
    dummy: Batch
    start: Mapping[str, Any]

    def posterior(self, unbound: Posterior) -> NumpyroPosterior:
        """Return the posterior, with what is known of it before it is bound."""
        sites = self.sites.observed
        is_of_one_column = not unbound.per_row and len(sites) == 1 and column(self.dummy, sites[0]) is not None
        return NumpyroPosterior(
            self.log_prior,
            self.log_likelihood if unbound.per_row else self.log_likelihood_of_all,
            constrain=self.constrain,
            unconstrain=self.unconstrain,
            predictive=self.predictive(),
            task=unbound.task,
            dims={**self.sites.dims, **unbound.dims},
            coords=unbound.coords,
            coordinates=likelihood_coordinates(self.model, self.sites, self.dummy),
            observed=sites[0] if is_of_one_column else None,
            per_row=unbound.per_row,
            init=self.init,
            draw_prior=self.draw_prior,
            quantities={name: self.quantity(name) for name in self.sites.of_rows},
            model=self,
        )

    def log_prior(self, params: Params) -> jax.Array:
        return reduce(add, prior_terms(self.model, params, self.dummy, self.sites.prior_factors).values())

    def log_likelihood(self, params: Params, batch: Batch) -> jax.Array:
        return reduce(add, self.pointwise(params, batch).values())

    def pointwise(self, params: Params, batch: Batch) -> dict[str, jax.Array]:
        """Return the log-likelihood of every row by site, (rows,) each."""
        sites = run_model(self.model, self.values(params), batch)
        terms = {name: jnp.moveaxis(log_density(sites[name]), axis, 0) for name, axis in self.sites.row_axes.items()}
        return {name: term.reshape(len(term), -1).sum(axis=1) for name, term in terms.items()}

    def log_priors(self, params: Params) -> dict[str, jax.Array]:
        """Return the log density of every latent site's prior in its own space, and of the factors of the prior."""
        sites = run_model(self.model, self.values(params), self.dummy)
        return {name: log_density(sites[name]).sum() for name in [*params, *self.sites.prior_factors]}

    def log_likelihood_of_all(self, params: Params, batch: Batch) -> jax.Array:
        """Return one number for all rows."""
        sites = run_model(self.model, self.values(params), batch)
        return reduce(add, [log_density(sites[name]).sum() for name in self.sites.row_axes])

    def constrain(self, params: Params) -> dict[str, jax.Array]:
        found = constrained(self.model, params, self.dummy, deterministic=True)
        return {name: jnp.asarray(found[name]) for name in [*self.sites.latents, *self.sites.shown]}

    def unconstrain(self, shown: Mapping[str, jax.Array]) -> Params:
        values = {name: shown[name] for name in self.sites.latents}
        sites = run_model(self.model, values, self.dummy)
        return {name: dist.biject_to(sites[name]["fn"].support).inv(value) for name, value in values.items()}

    def init(self, key: Key) -> Params:
        return self.unconstrain({name: site["value"] for name, site in self._started(key).items()})

    def values(self, params: Params) -> dict[str, Any]:
        """Return the constrained latent variables of unconstrained parameters."""
        return constrained(self.model, params, self.dummy)

    def observed(self, values: dict[str, Any], batch: Batch) -> dict[str, tuple[jax.Array, jax.Array]]:
        """Return, by site of a batch of one row, whether its value is possible, and the value."""
        sites = run_model(self.model, values, batch)
        bounded = {name: (sites[name]["fn"].support, jnp.asarray(sites[name]["value"])) for name in self.sites.bounded}
        return {name: (jnp.all(support(value)), value.squeeze()) for name, (support, value) in bounded.items()}

    def draw_prior(self, key: Key) -> Params:
        """Draw unconstrained parameters from the prior; refuse a prior that has no way of drawing from it."""
        for name in self.sites.prior_factors:
            raise Refused(
                f"numpyro.factor {name!r}",
                "it is a part of the prior that cannot be drawn from",
                "Write the prior as numpyro.sample statements, or leave prior_predictive out.",
            )
        try:
            sites = trace_sites(seed(self.model, key), self.dummy)
        except NotImplementedError:
            fix = "Give every variable a distribution that can be drawn from, or leave prior_predictive out."
            raise Refused("the prior", "one of its distributions is improper, or has no sampling method", fix) from None
        return self.unconstrain({name: sites[name]["value"] for name in self.sites.latents})

    def predictive(self) -> Callable[[Key, Params, Batch], dict[str, jax.Array]]:
        """Return a function that draws the observed sites; arrays that it does not need, such as y, may be left out."""
        return self._with_columns_left_out(self._drawn)

    def quantity(self, name: str) -> Callable[[Params, Batch], jax.Array]:
        """Return a deterministic site of the batch as a function; arrays that it does not need may be left out."""
        axis = self.sites.of_rows[name]

        def values(_: Key, params: Params, batch: Batch) -> dict[str, jax.Array]:
            value = jnp.asarray(run_model(self.model, self.values(params), batch)[name]["value"])
            return {name: value if axis is None else jnp.moveaxis(value, axis, 0)}

        complete = self._with_columns_left_out(values)
        return lambda params, batch: complete(jax.random.key(0), params, batch)[name]

    def _with_columns_left_out(
        self, function: Callable[[Key, Params, Batch], dict[str, jax.Array]]
    ) -> Callable[[Key, Params, Batch], dict[str, jax.Array]]:
        """Return the function for batches that may lack columns that its values do not depend on."""
        if not isinstance(self.dummy, dict):
            return function

        @cache
        def needed() -> set[str]:
            key, params = jax.random.key(0), {n: jnp.zeros(f.shape, f.dtype) for n, f in self.sites.latents.items()}
            # Arguments are numbered: a column of the data may be called anything.
            columns = {f"column{place}": name for place, name in enumerate(self.dummy)}
            inputs = inputs_of(
                lambda **batch: function(key, params, {columns[argument]: leaf for argument, leaf in batch.items()}),
                **{argument: self.dummy[name] for argument, name in columns.items()},
            )
            return {columns[argument] for part in inputs.values() for argument in part}

        def complete(key: Key, params: Params, batch: Batch) -> dict[str, jax.Array]:
            if not (missing := [name for name in self.dummy if name not in batch]):
                return function(key, params, batch)
            for name in needed().intersection(missing):
                fix = WHOSE_ROWS if name == AGENT else ""
                raise Refused("data to predict for", f"the model predicts from {name!r}, which they do not have", fix)
            rows = len(next(iter(batch.values())))
            unused = dummy_batch({name: self.dummy[name] for name in missing}, rows)
            return function(key, params, {**batch, **unused})

        return complete

    def _drawn(self, key: Key, params: Params, batch: Batch) -> dict[str, jax.Array]:
        def draw(site: dict[str, Any]) -> Any:
            if site["name"] not in self.sites.observed:
                return None
            # Without a plate, the axis of the rows may be in the observed array and not in the distribution.
            observation, key = observation_and_key(site)
            fn, rows = site["fn"], jnp.shape(observation)
            shape = jnp.broadcast_shapes(fn.batch_shape, rows[: len(rows) - fn.event_dim])
            return fn.expand(shape).sample(key)

        given = seed(substitute(self.model, data=self.values(params)), key)
        sites = trace_sites(substitute(uncondition(given), substitute_fn=draw), batch)
        return {name: jnp.moveaxis(sites[name]["value"], self.sites.row_axes[name], 0) for name in self.sites.observed}

    def points(self) -> Params:
        """Return two stacked points: a start, and one without the given values, as a zero hides what it multiplies."""
        one, other = jax.random.split(jax.random.key(0))
        random = random_values(other, self.sites.latents)
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), self.init(one), random)

    def check_start(self) -> None:
        """Refuse start values of unknown sites, of another shape than the site's, or outside of its prior's support."""
        for name in self.start:
            if name not in self.sites.latents:
                raise Refused("init", f"there is no latent site {name!r}; there are {', '.join(self.sites.latents)}")
        shapes = jax.eval_shape(self.constrain, self.sites.latents)
        for name, given in self.start.items():
            if np.shape(given) != shapes[name].shape:
                raise Refused("init", f"{name!r} has shape {np.shape(given)}, and in the model {shapes[name].shape}")
        sites = self._started(jax.random.key(0)) if self.start else {}
        for name, given in self.start.items():
            fn = sites[name]["fn"]
            if not np.all(fn.support(sites[name]["value"])):
                raise Refused("init", f"{name!r} is outside of its prior's support, {fn.support}: {given}")

    def _started(self, key: Key) -> dict[str, Any]:
        """Return the sites at a start: given values, and others uniform in (-2, 2) of the unconstrained space."""
        values = {name: jnp.asarray(value, float) for name, value in self.start.items()}
        return trace_sites(substitute(seed(self.model, key), substitute_fn=init_to_value(values=values)), self.dummy)


@jax.jit(static_argnums=0)
def _observations(model: NumpyroModel, batch: Batch) -> dict[str, Observed]:
    """Return the values of every site of the likelihood, and its rows that no mask leaves out.

    A factor has no value: it is that of the data's array of its name, if there is one.
    """
    params = model.init(jax.random.key(0))  # whatever they are: the data alone are observed
    sites = run_model(model.model, model.values(params), batch)
    found = {}
    for name, axis in model.sites.row_axes.items():
        site, shape = sites[name], log_density(sites[name]).shape
        mask = jnp.moveaxis(jnp.broadcast_to(mask_of(site["fn"]), shape), axis, 0)
        values = column(batch, name)
        if name in model.sites.observed:
            event = jnp.shape(site["value"])[jnp.ndim(site["value"]) - site["fn"].event_dim :]
            values = jnp.moveaxis(jnp.broadcast_to(site["value"], (*shape, *event)), axis, 0)
        found[name] = Observed(values, mask.reshape(len(mask), -1).any(axis=1))
    return found
