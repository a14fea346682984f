"""The constants of `consilience plan`, measured; and its predictions beside peers on links that are made slow.

    make bench-plan        as root: docs/plan.json, docs/plan.png, the table of docs/plan.md and planning/constants.json
    python -m benchmarks.plan --known      the same, with the constants that are there

1. What software takes of a message: sums over the tree of two agents, and of a star of five, on loopback. Before each
   sum there is a pause, because between messages that take long caches go cold and processors doze off; a message that
   comes right after another is twice as fast. What a chunk of draws takes: one process alone.
2. What the five agents of the runs below compute between messages, all at once: they share the cores of this machine,
   as agents on machines of their own would not. That is given to the prediction, as a user gives --gradient-time.
3. Runs of `consilience peer` in network namespaces, one each, on a ring of five with 20 ms and 50 Mbit/s per link, as
   `benchmarks.wires` makes them. Time per draw is the run's own, which begins after compilation: the median over a
   run's draws, and over three runs.

Nothing measured in 3 goes into a prediction. Where this machine cannot have such links, 3 is skipped, with the reason.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import consilience as cs
from consilience import planning
from consilience.network import network_from_spec
from consilience.planning import MEASURED, Constants, CostModel, Demand, LinkSpeeds, Prediction, demand_of, predict
from consilience.planning.demand import Collective
from consilience.store import RUN as RECORD
from consilience.store import read_checkpoint, read_run

from . import plan_model
from .peers import Crew
from .plan_model import AGENTS, PIXELS, SAMPLERS, alone, dimension
from .timing import seconds
from .wires import Unavailable, Wire, Wires

DOCS = Path(__file__).parent.parent / "docs"
CONSTANTS = Path(planning.__file__).parent / "constants.json"
RING = f"ring:{AGENTS}"
WIRE = Wire(0.020, 50e6)
WIDE = 2499  # features: 25,000 parameters
SUMS = {10: 100, 650: 100, 25_000: 60, 50_000: 40}  # by how many numbers are summed
PAUSE = 0.020  # seconds
PAUSES, PAUSED, LONG = (0.0, 0.3, 0.6), 8, 25_000  # between so many sums of so many numbers on slow links
REPEATS = 5
CHUNKS = 9
RUNS = 3
LONGEST = 400  # seconds of a run
WITHIN = 0.25
PROGRAM = [sys.executable, "-c", "from consilience.cli import main; main()"]
RUN = """
[model]
posterior = "plan_model:posterior"
arguments = {{ features = {features} }}
[sampler]
name = "{sampler}"
step_size = 0.01
inverse_mass_matrix = 1.0
[run]
num_samples = {draws}
num_warmup = 0
num_chains = 1
"""


class Case(NamedTuple):
    sampler: str
    features: int
    draws: int
    consensus: str = "tree"

    @property
    def settings(self) -> list[str]:
        """What `consilience init` is told of the way of sums: only masked ones are gathered."""
        return ["--mask", "--consensus", self.consensus] if self.consensus == "gather" else []


CASES = [
    *(Case("mala", PIXELS, 60), Case("mala", PIXELS, 60, "gather"), Case("dmala", PIXELS, 60), Case("hmc", PIXELS, 15)),
    *(Case("mala", WIDE, 40), Case("dmala", WIDE, 40), Case("hmc", WIDE, 10)),
]


# --- 1. constants -------------------------------------------------------------------------------------------------


def seconds_of_sums(crew: Crew, network: str) -> dict[int, float]:
    """By the bytes of a message; medians over the agents and over repeats."""
    place, found = crew.meeting(), {}
    for numbers, count in SUMS.items():
        job = {"by": "runtime", "kind": "sum", "dimension": numbers, "network": network, **place}
        crew.do("rounds", count=1, **job)  # compiles
        times = [crew.do("rounds", count=count, pause=PAUSE, **job) for _ in range(REPEATS)]
        found[4 * numbers] = float(np.median([one["seconds"] / count for each in times for one in each if one]))
    return found


def constants_of(crew: Crew) -> Constants:
    """A sum of two agents is two messages, one after the other; a star's root takes, and sends, one after the other."""
    pair, star = (seconds_of_sums(crew, f"{kind}") for kind in ("path:2", f"star:{AGENTS}"))
    hop_byte, hop = np.polyfit([*pair], [each / 2 for each in pair.values()], 1)
    further = {size: (star[size] - pair[size]) / (AGENTS - 2) for size in pair}
    message_byte, message = np.polyfit([*further], [*further.values()], 1)
    room, noise = (seconds_of_a_chunk(name) for name in ("mala", "dmala"))
    room_byte = room[0] / room[1].room_of_a_chunk
    noise_byte = (noise[0] - room_byte * noise[1].room_of_a_chunk) / noise[1].noise_of_a_chunk(1)
    return Constants(
        *(float(f"{value:.3g}") for value in (hop, hop_byte, message, message_byte, room_byte, noise_byte))
    )


