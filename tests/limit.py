"""How long a test may take: a suite that is slow is not run."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

from . import forks

MOST_SECONDS = 60.0  # of one test, with what is made for it


def processor_seconds() -> dict[str, float]:
    """Return what this process has computed so far, and what those that it started and that have ended have."""
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "cpu": own.ru_utime + own.ru_stime,
        "children": children.ru_utime + children.ru_stime + sum(forks.SPENT),
    }


def crowding(busy: float = 1.0) -> float:
    """Return how many want to run for every core, now or in the last minute, whichever is more.

    Args:
      busy: how many cores a test has used itself; all above one do not count.
    """
    cores, running = os.cpu_count() or 1, os.getloadavg()[0]
    with suppress(OSError):  # another system than Linux
        running = max(running, float(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]))
    return (running - max(0.0, busy - 1.0)) / cores


def complaint(test: str, spent: float, crowding: float) -> str | None:
    """Return what is wrong with a test that took so many seconds, None if nothing is.

    On a machine that is busy with other things it may take as much longer.
    """
    most = MOST_SECONDS * max(1.0, crowding)
    if spent <= most:
        return None
    return (
        f"{test} took {spent:.0f} s, more than {most:.0f} s. Make it smaller, share what it needs through a fixture, "
        f"or mark it soak."
    )
