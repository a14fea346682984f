"""All missing cells, in processes of their own, and the book of their rows."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import jax

from benchmarks.accuracy.runs import Task, in_processes, one_thread

from .cells import DIGITS, REFERENCE, RoundsCell
from .page import page, told
from .rows import Row, died, measure

LARGE = {"20,000": 30.0, "60 sites": 20.0, "horseshoe": 8.0, DIGITS: 100.0}  # guesses at how long a cell takes


class Book:
    """The rows of `cells`, as far as they are run."""

    def __init__(self, folder: Path, cells: Sequence[RoundsCell]) -> None:
        self.folder, self.cells = folder, {cell.key: cell for cell in cells}
        self.rows: dict[tuple[str, str], Row] = {}
        file = folder / "rounds.json"
        if file.exists():
            rows = {key_of(row): row for row in json.loads(file.read_text(encoding="utf-8"))["rows"]}
            self.rows = {k: r for k, r in rows.items() if k in self.cells and r["settings"] == self.cells[k].settings()}

    def missing(self, wanted: Sequence[str] = ("",)) -> list[RoundsCell]:
        """Return the cells to run, of those whose name contains one of `wanted`. Failed ones are tried again."""
        failed = {key for key, row in self.rows.items() if row["status"] == "failed"}
        return [
            cell
            for key, cell in self.cells.items()
            if any(part in cell.name for part in wanted) and (key not in self.rows or key in failed)
        ]

    def add(self, row: Row) -> None:
        self.rows[key_of(row)] = {**row, "software": {"python": platform.python_version(), "jax": jax.__version__}}
        self.write()

    def write(self) -> None:
        rows = [self.rows[key] for key in self.cells if key in self.rows]
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, write in (("rounds.json", as_json), ("rounds.md", page)):  # rows first: pages can be made again
            scratch = self.folder / f".{name}.part"
            scratch.write_text(write(rows), encoding="utf-8")
            scratch.replace(self.folder / name)


def as_json(rows: Sequence[Row]) -> str:
    """Return rows as text, a line each."""
    lines = ",\n".join(json.dumps(row) for row in rows)
    return f'{{"rows": [\n{lines}\n]}}\n'


def key_of(row: Row) -> tuple[str, str]:
    return row["model"], row["method"]


def urgency(cell: RoundsCell) -> float:
    size = next((size for part, size in LARGE.items() if part in cell.model), 1.0)
    return size * (10.0 if cell.is_reference else 1.0)


def run_all(book: Book, jobs: int, wanted: Sequence[str], seconds: float, say: Callable[[str], None] = print) -> None:
    """Fill the book. A model's cells wait for its reference, where that is not in the book."""
    one_thread()
    began = time.perf_counter()
    missing = book.missing(wanted)
    say(f"{len(missing)} of {len(book.cells)} cells to run, {jobs} at a time")
    methods = [cell for cell in missing if not cell.is_reference]
    needed = {cell.model for cell in methods} | {cell.model for cell in missing}
    known = {model for model, method in book.rows if method == REFERENCE and book.rows[model, method]["status"] == "ok"}
    references = [book.cells[model, REFERENCE] for model in book_order(book, needed - known)]
    waiting = [Task(measure, (cell,), urgency(cell)) for cell in references]
    waiting += [task_of(book, cell) for cell in methods if cell.model in known]
    done = 0
    for task, result in in_processes(waiting, jobs):
        cell, done = task.arguments[0], done + 1
        row = result or died(cell)
        book.add(row)
        say(f"{done} {cell.name}: {told(row)}")
        if cell.is_reference:
            waiting += [task_of(book, one) for one in methods if one.model == cell.model]
        if time.perf_counter() - began > seconds:
            waiting.clear()
    book.write()


def book_order(book: Book, models: set[str]) -> list[str]:
    return list(dict.fromkeys(model for model, _ in book.cells if model in models))


def task_of(book: Book, cell: RoundsCell) -> Task:
    return Task(measure, (cell, book.rows.get((cell.model, REFERENCE))), urgency(cell))
