"""Variables that stay with their owner: each agent's groups, and what they add to the agent's part of the log density.

With θ the parameters that all agents share, z_ig the own variables of group g of agent i, and D_ig its rows:

    log π(θ, z) = log_prior(θ) + Σ_i Σ_g [ own_log_prior(z_ig, θ) + Σ_{rows in D_ig} log_likelihood(θ, z_ig, row) ]

An agent's vector is [θ, z_i], z_i group by group. Agents may have unlike numbers of groups: all vectors have room for
as many as any agent has. What is beyond an agent's own groups has no prior and no rows, and stays at zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import nearest
from .._refused import Refused
from .._types import Batch, Params
from .explaining import traced
from .layout import Layout
from .posterior import Posterior, check_likelihood
from .shards import Shard, as_batch

Groups = Sequence[tuple[Any, ...]]  # labels of each agent's groups


@dataclass(frozen=True)
class OwnVariables:
    """Layout of an agent's own variables in a vector, group by group.

    Attributes:
      one: the layout of one group's variables.
      room: number of groups that there is room for.
      column: name of the column of the batch with the number of each row's group; None: every agent is one group.
    """

    one: Layout
    room: int
    column: str | None

    @classmethod
    def of(cls, posterior: Posterior, shards: Sequence[Batch]) -> OwnVariables | None:
        """Return the layout for shards whose groups are numbered; None where the posterior has no own variables."""
        if posterior.own_log_prior is None:
            return None
        column = posterior.group
        room = 1 if column is None else max(int(shard[column].max()) + 1 for shard in shards)
        return cls(Layout.of(posterior.own_init, "own_init", "own"), room, column)

    @property
    def dimension(self) -> int:
        return self.room * self.one.dimension

    def start(self, posterior: Posterior) -> np.ndarray:
        """Return the vector in which every group is at the posterior's `own_init`."""
        return np.tile(self.one.ravel_on_host(posterior.own_init), self.room)

    def unravel(self, z: Any) -> Any:
        """Return the pytree of a vector, or of an array of vectors, its leaves with an axis of groups."""
        return self.one.unravel(z.reshape(*z.shape[:-1], self.room, self.one.dimension))

    def is_real(self, batch: Batch) -> jax.Array:
        """Tell which places are an agent's groups, (room,), from its rows: each of its groups has some."""
        count = 1 if self.column is None else batch[self.column].max() + 1
        return jnp.arange(self.room) < count

    def mask(self, batch: Batch) -> jax.Array:
        """Tell which numbers of an agent's vector are of its groups, (dimension,)."""
        return jnp.repeat(self.is_real(batch), self.one.dimension)

    def of_rows(self, own: Any, batch: Batch) -> Any:
        """Return for every row of a batch the variables of its group."""
        rows = len(jax.tree.leaves(batch)[0])
        places = jnp.zeros(rows, jnp.int32) if self.column is None else batch[self.column]
        return jax.tree.map(lambda leaf: leaf[places], own)


@dataclass(frozen=True)
class KeptOwn:
    """What is kept of own variables: of each agent here all numbers of its groups, and nothing for room beyond them.

    Attributes:
      counts: numbers of groups, of the agents here in their order.
    """

    variables: OwnVariables
    counts: tuple[int, ...]

    @classmethod
    def of(cls, variables: OwnVariables, shards: Sequence[Batch]) -> KeptOwn:
        """Return it for agents whose groups are numbered in their shards."""
        column = variables.column
        found = [1 if column is None else int(shard[column].max()) + 1 for shard in shards]
        return cls(variables, tuple(found))

    def parts(self, own: np.ndarray) -> Iterator[tuple[int, Layout, np.ndarray]]:
        """Yield of each agent here its place, the layout of what is kept of a draw, and that of all draws.

        Args:
          own: (draw, chain, agent, number), with room for as many groups as any agent has.
        """
        one = self.variables.one
        for place, count in enumerate(self.counts):
            vectors = own[:, :, place].reshape(*own.shape[:2], self.variables.room, one.dimension)[:, :, :count]
            leaves = dict(one.leaves(vectors))
            layout = layout_of_groups(one, count)
            flat = [leaves[name].reshape(*own.shape[:2], 1, -1) for name in layout.names]
            yield place, layout, np.concatenate(flat, axis=-1)


