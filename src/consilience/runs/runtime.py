"""The interface of a runtime: where agents live, and how the processes that share a run act as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from .._types import Batch
from ..engine import Chains, Hosts
from ..model import Shards
from ..network import Network
from ..results import Run
from ..store import Part, Table
from .preparing import Prepared
from .request import Request


class Wish(NamedTuple):
    """A process's wishes between two chunks, and then what all have agreed on.

    Attributes:
      iterations: number of iterations of the next chunk, at most.
      save: whether to save the state there; None: where a process need ask nobody, it sees what it can do.
      stop: whether to end there, with the rest to be drawn later.
    """

    iterations: int
    save: bool | None
    stop: bool = False


@runtime_checkable
class Runtime(Protocol):
    """A place where agents live, as `runtime=` takes it: this process, devices, or their owners' machines.

    Attributes:
      hosts: processes that share this one's agents; whatever one of them refuses, all do.
    """

    @property
    def hosts(self) -> Hosts: ...

    def run(self, request: Request) -> Run:
        """Take part in a run until it is complete."""


class Home(Protocol):
    """A runtime as the driver sees it: which agents are here, how they are computed, how all processes agree.

    Attributes:
      hosts: as of a `Runtime`.
      holds_own: whether it can run models with variables that stay with their owner.
      record: what the run's record says of it.
    """

    @property
    def hosts(self) -> Hosts: ...
    @property
    def holds_own(self) -> bool: ...
    @property
    def record(self) -> Table: ...

    def agents(self, network: Network) -> range:
        """Return which agents of a network live in this process."""

    def names(self, network: Network) -> list[str]:
        """Return what refusals call the agents that live in this process."""

    def numbers(self, network: Network) -> Sequence[int]:
        """Return the numbers, among all that there were at first, of the agents that live in this process."""

    def stack(self, shards: Sequence[Batch], lengths: Sequence[int], whole: bool) -> Shards:
        """Stack the shards of the agents in this process.

        Args:
          lengths: the numbers of rows of all agents' shards.
          whole: whether no shard may be padded.
        """

    def chains(self, prepared: Prepared) -> Chains:
        """Trace the chains of the agents in this process, placed where they are computed."""

    def check_start(self, chains: Chains) -> None:
        """Refuse a start at which an agent's density is not finite."""

    def part(self, prepared: Prepared) -> Part:
        """Return the part of the run's folder that this process writes."""

    def agree(self, wish: Wish) -> Wish:
        """Agree with all processes of the run on what becomes of the chunk that was drawn last, and on the next one."""
