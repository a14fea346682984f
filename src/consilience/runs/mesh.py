"""The engine of the runtime `devices`: agents on a mesh, several to a device where there are more of them.

The loop is that of `simulate`. `jax.shard_map` runs it on every device, over the lanes of the agents there, and the
link of a lane reaches those on other devices. A replicated chain has one copy a device, moved by all of them alike.

Runs are the same ones as in `simulate`: what is stored of them is by agents, not by lanes or devices, and they can be
continued on another mesh. Only the rounding of sums differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._compat import on_every_device
from .._types import Key
from ..engine import Accumulated, Compiled, Engine, Hosts, Inputs, Kept, Model, Traced, all_but_clock, start_all, trace
from ..model import Layout, Posterior, Shard, StartValues, View, check_start
from ..neighbors import DEVICES, DeviceNeighbors, Placement, Wiring, wire
from ..network import Network
from ..samplers import Sampler
from .agreeing import check_alike
from .arrays import MeshArrays, axis_of, is_spec, spec
from .simulate import chain_keys, lane_inputs, lane_link


@dataclass(frozen=True)
class Place:
    """The mesh and its wiring: compiled code depends on them, and its trace as lanes does not show them."""

    arrays: MeshArrays
    partners: Any
    shapes: Any  # of the arrays in the wiring's lists
    root: int


class DeviceMesh(Engine):
    """The engine of a run on a mesh of devices; when made, it is at the start.

    Args:
      shards: the shards of the agents on this host.
      posterior ... watched: as of a `Simulation`.
    """

    def __init__(
        self,
        arrays: MeshArrays,
        posterior: Posterior,
        layout: Layout,
        shards: Shard,
        network: Network,
        sampler: Sampler,
        positions: jax.Array,
        key: Key,
        view: View | None = None,
        averaged: View | None = None,
        watched: View | None = None,
    ) -> None:
        self.arrays, self.hosts = arrays, Hosts.all()
        one_copy, placement = sampler.replicated, arrays.placement
        view = view or View.of(layout)
        keys = chain_keys(key, len(positions))
        wiring = wire(None if one_copy else network, placement)
        root = network.tree.root if one_copy else 0

        def link(inputs: Inputs) -> DeviceNeighbors:
            return DeviceNeighbors(placement, Wiring(inputs.lists, wiring.partners), root, one_copy)

        forms = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((network.size, *leaf.shape[1:]), leaf.dtype), shards)
        self._model_of_lanes = Model(posterior, layout, lane_link(one_copy), one_copy, view, averaged, watched)
        self._lanes = lane_inputs(network, sampler, forms, keys)
        inputs = Inputs(
            arrays.everywhere(sampler),
            jax.tree.map(lambda leaf: arrays.put(leaf, 0), wiring.lists),
            arrays.everywhere(jnp.int32(root)),
            jax.tree.map(arrays.put_own, shards),
            arrays.everywhere(keys),
        )
        shapes = tuple(leaf.shape for leaf in jax.tree.leaves(wiring.lists))
        super().__init__(
            network,
            self._model_of_lanes._replace(link=link, mean=partial(mean_of_all, placement)),
            inputs,
            positions,
            1 if one_copy else len(arrays.own),
            Place(arrays, wiring.partners, shapes, root),
        )
        self.first_copy = 0 if one_copy else arrays.own.start
        check_alike(self.hosts, {"model": {"code": self.code}})  # or they would wait for each other for ever
        self.begin()

    def _trace(self, positions: jax.Array) -> Traced:
        """Trace the run as lanes of one device: it is the same one on every mesh."""
        self._positions = self.arrays.everywhere(positions)
        return trace(self._model_of_lanes, self._lanes, positions, self._charge_start, self._read_off)

    def _to_compile(self) -> tuple[Callable[..., Any], None]:
        """Return the start alone: each device moves lanes of its own, and what was traced is not what it runs."""
        return partial(start_all, self.model), None

    @property
    def _agent_axis(self) -> int | None:
        """Axis of agents in state and moments; None where all agents share one copy."""
        return None if self.model.one_copy else 1

    def _placed(self, state: Any, moments: Accumulated | None) -> tuple[Any, Accumulated | None]:
        axes = all_but_clock(state, self._agent_axis)
        state = type(state)(
            *(jax.tree.map(partial(self.arrays.form, axis=axis), part) for axis, part in zip(axes, state, strict=True))
        )
        if moments is not None:
            axes = Accumulated(None, self._agent_axis, self._agent_axis)
            moments = Accumulated(*map(self.arrays.form, moments, axes))
        return state, moments

    def _jitted(self, name: str, function: Callable[..., Any], **options: Any) -> Any:
        """Return `function` jitted to run on every device, each with its part of what is by agents."""
        ins, outs = getattr(self._specs, name)
        on_mesh = on_every_device(function, self.arrays.mesh, ins, outs)
        # Shardings are given again, since on a mesh of one device jax would take any.
        return jax.jit(on_mesh, out_shardings=jax.tree.map(self.arrays.sharding, outs, is_leaf=is_spec), **options)

    @property
    def _specs(self) -> Compiled:
        """Partitions over the mesh of the compiled functions' arguments, and of what they return."""
        alike: Any = spec(None)
        by_lane: Any = spec(0)
        by_agent: Any = spec(self._agent_axis)
        of_draws: Any = spec(None if self.model.one_copy else 2)
        inputs = Inputs(sampler=alike, lists=by_lane, root=alike, shards=by_lane, chain_keys=alike)
        state = all_but_clock(self.state, by_agent, alike)
        moments = None if self.moments is None else Accumulated(alike, by_agent, by_agent)
        kept = Kept(
            positions=of_draws,
            stats=of_draws,
            counts=alike,
            disagreement=None if self.model.one_copy else of_draws,
            watched=None if self.model.watched is None else of_draws,
        )
        return Compiled(
            start=((inputs, alike), (state, spec(1))),
            advance=((inputs, state, moments, alike, alike, alike), (state, moments, kept)),
        )

    @property
    def _knows_others(self) -> bool:
        return not self.model.one_copy and self.network.size > 1

    def _read(self, values: jax.Array) -> np.ndarray:
        return self.arrays.read(values)

    def _put(self, values: np.ndarray, like: Any) -> jax.Array:
        return self.arrays.put_agents(values, axis_of(like))

    def _check_start(self, values: StartValues) -> None:
        self.hosts.together(lambda: check_start(*map(self._read, values), first=self.arrays.own.start))

    def iterations_at_once(self) -> int:
        return self.hosts.of_first(super().iterations_at_once())


def mean_of_all(placement: Placement, x: jax.Array) -> jax.Array:
    """Return the mean over all agents of an array that has a device's lanes along the axis before the last."""
    counts = jnp.array([len(agents) for agents in placement.agents])
    is_agent = jnp.arange(placement.lanes) < counts[lax.axis_index(DEVICES)]
    own = jnp.where(is_agent[:, None], x, jnp.zeros_like(x)).sum(axis=-2, keepdims=True)
    return lax.psum(own, DEVICES) / placement.size
