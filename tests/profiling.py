"""Where the time of the tests goes: `make test-profile`.

A pytest plugin. Every worker measures, for each phase of each test, wall time, processor time of its own and of the
processes it started, and how long jax traced, lowered and compiled; the controller writes a line of JSON for each test
to test-profile.jsonl, or where the environment variable CONSILIENCE_PROFILE says, and ends with two tables.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from pathlib import Path

import jax
import pytest

from .limit import processor_seconds

VARIABLE = "CONSILIENCE_PROFILE"
PHASES = {
    "/jax/core/compile/jaxpr_trace_duration": "tracing",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lowering",
    "/jax/core/compile/backend_compile_duration": "compiling",
}
COLUMNS = ("wall", "cpu", "children", *PHASES.values())


class Meter:
    """Measure what happened since it was last read."""

    def __init__(self) -> None:
        self._intervals: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._before = self._usage()
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def _listen(self, event: str, duration: float, **_: object) -> None:
        if event in PHASES:
            now = time.perf_counter()
            self._intervals[PHASES[event]].append((now - duration, now))

    @staticmethod
    def _usage() -> dict[str, float]:
        return {"wall": time.perf_counter(), **processor_seconds()}

    def read(self) -> dict[str, float]:
        now = self._usage()
        spent = {name: now[name] - self._before[name] for name in now}
        spent |= {phase: covered(self._intervals[phase]) for phase in PHASES.values()}
        self._before, self._intervals = now, defaultdict(list)
        return {name: round(seconds, 3) for name, seconds in spent.items()}


def covered(intervals: list[tuple[float, float]]) -> float:
    """Return the length of a union of intervals: a function traced inside another counts once."""
    length, end = 0.0, float("-inf")
    for first, last in sorted(intervals):
        length += max(0.0, last - max(first, end))
        end = max(end, last)
    return length


class Profile:
    """Collect what the workers measured, and write it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.meter = Meter()
        self.tests: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(COLUMNS, 0.0))
        path.write_text("")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = (yield).get_result()
        report.user_properties.append(("profile", self.meter.read()))

    def pytest_runtest_logreport(self, report):
        found = [value for name, value in report.user_properties if name == "profile"]
        for name, seconds in found[-1].items() if found else ():
            self.tests[report.nodeid][name] += seconds
        if report.when == "teardown":
            with self.path.open("a") as file:
                file.write(json.dumps({"test": report.nodeid, **self.tests[report.nodeid]}) + "\n")

    def pytest_terminal_summary(self, terminalreporter):
        files: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(COLUMNS, 0.0))
        for test, seconds in self.tests.items():
            for name, value in seconds.items():
                files[test.split("::")[0]][name] += value
                files["all"][name] += value
        for title, rows in (("by file", files), ("slowest tests", self.tests)):
            terminalreporter.section(f"seconds {title}")
            terminalreporter.write_line("".join(f"{name:>10}" for name in COLUMNS))
            for name, row in sorted(rows.items(), key=lambda pair: -pair[1]["wall"])[:40]:
                terminalreporter.write_line("".join(f"{row[column]:10.1f}" for column in COLUMNS) + f"  {name}")


def pytest_configure(config):
    worker = hasattr(config, "workerinput")
    path = Path(os.devnull if worker else os.environ.get(VARIABLE, "test-profile.jsonl"))
    config.pluginmanager.register(Profile(path), "consilience-profile")
