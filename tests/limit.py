"""How long a test may take: a suite that is slow is not run."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

MOST_SECONDS = 60.0  # of one test, with what is made for it


def crowding() -> float:
    """Return how many want to run for every core, now or in the last minute, whichever is more."""
    cores, running = os.cpu_count() or 1, os.getloadavg()[0]
    with suppress(OSError):  # another system than Linux
        running = max(running, float(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]))
    return running / cores


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
