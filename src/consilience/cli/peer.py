"""The command `consilience peer`: one agent of a run, with its own data."""

from __future__ import annotations

import json
import logging
import os
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import jax
from typer import Argument, Option

from .._compat import log_zenoh_refusals, zenoh_refusal
from .._compiled import keep_compiled_code
from .._refused import Refused
from .._tables import not_one_of
from ..network import network_from_spec
from ..peers import ON_LOSS, described, is_said
from ..runs import PATIENCE, Excluded, Peer, Stopped, dispatch_as_peers_must, sample
from .agents import AgentRun, own_rows, read_agent
from .build import model_of, sampler_from
from .errors import FAILED, INTERRUPTED, check_extras, end, exit_on_error, stdout_to
from .options import Quiet, json_option, set_option
from .output import result_text

STATUS = "status.json"
LOG = "peer.log"
LINE_SECONDS = 10.0
PEERS = "consilience.peers"  # name of the log of what happens between agents


def peer(
    file: Annotated[Path, Argument(help="The agent's file, from consilience init.", metavar="agent.toml")],
    data: Annotated[
        str | None, Option(help="This agent's rows: a .csv, .parquet or .npz file, or module:function.")
    ] = None,
    changes: Annotated[
        list[str] | None, set_option("Change a key of the file. All agents need the same, or they will not start.")
    ] = None,
    on_loss: Annotated[
        str | None, Option("--on-loss", help=f"When an agent is gone: {', '.join(ON_LOSS)}. As in the file.")
    ] = None,
    patience: Annotated[
        float, Option(help="Seconds without a sign of an agent until it is gone, to stop or continue without.")
    ] = PATIENCE,
    as_json: Annotated[bool, json_option("the summary and paths")] = False,
    quiet: Quiet = False,
) -> None:
    """Take part in a run, as the agent whose file this is, with its own data.

    Example: consilience peer hospital-b/agent.toml --data patients.csv

    The agents find each other, check that they run the same thing, and sample together. This one's draws go to the
    folder run beside its file. Started again after a crash, or after Ctrl-C, which stops all agents, it goes on where
    they were. A loader, module:function, is called with agent= (this agent's name) and index= if it takes them.
    """
    changes = [*(changes or []), *([] if on_loss is None else [f"agent.on_loss={json.dumps(on_loss)}"])]
    with exit_on_error():
        check_on_loss(on_loss)
        if not 0 < patience < float("inf"):
            raise Refused(f"--patience {patience}", "a number of seconds is needed", "Write --patience 30.")
        check_extras(peers=("zenoh", "cryptography"), cli=("zarr",), report=("arviz_stats",))
        dispatch_as_peers_must()  # before the agent's file is read: a sampler's settings may be arrays
        agent = read_agent(file, data, changes)
        agent.identity()
        keep_compiled_code()
        jax.config.update("jax_enable_x64", agent.config.run.x64)  # for all threads: compiled code calls from its own
        with redirect_stdout(sys.stderr):
            posterior, init = model_of(agent.config)
            rows, columns = own_rows(agent)
        runtime = Peer(agent, patience, StatusDisplay(agent.folder / STATUS, quiet))
    with _logged(agent, quiet), _zenoh_in_the_log(), redirect_stdout(sys.stderr), exit_on_error():
        config = agent.config
        try:
            done = sample(
                posterior,
                [rows],
                network_from_spec(config.network.kind, config.network.weights, config.network.seed),
                sampler_from(config.sampler),
                init=init,
                **config.run.settings,
                out=config.out,
                progress=False,
                runtime=runtime,
                columns=columns,
            )
        except Stopped as reason:
            end(INTERRUPTED, f"stopped: {reason}", f"All agents can go on: {_again(file, data, changes, patience)}")
        except Excluded as reason:
            end(FAILED, str(reason))
    paths = {"run": str(done.folder), "log": str(agent.folder / LOG)}
    print(result_text(done, as_json, paths))


def check_on_loss(on_loss: str | None) -> None:
    """Refuse what is no choice for --on-loss."""
    if on_loss is not None and on_loss not in ON_LOSS:
        raise not_one_of("--on-loss", on_loss, ON_LOSS)


def _again(file: Path, data: str | None, changes: Sequence[str], patience: float) -> str:
    """Return the command that starts this agent again."""
    words = ["consilience", "peer", str(file), *([] if data is None else ["--data", data])]
    words += [word for change in changes for word in ("--set", change)]
    words += [] if patience == PATIENCE else ["--patience", f"{patience:g}"]
    return shlex.join(words)


@contextmanager
def _logged(agent: AgentRun, quiet: bool) -> Iterator[None]:
    """Write what happens between agents to a log file, and to stderr unless `quiet`."""
    log = logging.getLogger(PEERS)
    handlers: dict[logging.Handler, str] = {
        logging.FileHandler(agent.folder / LOG, encoding="utf-8"): "%(asctime)s %(levelname)s %(message)s"
    }
    if not quiet:
        handlers[logging.StreamHandler(sys.stderr)] = f"{agent.place.name}: %(message)s"
    log.setLevel(logging.INFO)
    for handler, line in handlers.items():
        handler.setFormatter(logging.Formatter(line))
        log.addHandler(handler)
    try:
        yield
    finally:
        for handler in handlers:
            log.removeHandler(handler)
            handler.close()


@contextmanager
def _zenoh_in_the_log() -> Iterator[None]:
    """Log whom Zenoh refuses; left to itself, it would write that to stdout."""
    log_zenoh_refusals()
    reading, writing = os.pipe()

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
    try:
        with stdout_to(writing):
            os.close(writing)  # stdout is the pipe's only writing end: when it is given back, the reader ends
            reader.start()
            yield
    finally:
        reader.join(1.0)


class StatusDisplay:
    """A display of an agent's status: in a file for `consilience status`, and in a line on stderr.

    On a terminal the line is written over the one before; elsewhere there is a new one every few seconds, and whenever
    the agents that are waited for change.
    """

    def __init__(self, file: Path, quiet: bool) -> None:
        self._file, self._quiet = file, quiet
        self._spoke, self._waiting = -LINE_SECONDS, ()

    def __call__(self, status: Mapping[str, Any]) -> None:
        partial = self._file.with_suffix(".partial")
        partial.write_text(json.dumps({**status, "time": time.time()}), encoding="utf-8")
        partial.replace(self._file)
        if self._quiet:
            return
        own = status["agents"][status["told_by"]]
        neighbors = " ".join(f"{name} {state}" for name, state in own.get("neighbors", {}).items())
        line = f"{status['told_by']}: {described(own)} [{neighbors}]"
        waiting, now = tuple(own.get("waiting_for", ())), time.monotonic()
        if sys.stderr.isatty():
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[2K{line[:width]}", end="", file=sys.stderr, flush=True)
        elif waiting != self._waiting or now - self._spoke >= LINE_SECONDS:
            self._waiting, self._spoke = waiting, now
            print(line, file=sys.stderr, flush=True)
