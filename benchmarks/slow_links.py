"""examples/logistic.toml by peers on slow links: the time to 1000 effective draws, by `surrogate` and by `nuts`.

    python -m benchmarks.slow_links        as root: docs/slow_links.json

Four processes `consilience peer` in a ring, 20 ms and 50 Mbit/s per link, as `benchmarks.plan` has them. `surrogate` is
run to its end. `nuts` is run for PART seconds, which say how long a round takes; how many rounds it takes to 1000
effective draws is counted by simulation, of the whole run, warm-up included. Times are the runs' own, after
compilation. Effective draws are of the least mixed parameter: the least of bulk and tail.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import consilience as cs
from consilience.cli.build import build
from consilience.cli.config import read_config
from consilience.store import RUN as RECORD
from consilience.store import Progress, read_checkpoint, read_run

from .plan import DOCS, PROGRAM, WIRE
from .wires import Wires

EXAMPLE = Path(__file__).parent.parent / "examples" / "logistic.toml"
EFFECTIVE = 1000
PART = 60.0  # seconds of nuts
LONGEST = 600.0
SAMPLERS: dict[str, dict[str, float]] = {"surrogate": {}, "nuts": {"target_acceptance": 0.9}}
MODEL = """
import numpy as np

import logistic


def posterior():
    return logistic.posterior(2.5)


def rows(index):
    with np.load(f"rows{index}.npz") as file:
        return dict(file)
"""


def files_of(sampler: str, config: Any, shards: list[dict[str, np.ndarray]], folder: Path) -> None:
    """What the agents have: the example's model, and the hospitals' patients as `consilience run` deals them out."""
    folder.mkdir()
    shutil.copy(EXAMPLE.with_suffix(".py"), folder)
    (folder / "slow.py").write_text(MODEL)
    for index, mine in enumerate(shards):
        np.savez(folder / f"rows{index}.npz", **mine)
    settings = "".join(f"{name} = {value}\n" for name, value in SAMPLERS[sampler].items())
    lengths = "".join(f"{name} = {value}\n" for name, value in lengths_of(config).items())
    (folder / "run.toml").write_text(
        f'[model]\nposterior = "slow:posterior"\n[sampler]\nname = "{sampler}"\n{settings}[run]\n{lengths}'
    )


def lengths_of(config: Any) -> dict[str, int]:
    return {name: getattr(config.run, name) for name in ("num_warmup", "num_samples", "num_chains")}


def measured(folder: Path, wires: Wires, network: str, part: float | None) -> Progress:
    """How far the agents come, to the end or for `part` seconds of sampling."""
    hosts = ",".join(wires.addresses)
    init = [*PROGRAM, "init", "peers", "--network", network, "--hosts", hosts, "--file", "run.toml"]
    subprocess.run(init, cwd=folder, check=True, capture_output=True)
    place = folder / "peers" / "agent0" / "run"
    with ExitStack() as stack:
        processes = []
        for k in range(len(wires.addresses)):
            words = [*PROGRAM, "peer", f"peers/agent{k}/agent.toml", "--data", "slow:rows", "--quiet", "--json"]
            said = stack.enter_context((folder / f"agent{k}.txt").open("w"))
            process = subprocess.Popen(wires.inside(k, words), cwd=folder, stdout=said, stderr=said)
            stack.callback(process.wait)
            stack.callback(process.kill)
            processes.append(process)
        end, progress = time.monotonic() + LONGEST, Progress()
        while any(process.poll() is None for process in processes):
            if time.monotonic() > end:
                raise RuntimeError(f"not done after {LONGEST} s")
            time.sleep(0.3)
            if (place / RECORD).exists():
                progress = read_checkpoint(place, read_run(place))[0]
            if part is not None and progress.seconds > part:
                return progress
        for k, process in enumerate(processes):
            if process.returncode:
                raise RuntimeError(f"agent{k} has failed:\n{(folder / f'agent{k}.txt').read_text()}")
    return read_checkpoint(place, read_run(place))[0]


def effective(run: cs.Run) -> float:
    columns = run.summary(predictions=False).columns
    return float(min(np.min(columns[name]) for name in ("ess_bulk", "ess_tail")))


def main() -> None:
    config = read_config(EXAMPLE)
    job = build(config)
    shards = [{name: np.asarray(values) for name, values in mine.items()} for mine in job.data.shards]
    found: dict[str, Any] = {"links": {"latency": WIRE.delay, "bandwidth": WIRE.rate}, "cores": os.cpu_count()}
    with tempfile.TemporaryDirectory() as name, Wires(job.network, WIRE) as wires:
        found["links"]["by"] = wires.by
        for sampler in SAMPLERS:
            folder = Path(name) / sampler
            files_of(sampler, config, shards, folder)
            settings = getattr(cs, sampler)(**SAMPLERS[sampler])
            lengths = lengths_of(config)
            simulated = cs.sample(job.posterior, shards, job.network, settings, seed=0, progress=False, **lengths)
            done = measured(folder, wires, config.network.kind, PART if sampler == "nuts" else None)
            # Draws are independent of how many there are: as many as 1000 effective ones take, after the warm-up.
            share = min(1.0, EFFECTIVE / effective(simulated))
            of_warmup = rounds_of_warmup(job, shards, settings, lengths)
            rounds = of_warmup + share * (simulated.traffic.rounds - of_warmup)
            row = {
                "effective_draws": effective(simulated),
                "rounds": rounds,
                "seconds_per_round": done.seconds / done.rounds,
                "measured_rounds": done.rounds,
                "measured_seconds": done.seconds,
            }
            row["seconds"] = done.seconds if sampler == "surrogate" else rounds * row["seconds_per_round"]
            found[sampler] = row
            print(sampler, json.dumps(row), flush=True)
    found["ratio"] = found["nuts"]["seconds"] / found["surrogate"]["seconds"]
    (DOCS / "slow_links.json").write_text(json.dumps(found, indent=2) + "\n")
    print(f"{found['ratio']:.0f} times as fast")


def rounds_of_warmup(job: Any, shards: list[Any], settings: Any, lengths: dict[str, int]) -> int:
    """Rounds of the start, the warm-up and one draw."""
    short = {**lengths, "num_samples": 1}
    return cs.sample(job.posterior, shards, job.network, settings, seed=0, progress=False, **short).traffic.rounds


if __name__ == "__main__":
    main()
