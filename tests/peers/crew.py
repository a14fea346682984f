"""Agents as their owners run them: a small regression, provisioned in a folder, one process each."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from functools import cache
from itertools import count
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

import consilience as cs
from consilience.cli.app import app
from consilience.network import network_from_spec
from consilience.store import RUN as RECORD
from consilience.store import read_checkpoint, read_run

from ..forks import Forked
from ..patience import PATIENCE

MODEL = '''
"""Linear regression with three coefficients; every agent has rows of its own."""
import jax.numpy as jnp
import numpy as np

import consilience as cs

posterior = cs.Posterior.regressor(lambda w, x: x @ w, noise_sd=0.5, init=jnp.zeros(3))


def rows(index):
    rng = np.random.default_rng(index)
    x = rng.standard_normal((20 + 5 * index, 3))
    return {"x": x, "y": x @ np.array([1.0, -1.0, 0.5]) + 0.5 * rng.standard_normal(len(x)) + 0.1 * index}
'''
RUN = """
[model]
posterior = "regression:posterior"
[sampler]
name = "{sampler}"
{steps}
[run]
num_samples = {num_samples}
num_warmup = {num_warmup}
num_chains = 2
seed = 5
x64 = true
"""
PROGRAM = [sys.executable, "-c", "from consilience.cli import main; main()"]
AGENT, BARE, HELD, STEADY = (f"{__package__}.{name}" for name in ("agent", "bare", "held", "steady"))


# Below what systems give to outgoing connections: one of those could take a port between here and its use.
FIRST_PORT, PORTS, WORKERS = 15_000, 2_000, 8  # each of pytest's workers has some of its own


@cache
def _ports():
    """Yield this process's ports, round and round: none comes back before all others have been."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
    began = 97 * os.getpid()  # what tests start has ports of its own, and so has another run of them
    return (FIRST_PORT + PORTS * worker + (began + k) % PORTS for k in count())


def free_ports(number, host="127.0.0.1"):
    """Find ports that nobody listens at, and that nobody else is given."""
    found = []
    while len(found) < number:
        port = next(_ports())
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial, contextlib.suppress(OSError):
            trial.bind((host, port))
            found.append(port)
    return found


def command(*words, cwd=None):
    return subprocess.run([*PROGRAM, *map(str, words)], cwd=cwd, capture_output=True, text=True, check=False)


class Crew:
    """The agents of a run in `folder`.

    Args:
      settings: what `consilience init` is told besides.
      program: the module that agents run.
      sampler: its name; mala is compiled soonest.
    """

    def __init__(
        self,
        folder,
        network="ring:3",
        num_samples=100,
        num_warmup=0,
        settings=(),
        model=MODEL,
        rows="rows",
        program=AGENT,
        sampler="mala",
    ):
        self.folder, self.spec, self.rows, self.program = Path(folder), network, rows, program
        self.folder.mkdir(parents=True, exist_ok=True)
        self.network = network_from_spec(network)
        self.names = [f"agent{k}" for k in range(self.network.size)]
        self.ports = free_ports(self.network.size)
        (self.folder / "regression.py").write_text(model)
        lengths = {"num_samples": num_samples, "num_warmup": num_warmup}
        steps = "" if sampler == "surrogate" else "step_size = 0.1\ninverse_mass_matrix = 1.0"
        (self.folder / "run.toml").write_text(RUN.format(sampler=sampler, steps=steps, **lengths))
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        words = ["init", "peers", "--network", network, "--hosts", hosts, "--file", "run.toml", *settings]
        with contextlib.chdir(self.folder):
            done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, (done.output, done.exception)
        self.processes = {}

    def start(self, *names, options=()):
        """Start agents, all if none is named."""
        for name in names or self.names:
            words = ["peer", f"peers/{name}/agent.toml", "--data", f"regression:{self.rows}", *options]
            self.processes[name] = Forked(self.program, words, self.folder, self.folder / f"{name}.out")
        return self

    def finish(self, seconds=PATIENCE):
        """Wait for all that are running; their exit codes by name."""
        end = time.monotonic() + seconds
        try:
            return {name: p.wait(max(0.1, end - time.monotonic())) for name, p in self.processes.items()}
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not finished in {seconds} s:\n{self.said()}") from None
        finally:
            self.end()

    def end(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()

    def kill(self, name):
        self.processes[name].kill()
        self.processes[name].wait()

    def said(self, name=None):
        names = self.names if name is None else [name]
        codes = {n: self.processes[n].poll() for n in names if n in self.processes}
        return "\n".join(f"--- {n}, code {codes.get(n)}\n{(self.folder / f'{n}.out').read_text()}" for n in names)

    def logged(self, name):
        log = self.folder / "peers" / name / "peer.log"
        return log.read_text() if log.exists() else ""

    def run_folder(self, name):
        return self.folder / "peers" / name / "run"

    def status(self, name):
        """What an agent has said last of itself."""
        path = self.folder / "peers" / name / "status.json"
        return json.loads(path.read_text())["agents"][name] if path.exists() else {}

    def wait_for(self, what, name="agent0", seconds=PATIENCE):
        """Until an agent's status is as `what(status)` says."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            status = self.status(name)
            if status and what(status):
                return status
            assert self.processes[name].poll() is None, self.said()
            time.sleep(0.02)
        raise AssertionError(f"{name} is {self.status(name)}:\n{self.said()}")

    def wait_until_saved(self, iteration, name="agent0", seconds=PATIENCE, folder="run"):
        """Until so many iterations are on disk, there."""
        end, run = time.monotonic() + seconds, self.folder / "peers" / name / folder
        while time.monotonic() < end:
            if (run / RECORD).exists():
                progress, _ = read_checkpoint(run, read_run(run))
                if progress.warmed + progress.drawn >= iteration:
                    return
            assert self.processes[name].poll() is None, self.said()
            assert all(process.poll() not in (1, 2) for process in self.processes.values()), self.said()
            time.sleep(0.02)
        raise AssertionError(f"{name} has not come to iteration {iteration}:\n{self.said()}")

    def run(self, name="agent0"):
        return cs.load(self.run_folder(name))

    def positions(self):
        """Of every agent: what it has kept."""
        return {name: np.asarray(self.run(name).kept[:]) for name in self.names}


class Proxy:
    """Passes bytes on between an agent and another's port, unless it is cut."""

    def __init__(self, port):
        self._target = port
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._pairs = []
        self._is_cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                here, _ = self._socket.accept()
            except OSError:
                return
            if self._is_cut:
                here.close()
                continue
            try:
                there = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                here.close()
                continue
            self._pairs.append((here, there))
            for source, sink in ((here, there), (there, here)):
                threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pass_on(source, sink):
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for each in (source, sink):
                each.close()

    def cut(self):
        self._is_cut = True
        for pair in self._pairs:
            for each in pair:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        self._pairs.clear()

    def mend(self):
        self._is_cut = False

    def close(self):
        self.cut()
        self._socket.close()
