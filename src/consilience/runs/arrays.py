"""Arrays over a mesh: by agents outside, by lanes on the mesh; lanes without an agent are added and removed here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from .._compat import device_mesh
from .._keys import is_key, key_numbers, keys_like
from .._refused import Refused
from ..neighbors import DEVICES, Placement, agents_per_group


@dataclass(frozen=True)
class MeshArrays:
    """Arrays over a mesh of devices: put there from what this host has, and read back as far as they are here.

    Args:
      devices: devices of all hosts, those of one host side by side.
      size: number of agents on the network; every device has a group of them at least.
    """

    devices: tuple[jax.Device, ...]
    size: int

    @cached_property
    def mesh(self) -> Mesh:
        return device_mesh(self.devices, DEVICES)

    @cached_property
    def placement(self) -> Placement:
        return Placement(self.size, len(self.devices))

    @cached_property
    def own(self) -> range:
        """Range of the agents on this host."""
        agents = [agents for agents, is_here in zip(self.placement.agents, self._is_here, strict=True) if is_here]
        return range(agents[0].start, agents[-1].stop)

    @property
    def _is_here(self) -> list[bool]:
        return [device.process_index == jax.process_index() for device in self.devices]

    @property
    def _lanes_here(self) -> np.ndarray:
        return np.repeat(self._is_here, self.placement.lanes)

    def sharding(self, spec: P) -> NamedSharding:
        return NamedSharding(self.mesh, spec)

    def everywhere(self, tree: Any) -> Any:
        """Put a pytree on all devices, the same on each."""
        return jax.tree.map(lambda leaf: _of_numbers(lambda values: self.put(values, None), leaf), tree)

    def put(self, values: Any, axis: int | None) -> jax.Array:
        """Put what all hosts have alike on the mesh, by lanes along `axis`; None: the same on all devices."""
        values = _canonical(values)
        return jax.make_array_from_callback(values.shape, self.sharding(spec(axis)), lambda index: values[index])

    def put_agents(self, values: np.ndarray, axis: int | None) -> jax.Array:
        """Put what all hosts have alike, by agents along `axis`, on the mesh; None: the same on all devices."""
        return self.put(values if axis is None else np.take(values, self.placement.source, axis), axis)

    def form(self, agents: Any, axis: int | None) -> jax.ShapeDtypeStruct:
        """Return the form (shape, dtype, sharding) on the mesh of an array whose form by agents is known."""
        shape = list(agents.shape)
        if axis is not None:
            shape[axis] = len(self.placement.source)
        return jax.ShapeDtypeStruct(tuple(shape), agents.dtype, sharding=self.sharding(spec(axis)))

    def put_own(self, values: np.ndarray) -> jax.Array:
        """Put this host's agents, along the first axis, on the mesh, while the other hosts put theirs."""
        rows = _canonical(values)[self.placement.source[self._lanes_here] - self.own.start]
        shape = (len(self.placement.source), *rows.shape[1:])
        return jax.make_array_from_process_local_data(self.sharding(spec(0)), rows, shape)

    def read(self, array: jax.Array) -> np.ndarray:
        """Read an array's part of the agents on this host or, where it is not by agents, all of it."""
        axis = axis_of(array)
        if axis is None:
            return np.asarray(array.addressable_data(0))
        parts = sorted(array.addressable_shards, key=lambda part: part.index[axis].start or 0)
        lanes = np.concatenate([np.asarray(part.data) for part in parts], axis)
        return np.compress(self.placement.is_agent[self._lanes_here], lanes, axis)


def chosen_devices(devices: Sequence[jax.Device], size: int) -> tuple[jax.Device, ...]:
    """Choose devices, at most as many as there are groups of agents: of every host its share of them, at most."""
    hosts = sorted({device.process_index for device in devices})
    if len(hosts) < jax.process_count():
        raise Refused(
            "devices",
            f"of {jax.process_count()} hosts only {len(hosts)} have any of these devices",
            "Write cs.Devices() for all devices of all hosts.",
        )
    groups = -(-size // agents_per_group(size))
    if len(hosts) > groups:
        raise Refused(
            f"{len(hosts)} hosts for {size} agents",
            f"every host needs {agents_per_group(size)} at least",
            f"Use {groups} hosts or fewer.",
        )
    by_host = [[device for device in devices if device.process_index == host] for host in hosts]
    most = groups // len(hosts)
    return tuple(device for own in by_host for device in own[:most])


def spec(axis: int | None) -> P:
    """Return the partition of an array that is spread over the devices along `axis`; None: the same everywhere."""
    return P() if axis is None else P(*[None] * axis, DEVICES)


def is_spec(tree: Any) -> bool:
    return isinstance(tree, P)


def axis_of(array: Any) -> int | None:
    """Find the axis along which an array, or its form, is spread over the devices; None: the same everywhere."""
    assert isinstance(array.sharding, NamedSharding)
    return next((axis for axis, name in enumerate(array.sharding.spec) if name == DEVICES), None)


def _of_numbers(function: Any, leaf: Any) -> jax.Array:
    """Apply a function of arrays of numbers to a leaf that may be an array of random keys."""
    if isinstance(leaf, jax.Array) and is_key(leaf):
        return keys_like(leaf, function(key_numbers(leaf)))
    return function(leaf)


def _canonical(values: Any) -> np.ndarray:
    """Return values as a numpy array of the dtype in which jax would hold it."""
    array = np.asarray(values)
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=False)
