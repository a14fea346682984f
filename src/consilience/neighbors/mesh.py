"""`Neighbors` on a mesh: agents are lanes of a device, and devices are shards under `jax.shard_map`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from .._keys import is_key, key_numbers, keys_like
from .edges import take
from .lanes import AGENTS, LaneNeighbors
from .placement import Placement, Wiring

DEVICES = "devices"


class DeviceNeighbors(LaneNeighbors):
    """One agent's link to the others on its device, and on all other devices.

    Args:
      wiring: how devices exchange rows, with this device's part of the lists.
      root: root of the spanning tree.
      one_copy: whether the lanes of a device share one state. Devices then have a copy each, and follow the root's.
    """

    axes = (AGENTS, DEVICES)

    def __init__(self, placement: Placement, wiring: Wiring, root: int, one_copy: bool) -> None:
        super().__init__(wiring.lists.edges, one_copy=one_copy)
        self._placement, self._wiring = placement, wiring
        self._root_device, self._root_lane = placement.home(root)

    @property
    def size(self) -> int:
        return self._placement.size

    @property
    def index(self) -> jax.Array:
        return take(self._wiring.lists.agent, lax.axis_index(AGENTS))

    def _rows(self, leaf: jax.Array) -> jax.Array:
        """Gather the rows of this device's lanes, and after them those that neighbouring devices send."""
        own = lax.all_gather(leaf, AGENTS)
        received = [
            lax.ppermute(take(own, outgoing), DEVICES, partners)
            for outgoing, partners in zip(self._wiring.lists.outgoing, self._wiring.partners, strict=True)
        ]
        return jnp.concatenate([own, *received])

    def _summand(self, leaf: jax.Array) -> jax.Array:
        return leaf if self._is_even else jnp.where(self._is_agent, leaf, jnp.zeros_like(leaf))

    def _candidate(self, leaf: jax.Array) -> jax.Array:
        if self._is_even or self._one_copy:
            return leaf
        return jnp.where(self._is_agent, leaf, take(lax.all_gather(leaf, AGENTS), jnp.int32(0)))

    def _of_root(self, leaf: jax.Array) -> jax.Array:
        if not self._one_copy:
            leaf = take(lax.all_gather(leaf, AGENTS), jnp.int32(self._root_lane))
        return leaf if self._placement.devices == 1 else _of_device(leaf, self._root_device)

    @property
    def _is_alike(self) -> bool:
        return self._one_copy and self._placement.devices == 1

    @property
    def _is_even(self) -> bool:
        return bool(self._placement.is_agent.all())

    @property
    def _is_agent(self) -> jax.Array:
        """Tell whether this lane has an agent of its own."""
        return self.index < self.size


def _of_device(leaf: jax.Array, device: int) -> jax.Array:
    """Return one device's `leaf` on all of them, as the sum of it and of zeros."""
    if is_key(leaf):
        return keys_like(leaf, _of_device(key_numbers(leaf), device))
    if leaf.dtype == bool:
        return _of_device(leaf.astype(jnp.int32), device).astype(bool)
    return lax.psum(jnp.where(lax.axis_index(DEVICES) == device, leaf, jnp.zeros_like(leaf)), DEVICES)
