"""Compiled code that is kept between processes: found again, whole, bounded, and off where somebody says so."""

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import jax
import pytest

from consilience import _compiled
from consilience._cache import cache_folder

COUNTING = """
import jax
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if "cache_hit" in event else None)
import typer.testing
from consilience.cli.app import app
typer.testing.CliRunner().invoke(app, ["network", "ring:4"])
jax.jit(lambda x: x * 3 + 1)(2.0)
print(len(hits))
"""


def hits(folder: Path | str) -> int:
    """Return how often a process that uses the command finds a program compiled."""
    environment = {**os.environ, "CONSILIENCE_COMPILED": str(folder)}
    done = subprocess.run([sys.executable, "-c", COUNTING], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_the_command_finds_what_it_compiled_before(tmp_path):
    assert hits(tmp_path) == 0
    (entries,) = tmp_path.iterdir()  # a folder for this kind of processor
    assert entries.stat().st_mode & 0o077 == 0, "others could put code there"
    assert hits(tmp_path) > 0
    for folder in (entries, tmp_path):  # what others can write to is not run
        mode = folder.stat().st_mode
        folder.chmod(0o777)
        assert hits(tmp_path) == 0
        folder.chmod(mode)
    assert hits("off") == 0


def test_it_can_be_switched_off_and_put_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setenv("CONSILIENCE_COMPILED", "off")
    assert _compiled.compiled_folder() is None
    monkeypatch.setenv("CONSILIENCE_COMPILED", str(tmp_path))
    assert _compiled.compiled_folder().parent == tmp_path
    monkeypatch.delenv("CONSILIENCE_COMPILED")
    assert _compiled.compiled_folder().parent == cache_folder() / "compiled"


@pytest.mark.parametrize("told", ["processor", "processor_features"])
def test_processors_of_different_kinds_share_no_code(told, monkeypatch):
    one = _compiled.compiled_folder()
    monkeypatch.setattr(_compiled, told, lambda: "another kind")
    assert _compiled.compiled_folder() != one


@pytest.fixture
def settings(monkeypatch):
    """Record what jax is told, and let nothing of it happen."""
    told = {}
    monkeypatch.setattr(jax.config, "update", told.__setitem__)
    return told


def test_a_folder_that_somebody_gave_jax_stays(settings, monkeypatch, tmp_path):
    monkeypatch.setenv("CONSILIENCE_COMPILED", str(tmp_path))
    assert jax.config.jax_compilation_cache_dir is not None  # the tests' own
    _compiled.keep_compiled_code()
    assert settings == {}


def test_a_folder_that_cannot_be_made_costs_nothing(settings, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CONSILIENCE_COMPILED", str(tmp_path / "file" / "x"))
    monkeypatch.setattr(_compiled, "FOLDER", "jax_dump_ir_to")  # a setting that is not set
    monkeypatch.setattr(jax.config, "jax_dump_ir_to", None, raising=False)
    _compiled.keep_compiled_code()
    assert settings == {}
    monkeypatch.setattr(_compiled, "compiled_folder", Mock(side_effect=RuntimeError("no home")))
    _compiled.keep_compiled_code()
    assert settings == {}


def test_what_was_written_first_goes_when_there_is_much(tmp_path):
    for age, name in enumerate(["new", "old", "older"]):
        (tmp_path / name).write_bytes(bytes(10))
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    _compiled._remove_oldest(tmp_path, 20)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]
