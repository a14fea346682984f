"""What it costs that agents are processes of their own: over a bare exchange of the same bytes, and over `simulate`.

Five processes on a ring, on this machine, over Zenoh with mutual TLS and access control, float32:

- rounds per second of the runtime (a compiled loop that calls out for every round of gossip, or sum over the spanning
  tree) over those of a bare exchange: a loop in Python that puts as many bytes and waits for as many messages, over
  sessions of the same configuration. A ratio of 0.6 means that 40 % of the time goes into getting out of compiled code
  and back into it, headers, checks, and handing messages from thread to thread.
- milliseconds per draw of a run by peers, with all that `consilience peer` does, over those of `simulate`. Agents on
  one machine share its cores, and all wait for the last; on machines of their own they would not share them.
- bytes handed to Zenoh over the payload: of the messages above, and of a whole run over what `simulate` charges for it.
"""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import consilience as cs
from consilience.experiments.digits import AGENTS, INIT, POSTERIOR, bundled_digits
from consilience.model import Layout, stack_shards
from consilience.neighbors import Traffic
from consilience.network import network_from_spec
from consilience.peers import Authority
from consilience.runs import simulation

from .peers_agent import NAMES, PARTS, RING, SAMPLERS

ROUNDS = {650: 1000, 25_000: 300}  # by dimension: half a second of them
PAIRS = 9
KINDS = {"gossip": "round of gossip", "sum": "sum over the tree"}
LEAST_RATIO = {"gossip": 0.6}
DRAWS = {"mala": 400, "nuts": 30}
AT_ONCE = 100  # draws in a chunk
SIMULATED = 5  # runs before that of the peers, and after it
MOST_BYTES = 1.1


class Crew:
    """The agents, waiting for jobs.

    Args:
      hosts: their addresses.
      inside: where an agent is started: its command, as it is run from here.
    """

    def __init__(
        self,
        folder: Path,
        hosts: Sequence[str] = ("127.0.0.1",) * len(NAMES),
        inside: Callable[[int, Sequence[str]], Sequence[str]] = lambda _, words: words,
    ) -> None:
        self._folder, self._hosts = folder, hosts
        authority = Authority.create(secrets.token_hex(8))
        for name, host in zip(NAMES, hosts, strict=True):
            key, certificate = authority.issue(name, [host])
            for part, content in zip(PARTS, (key, certificate, authority.certificate), strict=True):
                (folder / f"{name}-{part}.pem").write_bytes(content)
        command = [sys.executable, "-m", "benchmarks.peers_agent", str(folder)]
        self._processes = [
            subprocess.Popen(inside(k, [*command, name]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for k, name in enumerate(NAMES)
        ]

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()

    def meeting(self) -> dict[str, Any]:
        """Where agents can meet: a run of its own, at ports that nobody has."""
        with ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in NAMES]
            for one in sockets:
                one.bind(("127.0.0.1", 0))
            ports = [one.getsockname()[1] for one in sockets]
        endpoints = [f"tls/{host}:{port}" for host, port in zip(self._hosts, ports, strict=True)]
        return {"run_id": secrets.token_hex(8), "endpoints": endpoints}

    def do(self, job: str, **arguments: Any) -> list[dict[str, Any]]:
        """The same by all agents at once; what each has to say."""
        for process in self._processes:
            assert process.stdin is not None
            print(json.dumps({"job": job, **arguments}), file=process.stdin, flush=True)
        answers = []
        for name, process in zip(NAMES, self._processes, strict=True):
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"{name} has failed: see above")
            answers.append(json.loads(line))
        return answers

    def sample(self, sampler: str) -> tuple[float, int]:
        """Seconds and bytes of a run."""
        folder = tempfile.mkdtemp(dir=self._folder)
        answers = self.do("sample", sampler=sampler, folder=folder, draws=DRAWS[sampler], **self.meeting())
        return float(np.median([answer["seconds"] for answer in answers])), answers[0]["bytes"]


