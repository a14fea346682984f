"""The posterior distribution that is sampled, and one agent's part of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_flag, check_positive, refuse_unknown_keywords, refuse_unknown_settings, takes
from .._extras import require
from .._refused import Refused
from .._types import Batch, Key, Params
from .explaining import traced
from .observed import Observed, base_observations, check_observed, outcome_name
from .prior import normal_prior, prior_predictive
from .shards import Shard
from .tasks import Classification, Regression, Task, checked_logits, checked_means


@refuse_unknown_settings("cs.Posterior")
@dataclass(frozen=True, eq=False)
class Posterior:
    """A posterior distribution: a prior and a likelihood over parameters that are any pytree of real arrays.

        log π(ω) = log_prior(ω) + Σ_i Σ_{z in D_i} log_likelihood(ω, z) + const

    Agent i holds the examples D_i and the m-th part of the prior, so that the agents' parts add up to log π:

        ℓ_i(ω) = Σ_{z in D_i} log_likelihood(ω, z) + (1/m) log_prior(ω)

    Where the likelihood of an agent's data is no product over its rows, such as Cox's partial likelihood or that of a
    Gaussian process, `per_row=False`: then ℓ_i(ω) = log_likelihood(ω, D_i) + (1/m) log_prior(ω).

    Groups of an agent's rows, such as a hospital's wards, may have variables of their own that stay with the agent.
    With θ the parameters, and z_g those of group g, the posterior of all of them is

        log π(θ, z) = log_prior(θ) + Σ_g [own_log_prior(z_g, θ) + Σ_{x in D_g} log_likelihood(θ, z_g, x)] + const

    Args:
      log_prior: `log_prior(params)` is a scalar, up to a constant.
      log_likelihood: `log_likelihood(params, batch)` is one number per example of the batch. The batch is a pytree
        like the data, its leaves with one leading axis. In a dict, batch["agent"] is the agent's number in every row,
        unless the data have such a column themselves: `offset[batch["agent"]]`.
      constrain: a jax function from the parameters of one draw to the named values that draws show in their place.
        None: draws show the parameters.
      unconstrain: the inverse of `constrain`, from the values shown back to the parameters.
      predictive: `predictive(key, params, batch)` draws new observations for the rows of a batch, {"y": (rows, ...)};
        observations that the batch may have are ignored.
      task: what is predicted, if it is one label or one number a row, for scores. Its functions take what draws show.
      dims: names of the axes of the values that draws show, {"theta": ("groups",)}.
      coords: labels along axes that have a name, {"groups": ["north", "south"]}. An axis along which each number goes
        with one column of a table in the data, `w` in `batch["x"] @ w`, has the columns' names by itself.
      observed: name of what the likelihood is of, for ArviZ, `cs.Posterior(..., observed="time")`. Left out: the task's
        outcome, or else "y" where the data have such an array.
      init: where chains start unless `cs.sample` has an init: the parameters, or a function of a key that returns them.
      coordinates: `coordinates(params)`, a pytree of arrays, is all that the likelihood sees of the parameters, in
        numbers in which it is close to quadratic: {"effect": params["sd"] * params["z"]}. `cs.surrogate` expands the
        likelihood in them. None: in the parameters.
      draw_prior: `draw_prior(key)` draws parameters from the prior, for `prior_predictive`.
      quantities: what `run.predict` can be asked for by name, {"rate": function}: each a function of (params, batch)
        that gives one row for every row of the batch.
      per_row: False: `log_likelihood` is one number for all of an agent's rows, none of which is ever padded.
      own_log_prior: `own_log_prior(own, params)` is the log density of one group's own variables, given the parameters
        that all share. Own variables never leave the agent whose group it is. With them, the likelihood is written
        `log_likelihood(params, own, batch)`, where `own` has for every row of the batch the variables of its group.
        `cs.nuts` and `cs.hmc` sample them. Peers need masks.
      own_init: where each group's own variables start: one group's, any pytree of real arrays.
      group: name of the column of the data that says of which of its agent's groups a row is, by any labels; the batch
        has their numbers there. Left out: every agent is one group.
    """

    log_prior: Callable[[Params], jax.Array]
    log_likelihood: Callable[..., jax.Array]
    _: KW_ONLY
    constrain: Callable[[Params], Mapping[str, jax.Array]] | None = None
    unconstrain: Callable[[Mapping[str, jax.Array]], Params] | None = None
    predictive: Callable[[Key, Params, Batch], Mapping[str, jax.Array]] | None = None
    task: Task | None = None
    dims: Mapping[str, Sequence[str]] = field(default_factory=dict)
    coords: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    observed: str | None = None
    init: Params | Callable[[Key], Params] | None = None
    draw_prior: Callable[[Key], Params] | None = None
    quantities: Mapping[str, Callable[[Params, Batch], jax.Array]] = field(default_factory=dict)
    per_row: bool = True
    coordinates: Callable[[Params], Any] | None = None
    own_log_prior: Callable[[Any, Params], jax.Array] | None = None
    own_init: Any = None
    group: str | None = None

    def __post_init__(self) -> None:
        check_flag("per_row", self.per_row)
        self._check_own()
        for name, function in (("log_prior", self.log_prior), ("log_likelihood", self.log_likelihood)):
            if not callable(function):
                fix = "Write cs.Posterior(log_prior, log_likelihood)."
                raise Refused(name, f"it is a {type(function).__name__}, not a function", fix)
        if not takes(self.log_prior, 1) and takes(self.log_prior, 2) and takes(self.log_likelihood, 1):
            reason = "log_prior takes the parameters and a batch, log_likelihood the parameters alone: they are swapped"
            raise Refused("cs.Posterior", reason, "Write cs.Posterior(log_prior, log_likelihood).")
        called_with: dict[str, tuple[str, ...]] = {"log_prior": ("params",), "log_likelihood": self._arguments}
        if self.own_log_prior is not None:
            called_with["own_log_prior"] = ("own", "params")
        for name, arguments in called_with.items():
            if not takes(getattr(self, name), len(arguments)):
                called = f"{name}({', '.join(arguments)})"
                fix = f"Write def {called}:, or functools.partial with the other arguments."
                raise Refused(name, f"it cannot be called as {called}", fix)

    @property
    def _arguments(self) -> tuple[str, ...]:
        """Names of what the likelihood is a function of."""
        return ("params", "batch") if self.own_log_prior is None else ("params", "own", "batch")

    def _check_own(self) -> None:
        """Refuse own variables that are described in part, or that some other setting knows nothing of."""
        write = "Write cs.Posterior(log_prior, log_likelihood, own_log_prior=..., own_init=...)."
        if self.own_log_prior is None:
            for name, given in (("own_init", self.own_init), ("group", self.group)):
                if given is not None:
                    raise Refused(name, "there is no own_log_prior, so that no variables are a group's own", write)
            return
        if not callable(self.own_log_prior):
            raise Refused("own_log_prior", f"it is a {type(self.own_log_prior).__name__}, not a function", write)
        if self.own_init is None:
            raise Refused("own_init is missing", "it says what variables a group has, and where they start", write)
        if self.group is not None and not isinstance(self.group, str):
            reason = "groups of groups are not sampled yet; the name of one column of the data is needed"
            raise Refused(f"group = {self.group!r}", reason, 'Write group="ward".')

    @classmethod
    @refuse_unknown_keywords("cs.Posterior.from_numpyro")
    def from_numpyro(
        cls,
        model: Callable[[Batch], Any],
        *,
        init: Mapping[str, Any] | None = None,
        task: Task | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Sequence[Any]] | None = None,
        per_row: bool = True,
    ) -> Posterior:
        """Make the posterior of a NumPyro model of one batch: priors, constraints and likelihood are read off it.

            def model(batch):
                w = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))
                sigma = numpyro.sample("sigma", dist.HalfNormal(1))
                with numpyro.plate("data", len(batch["y"])):
                    numpyro.sample("y", dist.Normal(batch["x"] @ w, sigma), obs=batch["y"])

        Draws come back constrained and named by site, with those `numpyro.deterministic` sites that do not depend on
        the batch; those that do are asked for by name, `run.predict("rate", batch)`. All agents share every latent
        variable. Where groups have their own, the plate is over all groups of all agents, and the batch says which
        group a row is of: `numpyro.plate("groups", 12)`, `theta[batch["group"]]`.

        Args:
          model: `model(batch)`, its observations given as `obs=batch["y"]`. It is traced: write jax, not numpy, and no
            decision in Python on the values of the batch.
          init: constrained values to start from, by site; other sites start uniformly in (-2, 2) of the unconstrained
            space, as in NumPyro.
          task: what is predicted, if it is to be scored; its functions take the constrained draws, {site: value}.
          dims: names of the axes of sites, {"w": ("feature",)}; those in plates have the plates' names.
          coords: labels along axes that have a name, {"feature": ["age", "dose"]}.
          per_row: False: the observed sites are of all of an agent's rows at once, as in a Gaussian process.
        """
        require("numpyro", "numpyro")
        from .numpyro import numpyro_posterior

        return numpyro_posterior(model, init, task, dims or {}, coords or {}, per_row)

    @classmethod
    @refuse_unknown_keywords("cs.Posterior.classifier")
    def classifier(
        cls,
        apply: Callable[[Params, Any], jax.Array],
        *,
        prior_precision: float = 1.0,
        log_prior: Callable[[Params], jax.Array] | None = None,
        x: str | Sequence[str] = "x",
        y: str = "y",
        init: Params | Callable[[Key], Params] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Sequence[Any]] | None = None,
    ) -> Posterior:
        """Make the posterior of a classifier: label y of a row x has probability softmax(apply(params, x))[y].

        Args:
          apply: `apply(params, x)` returns logits (rows, classes); the parameters are any pytree of real arrays.
          prior_precision: λ of the prior N(0, 1/λ) on every parameter.
          log_prior: another prior in its place: its log density, a function of the parameters.
          x: name of the inputs in the data. Of several, ("x", "agent"), `apply` is given a dict: x["agent"] says whose
            each row is. Data may also be a tuple, inputs first and labels last.
          y: name of the labels, which are whole numbers from 0.
          init: where chains start: the parameters, or a function of a key that returns them.
          dims: names of the axes of parameters, {"w": ("feature",)}.
          coords: labels along axes that have a name, {"feature": ["age", "dose"]}.
        """
        logits = checked_logits(apply)
        task = Classification(lambda params, x: jax.nn.softmax(logits(params, x)), x, y)

        def log_likelihood(params: Params, batch: Batch) -> jax.Array:
            log_probabilities = jax.nn.log_softmax(logits(params, task.inputs(batch)))
            labels = jnp.asarray(task.outcomes(batch), jnp.int32)
            return jnp.take_along_axis(log_probabilities, labels[:, None], axis=1)[:, 0]

        prior, draw_prior = _prior(prior_precision, log_prior, init)
        labels: dict[str, Any] = {"dims": dims or {}, "coords": coords or {}}
        return cls(prior, log_likelihood, predictive=task.draw, task=task, init=init, draw_prior=draw_prior, **labels)

    @classmethod
    @refuse_unknown_keywords("cs.Posterior.regressor")
    def regressor(
        cls,
        apply: Callable[[Params, Any], jax.Array],
        *,
        noise_sd: float = 1.0,
        prior_precision: float = 1.0,
        log_prior: Callable[[Params], jax.Array] | None = None,
        x: str | Sequence[str] = "x",
        y: str = "y",
        init: Params | Callable[[Key], Params] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Sequence[Any]] | None = None,
    ) -> Posterior:
        """Make the posterior of a regression: y = apply(params, x) + noise_sd·ε with ε ~ N(0, 1).

        Args:
          apply: `apply(params, x)` returns one number a row; the parameters are any pytree of real arrays.
          noise_sd: known standard deviation. To learn it as a parameter, write a `Posterior` or a NumPyro model.
          prior_precision: λ of the prior N(0, 1/λ) on every parameter.
          log_prior: another prior in its place: its log density, a function of the parameters.
          x: name of the inputs in the data. Of several, ("x", "agent"), `apply` is given a dict: x["agent"] says whose
            each row is. Data may also be a tuple, inputs first and outcomes last.
          y: name of the outcomes, an array (rows,).
          init: where chains start: the parameters, or a function of a key that returns them.
          dims: names of the axes of parameters, {"w": ("feature",)}.
          coords: labels along axes that have a name, {"feature": ["age", "dose"]}.
        """
        check_positive("noise_sd", noise_sd)
        task = Regression(checked_means(apply), lambda params: noise_sd, x, y)

        def log_likelihood(params: Params, batch: Batch) -> jax.Array:
            return jax.scipy.stats.norm.logpdf(task.outcomes(batch), task.mean(params, task.inputs(batch)), noise_sd)

        prior, draw_prior = _prior(prior_precision, log_prior, init)
        labels: dict[str, Any] = {"dims": dims or {}, "coords": coords or {}}
        return cls(prior, log_likelihood, predictive=task.draw, task=task, init=init, draw_prior=draw_prior, **labels)

    def prior_predictive(self, batch: Batch, num_samples: int = 1000, seed: int = 0) -> dict[str, np.ndarray]:
        """Draw outcomes from the model alone, for parameters drawn from the prior: what it expects before any data.

        Return them by the names that the model gives them, (num_samples, rows, ...) each. A posterior that was written
        as two functions says how to draw by `draw_prior` and `predictive`; NumPyro models know, and so do classifiers
        and regressors with their own prior and an `init`.

        Args:
          batch: the rows to draw for. Outcomes that it may have are ignored; a NumPyro model needs them to be read.
          num_samples: number of draws.
          seed: random seed.
        """
        return prior_predictive(self, batch, num_samples, seed)

    def bind(self, batch: Batch) -> Posterior:
        """Return the posterior for data of the form of `batch`: itself, unless it has yet to be read off a model."""
        return self

    def check_data(self, agent: str, params: Params, batch: Batch) -> None:
        """Refuse data, already known to be arrays without NaN, that do not fit this model, with their agent's name."""
        check_observed(self.observed, batch)
        if self.task is not None:  # its functions take what draws show
            self.task.check(agent, params if self.constrain is None else self.constrain(params), batch)

    def pointwise(self, params: Params, batch: Batch) -> dict[str, jax.Array]:
        """Return the log-likelihood of every row, (rows,), by observed variable; they add up to `log_likelihood`."""
        if self.own_log_prior is not None:
            reason = "log-likelihoods of rows need their groups' own variables, which are not kept with the shared ones"
            raise Refused("own variables", reason, "Compare models by what they share, or score with task=.")
        return {outcome_name(self.observed, self.task, batch): self.log_likelihood(params, batch)}

    def observations(self, batch: Batch) -> dict[str, Observed]:
        """Return the observed variables of `pointwise`: their values, and which rows are observations at all."""
        return base_observations(self.observed, self.task, batch)

    def log_priors(self, params: Params) -> dict[str, jax.Array]:
        """Return the log density of the prior, without Jacobians, in as many parts as the model has names for."""
        return {"log_prior": self.log_prior(params)}

    def local_logdensity(self, params: Params, shard: Shard, size: int) -> jax.Array:
        """Return ℓ_i(params), the part of the log density of the agent that holds `shard`, one of `size` agents."""
        return self.local_log_likelihood(params, shard) + self.log_prior(params) / size

    def local_log_likelihood(self, params: Params, shard: Shard, *own: Any) -> jax.Array:
        """Return the log-likelihood of the agent that holds `shard`, without any of the prior.

        Args:
          own: own variables of the rows, where the model has some.
        """
        if not self.per_row:
            assert shard.mask is None  # padded rows would change the likelihood of a whole site
            return self.log_likelihood(params, *own, shard.batch)
        per_example = self.log_likelihood(params, *own, shard.batch)
        if shard.mask is not None:
            per_example = jnp.where(shard.mask, per_example, 0)
        return per_example.sum()


