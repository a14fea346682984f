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
from consilience._refused import Refused

COUNTING = """
import sys
import jax
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if "cache_hit" in event else None)
{}
jax.jit(lambda x: x * 3 + 1)(2.0)
print(len(hits))
"""
KEEPING = "from consilience._compiled import keep_compiled_code; keep_compiled_code()"
COMMAND = """
import typer.testing
from consilience.cli.app import app
result = typer.testing.CliRunner().invoke(app, ["run", "run.toml", *sys.argv[1:]])
assert result.exit_code == 0, result.output
"""
MODEL = """
import consilience as cs
posterior = cs.Posterior(lambda w: -0.5 * w**2, lambda w, batch: -0.5 * (batch["y"] - w) ** 2, init=0.0)
"""
RUN = """
[model]
posterior = "model:posterior"
[data]
file = "rows.csv"
features = ["x"]
target = "y"
[network]
kind = "path:2"
[sampler]
name = "mala"
[run]
num_warmup = 5
num_samples = 5
"""


def hits(folder: Path | str, code: str = KEEPING, *words: str, cwd: Path | None = None) -> tuple[int, str]:
    """Return how often a process finds a program compiled, and what it says on stderr."""
    environment = {**os.environ, "CONSILIENCE_COMPILED": str(folder)}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    line = [sys.executable, "-c", COUNTING.format(code), *words]
    done = subprocess.run(line, env=environment, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout), done.stderr


def test_the_command_finds_what_it_compiled_before_with_another_seed(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "run.toml").write_text(RUN)
    (tmp_path / "rows.csv").write_text("x,y\n1,0.5\n2,1.5\n3,1.0\n4,0.2\n")
    cold, warm = (
        hits(
            tmp_path / "compiled",
            COMMAND,
            "--no-report",
            "--out",
            f"run{seed}",
            "--set",
            f"run.seed={seed}",
            cwd=tmp_path,
        )
        for seed in (1, 2)
    )
    assert warm[0] >= cold[0] + 3  # at the least how agents start, whether they can, and how they go on


def test_what_others_can_write_to_is_not_run(tmp_path):
    root = tmp_path / "a" / "b"
    assert hits(root) == (0, "")
    (entries,) = root.iterdir()  # a folder for this kind of processor
    for made in (entries, root, root.parent):
        assert made.stat().st_mode & 0o077 == 0, "others could put code there"
    assert hits(root) == (1, "")
    root.parent.chmod(0o777)
    count, said = hits(root)
    assert count == 0
    assert f"no compiled code is kept. {root.parent}: others can write to it. Run chmod go-w {root.parent}" in said


def test_no_folder_on_the_way_may_be_others_to_write_to(tmp_path):
    folder = _compiled._make_private(tmp_path / "a" / "b")
    for one in (folder, folder.parent):
        for mode in (0o777, 0o707):
            one.chmod(mode)
            with pytest.raises(Refused, match=f"{one}: others can write to it"):
                _compiled._make_private(folder)
        one.chmod(0o700)
    folder.parent.chmod(0o1777)  # as /tmp: nobody can move what is another's there
    assert _compiled._make_private(folder) == folder
    folder.chmod(0o1777)  # but anybody can add to it
    with pytest.raises(Refused):
        _compiled._make_private(folder)


def test_a_link_is_followed_once(tmp_path, monkeypatch):
    """Who can change a link later must not decide what is run."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert _compiled._make_private(tmp_path / "link" / "kind") == tmp_path.resolve() / "real" / "kind"


def test_a_group_of_one_user_counts_as_that_user(tmp_path, monkeypatch):
    tmp_path.chmod(0o770)
    for one_user in (True, False):
        monkeypatch.setattr(_compiled, "_is_of_one_user", lambda group, answer=one_user: answer)
        assert _compiled._is_ours_to_write(tmp_path.stat()) is one_user


def test_it_can_be_switched_off_and_put_elsewhere(monkeypatch, tmp_path):
    for word in ("off", "OFF", "0", "no", "false"):
        monkeypatch.setenv("CONSILIENCE_COMPILED", word)
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
    monkeypatch.setattr(jax.config, "jax_given", "/somewhere", raising=False)
    monkeypatch.setattr(_compiled, "FOLDER", "jax_given")
    _compiled.keep_compiled_code()
    assert settings == {}


def test_a_folder_that_cannot_be_made_costs_nothing(settings, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(jax.config, "jax_not_given", None, raising=False)
    monkeypatch.setattr(_compiled, "FOLDER", "jax_not_given")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CONSILIENCE_COMPILED", str(tmp_path / "file" / "x"))
    _compiled.keep_compiled_code()
    assert "no compiled code is kept" in capsys.readouterr().err
    monkeypatch.delenv("CONSILIENCE_COMPILED")
    for name, error in (
        ("compiled_folder", RuntimeError("no home")),
        ("write_compiled_code_whole", ImportError("gone")),
        ("keep_compiled_callers_of_python", AttributeError("gone")),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(_compiled, "cache_folder", lambda: tmp_path)
            patch.setattr(_compiled, name, Mock(side_effect=error))
            _compiled.keep_compiled_code()
        assert settings == {}
    assert capsys.readouterr().err == ""  # nobody has asked for it


def test_what_was_written_first_goes_when_there_is_much(tmp_path):
    (tmp_path / "folder").mkdir()
    for age, name in enumerate(["new", "old", "folder/older"]):
        (tmp_path / name).write_bytes(bytes(10))
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    _compiled._remove_oldest(tmp_path, 20)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["folder", "new", "old"]