def seconds_of_a_chunk(sampler: str) -> tuple[float, Any]:
    """With one draw, of an agent alone; and what the sampler asks for."""
    agent = alone(SAMPLERS[sampler], 0, WIDE)
    agent.advance(1, 1)
    taken = float(np.median([seconds(lambda: agent.advance(1, 1)) for _ in range(CHUNKS)]))
    return taken, demand_of(SAMPLERS[sampler], network_from_spec(RING), dimension(WIDE))


# --- 2. and 3. predictions and runs -------------------------------------------------------------------------------


def predicted(case: Case, crew: Crew, constants: Constants) -> Prediction:
    network = network_from_spec(RING)
    crew.do("compute", sampler=case.sampler, features=case.features)  # compiles
    answers = crew.do("compute", sampler=case.sampler, features=case.features)
    chunk, draw = (float(np.median([answer[part] for answer in answers])) for part in ("chunk", "draw"))
    sampler = SAMPLERS[case.sampler]
    steps = getattr(sampler, "num_integration_steps", 1)
    links = LinkSpeeds.alike(network, WIRE.delay, WIRE.rate)
    return predict(
        network,
        links,
        sampler,
        dimension(case.features),
        gradient_seconds=draw / steps,
        chunk_seconds=chunk,
        consensus=case.consensus,
        constants=constants,
    )


def measured(case: Case, wires: Wires, folder: Path) -> tuple[cs.Run, float]:
    """A run of `consilience peer`, an agent in each namespace; and seconds per draw, the median over its draws, by what
    the run itself has recorded so far whenever it is looked at. A mean would be of other work on this machine as well.
    """
    folder.mkdir()
    shutil.copy(plan_model.__file__, folder)
    (folder / "run.toml").write_text(RUN.format(**case._asdict()))
    hosts = ",".join(wires.addresses)
    init = [*PROGRAM, "init", "peers", "--network", RING, "--hosts", hosts, "--file", "run.toml", *case.settings]
    subprocess.run(init, cwd=folder, check=True, capture_output=True)
    with ExitStack() as stack:
        processes = []
        for k in range(AGENTS):
            rows = ["--data", "plan_model:rows", "--set", f"data.arguments.features={case.features}"]
            words = [*PROGRAM, "peer", f"peers/agent{k}/agent.toml", *rows, "--quiet", "--json"]
            said = stack.enter_context((folder / f"agent{k}.txt").open("w"))
            process = subprocess.Popen(wires.inside(k, words), cwd=folder, stdout=said, stderr=said)
            stack.callback(process.wait)
            stack.callback(process.kill)
            processes.append(process)
        course = _course(processes, folder / "peers" / "agent0" / "run")
        for k, process in enumerate(processes):
            if process.returncode:
                raise RuntimeError(f"agent{k} has failed:\n{(folder / f'agent{k}.txt').read_text()}")
    drawn, taken = np.diff(np.array(course), axis=0).T
    return cs.load(folder / "peers" / "agent0" / "run"), float(np.median(np.repeat(taken / drawn, drawn.astype(int))))


