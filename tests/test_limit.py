"""A test that takes more than a minute fails, and says so; a busy machine makes none fail."""

import os
import subprocess
import sys
from pathlib import Path

from .limit import MOST_SECONDS, complaint, crowding, processor_seconds

SLOW = """
import time

def test_slow():
    time.sleep(0.1)
"""


def test_what_takes_over_a_minute_is_too_slow():
    assert MOST_SECONDS == 60
    assert complaint("a", 59, 0.5) is None
    assert complaint("a", 61, 0.5).startswith("a took 61 s, more than 60 s.")


def test_a_crowded_machine_gives_more_time():
    assert complaint("a", 110, 2.0) is None
    assert complaint("a", 130, 2.0) is not None
    assert crowding() > 0  # this very test runs


def test_what_a_test_starts_itself_does_not_crowd_it():
    cores = os.cpu_count()
    assert crowding(busy=1.0 + 1000 * cores) < crowding(busy=1.0) - 900
    before = sum(processor_seconds().values())
    subprocess.run([sys.executable, "-c", "sum(range(10**6))"], check=True)
    assert sum(processor_seconds().values()) > before


def test_a_slow_test_fails(tmp_path):
    (tmp_path / "test_slow.py").write_text(SLOW)
    start = "import sys, pytest, tests.limit as l; l.MOST_SECONDS = 1e-6; sys.exit(pytest.main(sys.argv[1:]))"
    words = ["-q", "-p", "no:cacheprovider", "-p", "tests.conftest", "--rootdir", str(tmp_path), str(tmp_path)]
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", start, *words], cwd=root, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "test_slow took" in done.stdout and "1 failed" in done.stdout
