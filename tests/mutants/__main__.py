"""`python -m tests.mutants`: plant one fault after the other in a copy of the project, and see a test fail each time.

Only the tests that a fault names are run, first without any fault: one that fails anyway has found nothing. A fault is
caught when pytest says that tests have failed. A test that cannot be collected or imported, or finds no test to run, is
a mistake in the list; one that took too long, or did not end, has found nothing. What the failing test said stands
beside every fault, for a reader to see that it failed for the right reason.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .faults import PACKAGE, ROOT, Fault, check_tests, planted, read_faults

LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", ".compiled", "__pycache__", ".*_cache", "build", "dist", "site")
OUTPUT = ("demo-output", "runs", "reproduction")  # folders that commands write to; the package has one of such a name
ANOTHER = 9  # the exit code where another package than the copy's would be tested
START = f"""
import importlib.util, pathlib, sys, pytest
found = pathlib.Path(importlib.util.find_spec("consilience").origin).resolve()
if not found.is_relative_to(pathlib.Path.cwd().resolve()):
    print(f"{{found}} would be tested in place of the copy")
    sys.exit({ANOTHER})
sys.exit(pytest.main(sys.argv[1:]))
"""
FAILED = re.compile(
    r"^(?:FAILED|ERROR) (?P<test>tests/[^\s\[]+::[^\s\[]+(?:\[.*?\](?= - |$))?)(?: - (?P<reason>.*))?$", re.M
)
ERRORS = re.compile(r"^E +(\S.*)$", re.M)
LATE = re.compile(r"^tests/.* took \d+ s, more than \d+ s\.", re.M)  # tests/limit.py says so
BROKEN = ("ImportError", "ModuleNotFoundError", "SyntaxError", "NameError", "UnboundLocalError")
CAUGHT, MISSED = "caught", "NOT CAUGHT"
LONGEST_REASON = 120


@dataclass(frozen=True)
class Outcome:
    """What the tests said of a copy: pytest's exit code, None where they did not end in time, and all they printed."""

    code: int | None
    said: str
    seconds: float

    @property
    def failure(self) -> re.Match[str] | None:
        return FAILED.search(self.said)

    @property
    def reason(self) -> str:
        """The first line of what the failing test said; where that only names an error, the next as well."""
        if self.failure is None:
            return ""
        lines = ERRORS.findall(self.said)
        first = (self.failure["reason"] or (lines[0] if lines else "")).strip()
        if first.endswith(":"):  # numpy's messages begin with an empty line
            first = " ".join([first, *lines[1:2]])
        return first if len(first) <= LONGEST_REASON else f"{first[: LONGEST_REASON - 3]}..."


def copied(folder: Path, fault: Fault | None = None) -> Path:
    """Copy the project, and plant a fault in the copy."""
    copy = folder / "copy"
    shutil.copytree(ROOT, copy, ignore=lambda at, names: {*LEFT_OUT(at, names), *(OUTPUT if Path(at) == ROOT else ())})
    if fault is not None:
        (copy / PACKAGE / fault.file).write_text(planted(fault), encoding="utf-8")
    return copy


def run_tests(copy: Path, tests: Sequence[str], keyword: str, limit: float, *options: str) -> Outcome:
    """Run tests of a copy against the copy's own package."""
    words = [*options, "-q", "-rfE", "--tb=short", "-p", "no:cacheprovider", *(["-k", keyword] if keyword else [])]
    command = [sys.executable, "-c", START, *words, *(f"tests/{test}" for test in tests)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy / "src"),
        "COLUMNS": "1000",  # room for what a failing test says, after its name
        "CONSILIENCE_PATIENCE": str(limit / 2),  # a test must be able to say what it has waited for
        "CONSILIENCE_COMPILED": str(ROOT / ".compiled"),  # programs are looked up by what they compute, faults and all
    }
    began = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=copy,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # so that what the tests have started can be ended with them
    ) as process:
        try:
            said, _ = process.communicate(timeout=limit)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            code = None
    return Outcome(code, said, time.monotonic() - began)


def check_unchanged(faults: Sequence[Fault], limit: float) -> None:
    """Stop where a test of the list fails without any fault."""
    by_keyword: dict[str, dict[str, None]] = {}
    for fault in faults:
        by_keyword.setdefault(fault.keyword, {}).update(dict.fromkeys(fault.tests))
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(Path(folder))
        for keyword, tests in by_keyword.items():
            outcome = run_tests(copy, [*tests], keyword, limit * len(tests))
            if outcome.code != 0:
                sys.exit(f"{outcome.said}\nThe tests must pass before a fault is planted (code {outcome.code}).")


def verdict_of(outcome: Outcome) -> str:
    """Return whether the tests have found a fault, or what is wrong with its entry."""
    if outcome.code is None:
        return "did not end"
    if outcome.code == 0:
        return MISSED
    failure = outcome.failure
    if outcome.code != 1 or failure is None:
        return f"mistake in the list: pytest's exit code {outcome.code}"
    if LATE.search(outcome.said):
        return "took too long"
    if outcome.reason.startswith(BROKEN):
        return "mistake in the list: the code does not run"
    return CAUGHT


def plant(fault: Fault, limit: float, verbose: bool) -> tuple[str, Outcome]:
    """Plant a fault, run its tests, and say what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = run_tests(copied(Path(folder), fault), fault.tests, fault.keyword, limit, "-x")
    verdict = verdict_of(outcome)
    print(f"{fault.name:<44} {verdict:<10} {outcome.seconds:6.1f} s  {outcome.reason}", flush=True)
    if verbose or verdict != CAUGHT:
        print(outcome.said, flush=True)
    return verdict, outcome


def table(faults: Sequence[Fault], found: Sequence[tuple[str, Outcome]]) -> str:
    """Return all faults and what came of them, as a table in Markdown."""
    columns = ("fault", "area", "file", "what it breaks", "caught by", "which said", "seconds")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for fault, (verdict, outcome) in zip(faults, found, strict=True):
        by, said = f"**{verdict}**", ""
        if verdict == CAUGHT and outcome.failure is not None:
            by, said = _as_code(outcome.failure["test"].removeprefix("tests/")), _as_code(outcome.reason)
        row = (fault.name, fault.area, f"`{fault.file}`", fault.breaks, by, said, f"{outcome.seconds:.0f}")
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def _as_code(text: str) -> str:
    """Return a text as code in a cell of a table."""
    return "`{}`".format(text.replace("|", "\\|").replace("`", "'"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="faults whose name contains one of these; all without any")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    parser.add_argument("--limit", type=float, default=180, help="seconds for the tests of one fault")
    parser.add_argument("--table", type=Path, help="a file for the table at the end, in Markdown")
    parser.add_argument("--verbose", action="store_true", help="show what the tests say of a fault that is caught too")
    options = parser.parse_args()
    faults = [f for f in read_faults() if not options.names or any(name in f.name for name in options.names)]
    if not faults:
        parser.error(f"no fault's name contains {' or '.join(options.names)}.")
    for fault in faults:
        planted(fault)
        check_tests(fault)
    check_unchanged(faults, options.limit)
    with ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(lambda fault: plant(fault, options.limit, options.verbose), faults))
    text = table(faults, found)
    print(f"\n{text}")
    if options.table:
        options.table.write_text(text, encoding="utf-8")
    caught = sum(verdict == CAUGHT for verdict, _ in found)
    sys.exit(f"{len(found) - caught} of {len(found)} faults not caught" if caught < len(found) else 0)


if __name__ == "__main__":
    main()
