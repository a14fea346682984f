"""Processes that tests start by the dozen, forked from one that has imported what they need.

To import jax and this package takes longer than all else that a small agent does. A server, one for each of pytest's
workers, imports once, starts nothing, and forks for every line that it reads:

    {"module": "tests.peers.agent", "words": [...], ...}        as `_fork` takes them; answered by the process's number
    {"ended": 1234}       answered by its exit code and the seconds of a processor it took; null as long as it is there
"""

import atexit
import json
import os
import runpy
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
POLL = 0.02
SPENT = []  # seconds of a processor, by those that have ended
# Not blackjax, which starts jax's threads when it is imported: a fork has none of them, and waits for them for ever.
IMPORTED = (
    *("consilience.cli.app", "consilience.cli.peer", "consilience.cli.run", "consilience.runs"),
    *("optax", "scipy.fftpack", "networkx", "cryptography.x509", "zarr", "zenoh"),
)


class Forked:
    """A process, with the methods of `subprocess.Popen` that tests use.

    Args:
      module: what it runs, as `python -m` does.
      words: its arguments.
      folder: where it runs.
      out: a file that what it prints is added to.
      err: the same for errors; None: all goes to one file.
    """

    def __init__(self, module, words, folder, out, err=None):
        self.returncode = None
        self.files = [Path(file).absolute() for file in (out, err or out)]
        self.pid = _ask(
            module=module,
            words=[*map(str, words)],
            folder=str(Path(folder).absolute()),
            files=[*map(str, self.files)],
            environment={**os.environ},
        )

    def poll(self):
        """Return the exit code, None as long as there is none."""
        if self.returncode is None and (ended := _ask(ended=self.pid)) is not None:
            self.returncode, seconds = ended
            SPENT.append(seconds)
        return self.returncode

    def wait(self, timeout=None):
        """Return the exit code when there is one."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(POLL)
        return self.returncode

    def communicate(self, timeout=None):
        """Return what it has printed, and its errors, when it has ended."""
        self.wait(timeout)
        return tuple(file.read_text() for file in self.files)

    def errors(self):
        """Yield the lines of its errors as they come, until it ends."""
        rest = ""
        with self.files[1].open() as file:
            is_last = False
            while not is_last:
                is_last = self.poll() is not None
                *lines, rest = (rest + file.read()).split("\n")
                yield from lines
                time.sleep(0 if is_last else POLL)
        yield rest

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def _ask(**what):
    server = _server()
    server.stdin.write(f"{json.dumps(what)}\n")
    server.stdin.flush()
    answer = server.stdout.readline()
    assert answer, f"the server of forks has ended, with code {server.wait()}"
    return json.loads(answer)


@cache
def _server():
    """Start this worker's server; it ends, and with it all it has forked, when nobody can ask any more."""
    started = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,  # Ctrl-C is for pytest, which then ends this one
    )

    @atexit.register
    def end():
        started.stdin.close()
        started.wait()
        started.stdout.close()

    return started


def serve():
    """Answer until the input ends."""
    for module in IMPORTED:
        __import__(module)
    assert "blackjax" not in sys.modules, "one of IMPORTED imports blackjax: what is forked from here would hang"
    running = set()
    for line in sys.stdin:
        asked = json.loads(line)
        if "ended" in asked:
            found = _ended(asked["ended"])
            running -= {asked["ended"]} if found else set()
        else:
            found = _fork(**asked)
            running.add(found)
        print(json.dumps(found), flush=True)
    for pid in running:
        os.kill(pid, signal.SIGKILL)


def _ended(pid):
    done, status, used = os.wait4(pid, os.WNOHANG)
    return [os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime] if done else None


def _fork(module, words, folder, files, environment):
    streams = [os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600) for file in (os.devnull, *files)]
    pid = os.fork()
    if not pid:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
    for stream in streams:
        os.close(stream)
    if pid:
        return pid
    os.setsid()  # a group of its own, for signals to it and to what it starts
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *words]
    sys.path[0] = folder
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    serve()
