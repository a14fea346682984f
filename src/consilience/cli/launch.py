"""The command `consilience launch`: all agents of a run as processes on this machine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Annotated

from typer import Argument, Option

from .._signals import on_signals
from .._tables import read_toml
from ..peers import AGENT
from ..results import load
from .errors import FAILED, INTERRUPTED, MOST_LINES, end, exit_on_error
from .options import Quiet, json_option, set_option
from .output import result_text
from .peer import LINE_SECONDS
from .status import agent_folders, read_statuses, status_text

REFRESH = 1.0  # seconds between two looks
MOST_STARTS = 100  # of one agent


def launch(
    folder: Annotated[Path, Argument(help="A folder that consilience init has made.", metavar="DIR")],
    data: Annotated[
        str | None, Option(help="The agents' rows: a file with {name} or {index} in its name, or module:function.")
    ] = None,
    changes: Annotated[list[str] | None, set_option("Change a key for all agents.")] = None,
    on_loss: Annotated[str | None, Option("--on-loss", help="As of consilience peer.")] = None,
    patience: Annotated[float | None, Option(help="As of consilience peer.")] = None,
    as_json: Annotated[bool, json_option("the summary and paths")] = False,
    quiet: Quiet = False,
) -> None:
    """Start all agents of a run on this machine, one process each: for trials.

    Example: consilience launch peers --data rows-{name}.csv

    What the agents say is in peer.log in their folders. One that is killed is started again, unless the others are to
    go on without it. Ctrl-C stops all of them; the same command goes on.
    """
    with exit_on_error():
        folders = agent_folders(folder)
        options = [option for change in changes or [] for option in ("--set", change)]
        options += [] if on_loss is None else ["--on-loss", on_loss]
        options += [] if patience is None else ["--patience", str(patience)]
        told = on_loss or read_toml(next(iter(folders.values())) / AGENT).get("agent", {}).get("on_loss")
        crew = Crew(folders, data, options, restarts=told != "continue-without")
    with exit_on_error(FAILED):
        codes = crew.run(quiet)
    results = crew.results()
    bad = {name: code for name, code in codes.items() if code and not (code < 0 and results)}
    if bad:
        worst = INTERRUPTED if set(bad.values()) == {INTERRUPTED} else max(bad.values())
        end(abs(worst), *(f"{name}: {crew.last_words(name)}" for name in bad))
    paths = {name: json.loads(results[name])["paths"]["run"] for name in folders if name in results}
    print(result_text(load(next(iter(paths.values()))), as_json, paths))


class Crew:
    """The processes of all agents of a run on this machine."""

    def __init__(self, folders: dict[str, Path], data: str | None, options: list[str], restarts: bool) -> None:
        self._folders, self._restarts = folders, restarts
        self._commands = {}
        for index, (name, folder) in enumerate(folders.items()):
            rows = [] if data is None else ["--data", data.replace("{name}", name).replace("{index}", str(index))]
            program = [sys.executable, "-c", "from consilience.cli import main; main()"]
            self._commands[name] = [*program, "peer", str(folder / AGENT), *rows, *options, "--quiet", "--json"]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._said: dict[str, tuple[IO[str], IO[str]]] = {}  # stdout and stderr
        self._stopping = False
        self._starts: Counter[str] = Counter()
        self._began = time.time()
        self._shown = False

    def run(self, quiet: bool) -> dict[str, int]:
        """Run all agents until they have ended, and return their exit codes."""
        for name in self._folders:
            self._start(name)
        if not quiet:
            print(f"starting {', '.join(self._folders)}: jax compiles first", file=sys.stderr, flush=True)
        spoke = time.monotonic()
        with self._stopped_on_signals():
            while any(process.poll() is None for process in self._processes.values()):
                time.sleep(REFRESH / 4)
                self._look_after(quiet)
                if not quiet and time.monotonic() - spoke >= (REFRESH if sys.stderr.isatty() else LINE_SECONDS):
                    spoke = time.monotonic()
                    self._show()
        return {name: process.returncode for name, process in self._processes.items()}

    def results(self) -> dict[str, str]:
        """Return what each agent has printed on stdout, by name, of those that have ended and printed."""
        return {name: text for name, (out, _) in self._said.items() if (text := _all_of(out))}

    def last_words(self, name: str) -> str:
        lines = _all_of(self._said[name][1]).splitlines()
        return "\n".join(lines[-MOST_LINES:]) or f"ended with code {self._processes[name].returncode}"

    def _start(self, name: str) -> None:
        self._starts[name] += 1
        self._said[name] = out, err = TemporaryFile("w+"), TemporaryFile("w+")  # noqa: SIM115
        # A session of its own: Ctrl-C is for this process, which passes it on.
        self._processes[name] = subprocess.Popen(self._commands[name], stdout=out, stderr=err, start_new_session=True)

    def _look_after(self, quiet: bool) -> None:
        """Start agents again that were killed, and stop all agents where one has failed."""
        for name, process in list(self._processes.items()):
            code = process.poll()
            if code is None or code == 0 or self._stopping:
                continue
            if code < 0 and self._restarts and self._starts[name] < MOST_STARTS:
                if not quiet:
                    print(f"{name} was killed (signal {-code}): starting it again", file=sys.stderr, flush=True)
                self._start(name)
            elif code > 0 or self._restarts:
                self._stop(signal.SIGINT)

    def _stop(self, number: int) -> None:
        self._stopping = True
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(number)

    @contextmanager
    def _stopped_on_signals(self) -> Iterator[None]:
        """Stop all agents on Ctrl-C, at once on a second one, and in any case when this process ends."""
        with on_signals(lambda asked: self._stop(signal.SIGINT if asked == 1 else signal.SIGKILL)):
            try:
                yield
            finally:
                self._stop(signal.SIGKILL)

    def _show(self) -> None:
        told = [status for status in read_statuses(self._folders.values()) if status["time"] > self._began]
        if told:
            text = status_text(told[-1])
            up = f"\x1b[{text.count(chr(10)) + 1}A\x1b[J" if self._shown and sys.stderr.isatty() else ""
            self._shown = True
            print(f"{up}{text}", file=sys.stderr, flush=True)


def _all_of(file: IO[str]) -> str:
    file.seek(0)
    return file.read()