class Simulated:
    """The same run as lanes of one process."""

    def __init__(self, sampler: str) -> None:
        train, _ = bundled_digits()
        shards, layout = stack_shards(cs.shard(train, AGENTS, by="label"), AGENTS), Layout.of(INIT)
        network = network_from_spec(RING)
        resolved = SAMPLERS[sampler].resolve(network, layout.dimension)
        start = jnp.zeros((1, layout.dimension))
        _, key = jax.random.split(jax.random.key(0))  # as `cs.sample` does with seed=0
        self._run = simulation(POSTERIOR, layout, shards, network, resolved, start, key).started()
        self._draws = DRAWS[sampler]
        self.sample()

    def sample(self) -> tuple[float, int]:
        self._run.begin()
        began = time.perf_counter()
        full, rest = divmod(self._draws, AT_ONCE)
        parts = [self._run.advance(draws, 1).traffic for draws in [AT_ONCE] * full + [rest] * bool(rest)]
        return time.perf_counter() - began, sum(parts, self._run.start_traffic + Traffic()).bytes


def of_rounds(crew: Crew) -> dict[tuple[str, int], float]:
    """Prints rounds per second; gives bytes over payload."""
    print(f"{AGENTS} processes on a ring, mutual TLS, float32, median of {PAIRS} interleaved pairs")
    print(f"{'':<32}{'per second':>12}{'floor':>10}{'ratio':>8}{'target':>8}", flush=True)
    places = {by: crew.meeting() for by in ("runtime", "floor")}
    overhead = {}
    for kind, called in KINDS.items():
        for dimension, count in ROUNDS.items():

            def timed(by: str, count: int, kind: str = kind, dimension: int = dimension) -> float:
                answers = crew.do("rounds", by=by, kind=kind, dimension=dimension, count=count, **places[by])
                if by == "runtime":
                    size, payload = (sum(answer[part] for answer in answers) for part in ("bytes", "payload"))
                    overhead[kind, dimension] = size / payload
                return float(np.median([answer["seconds"] for answer in answers]))

            timed("runtime", 1), timed("floor", 1)  # compiles
            times = np.array([(timed("runtime", count), timed("floor", count)) for _ in range(PAIRS)])
            ratio = np.median(times[:, 1] / times[:, 0])
            rates = count / np.median(times, axis=0)
            print(
                f"{f'{called}, d = {dimension:,}':<32}{rates[0]:>12,.0f}{rates[1]:>10,.0f}{ratio:>8.2f}"
                f"{LEAST_RATIO.get(kind, '-'):>8}",
                flush=True,
            )
    return overhead


def of_draws(crew: Crew) -> dict[str, float]:
    """Prints milliseconds per draw; gives the bytes of whole runs over simulate's."""
    print(f"\ndigits by class, {AGENTS} agents, d = 650, one chain, simulate: median of {2 * SIMULATED} runs around it")
    print(f"{'':<20}{'ms per draw by peers':>22}{'simulate':>12}{'ratio':>8}", flush=True)
    overhead = {}
    for name, draws in DRAWS.items():
        simulated = Simulated(name)
        before = [simulated.sample() for _ in range(SIMULATED)]
        seconds, sent = crew.sample(name)
        around = before + [simulated.sample() for _ in range(SIMULATED)]
        floor = np.median([each for each, _ in around])
        overhead[name] = sent / around[0][1]
        print(
            f"{f'cs.{name}':<20}{1e3 * seconds / draws:>22.2f}{1e3 * floor / draws:>12.3f}{seconds / floor:>8.1f}",
            flush=True,
        )
    return overhead


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Crew(Path(folder)) as crew:
        of_messages = of_rounds(crew)
        of_runs = of_draws(crew)
    print(f"\nbytes handed to Zenoh over what the algorithm needs (at most {MOST_BYTES} is the aim)")
    for (kind, dimension), ratio in of_messages.items():
        print(f"{f'{KINDS[kind]}, d = {dimension:,}':<32}{ratio:>8.4f}")
    for name, ratio in of_runs.items():
        print(f"{f'{DRAWS[name]} draws of cs.{name}, d = 650':<32}{ratio:>8.4f}")


if __name__ == "__main__":
    main()
