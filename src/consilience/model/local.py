"""One agent's part of the log density, as samplers see it: a function of a vector."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from .layout import Layout
from .posterior import Posterior
from .shards import Shard


@dataclass(frozen=True, eq=False)
class LocalLogDensity:
    """The log density ℓ_i of the agent that holds `shard`, one of `size` agents, as a function of a vector."""

    posterior: Posterior
    layout: Layout
    shard: Shard
    size: int

    def __call__(self, w: jax.Array) -> jax.Array:
        return self.posterior.local_logdensity(self.layout.unravel(w), self.shard, self.size)

    def minibatch(self, w: jax.Array, uniforms: jax.Array) -> jax.Array:
        """Return an unbiased estimate of ℓ_i from examples drawn with replacement.

        Args:
          uniforms: one number in [0, 1) for every example of the minibatch, which chooses that example.
        """
        real = self._examples()
        # The real examples come before the padding. Rounding may lift u·n to n itself.
        chosen = jnp.minimum((uniforms * real).astype(jnp.int32), real.astype(jnp.int32) - 1)
        batch = jax.tree.map(lambda leaf: leaf[chosen], self.shard.batch)
        params = self.layout.unravel(w)
        sum_of_batch = self.posterior.log_likelihood(params, batch).sum()
        prior = self.posterior.log_prior(params) / self.size
        return sum_of_batch * (real / len(uniforms)).astype(sum_of_batch.dtype) + prior

    def _examples(self) -> jax.Array:
        """Count the agent's examples, padding left out."""
        dtype = self.layout.dtype
        if self.shard.mask is None:
            return jnp.asarray(len(jax.tree.leaves(self.shard.batch)[0]), dtype)
        return self.shard.mask.sum().astype(dtype)
