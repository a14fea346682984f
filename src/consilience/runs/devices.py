"""The runtime `devices`: agents on a mesh of devices, of this host or of many.

`mesh` places the compiled loop, `arrays` what goes through it, by agents outside and by lanes inside; a lane's link to
agents on other devices is `neighbors.mesh`: sums by the mesh's own reduction, gossip by `ppermute`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax

from .._checks import refuse_unknown_settings, whole_number
from .._refused import Refused
from ..engine import Chains, Hosts, join
from ..model import check_start, stack_on_host
from ..neighbors import agents_per_group
from ..network import Network
from ..results import Run
from ..store import Part, Table
from .arrays import MeshArrays, chosen_devices
from .driver import run_once
from .mesh import mesh_chains
from .preparing import Prepared
from .request import Request
from .runtime import Wish


@refuse_unknown_settings("cs.Devices")
@dataclass(frozen=True)
class Devices:
    """A runtime with agents on all devices that jax has, several to each where there are more: `runtime=cs.Devices()`.

    The chain is that of the default runtime, but for how sums round. Agents that gossip talk to neighbouring devices
    only; exact sums are the mesh's own reduction.

    Several hosts share a run once jax knows of all of them: `cs.Devices.cluster()`, called first of all on each of
    them, sees to that, or your own `jax.distributed.initialize`. Every host then needs the data of its own agents only
    (`shards=` may be a function of an agent's number), and `out=` must be a folder that all hosts see.

    Devices beyond the number of agents are idle, and others may be where there are more than 256 of both: from 512
    agents on, these stay together in 256 to 511 groups, on whatever devices, since the draws of a group share files.

    Args:
      devices: number of devices to use, or a list of them; None: all, on all hosts.
    """

    devices: int | Sequence[jax.Device] | None = None

    stack = staticmethod(stack_on_host)

    def __post_init__(self) -> None:
        if self.devices is None:
            return
        if isinstance(self.devices, int):
            whole_number("devices", self.devices, 1)
            return
        given = self.devices if isinstance(self.devices, list | tuple) else []
        if not given or len(set(given)) < len(given) or not all(isinstance(one, jax.Device) for one in given):
            raise Refused(
                f"devices = {self.devices!r}",
                "a number, or a list of different devices, as jax.devices() has them",
                "Write cs.Devices() for all.",
            )
        object.__setattr__(self, "devices", tuple(given))

    @classmethod
    def cluster(cls, coordinator: str | None = None, hosts: int | None = None, host: int | None = None) -> Devices:
        """Use all devices of several hosts; every host calls this before anything else is done with jax.

        Args:
          coordinator: address of the first host, `name:port`; left out, with the others, where the cluster tells: under
            SLURM, Open MPI or Kubernetes.
          hosts: number of hosts.
          host: which of them this is, 0 ... hosts - 1.
        """
        join(coordinator, hosts, host)
        return cls()

    @property
    def hosts(self) -> Hosts:
        return Hosts.all()

    @property
    def holds_own(self) -> bool:
        return self.hosts.count == 1  # or a host would have to keep what another's agents have of their own

    @property
    def record(self) -> Table:
        return {}

    def agents(self, network: Network) -> range:
        """Return which agents of a network live on this host."""
        return self._arrays(network.size).own

    def numbers(self, network: Network) -> range:
        return self.agents(network)

    def names(self, network: Network) -> list[str]:
        return [network.called(agent) for agent in self.agents(network)]

    def chains(self, prepared: Prepared) -> Chains:
        return mesh_chains(prepared, self._arrays(prepared.network.size))

    def check_start(self, chains: Chains) -> None:
        arrays, values = self._arrays(chains.network.size), chains.begin()
        self.hosts.together(lambda: check_start(*map(arrays.read, values), agents=self.names(chains.network)))

    def part(self, prepared: Prepared) -> Part:
        size = prepared.network.size
        if prepared.sampler.replicated:
            return Part(range(1), 1, is_written=self.hosts.is_first)
        return Part(self.agents(prepared.network), size, agents_per_group(size))

    def agree(self, wish: Wish) -> Wish:
        """Do as the first host wishes."""
        return Wish(*self.hosts.gather(wish)[0]) if self.hosts.count > 1 else wish._replace(save=None)

    def run(self, request: Request) -> Run:
        return run_once(request, self)

    def _arrays(self, size: int) -> MeshArrays:
        return MeshArrays(chosen_devices(self._found(), size), size)

    def _found(self) -> Sequence[jax.Device]:
        if self.devices is None:
            return jax.devices()
        if not isinstance(self.devices, int):
            return self.devices
        there = jax.devices()
        if self.devices > len(there):
            raise Refused(
                f"devices = {self.devices}",
                f"jax has {len(there)} here",
                f"Write cs.Devices() for all of them, or, to try several on a CPU, start Python with "
                f"XLA_FLAGS=--xla_force_host_platform_device_count={self.devices}.",
            )
        return there[: self.devices]