def _course(processes: list[subprocess.Popen[bytes]], folder: Path) -> list[tuple[float, float]]:
    """Draws and seconds, as the run records them, until it ends."""
    end, found = time.monotonic() + LONGEST, [(0.0, 0.0)]
    while any(process.poll() is None for process in processes):
        if time.monotonic() > end:
            raise RuntimeError(f"not done after {LONGEST} s: see {folder.parents[1]}")
        time.sleep(0.3)
        if not (folder / RECORD).exists():
            continue
        progress, _ = read_checkpoint(folder, read_run(folder))
        if progress.drawn > found[-1][0]:
            found.append((progress.drawn, progress.seconds))
    return found[1:]  # the first chunk is of another length


def compared(case: Case, prediction: Prediction, runs: list[tuple[cs.Run, float]]) -> dict[str, Any]:
    """What was predicted of a draw, and what it was: the median of several runs."""
    times = sorted(taken for _, taken in runs)
    run = runs[0][0]
    taken = float(np.median(times))
    return {
        "sampler": case.sampler,
        "consensus": case.consensus,
        "dimension": dimension(case.features),
        "draws": case.draws,
        "predicted_seconds": prediction.seconds,
        "measured_seconds": taken,
        "seconds_of_runs": times,
        "measured_over_predicted": taken / prediction.seconds,
        "predicted_rounds": prediction.rounds,
        "measured_rounds": run.traffic.rounds / run.num_draws,
        "predicted_megabytes": prediction.megabytes_per_agent,
        "measured_megabytes": run.traffic.bytes / run.num_draws / run.network.size / 1e6,
        "shares": prediction.shares,
        "bottleneck": prediction.bottleneck,
    }


def compare(constants: Constants, crew: Crew, folder: Path) -> dict[str, Any]:
    """Runs take turns, so that other work on this machine is not one sampler's misfortune."""
    forecasts = [predicted(case, crew, constants) for case in CASES]
    runs: dict[Case, list[tuple[cs.Run, float]]] = {case: [] for case in CASES}
    with Wires(network_from_spec(RING), WIRE) as wires:
        print(f"links of {1e3 * WIRE.delay:g} ms and {WIRE.rate / 1e6:g} Mbit/s by {wires.by}", flush=True)
        if wires.no_netem:
            print(f"tc netem is not there: {wires.no_netem}")
        sums = compare_sums(constants, wires, folder / "sums")
        for turn in range(RUNS):
            for number, case in enumerate(CASES):
                runs[case].append(measured(case, wires, folder / f"run{turn}-{number}"))
                print(f"{case}: {1e3 * runs[case][-1][1]:.0f} ms", flush=True)
        by = wires.by
    rows = [compared(case, forecast, runs[case]) for case, forecast in zip(CASES, forecasts, strict=True)]
    links = {"latency": WIRE.delay, "bandwidth": WIRE.rate, "by": by}
    return {"links": links, "rows": rows, "sums": sums}


def compare_sums(constants: Constants, wires: Wires, folder: Path) -> list[dict[str, float]]:
    """Of long messages on these links, with pauses between them: what TCP's windows do."""
    network = network_from_spec(RING)
    model = CostModel(network, LinkSpeeds.alike(network, WIRE.delay, WIRE.rate), constants)
    size, found = 4 * LONG, []
    folder.mkdir()
    with Crew(folder, wires.addresses, wires.inside) as crew:
        place = crew.meeting()
        for pause in PAUSES:
            job = {"by": "runtime", "kind": "sum", "dimension": LONG, "network": RING, "pause": pause, **place}
            times = [crew.do("rounds", count=PAUSED, **job) for _ in range(1 + REPEATS)][1:]
            taken = float(np.median([one["seconds"] / PAUSED for each in times for one in each]))
            asked = Demand((Collective("sum", 1, size, size),), 0.0, 1, 0)
            forecast = model.iteration_cost(asked, 0.0, quiet_seconds=pause).seconds
            found.append({"bytes": size, "pause": pause, "predicted_seconds": forecast, "measured_seconds": taken})
            print(f"sum of {size:,} bytes every {pause:g} s: {1e3 * forecast:.0f} ms, {1e3 * taken:.0f} ms", flush=True)
    return found