def layout_of_groups(one: Layout, count: int) -> Layout:
    """Return the layout of so many groups' variables: a dict of them by name, each with an axis of groups."""
    shapes = dict(zip(one.names, one.shapes, strict=True))
    names = tuple(sorted(shapes))
    structure = jax.tree.structure(dict.fromkeys(names, 0))
    return Layout(structure, tuple((count, *shapes[name]) for name in names), (one.dtype,) * len(names), names)


def joint_logdensity(
    posterior: Posterior, variables: OwnVariables, params: Params, z: jax.Array, shard: Shard, size: int
) -> jax.Array:
    """Return ℓ_i(θ, z_i), the part of the joint log density of the agent that holds `shard`, one of `size` agents."""
    assert posterior.own_log_prior is not None
    real = variables.is_real(shard.batch)

    def filled(leaf: jax.Array) -> jax.Array:
        # With the first group's: a density may be infinite at zeros, and the gradient of a masked infinity is NaN.
        return jnp.where(real.reshape(-1, *(1,) * (leaf.ndim - 1)), leaf, leaf[:1])

    own = jax.tree.map(filled, variables.unravel(z))
    priors = jax.vmap(posterior.own_log_prior, in_axes=(0, None))(own, params)
    likelihood = posterior.local_log_likelihood(params, shard, variables.of_rows(own, shard.batch))
    return likelihood + jnp.where(real, priors, 0).sum() + posterior.log_prior(params) / size


def check_own(posterior: Posterior, variables: OwnVariables, params: Params, batch: Batch) -> None:
    """Refuse functions of own variables that return wrong shapes, or a start at which their prior is not finite."""
    assert posterior.own_log_prior is not None
    one = jax.tree.map(jnp.asarray, variables.one.unravel(variables.one.ravel_on_host(posterior.own_init)))
    prior = traced("own_log_prior(own, params)", posterior.own_log_prior, one, params)
    if getattr(prior, "shape", None) != () or not jnp.issubdtype(prior.dtype, jnp.floating):
        reason = f"it must return one real number for one group; it returned {getattr(prior, 'shape', prior)}"
        raise Refused("own_log_prior(own, params)", reason, "Add .sum().")
    value = float(posterior.own_log_prior(one, params))
    if not np.isfinite(value):
        fix = "Choose an own_init inside the prior's support."
        raise Refused("own_log_prior", f"it is {value} at own_init and the start of chain 0", fix)
    what = "log_likelihood(params, own, batch)"
    rows = len(jax.tree.leaves(batch)[0])
    own = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((rows, *leaf.shape), leaf.dtype), one)
    check_likelihood(what, traced(what, posterior.log_likelihood, params, own, batch), rows, posterior.per_row)


def numbered_groups(column: str, shards: Sequence[Batch], names: Sequence[str]) -> tuple[list[Batch], Groups]:
    """Return agents' data with the number of each row's group in place of its label, and the labels by number.

    Args:
      column: name of the column with the labels: numbers, texts, or whatever can be told apart.
      names: what messages call the agents.
    """
    found = [_numbered(column, as_batch(name, shard), name) for name, shard in zip(names, shards, strict=True)]
    return [shard for shard, _ in found], [labels for _, labels in found]


def _numbered(column: str, shard: Batch, name: str) -> tuple[Batch, tuple[Any, ...]]:
    if not isinstance(shard, Mapping) or column not in shard:
        there = [*map(str, shard)] if isinstance(shard, Mapping) else []
        near = nearest(column, there)
        reason = f"its data have no {column!r}, which says of which group each row is"
        raise Refused(name, reason, f"Write group={near!r}." if near else f'Write {{"{column}": ..., ...}}.')
    values = np.asarray(shard[column])
    if values.ndim != 1:
        reason = f"{column} has shape {values.shape}, and one label for each row is needed"
        raise Refused(name, reason, f"Give {column} one label a row.")
    rows = values.tolist()
    if any(label != label or label is None for label in rows):
        raise Refused(name, f"{column} has rows without a label", "Give them one, or leave them out.")
    try:
        labels = sorted(set(rows))
    except TypeError:  # of several kinds
        labels = list(dict.fromkeys(rows))
    number = {label: place for place, label in enumerate(labels)}
    numbers = np.array([number[label] for label in rows], np.int32)
    return {**shard, column: numbers}, tuple(labels)
