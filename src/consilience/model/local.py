"""One agent's part of the log density, as samplers see it: a function of a vector.

Agents are lanes of a `vmap`, and lanes compute alike: a lane with few rows takes as long as one with many. So where
shards are stacked by size (`ShardsBySize`), a lane does not compute its own part alone. All lanes' arguments are
gathered along the axis of agents; under `vmap` the gathered array is the lanes' own and has no such axis, so that what
follows from it is computed once for all lanes: class by class, each for its own agents over its own rows. A lane then
picks its own result. With one copy of a replicated chain there is nothing to gather: the argument is the same for all.

Derivatives in forward mode go through that as they are. In reverse mode every lane would send its cotangent back
through all classes, so value and gradient are computed together, class by class: they make the first derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._refused import Refused
from ..neighbors import AGENTS
from .layout import Layout
from .own import OwnVariables, joint_logdensity
from .posterior import Posterior, StartValues, start_values
from .shards import Shard, Shards, ShardsBySize


@dataclass(frozen=True, eq=False)
class LocalLogDensity:
    """The log density ℓ_i of the agent that holds `shard`, one of `size` agents, as a function of a vector.

    Args:
      one_copy: whether all agents' lanes evaluate it at the same vector.
      own: variables that stay with their owner, which come after the shared ones in the vector; None: there are none.
    """

    posterior: Posterior
    layout: Layout
    shard: Shards
    size: int
    one_copy: bool = False
    own: OwnVariables | None = None

    def __call__(self, w: jax.Array) -> jax.Array:
        return self._own_value(self._of_shard)(w)

    def log_prior(self, w: jax.Array) -> jax.Array:
        """Return the whole log prior, which every agent knows."""
        return jnp.asarray(self.posterior.log_prior(self.layout.unravel(w[: self.layout.dimension])), w.dtype)

    def own_mask(self) -> jax.Array:
        """Tell which numbers of the vector's own part are of this agent's groups; the others stay at zero."""
        own = self.own
        assert own is not None
        return self._own(lambda shard: own.mask(shard.batch))()

    def log_likelihood(self, w: jax.Array) -> jax.Array:
        """Return the log-likelihood of this agent's examples."""
        return self._own_value(self._likelihood_of_shard)(w)

    @property
    def coordinates(self) -> Callable[[jax.Array], jax.Array] | None:
        """Coordinates that the likelihood sees, as a function of the vector; None: the parameters themselves."""
        function = self.posterior.coordinates
        if function is None:
            return None
        return lambda w: jnp.concatenate(
            [jnp.ravel(leaf).astype(w.dtype) for leaf in jax.tree.leaves(function(self.layout.unravel(w)))]
        )

    def minibatch(self, w: jax.Array, uniforms: jax.Array) -> jax.Array:
        """Return an unbiased estimate of ℓ_i from examples drawn with replacement.

        Args:
          uniforms: one number in [0, 1) for every example of the minibatch, which chooses that example.
        """
        if not self.posterior.per_row:
            reason = "the likelihood is of a whole site (per_row=False), and a minibatch has a part of its rows"
            raise Refused("batch_size", reason, "Leave it out.")
        return self._own_value(self._estimate)(w, uniforms)

    def start_values(self, w: jax.Array) -> StartValues:
        """Compute the values of this agent that must be finite where it starts, at `w`."""

        def of_shard(shard: Shard, w: jax.Array) -> StartValues:
            if self.own is None:
                return start_values(self.posterior, self.layout.unravel(w), shard, self.size)
            value, slope = jax.value_and_grad(self._of_shard, argnums=1)(shard, w)
            prior = self.log_prior(w)
            return StartValues(prior, value - prior / self.size, slope.sum())

        return self._own(of_shard)(w)

    def _of_shard(self, shard: Shard, w: jax.Array) -> jax.Array:
        if self.own is not None:
            params, z = self.layout.unravel(w[: self.layout.dimension]), w[self.layout.dimension :]
            return joint_logdensity(self.posterior, self.own, params, z, shard, self.size)
        return self.posterior.local_logdensity(self.layout.unravel(w), shard, self.size)

    def _likelihood_of_shard(self, shard: Shard, w: jax.Array) -> jax.Array:
        return self.posterior.local_log_likelihood(self.layout.unravel(w), shard)

    def _estimate(self, shard: Shard, w: jax.Array, uniforms: jax.Array) -> jax.Array:
        real = self._examples(shard)
        # The real examples come before the padding. Rounding may lift u·n to n itself.
        chosen = jnp.minimum((uniforms * real).astype(jnp.int32), real.astype(jnp.int32) - 1)
        batch = jax.tree.map(lambda leaf: leaf[chosen], shard.batch)
        params = self.layout.unravel(w)
        sum_of_batch = self.posterior.log_likelihood(params, batch).sum()
        prior = self.posterior.log_prior(params) / self.size
        return sum_of_batch * (real / len(uniforms)).astype(sum_of_batch.dtype) + prior

    def _examples(self, shard: Shard) -> jax.Array:
        """Count the agent's examples, padding left out."""
        dtype = self.layout.dtype
        if shard.mask is None:
            return jnp.asarray(len(jax.tree.leaves(shard.batch)[0]), dtype)
        return shard.mask.sum().astype(dtype)

    def _own(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function(shard, ...)` as a function of the other arguments alone, of this agent's shard."""
        if isinstance(self.shard, ShardsBySize):
            return partial(_by_size, function, self.shard, self.one_copy)
        return partial(function, self.shard)

    def _own_value(self, function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
        """Return what `_own` does of a function with one number as its value, to be differentiated in the vector w."""
        if isinstance(self.shard, Shard):
            return self._own(function)

        @jax.custom_jvp
        def value(w: jax.Array, *rest: jax.Array) -> jax.Array:
            return self._own(function)(w, *rest)

        @value.defjvp
        def value_and_change(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
            found, gradient = self._own(jax.value_and_grad(function, argnums=1))(*primals)
            return found, jnp.vdot(gradient, tangents[0])

        return value


def _by_size(function: Callable[..., Any], shards: ShardsBySize, alike: bool, *arguments: jax.Array) -> Any:
    """Return `function(shard, *arguments)` of this lane's own shard, computed for all lanes' shards class by class.

    Args:
      alike: whether all lanes have the same arguments.
    """
    if not alike:
        arguments = tuple(lax.all_gather(argument, AGENTS)[shards.order] for argument in arguments)
    found, first = [], 0
    for part in shards.classes:
        last = first + len(jax.tree.leaves(part.batch)[0])
        if alike:
            found.append(jax.vmap(lambda shard: function(shard, *arguments))(part))
        else:
            found.append(jax.vmap(function)(part, *(argument[first:last] for argument in arguments)))
        first = last
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[shards.own], *found)