def _prior(
    precision: float,
    log_prior: Callable[[Params], jax.Array] | None,
    init: Params | Callable[[Key], Params] | None,
) -> tuple[Callable[[Params], jax.Array], Callable[[Key], Params] | None]:
    """Return the log density of N(0, 1/precision) on every parameter, or the `log_prior` given, and how to draw.

    How to draw is known of the normal prior alone, and where `init` says what form parameters have.
    """
    if log_prior is not None:
        if precision != 1.0:
            raise Refused(f"prior_precision = {precision!r}", "log_prior replaces that prior", "Leave it out.")
        return log_prior, None
    check_positive("prior_precision", precision)

    def gaussian(params: Params) -> jax.Array:
        return -0.5 * precision * reduce(add, [jnp.sum(leaf**2) for leaf in jax.tree.leaves(params)])

    return gaussian, None if init is None else normal_prior(precision, init)


def check_posterior(posterior: Posterior, params: Params, batch: Batch) -> None:
    """Refuse a posterior whose functions return wrong shapes or dtypes; they are traced, not computed."""
    prior = traced("log_prior(params)", posterior.log_prior, params)
    if getattr(prior, "shape", None) != () or not jnp.issubdtype(prior.dtype, jnp.number):
        fix = "Add .sum()." if getattr(prior, "shape", ()) else "A flat prior is lambda params: 0.0."
        raise Refused("log_prior(params)", f"it must return one real number; it returned {_described(prior)}", fix)
    if posterior.own_log_prior is None:
        what = "log_likelihood(params, batch)"
        check_likelihood(
            what,
            traced(what, posterior.log_likelihood, params, batch),
            len(jax.tree.leaves(batch)[0]),
            posterior.per_row,
        )


