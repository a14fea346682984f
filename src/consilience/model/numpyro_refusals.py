"""Refusals of NumPyro models that cannot be sampled by a network, with what to write instead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax

from .._refused import Refused
from .._types import Batch
from .numpyro_runs import Model, column_arguments, columns_hint

ALL_GROUPS = 'with numpyro.plate("groups", 12): theta = numpyro.sample("theta", ...), then theta[batch["group"]]'
PLATE = 'numpyro.plate("data", len(batch["y"]))'
WHOLE = (
    "Where the likelihood of an agent's data cannot be split into rows, as Cox's or a Gaussian process's, write "
    "cs.Posterior.from_numpyro(model, per_row=False)."
)
REFUSALS = {  # subject, reason and fix, by what is wrong with a site or the whole model
    "discrete": (
        "{name!r}",
        "a discrete latent variable, which has no gradient to follow",
        "Sum it out: observe dist.MixtureSameFamily(dist.Categorical(weights), components), or "
        "dist.ZeroInflatedPoisson and its like.{hint}",
    ),
    "scaled": (
        "{name!r}",
        "its prior is scaled by numpyro.handlers.scale",
        "Scale observed sites alone, and write the power of a prior out: "
        'numpyro.factor("power", (scale - 1) * prior.log_prob({name})).',
    ),
    "subsample": (
        "{name!r}",
        "the plate takes a subsample, and a batch is all that an agent has, or a minibatch that the sampler has drawn "
        "and scales itself",
        'Leave subsample_size out, numpyro.plate({name!r}, len(batch["y"])).',
    ),
    "param": (
        "{name!r}",
        "a numpyro.param, which has no prior; all that is sampled needs one",
        "Write numpyro.sample({name!r}, prior), or a number.",
    ),
    "mutable": ("{name!r}", "a numpyro.mutable: a posterior has no state that changes from one call to the next", ""),
    "prior of the batch": (
        "the prior of {name!r}",
        "it depends on the batch, and every agent would have another",
        "Write its numbers down, or observe what depends on the data with obs=.",
    ),
    "constant observation": (
        "{name!r}",
        "it observes nothing of the batch, and every agent would count it again",
        'Write obs=batch[...], or, for a term of the prior, numpyro.factor("{name}", ...log_prob(value)).',
    ),
    "no observation": (
        "the model",
        "it observes nothing",
        'Write numpyro.sample("y", ..., obs=batch["y"]).{hint}',
    ),
    "no latent": (
        "the model",
        "it has no latent variables: there is nothing to sample",
        'Write numpyro.sample("w", ...).',
    ),
    "sites by rows": (
        "the sites depend on the number of rows",
        "{name!r} is there for one batch and not for another",
        f'Write one site for all rows: with {PLATE}: numpyro.sample("y", ..., obs=batch["y"]).',
    ),
    "latent by rows": (
        "{name!r}",
        "it has values for each row, shape {two} for 2 rows and {three} for 3: every agent would have variables of its "
        "own, and agents sample the same variables",
        "Sum it out of the likelihood (a Gaussian process's, with per_row=False); or give variables to groups, all "
        f"agents' groups in one plate: {ALL_GROUPS}.{{hint}}",
    ),
    "obs_mask": (
        "the obs_mask of {name!r}",
        "it makes a latent variable for every row that is not observed, and agents sample the same variables",
        'Leave those rows out: with numpyro.handlers.mask(mask=batch[...]): numpyro.sample("{name}", ..., '
        "obs=batch[...]).",
    ),
    "rows by rows": (
        "the log density of {name!r}",
        "it is a table of rows by rows, shape {two} for 2 rows: (rows, 1) was paired with (rows,)",
        'Write obs=batch["y"][:, 0], or drop the axis of its mean.',
    ),
    "no row axis": (
        "the log density of {name!r}",
        "its shape is {two} for 2 rows and {three} for 3; one axis of the rows is needed, as examples are independent "
        "given the parameters",
        f"Take .to_event() and sums off the axis of the rows, and put the site into with {PLATE}:. {WHOLE}",
    ),
    "columns as arguments": (
        "the model",
        "its arguments {names} are columns of the data, and it is called with one argument, the batch",
        "{hint}",
    ),
    "read in Python": (
        "the model",
        "it looks at values in Python, and its code must be the same for all agents' data ({error})",
        "Where a plate takes its size from the values, every agent would have variables of its own: write the number "
        f"of all agents' groups, {ALL_GROUPS}. Elsewhere write jax.numpy for numpy, and jnp.where for if.",
    ),
}
READ_IN_PYTHON = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


def refusal(kind: str, name: str = "", **values: Any) -> Refused:
    """Return a refusal of the table, with the name of the site and other values filled in."""
    return Refused(*(text.format(name=name, **values) for text in REFUSALS[kind]))


def check_takes_batch(model: Model, batch: Batch) -> None:
    """Refuse a model whose arguments, y=None among them, are the columns of the data."""
    names = column_arguments(model)
    if isinstance(batch, dict) and len(names) > 1 and set(names) <= set(batch):
        raise refusal("columns as arguments", names=", ".join(names), hint=columns_hint(model).strip())


@contextmanager
def explain_errors(model: Model, batch: Batch) -> Iterator[None]:
    """Explain errors raised by a model: what it was run on and, where only tracing raises them, what to write."""
    try:
        yield
    except READ_IN_PYTHON as error:
        raise refusal("read in Python", error=str(error).splitlines()[0]) from error
    except Exception as error:
        shapes = ", ".join(f"{leaf.dtype}{list(leaf.shape)}" for leaf in jax.tree.leaves(batch))
        error.add_note(
            f"The NumPyro model was run on a batch like the data, of {shapes}. "
            f"A plate over the rows takes its size from the batch: {PLATE}.{columns_hint(model)}"
        )
        raise
