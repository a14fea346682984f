"""The processes that share a run: hosts of a cluster, or side by side on one machine, brought together by jax."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from .._compat import device_mesh, meet_other_hosts
from .._refused import Refused

T = TypeVar("T")
LEAST_BYTES = 64  # of a message: lengths are rounded up to powers of two, so that few are compiled
HEARTBEAT_SECONDS = 30  # without a sign of life after which a host counts as dead


class LostHostError(RuntimeError):
    """Error raised where another host does not answer."""


class RefusedByHosts(Refused):
    """Refusal for which all hosts have stopped: of this one, or of another."""


class FailedOnHosts(RuntimeError):  # noqa: N818
    """Failure for which all hosts have stopped: that of this host is its cause."""


@dataclass(frozen=True)
class Hosts:
    """The hosts of a run; all of them call every method alike, in the same order as all else they do together."""

    count: int = 1
    index: int = 0

    @classmethod
    def all(cls) -> Hosts:
        """Return the hosts that `jax.distributed` has brought together; without it, this process alone."""
        return cls(jax.process_count(), jax.process_index())

    @property
    def is_first(self) -> bool:
        return self.index == 0

    def gather(self, value: Any) -> list[Any]:
        """Return the `value` of every host, in their order: anything that JSON can hold."""
        if self.count == 1:
            return [value]
        content = json.dumps(value).encode()
        lengths = self._of_all(np.array([len(content)], np.int32))
        room = max(LEAST_BYTES, 1 << int(lengths.max() - 1).bit_length())
        rows = self._of_all(np.frombuffer(content.ljust(room), np.uint8))
        return [json.loads(row.tobytes()) for row in rows]

    def _of_all(self, values: np.ndarray) -> np.ndarray:
        """Return the `values` of all hosts, a row for each."""
        by_host, to_all = _ways(self.count)
        try:
            rows = jax.make_array_from_process_local_data(by_host, values[None], (self.count, len(values)))
            return np.asarray(to_all(rows).addressable_data(0))
        except Exception as error:  # jax has several
            raise LostHostError(str(error)) from error

    def of_first(self, value: int) -> int:
        """Return the first host's `value`, a whole number, on every host."""
        return int(self.gather(int(value))[0])

    def together(self, work: Callable[[], T]) -> T:
        """Do this host's `work` while the others do theirs; where one of them refuses, all stop."""
        if self.count == 1:
            return work()
        done: list[T] = []
        error: Exception | None = None
        try:
            done.append(work())
        except Exception as own:
            error = own
        own_text = str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
        said = self.gather(None if error is None else [isinstance(error, Refused), own_text])
        for host, found in enumerate(said):
            if found is None:
                continue
            if isinstance(error, Refused):
                raise RefusedByHosts(error.subject, error.reason, error.fix) from error
            if error is None and found[0]:
                raise RefusedByHosts(f"host {host} refuses", found[1])
            raise FailedOnHosts(own_text if error else f"host {host} failed: {found[1]}") from error
        return done[0]

    def wait(self) -> None:
        """Wait until all hosts are here."""
        self.gather(None)

    def part(self) -> None:
        """Leave the other hosts once all joint work is done: they need not wait for what one does from here on."""
        if self.count > 1:
            jax.distributed.shutdown()


@cache
def _ways(hosts: int) -> tuple[NamedSharding, Callable[[jax.Array], jax.Array]]:
    """Return the sharding of one row per host, and a function that copies all rows to every host."""
    first = {device.process_index: device for device in reversed(jax.devices())}  # hosts may have unlike device counts
    mesh = device_mesh([first[host] for host in range(hosts)], "hosts")
    return NamedSharding(mesh, P("hosts")), jax.jit(lambda rows: rows, out_shardings=NamedSharding(mesh, P()))


def is_known_to_all(error: BaseException) -> bool:
    """Tell whether all hosts have stopped for an error, so that none waits for another."""
    return isinstance(error, RefusedByHosts | FailedOnHosts)


def join(coordinator: str | None = None, hosts: int | None = None, host: int | None = None) -> None:
    """Join this process to the others of a run; to be called before anything else is done with jax.

    Args:
      coordinator: address of the first host, `name:port`; None where the cluster tells (SLURM, Open MPI, Kubernetes).
      hosts: number of processes.
      host: which of them this is, 0 ... hosts - 1.
    """
    given = {"coordinator": coordinator, "hosts": hosts, "host": host}
    missing = [name for name, value in given.items() if value is None]
    if 0 < len(missing) < len(given):
        raise Refused(
            " and ".join(missing), "missing", "Give coordinator, hosts and host, or none of them where a cluster tells."
        )
    if hosts is not None and host is not None and not 0 <= host < hosts:
        raise Refused(f"host = {host}", f"of {hosts} hosts the first is 0 and the last {hosts - 1}")
    name, _, port = (coordinator or "").rpartition(":")
    if coordinator is not None and not (name and port.isdecimal()):
        raise Refused(f"coordinator = {coordinator!r}", "a name and a port are needed, for example first-host:7460")
    try:
        meet_other_hosts(coordinator, hosts, host, HEARTBEAT_SECONDS)
    except ValueError as unknown:
        if coordinator is not None:
            raise
        raise Refused(
            "no cluster is known here",
            "neither SLURM nor Open MPI nor Kubernetes has started this process",
            "Say who the hosts are: coordinator (name:port of the first), hosts (how many) and host (which one this "
            "is).",
        ) from unknown
