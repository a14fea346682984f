"""Runs that are killed, in processes of their own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import consilience as cs

from .targets import log_gamma

TARGET = log_gamma(4)
NETWORK = cs.Network.ring(4)
WARMUP, CHAINS = 2000, 2
SCRIPT = """
import sys, time
from tests.killing import resumed
from consilience.engine import chains
from consilience.runs import bar
sampler, out, draws, most = sys.argv[1:]
bar.LINE_SECONDS = 0  # every report is printed
chains.CHUNK_SECONDS = 0.05  # and there are many
lines = bar._lines

def held(label, total, before):  # from here on it waits: however late the kill comes, the run is not over
    report, so_far = lines(label, total, before), before

    def report_and_wait(done):
        nonlocal so_far
        report(done)
        so_far += done
        while so_far > int(most):
            time.sleep(1)

    return report_and_wait

bar._lines = held
resumed(sampler, out, int(draws))
"""


def resumed(sampler: str, out: str, draws: int) -> cs.Run:
    """The run in a folder, started or gone on with."""
    return cs.sample(
        TARGET.posterior,
        TARGET.shards,
        NETWORK,
        getattr(cs, sampler)(),
        init=np.zeros(TARGET.dimension, np.float32),
        num_samples=draws,
        num_warmup=WARMUP,
        num_chains=CHAINS,
        out=out,
        resume=True,
    )


def started(sampler: str, out: Path, draws: int, most: int | None = None) -> subprocess.Popen[str]:
    """Start or go on, in a process that waits when it has reported more than `most` iterations."""
    most = WARMUP + draws if most is None else most
    command = [sys.executable, "-c", SCRIPT, sampler, str(out), str(draws), str(most)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent)


def killed(sampler: str, out: Path, draws: int, most: int, random: np.random.Generator, early: float) -> int:
    """Start or go on, and kill at a random moment; returns the iterations that were reported.

    Args:
      most: the iterations after which it waits to be killed.
      early: how probably it is killed while it starts and makes its folder, and not after some of its reports.
    """
    lines: list[str] = []
    with started(sampler, out, draws, most) as process:
        assert process.stderr is not None
        if random.uniform() < early:
            time.sleep(random.uniform(0, 6))
        else:
            wanted = int(random.integers(1, 5))
            while len(lines) < wanted and max([0, *map(iterations_of, lines)]) <= most:
                lines.append(process.stderr.readline())
            time.sleep(random.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        lines += process.stderr.read().splitlines()
    return max([0, *map(iterations_of, lines)])


def iterations_of(line: str) -> int:
    """Those that a line reports, if it does."""
    found = re.search(r": ([\d,]+) of", line)
    return int(found[1].replace(",", "")) if found else 0


def iterations_in(out: Path) -> int:
    """That a folder has, as anyone reads it at this moment."""
    if not (out / "run.toml").exists():
        return 0
    run = cs.load(out)
    assert np.isfinite(run.positions).all()
    assert run.positions.shape[0] == run.num_draws == len(run.stats["acceptance_rate"][0, 0]) if run.num_draws else True
    return run.iterations


def kill_and_resume(sampler: str, out: Path, draws: int, times: int) -> list[int]:
    """Kill a run so often, and look after each time that nothing reported is lost; the iterations found each time."""
    found, random = [], np.random.default_rng()
    for k in range(times):
        most = (WARMUP + draws) * (k + 1) // (times + 2)
        reported = killed(sampler, out, draws, most, random, early=0.2 if k else 0.0)
        found.append(iterations_in(out))
        assert found[-1] >= reported, f"{reported} iterations were reported, {found[-1]} are there"
    assert any(0 < count < WARMUP + draws for count in found), f"no kill came in the middle: {found}"
    return found


def assert_ends_undisturbed(sampler: str, disturbed: Path, undisturbed: Path, draws: int) -> None:
    """Go on with one run to its end, make another in one go: draws and all figures are the same to the bit."""
    for process in [started(sampler, folder, draws) for folder in (disturbed, undisturbed)]:
        with process:
            _, said = process.communicate()
        assert process.returncode == 0, said
    assert cs.load(disturbed).facts["status"] == "complete"
    assert_same(cs.load(disturbed), cs.load(undisturbed))


def assert_same(one: cs.Run, other: cs.Run) -> None:
    """To the bit, draws and all figures."""
    np.testing.assert_array_equal(one.positions, other.positions)
    assert one.stats.keys() == other.stats.keys()
    for name, values in one.stats.items():
        np.testing.assert_array_equal(values, other.stats[name])
    assert one.traffic == other.traffic
    assert one.iterations == other.iterations
