"""The runtime `peers`: this process is one agent of a run, and the others are on their owners' machines."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .._checks import real_number, refuse_unknown_settings
from .._compat import callback_errors_unlogged, dispatch_synchronously
from .._refused import Refused
from .._signals import on_signals
from .._types import Batch
from ..engine import Hosts
from ..neighbors import Interrupted
from ..peers import AgentFile, Place, read_agent_file
from ..results import Run
from ..store import differences, surroundings
from .member import Member
from .request import Request
from .segment import Terms

OUT = "run"  # folder beside an agent's file
PATIENCE = 30.0  # seconds without a sign of an agent until it counts as gone


@refuse_unknown_settings("cs.Peer")
@dataclass(frozen=True)
class Peer:
    """A runtime in which this process is one agent, with its own data: `runtime=cs.Peer("clinic-b/agent.toml")`.

    All agents call `cs.sample` with the same posterior, network, sampler and length, each with its own data and its own
    file; they find each other, check that they run the same thing, and sample together. Draws go to `out`, or to the
    folder run beside the file: called again, after a crash or after Ctrl-C, which stops all agents, it goes on there.
    Make it first of all, before jax computes anything: its callbacks need a setting that is fixed from then on.

    Args:
      file: this agent's file, as `consilience init` makes it: who it is, its keys, its neighbours. What the file says
        of the model, the network, the sampler and the run is for the command; here the arguments say it.
      patience: seconds without a sign of an agent until it counts as gone, to stop or to continue without it.
      show: called about once a second with the status of the run.

    Raises:
      Stopped: all agents were asked to end; the same call goes on.
      Excluded: the others went on without this agent. Both are in `consilience.runs`.
    """

    file: str | Path | AgentFile
    patience: float = PATIENCE
    show: Callable[[Mapping[str, Any]], None] = lambda _: None

    def __post_init__(self) -> None:
        if not isinstance(self.file, str | Path | AgentFile):
            raise Refused(f"cs.Peer({self.file!r})", "an agent's file is needed", 'Write cs.Peer("b/agent.toml").')
        if not 0 < real_number(self.patience) < float("inf"):
            raise Refused(f"patience = {self.patience}", "a number of seconds is needed", "Write patience=30.")
        dispatch_synchronously()  # where it is too late, a run is refused

    @property
    def hosts(self) -> Hosts:
        return Hosts()

    def run(self, request: Request) -> Run:
        """Take part in a run until it is complete."""
        file = self.file if isinstance(self.file, AgentFile) else read_agent_file(Path(self.file))
        file.check_network(request.network, request.network.name)
        file.identity()
        out = request.out or file.folder.absolute() / OUT
        terms = Terms(file.on_loss, self.patience, file.mask, file.consensus)
        mine = _own(request.shards, file.place)
        asked = replace(request, shards=lambda agent: mine, out=out, resume=True)
        member = Member(file.place, file.credentials, terms, asked, self.show)
        with callback_errors_unlogged(Interrupted):  # that an epoch has ended is no error
            return _run_in_thread(member)


def _own(shards: Any, place: Place) -> Batch:
    """Return this agent's data; refuse data of other agents."""
    if callable(shards):
        return shards(place.index)  # among all agents, whoever is left out later
    if not isinstance(shards, list | tuple) or len(shards) != 1:
        raise Refused("shards", f"{place.name} needs its own data, and nobody else's", "Write shards=[mine].")
    return shards[0]


def _run_in_thread(member: Member) -> Run:
    """Run an agent in a thread of its own: this one stays free for Ctrl-C, whatever compiled code is waiting for."""
    ended: list[Run | BaseException] = []
    settings = surroundings()

    def work() -> None:
        try:
            if lines := differences({"there": surroundings(), "here": settings}):
                raise Refused(
                    "jax's settings",
                    f"they are set for a block of code only, and an agent has threads of its own ({lines[0]})",
                    'Write for example jax.config.update("jax_enable_x64", True).',
                )
            ended.append(member.run())
        except BaseException as error:
            ended.append(error)

    def stop(asked: int) -> None:
        if asked > 1:
            raise KeyboardInterrupt("ended at once: the last chunk is lost, what was saved before is not")
        print("stopping all agents; once more to end at once", file=sys.stderr, flush=True)
        threading.Thread(target=member.ask_to_stop, args=(f"{member.place.name} was interrupted",), daemon=True).start()

    thread = threading.Thread(target=work, daemon=True)
    with on_signals(stop):
        thread.start()
        while thread.is_alive():
            thread.join(0.2)
    [result] = ended
    if isinstance(result, BaseException):
        raise result
    return result
