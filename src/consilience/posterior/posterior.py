"""The posterior, and the part of it that is one agent's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Batch, Params
from .layout import Layout
from .shards import Shard


@dataclass(frozen=True)
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
    if getattr(prior, "shape", None) != () or not jnp.issubdtype(prior.dtype, jnp.floating):
        raise ValueError(f"log_prior(params) must return one real number; it returned {_shown(prior)}. Add .sum().")
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


def check_start(posterior: Posterior, layout: Layout, shards: Shard, size: int, positions: jax.Array) -> None:
    """Refuse a start at which some agent's log density or gradient is not finite, naming the agent.

    Args:
      shards: all agents' shards, stacked.
      positions: (chains, dimension), the starts.
    """
    priors, likelihoods, slopes = map(np.asarray, _parts_at(posterior, layout, size, positions, shards))
    for (chain,) in np.argwhere(~np.isfinite(priors))[:1]:
        raise ValueError(
            f"log_prior is {priors[chain]} at the start of chain {chain}. Choose an init inside the prior's support, "
            f"or sample an unconstrained parameter and transform it."
        )
    for what, values in (("log-likelihood", likelihoods), ("gradient of the log density", slopes)):
        for chain, agent in np.argwhere(~np.isfinite(values))[:1]:
            raise ValueError(
                f"agent {agent}: the {what} is {values[chain, agent]} at the start of chain {chain}. Check this "
                f"agent's data and the init: the density must be finite and differentiable there."
            )


@jax.jit(static_argnums=(0, 1, 2))
def _parts_at(
    posterior: Posterior, layout: Layout, size: int, positions: jax.Array, shards: Shard
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """log prior (chains,), and per chain and agent the log-likelihood and the sum of the gradient of ℓ_i."""

    def of_agent(position: jax.Array, shard: Shard) -> tuple[jax.Array, jax.Array]:
        def logdensity(w: jax.Array) -> jax.Array:
            return posterior.local_logdensity(layout.unravel(w), shard, size)

        value, gradient = jax.value_and_grad(logdensity)(position)
        return value - posterior.log_prior(layout.unravel(position)) / size, gradient.sum()

    def of_chain(position: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        return posterior.log_prior(layout.unravel(position)), *jax.vmap(of_agent, in_axes=(None, 0))(position, shards)

    return jax.lax.map(of_chain, positions)


def _shown(value: object) -> str:
    if isinstance(value, jax.ShapeDtypeStruct):
        return f"{value.dtype} of shape {value.shape}"
    return f"a {type(value).__name__}"