def check_likelihood(what: str, value: Any, examples: int, per_row: bool) -> None:
    """Refuse a log-likelihood that is not one number per example, or where it is of a whole site, one number.

    Args:
      what: the function as messages call it.
      value: what it returned, its shape and dtype.
    """
    shape = getattr(value, "shape", None)
    if not per_row and shape != ():
        reason = f"with per_row=False it must return one number for all rows; it returned {_described(value)}"
        fix = "Leave out per_row=False." if shape == (examples,) else "Add .sum()."
        raise Refused(what, reason, fix)
    if per_row and shape != (examples,):
        fix = "Sum over other axes: padded examples are masked one by one."
        if shape == ():
            fix = (
                "Leave out the sum over examples: padded examples are masked one by one. Where a likelihood cannot be "
                "split into rows, such as Cox's or a Gaussian process's, write cs.Posterior(..., per_row=False)."
            )
        reason = f"it must return one number per example, shape ({examples},) for this batch of {examples}"
        raise Refused(what, f"{reason}; it returned {_described(value)}", fix)
    if not jnp.issubdtype(value.dtype, jnp.floating):
        raise Refused(what, f"it must return real numbers; it returned {_described(value)}")


class StartValues(NamedTuple):
    """Values of one agent that must be finite where it starts."""

    prior: jax.Array  # log_prior
    likelihood: jax.Array  # the agent's log-likelihood
    slope: jax.Array  # the sum of the gradient of ℓ_i: finite where all of it is


