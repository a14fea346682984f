"""All missing cells, in processes of their own, and the book of their rows."""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from . import reference
from .cells import Cell, Scale
from .page import page
from .rows import Row, died, measure
from .statements import bias_text, ratio_text
from .targets import Truth


class Book:
    """The rows of `cells`, as far as they are run, and the machines that filled it, with their seconds."""

    def __init__(self, folder: Path, cells: Sequence[Cell]) -> None:
        self.folder, self.cells = folder, {cell.key: cell for cell in cells}
        self.rows: dict[tuple[str, str, str], Row] = {}
        self.reference: dict[str, Any] | None = None
        self.machines: list[dict[str, Any]] = []
        file = folder / "accuracy.json"
        if file.exists():
            old = json.loads(file.read_text(encoding="utf-8"))
            rows = {key_of(row): row for row in old["rows"]}
            self.rows = {k: r for k, r in rows.items() if k in self.cells and r["settings"] == self.cells[k].settings}
            if self.rows:
                self.reference, self.machines = old["reference"], old["machines"]
        self.began = time.perf_counter()

    def missing(self, only: str = "") -> list[Cell]:
        """Cells to run, of those whose name contains `only`. Failed ones are tried again."""
        failed = {key for key, row in self.rows.items() if row["status"] == "failed"}
        return [c for k, c in self.cells.items() if only in c.name and (k not in self.rows or k in failed)]

    def add(self, row: Row) -> None:
        self.rows[key_of(row)] = row
        self.write()

    def _with_this_one(self) -> list[dict[str, Any]]:
        """The machines, the seconds so far added to this one's."""
        this = {
            "cores": len(own_cores()) or os.cpu_count(),
            "python": platform.python_version(),
            "jax": jax.__version__,
            "numpy": np.__version__,
        }
        others = [machine for machine in self.machines if not this.items() <= machine.items()]
        before = sum(machine["seconds"] for machine in self.machines if machine not in others)
        return [*others, {**this, "seconds": round(before + time.perf_counter() - self.began)}]

    def write(self) -> None:
        data = {
            "machines": self._with_this_one(),
            "reference": self.reference,
            "rows": [self.rows[key] for key in self.cells if key in self.rows],
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("accuracy.json", json.dumps(data, indent=1) + "\n"), ("accuracy.md", page(data))):
            scratch = self.folder / f".{name}.part"
            scratch.write_text(text, encoding="utf-8")
            scratch.replace(self.folder / name)


def key_of(row: Row) -> tuple[str, str, str]:
    return row["target"], row["network"], row["sampler"]


def own_cores() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


class Task(NamedTuple):
    """A call for a process of its own; `urgency` is a guess at its length, the longest go first."""

    function: Callable
    arguments: tuple
    urgency: float


def one_thread() -> None:
    """For the processes to be started: one thread each."""
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    os.environ["JAX_PLATFORMS"] = "cpu"
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


def work(answer: Connection, core: int | None, function: Callable, arguments: tuple) -> None:
    """In a process of its own, on a core of its own."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    answer.send(function(*arguments))


def in_processes(waiting: list[Task], jobs: int) -> Iterator[tuple[Task, Any]]:
    """Tasks and what they returned, `jobs` at a time: None of one that died, which takes no other along.

    More may be put into `waiting` in between.
    """
    context = multiprocessing.get_context("spawn")
    own = own_cores()
    cores: list[int | None] = [*own[:jobs]] if jobs <= len(own) else [None] * jobs
    running: dict[Any, tuple[Task, Any, int | None]] = {}
    while waiting or running:
        waiting.sort(key=lambda task: task.urgency)
        while waiting and cores:
            task, core = waiting.pop(), cores.pop()
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=work, args=(sender, core, task.function, task.arguments))
            process.start()
            sender.close()
            running[receiver] = task, process, core
        for receiver in wait(list(running)):
            task, process, core = running.pop(receiver)
            try:
                result = receiver.recv()  # type: ignore[union-attr]
            except EOFError:
                result = None
            process.join()
            cores.append(core)
            yield task, result


GUESS = {"one-shot": 8.0, "unadjusted": 2.0, "trajectory": 1.5, "metropolis": 1.0}


def task_of(cell: Cell, truth: Truth | None) -> Task:
    large, hard = cell.network == "4-regular of 30", cell.target == "digits"
    return Task(measure, (cell, truth), GUESS[cell.recipe.kind] * (2 if large else 1) * (100 if hard else 1))


def run_all(book: Book, scale: Scale, seed: int, jobs: int, only: str = "", say: Callable[[str], None] = print) -> None:
    """Fill the book. The cells of digits wait for the reference, where that is not in its file."""
    one_thread()
    missing = book.missing(only)
    say(f"{len(missing)} of {len(book.cells)} cells to run, {jobs} at a time")
    digits = [cell for cell in missing if cell.target == "digits"]
    waiting = [task_of(cell, None) for cell in missing if cell not in digits]
    file, parts, done = reference.file_of(scale, seed), {}, 0
    if digits and file.exists():
        truth, book.reference = reference.load(file)
        waiting += [task_of(cell, truth) for cell in digits]
    elif digits:
        numbers = range(scale.reference["jobs"])
        waiting += [Task(reference.run_part, (scale, seed, number), np.inf) for number in numbers]
    for task, result in in_processes(waiting, jobs):
        if task.function is measure:
            cell, done = task.arguments[0], done + 1
            row = result or died(cell)
            book.add(row)
            say(f"{done}/{len(missing)} {cell.name}: {told(row)}")
            continue
        number = task.arguments[-1]
        parts[number] = result
        say(f"reference {number}: {'died' if result is None else 'done'}")
        if len(parts) == scale.reference["jobs"]:
            truth = None
            if all(part is not None for part in parts.values()):
                truth, book.reference = reference.joined([parts[number] for number in sorted(parts)])
                reference.save(file, truth, book.reference)
            waiting += [task_of(cell, truth) for cell in digits]
    book.write()


def told(row: Row) -> str:
    if row["status"] != "ok":
        return f"{row['status']}, {row['error']}"
    return (
        f"ratio {ratio_text(row)}, worst bias {bias_text(row)}, R-hat {row['r_hat'] or 0:.3f}, {row['seconds']:.0f} s"
    )
