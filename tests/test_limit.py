"""A test that takes more than a minute fails, and says so; a busy machine makes none fail."""

import subprocess
import sys
from pathlib import Path

import pytest

from .limit import MOST_SECONDS, complaint, crowding

SLOW = """
import time

def test_slow():
    time.sleep(0.5)
"""


def test_what_takes_over_a_minute_is_too_slow():
    assert MOST_SECONDS == 60
    assert complaint("a", 59, 0.5) is None
    assert complaint("a", 61, 0.5).startswith("a took 61 s, more than 60 s.")


def test_a_crowded_machine_gives_more_time():
    assert complaint("a", 110, 2.0) is None
    assert complaint("a", 130, 2.0) is not None
    assert crowding() > 0  # this very test runs


@pytest.mark.parametrize(("most", "code"), [("0.1", 1), ("1e9", 0)])
def test_a_slow_test_fails(most, code, tmp_path):
    (tmp_path / "test_slow.py").write_text(SLOW)
    start = f"import sys, pytest, tests.limit as l; l.MOST_SECONDS = {most}; sys.exit(pytest.main(sys.argv[1:]))"
    words = ["-q", "-p", "no:cacheprovider", "-p", "tests.conftest", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", start, *words], cwd=Path(__file__).parents[1], capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert ("more than" in done.stdout) == (code == 1)