def start_values(posterior: Posterior, params: Params, shard: Shard, size: int) -> StartValues:
    """Compute the values of one agent that must be finite where it starts, at `params`."""
    value, gradient = jax.value_and_grad(posterior.local_logdensity)(params, shard, size)
    prior = jnp.asarray(posterior.log_prior(params), value.dtype)
    return StartValues(prior, value - prior / size, sum(leaf.sum() for leaf in jax.tree.leaves(gradient)))


def check_start(
    priors: np.ndarray, likelihoods: np.ndarray, slopes: np.ndarray, *, agents: Sequence[str] | None = None
) -> None:
    """Refuse a start at which some density is not finite, naming the agent.

    All arrays are (chains, agents); `agents` are the names to tell them by, "agent 0" and so on if left out.
    """
    for chain, _ in np.argwhere(~np.isfinite(priors))[:1]:
        raise Refused(
            "log_prior",
            f"it is {priors[chain, 0]} at the start of chain {chain}",
            "Choose an init inside the prior's support, or sample an unconstrained parameter and transform it.",
        )
    for what, values in (("log-likelihood", likelihoods), ("gradient of the log density", slopes)):
        for chain, agent in np.argwhere(~np.isfinite(values))[:1]:
            raise Refused(
                agents[agent] if agents else f"agent {agent}",
                f"the {what} is {values[chain, agent]} at the start of chain {chain}",
                "Check this agent's data and the init: the density must be finite and differentiable there.",
            )


def _described(value: object) -> str:
    if isinstance(value, jax.ShapeDtypeStruct):
        return f"{value.dtype} of shape {value.shape}"
    return f"a {type(value).__name__}"