# --- the page -----------------------------------------------------------------------------------------------------


def table_of_sums(found: dict[str, Any]) -> list[str]:
    lines = ["| pause before a sum of 100 kB | predicted | measured |", "|---|---|---|"]
    for row in found["sums"]:
        times = [f"{1e3 * row[f'{which}_seconds']:.0f} ms" for which in ("predicted", "measured")]
        lines.append(f"| {1e3 * row['pause']:.0f} ms | {' | '.join(times)} |")
    return lines


def table(found: dict[str, Any]) -> list[str]:
    """The rows of the page."""
    lines = ["| sampler | parameters | predicted | measured | ratio | rounds a draw | MB an agent | mostly |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for row in found["rows"]:
        ends = row["seconds_of_runs"][0], row["seconds_of_runs"][-1]
        cells = [
            f"`{row['sampler']}`" + ", gathered" * (row["consensus"] == "gather"),
            f"{row['dimension']:,}",
            f"{1e3 * row['predicted_seconds']:,.0f} ms",
            f"{1e3 * row['measured_seconds']:,.0f} ms ({' to '.join(f'{1e3 * end:,.0f}' for end in ends)})",
            f"{row['measured_over_predicted']:.2f}",
            f"{row['predicted_rounds']:.1f}, {row['measured_rounds']:.1f}",
            f"{row['predicted_megabytes']:.3g}, {row['measured_megabytes']:.3g}",
            row["bottleneck"],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def write(found: dict[str, Any]) -> None:
    """The record, the constants that predictions take, and the page's table, words and figure."""
    (DOCS / "plan.json").write_text(json.dumps(found, indent=2) + "\n")
    CONSTANTS.write_text(json.dumps(found["constants"], indent=2) + "\n")
    page = DOCS / "plan.md"
    text = page.read_text()
    for lines in (table(found), table_of_sums(found)):
        begins = re.escape(lines[0].split("|")[1])
        text = re.sub(rf"^\|{begins}\|.*?(?=^$)", "\n".join(lines) + "\n", text, flags=re.S | re.M)
    page.write_text(re.sub(r"differ by at most \d+ %", f"differ by at most {100 * worst(found):.0f} %", text))
    links = ["--latency", f"{1e3 * WIRE.delay:g}ms", "--bandwidth", f"{WIRE.rate / 1e6:g}Mbit/s"]
    model = ["--dimension", str(dimension(PIXELS)), "--gradient-time", "1ms", "--sampler", "mala"]
    subprocess.run([*PROGRAM, "plan", RING, *links, *model, "--figure", str(DOCS / "plan.png"), "--quiet"], check=True)


def worst(found: dict[str, Any]) -> float:
    """How far a measurement was from its prediction."""
    return max(abs(row["measured_over_predicted"] - 1) for row in found["rows"])


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # namespaces and processes are taken away on every way out
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Crew(folder) as crew:
            constants = MEASURED if "--known" in sys.argv[1:] else constants_of(crew)
            print(f"constants: {constants}", flush=True)
            try:
                found = compare(constants, crew, folder)
            except Unavailable as reason:
                raise SystemExit(f"the comparison is skipped: {reason}") from None
    found = {"constants": constants._asdict(), "cores": os.cpu_count(), "agents": AGENTS, **found}
    write(found)
    print(*table(found), *table_of_sums(found), sep="\n")
    print(f"measured and predicted times differ by at most {worst(found):.0%}; the aim is {WITHIN:.0%}")
    if worst(found) > WITHIN:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
