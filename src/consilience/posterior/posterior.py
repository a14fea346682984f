"""The posterior, and the part of it that is one agent's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Batch, Params
from .shards import Shard


@dataclass(frozen=True, eq=False)
class Posterior:
    """A prior and a likelihood, over parameters that are any pytree of real arrays.

        log π(ω) = log_prior(ω) + Σ_i Σ_{z in D_i} log_likelihood(ω, z) + const

    Agent i holds the examples D_i and the m-th part of the prior, so that the agents' parts add up to log π:

        ℓ_i(ω) = Σ_{z in D_i} log_likelihood(ω, z) + (1/m) log_prior(ω)

    Args:
      log_prior: `log_prior(params)` is a scalar, up to a constant.
      log_likelihood: `log_likelihood(params, batch)` is one number per example of the batch. The batch is a pytree
        like the data, its leaves with one leading axis.
    """

    log_prior: Callable[[Params], jax.Array]
    log_likelihood: Callable[[Params, Batch], jax.Array]

    def local_logdensity(self, params: Params, shard: Shard, size: int) -> jax.Array:
        """ℓ_i of the agent that holds `shard`, one of `size` agents."""
        per_example = self.log_likelihood(params, shard.batch)
        if shard.mask is not None:
            per_example = jnp.where(shard.mask, per_example, 0)
        return per_example.sum() + self.log_prior(params) / size


def check_posterior(posterior: Posterior, params: Params, batch: Batch) -> None:
    """Refuse functions that do not return what a posterior needs, judged by shapes alone."""
    prior = jax.eval_shape(posterior.log_prior, params)
    if getattr(prior, "shape", None) != () or not jnp.issubdtype(prior.dtype, jnp.number):
        fix = "Add .sum()" if getattr(prior, "shape", ()) else "A flat prior is lambda params: 0.0"
        raise ValueError(f"log_prior(params) must return one real number; it returned {_shown(prior)}. {fix}.")
    examples = len(jax.tree.leaves(batch)[0])
    value = jax.eval_shape(posterior.log_likelihood, params, batch)
    if getattr(value, "shape", None) != (examples,):
        fix = "Leave out the sum over examples" if getattr(value, "shape", None) == () else "Sum over other axes"
        raise ValueError(
            f"log_likelihood(params, batch) must return one number per example, shape ({examples},) for this batch of "
            f"{examples}; it returned {_shown(value)}. {fix}: padded examples are masked one by one."
        )
    if not jnp.issubdtype(value.dtype, jnp.floating):
        raise TypeError(f"log_likelihood(params, batch) must return real numbers; it returned {_shown(value)}.")


class StartValues(NamedTuple):
    """What must be finite where an agent starts."""

    prior: jax.Array  # log_prior
    likelihood: jax.Array  # the agent's log-likelihood
    slope: jax.Array  # the sum of the gradient of ℓ_i: finite where all of it is


def start_values(posterior: Posterior, params: Params, shard: Shard, size: int) -> StartValues:
    """Of one agent."""
    value, gradient = jax.value_and_grad(posterior.local_logdensity)(params, shard, size)
    prior = jnp.asarray(posterior.log_prior(params), value.dtype)
    return StartValues(prior, value - prior / size, sum(leaf.sum() for leaf in jax.tree.leaves(gradient)))


def check_start(priors: np.ndarray, likelihoods: np.ndarray, slopes: np.ndarray) -> None:
    """Refuse a start at which some density is not finite, naming the agent. All arrays are (chains, agents)."""
    for chain, _ in np.argwhere(~np.isfinite(priors))[:1]:
        raise ValueError(
            f"log_prior is {priors[chain, 0]} at the start of chain {chain}. Choose an init inside the prior's "
            f"support, or sample an unconstrained parameter and transform it."
        )
    for what, values in (("log-likelihood", likelihoods), ("gradient of the log density", slopes)):
        for chain, agent in np.argwhere(~np.isfinite(values))[:1]:
            raise ValueError(
                f"agent {agent}: the {what} is {values[chain, agent]} at the start of chain {chain}. Check this "
                f"agent's data and the init: the density must be finite and differentiable there."
            )


def _shown(value: object) -> str:
    if isinstance(value, jax.ShapeDtypeStruct):
        return f"{value.dtype} of shape {value.shape}"
    return f"a {type(value).__name__}"
