"""Agents on a mesh of devices, several to a device where there are more of them.

The loop is that of `simulate`. `jax.shard_map` runs it on every device, over the lanes of the agents there, and the
link of a lane reaches those on other devices. A replicated chain has one copy a device, moved by all of them alike.

Runs are the same ones as in `simulate`: what is stored of them is by agents, not by lanes or devices, and they can be
continued on another mesh. Only the rounding of sums differs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._compat import on_every_device
from ..engine import Accumulated, Chains, Compiled, Inputs, Kept, Model, all_but_common
from ..neighbors import DEVICES, DeviceNeighbors, Placement, Wiring, wire
from .arrays import MeshArrays, axis_of, is_spec, spec
from .preparing import Prepared
from .simulate import chain_keys, lane_inputs, lane_link


def mesh_chains(prepared: Prepared, arrays: MeshArrays) -> Chains:
    """Return the chains of a run's agents on a mesh, traced as lanes of one device: a run is the same on every mesh."""
    network, sampler, placement = prepared.network, prepared.sampler, arrays.placement
    one_copy = sampler.replicated and prepared.own is None
    keys = chain_keys(prepared.key, len(prepared.starts))
    wiring = wire(None if sampler.replicated else network, placement)
    root = network.tree.root if sampler.replicated else 0

    def link(inputs: Inputs) -> DeviceNeighbors:
        return DeviceNeighbors(placement, Wiring(inputs.lists, wiring.partners), root, one_copy)

    forms = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((network.size, *leaf.shape[1:]), leaf.dtype), prepared.stacked
    )
    views = (prepared.drawn, prepared.averaged, prepared.watched)
    model = Model(prepared.posterior, prepared.layout, lane_link(one_copy), one_copy, *views, own=prepared.own)
    inputs = Inputs(
        arrays.everywhere(sampler),
        jax.tree.map(lambda leaf: arrays.put(leaf, 0), wiring.lists),
        arrays.everywhere(jnp.int32(root)),
        jax.tree.map(arrays.put_own, prepared.stacked),
        arrays.everywhere(keys),
    )
    shapes = tuple(leaf.shape for leaf in jax.tree.leaves(wiring.lists))
    return Chains(
        network,
        model._replace(link=link, mean=partial(mean_of_all, placement)),
        inputs,
        prepared.positions,
        OnMesh(
            arrays, one_copy, prepared.watched is not None, prepared.own is not None, (wiring.partners, shapes, root)
        ),
        as_lanes=(model, lane_inputs(network, sampler, forms, keys)),
    )


@dataclass(frozen=True)
class OnMesh:
    """A mesh of devices: every device computes its part of what is by agents.

    Attributes:
      one_copy: whether all agents share one copy of each chain.
      watches: whether numbers of the running mean are recorded.
      keeps_own: whether agents have variables of their own.
      wiring: what else compiled code depends on.
    """

    arrays: MeshArrays
    one_copy: bool
    watches: bool
    keeps_own: bool
    wiring: Hashable

    @property
    def key(self) -> Hashable:
        return self.arrays, self.wiring

    @property
    def copies(self) -> int:
        return 1 if self.one_copy else len(self.arrays.own)

    @property
    def first_copy(self) -> int:
        return 0 if self.one_copy else self.arrays.own.start

    @property
    def knows_others(self) -> bool:
        return not self.one_copy and self.arrays.size > 1

    @property
    def _agent_axis(self) -> int | None:
        """Axis of agents in state and moments; None where all agents share one copy."""
        return None if self.one_copy else 1

    def everywhere(self, values: jax.Array) -> jax.Array:
        return self.arrays.everywhere(values)

    def forms(self, state: Any, moments: Accumulated | None) -> tuple[Any, Accumulated | None]:
        axes = all_but_common(state, self._agent_axis)
        state = type(state)(
            *(jax.tree.map(partial(self.arrays.form, axis=axis), part) for axis, part in zip(axes, state, strict=True))
        )
        if moments is not None:
            of_moments = Accumulated(None, self._agent_axis, self._agent_axis)
            moments = Accumulated(*map(self.arrays.form, moments, of_moments))
        return state, moments

    def jit(self, name: str, function: Callable[..., Any], state: Any, moments: Any, **options: Any) -> Any:
        """Return `function` jitted to run on every device, each with its part of what is by agents."""
        ins, outs = getattr(self._specs(state, moments), name)
        on_mesh = on_every_device(function, self.arrays.mesh, ins, outs)
        # Shardings are given again, since on a mesh of one device jax would take any.
        return jax.jit(on_mesh, out_shardings=jax.tree.map(self.arrays.sharding, outs, is_leaf=is_spec), **options)

    def _specs(self, state: Any, moments: Any) -> Compiled:
        """Return the partitions over the mesh of the compiled functions' arguments, and of what they return."""
        alike: Any = spec(None)
        by_lane: Any = spec(0)
        by_agent: Any = spec(self._agent_axis)
        of_draws: Any = spec(None if self.one_copy else 2)
        inputs = Inputs(sampler=alike, lists=by_lane, root=alike, shards=by_lane, chain_keys=alike)
        state = all_but_common(state, by_agent, alike)
        moments = None if moments is None else Accumulated(alike, by_agent, by_agent)
        kept = Kept(
            positions=of_draws,
            stats=of_draws,
            counts=alike,
            disagreement=None if self.one_copy else of_draws,
            watched=of_draws if self.watches else None,
            own=of_draws if self.keeps_own else None,
        )
        return Compiled(
            start=((inputs, alike), (state, spec(1))),
            advance=((inputs, state, moments, alike, alike, alike), (state, moments, kept)),
        )

    def read(self, values: jax.Array) -> np.ndarray:
        return self.arrays.read(values)

    def put(self, values: np.ndarray, like: Any) -> jax.Array:
        return self.arrays.put_agents(values, axis_of(like))


def mean_of_all(placement: Placement, x: jax.Array) -> jax.Array:
    """Return the mean over all agents of an array that has a device's lanes along the axis before the last."""
    counts = jnp.array([len(agents) for agents in placement.agents])
    is_agent = jnp.arange(placement.lanes) < counts[lax.axis_index(DEVICES)]
    own = jnp.where(is_agent[:, None], x, jnp.zeros_like(x)).sum(axis=-2, keepdims=True)
    return lax.psum(own, DEVICES) / placement.size
