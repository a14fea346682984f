"""Progress reports: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_SECONDS = 10.0  # between two lines where there is no terminal

Report = Callable[[int], None]  # called with the number of iterations just done


@contextmanager
def progress_bar(label: str, total: int, done: int = 0) -> Iterator[Report]:
    """Show how many of `total` iterations are done, `done` of them before, and how fast; nothing without a label."""
    if not label:
        yield lambda done: None
    elif sys.stderr.isatty() and importlib.util.find_spec("rich") is not None:
        with _rich_bar(label, total, done) as report:
            yield report
    else:
        yield _lines(label, total, done)


@contextmanager
def _rich_bar(label: str, total: int, before: int) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total, completed=before, rate="compiling")

        def report(done: int) -> None:
            bar.advance(task, done)
            speed = bar.tasks[task].speed
            bar.update(task, rate=f"{speed:,.0f} it/s" if speed else "")

        yield report


def _lines(label: str, total: int, before: int) -> Report:
    began = spoke = time.monotonic()
    so_far = before

    def report(done: int) -> None:
        nonlocal so_far, spoke
        so_far += done
        now = time.monotonic()
        if so_far == total or now - spoke >= LINE_SECONDS:
            spoke = now
            rate = (so_far - before) / max(now - began, 1e-9)
            print(f"{label}: {so_far:,} of {total:,} iterations, {rate:,.0f} it/s", file=sys.stderr, flush=True)

    return report
