"""The command `consilience peer`: one agent of a run, with its own data."""

from __future__ import annotations

import inspect
import json
import logging
import os
import shlex
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import jax
import typer

from .._compat import callback_errors_unlogged, dispatch_synchronously, log_zenoh_refusals, zenoh_refusal
from .._compiled import keep_compiled_code
from .._extras import check_installed
from ..results import Run
from ..runs import Length
from .agents import ON_LOSS, AgentFile, read_agent
from .build import model_of, sampler_from
from .changes import set_option
from .config import SplitTable
from .data import load_data
from .ending import FAILED, INTERRUPTED, choose_from, end, errors_are_said
from .modules import named
from .output import QUIET, print_json, run_data, run_text

STATUS = "status.json"
LOG = "peer.log"
LINE_SECONDS = 10.0
PATIENCE = 30.0  # seconds
PEERS = "consilience.peers"  # name of the log of what happens between agents


def peer(
    file: Annotated[Path, typer.Argument(help="The agent's file, from consilience init.", metavar="agent.toml")],
    data: Annotated[
        str | None, typer.Option(help="This agent's rows: a .csv, .parquet or .npz file, or module:function.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        set_option("Change a key of the file. All agents need the same, or they will not start."),
    ] = None,
    on_loss: Annotated[
        str | None, typer.Option("--on-loss", help=f"When an agent is gone: {', '.join(ON_LOSS)}. As in the file.")
    ] = None,
    patience: Annotated[
        float, typer.Option(help="Seconds without a sign of an agent until it is gone, to stop or continue without.")
    ] = PATIENCE,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary and paths as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help=QUIET)] = False,
) -> None:
    """Take part in a run, as the agent whose file this is, with its own data.

    Example: consilience peer hospital-b/agent.toml --data patients.csv

    The agents find each other, check that they run the same thing, and sample together. This one's draws go to the
    folder run beside its file. Started again after a crash, or after Ctrl-C, which stops all agents, it goes on where
    they were. A loader, module:function, is called with agent= (this agent's name) and index= if it takes them.
    """
    changes = [*(changes or []), *([] if on_loss is None else [f"agent.on_loss={json.dumps(on_loss)}"])]
    with errors_are_said():
        _check_on_loss(on_loss)
        if not 0 < patience < float("inf"):
            raise ValueError(f"--patience {patience}: a number of seconds is needed. Write --patience 30.")
        _check_extras()
        dispatch_synchronously()  # before the agent's file is read: a sampler's settings may be arrays
        agent = read_agent(file, data, changes)
        agent.identity()
        keep_compiled_code()
        jax.config.update("jax_enable_x64", agent.config.run.x64)  # for all threads: compiled code calls from its own
        with redirect_stdout(sys.stderr):
            member = _member(agent, patience, quiet)
    from ..runs import Excluded, Stopped

    with _logged(agent, quiet), _zenoh_in_the_log(), redirect_stdout(sys.stderr), errors_are_said():
        try:
            done = _run(member)
        except Stopped as reason:
            end(INTERRUPTED, f"stopped: {reason}", f"All agents can go on: {_again(file, data, changes, patience)}")
        except Excluded as reason:
            end(FAILED, str(reason))
    paths = {"run": str(done.folder), "log": str(agent.folder / LOG)}
    if as_json:
        print_json({**run_data(done), "paths": paths})
    else:
        print(run_text(done), *(f"{what:<8}{path}" for what, path in paths.items()), sep="\n")


def _check_on_loss(on_loss: str | None) -> None:
    if on_loss is not None and on_loss not in ON_LOSS:
        raise ValueError(f"--on-loss {on_loss}: {choose_from(on_loss, ON_LOSS)}")


def _check_extras() -> None:
    for module, extra in (("zenoh", "peers"), ("cryptography", "peers"), ("zarr", "cli"), ("arviz_stats", "report")):
        check_installed(module, extra)


def _again(file: Path, data: str | None, changes: Sequence[str], patience: float) -> str:
    """Return the command that starts this agent again."""
    words = ["consilience", "peer", str(file), *([] if data is None else ["--data", data])]
    words += [word for change in changes for word in ("--set", change)]
    words += [] if patience == PATIENCE else ["--patience", f"{patience:g}"]
    return shlex.join(words)


def _member(agent: AgentFile, patience: float, quiet: bool) -> Any:
    """Return the agent as a `Member` of the run, checked and ready to be compiled."""
    from ..network import network_from_spec
    from ..peers import Credentials, Place
    from ..runs import Member, Task

    config, asked = agent.config, agent.config.run
    posterior, init = model_of(config)
    network = network_from_spec(config.network.kind, config.network.weights, config.network.seed)
    task = Task(
        posterior,
        _rows(agent),
        network,
        sampler_from(config.sampler),
        Length(asked.num_samples, asked.num_warmup, asked.num_chains, asked.thin, asked.seed),
        init,
        asked.keep,
        agent.on_loss,
        patience,
        agent.mask,
    )
    place = Place(agent.run_id, agent.name, agent.names, agent.listen, agent.neighbors)
    credentials = Credentials(agent.key, agent.certificate, agent.authority)
    return Member(place, credentials, task, config.out, _Shown(agent.folder / STATUS, quiet))


