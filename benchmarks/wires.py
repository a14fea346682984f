"""Network namespaces for agents, one each, and wires between neighbours that are as slow as they are told to be.

Every agent has one address. Its neighbours are reached over a wire each, and nobody else is reached at all. A wire
delays what enters it and lets through so many bits a second, in each direction by itself:

- where the kernel has netem, it is a pair of veth devices with `netem delay ... rate ...` on both ends;
- where it has not, a pair of tun devices and a process that carries packets from one to the other when they are due,
  `benchmarks.delay_line`. Agents' own TCP runs over either, so that windows and acknowledgements are what they would
  be on a slow link.

Takes root, and the commands `ip` and `tc`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from consilience.network import Network

NETEM, DELAY_LINES = "tc netem", "delay lines in user space"
CONGESTION = "cubic"  # what most Linux machines have, and not all
MOST_WAITING = 10_000  # packets in netem's queue: none may be dropped for being delayed


class Unavailable(Exception):  # noqa: N818
    """This machine cannot have such wires, with the reason."""


@dataclass(frozen=True)
class Wire:
    """Seconds of delay, and bits per second."""

    delay: float
    rate: float


def command(*words: object) -> str:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{' '.join(map(str, words))}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


class Wires:
    """The namespaces of a network's agents, from `with` to its end.

    Attributes:
      addresses: of the agents.
      by: what makes the wires slow, NETEM or DELAY_LINES.
      no_netem: what the kernel said of netem, if it refused.
    """

    def __init__(self, network: Network, wire: Wire) -> None:
        self._network, self._wire = network, wire
        self._token = secrets.token_hex(2)
        self._spaces = [f"consilience-{self._token}-{k}" for k in range(network.size)]
        self._ending = ExitStack()
        self.addresses = [f"10.77.{k // 250}.{k % 250 + 1}" for k in range(network.size)]
        self.by, self.no_netem = NETEM, ""

    def __enter__(self) -> Wires:
        if os.geteuid() != 0:
            raise Unavailable("network namespaces take root")
        for program in ("ip", "tc"):
            if shutil.which(program) is None:
                raise Unavailable(f"there is no command {program}: it comes with iproute2")
        with ExitStack() as so_far:
            self._ending = so_far
            for space, address in zip(self._spaces, self.addresses, strict=True):
                command("ip", "netns", "add", space)
                so_far.callback(command, "ip", "netns", "del", space)
                self._inside(space, "ip", "link", "set", "lo", "up")
                self._inside(space, "ip", "address", "add", f"{address}/32", "dev", "lo")
            try:
                self._try_netem()
            except Unavailable as reason:
                self.by, self.no_netem = DELAY_LINES, str(reason)
            (self._veth if self.by == NETEM else self._tun)()
            for i, j in self._network.edges:
                for here, there in ((i, j), (j, i)):
                    self._connect(here, there)
            self._ending = so_far.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def inside(self, agent: int, words: Sequence[str]) -> list[str]:
        """A command, to be run by an agent."""
        return ["ip", "netns", "exec", self._spaces[agent], *words]

    def _inside(self, space: str, *words: object) -> str:
        return command("ip", "netns", "exec", space, *words)

    def _device(self, here: int, there: int) -> str:
        return f"c{self._token}{here}-{there}"

    def _shape(self) -> list[str]:
        return ["netem", "delay", f"{self._wire.delay * 1e6:.0f}us", "rate", f"{self._wire.rate:.0f}bit"]

    def _try_netem(self) -> None:
        self._inside(self._spaces[0], "tc", "qdisc", "add", "dev", "lo", "root", *self._shape())
        self._inside(self._spaces[0], "tc", "qdisc", "del", "dev", "lo", "root")

    def _veth(self) -> None:
        for i, j in self._network.edges:
            ends = [(self._device(*pair), self._spaces[pair[0]]) for pair in ((i, j), (j, i))]
            (one, one_space), (other, other_space) = ends
            veth = ["ip", "link", "add", one, "netns", one_space, "type", "veth", "peer", "name", other]
            command(*veth, "netns", other_space)
            for device, space in ends:
                self._inside(
                    space, *["tc", "qdisc", "add", "dev"], device, "root", *self._shape(), "limit", MOST_WAITING
                )

    def _tun(self) -> None:
        """The devices live as long as the process that carries packets between them."""
        pairs = [(self._device(i, j), self._device(j, i)) for i, j in self._network.edges]
        words = [sys.executable, "-m", "benchmarks.delay_line", str(self._wire.delay), str(self._wire.rate)]
        carrier = subprocess.Popen(
            [*words, *(name for pair in pairs for name in pair)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._ending.callback(self._stop, carrier)
        assert carrier.stdout is not None
        if not carrier.stdout.readline():
            raise Unavailable("benchmarks.delay_line has no tun devices: is there a /dev/net/tun?")
        for i, j in self._network.edges:
            for here, there in ((i, j), (j, i)):
                command("ip", "link", "set", self._device(here, there), "netns", self._spaces[here])

    @staticmethod
    def _stop(carrier: subprocess.Popen[bytes]) -> None:
        carrier.kill()
        carrier.wait()

    def _connect(self, here: int, there: int) -> None:
        space, device = self._spaces[here], self._device(here, there)
        self._inside(space, "ip", "link", "set", device, "up")
        ends = [f"{self.addresses[there]}/32", "dev", device, "src", self.addresses[here], "congctl", CONGESTION]
        self._inside(space, "ip", "route", "add", *ends)