def _rows(agent: AgentFile) -> Any:
    """Load this agent's own data."""
    table = agent.config.data
    if table.loader is not None:
        takes = inspect.signature(named("--data", table.loader, agent.config.folder)).parameters
        known = {"agent": agent.name, "index": agent.index}
        mine = {name: value for name, value in known.items() if name in takes and name not in table.arguments}
        table = replace(table, arguments={**table.arguments, **mine})
    shards = load_data(table, SplitTable(), agent.config.folder, 1).shards
    if callable(shards):
        return shards(agent.index)
    if len(shards) != 1:
        raise ValueError(
            f"--data {table.loader} gives {len(shards)} shards, and {agent.name} needs its own. Return one, for "
            f"example that of the argument index."
        )
    return shards[0]


def _run(member: Any) -> Run:
    """Run the agent in a thread of its own: this one stays free for Ctrl-C, whatever compiled code is waiting for."""
    result: list[Run] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            result.append(member.run())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=work, daemon=True)
    with _signals(member):
        thread.start()
        while thread.is_alive():
            thread.join(0.2)
    if failure:
        raise failure[0]
    return result[0]


@contextmanager
def _signals(member: Any) -> Iterator[None]:
    """Stop all agents on Ctrl-C, and this process on a second one."""
    asked = 0

    def handle(number: int, _: Any) -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            end(INTERRUPTED, "ended at once: the last chunk is lost, what was saved before is not.")
        print("stopping all agents; once more to end at once", file=sys.stderr, flush=True)
        threading.Thread(target=member.ask_to_stop, args=(f"{member.place.name} was interrupted",), daemon=True).start()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _logged(agent: AgentFile, quiet: bool) -> Iterator[None]:
    """Write what happens between agents to a log file, and to stderr unless `quiet`."""
    from ..neighbors import Interrupted

    log = logging.getLogger(PEERS)
    to_file = logging.FileHandler(agent.folder / LOG, encoding="utf-8")
    to_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    handlers: list[logging.Handler] = [to_file]
    if not quiet:
        to_terminal = logging.StreamHandler(sys.stderr)
        to_terminal.setFormatter(logging.Formatter(f"{agent.name}: %(message)s"))
        handlers.append(to_terminal)
    log.setLevel(logging.INFO)
    for handler in handlers:
        log.addHandler(handler)
    try:
        with callback_errors_unlogged(Interrupted):  # that an epoch has ended is no error
            yield
    finally:
        for handler in handlers:
            log.removeHandler(handler)
            handler.close()


@contextmanager
def _zenoh_in_the_log() -> Iterator[None]:
    """Log whom Zenoh refuses; left to itself, it would write that to stdout."""
    from ..peers import is_said

    log_zenoh_refusals()
    sys.stdout.flush()
    stdout = os.dup(1)
    reading, writing = os.pipe()
    os.dup2(writing, 1)
    os.close(writing)

    def read() -> None:
        count = 0
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                refusal = zenoh_refusal(line)
                if refusal is None:
                    print(line, end="", file=sys.stderr, flush=True)
                    continue
                count += 1
                if is_said(count):
                    logging.getLogger(PEERS).warning("at the door (%d so far): %s", count, refusal)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield
    finally:
        os.dup2(stdout, 1)  # this closes the pipe's only writing end
        os.close(stdout)
        reader.join(1.0)


class _Shown:
    """A display of an agent's status: in a file for `consilience status`, and in a line on stderr."""

    def __init__(self, file: Path, quiet: bool) -> None:
        self._file, self._quiet = file, quiet
        self._spoke, self._waiting = -LINE_SECONDS, ()
        self._line: Callable[[str], None] | None = None if quiet else _terminal_line()

    def __call__(self, status: Mapping[str, Any]) -> None:
        from ..peers import described

        partial = self._file.with_suffix(".partial")
        partial.write_text(json.dumps({**status, "time": time.time()}), encoding="utf-8")
        partial.replace(self._file)
        if self._quiet:
            return
        own = status["agents"][status["told_by"]]
        neighbors = " ".join(f"{name} {state}" for name, state in own.get("neighbors", {}).items())
        line = f"{status['told_by']}: {described(own)} [{neighbors}]"
        if self._line is not None:
            self._line(line)
            return
        waiting, now = tuple(own.get("waiting_for", ())), time.monotonic()
        if waiting != self._waiting or now - self._spoke >= LINE_SECONDS:
            self._waiting, self._spoke = waiting, now
            print(line, file=sys.stderr, flush=True)


def _terminal_line() -> Callable[[str], None] | None:
    """Return a function that writes over the last line of a terminal; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        return None

    def show(line: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\x1b[2K{line[:width]}", end="", file=sys.stderr, flush=True)

    return show
