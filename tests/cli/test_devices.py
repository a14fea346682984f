"""`consilience run --devices`: on some devices, on all, and with other hosts, of which one dies."""

import json
import re
import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import consilience as cs
from consilience.cli.app import app

from ..forks import Forked
from ..patience import PATIENCE
from ..peers.crew import free_ports

STARTED = count()
MODEL = """
import jax.numpy as jnp
import numpy as np
import consilience as cs

posterior = cs.Posterior(
    lambda w: -0.5 * w @ w, lambda w, batch: -0.5 * jnp.square(batch["x"] @ w - batch["y"]), init=jnp.zeros(2)
)

def load():
    def shard(agent):
        rng = np.random.default_rng(agent)
        return {"x": rng.standard_normal((9, 2)), "y": rng.standard_normal(9)}
    return shard
"""
FILE = """
[model]
posterior = "model:posterior"
[data]
loader = "model:load"
[network]
kind = "ring:5"
[sampler]
name = "dmala"
step_size = 0.1
inverse_mass_matrix = 1.0
[run]
num_warmup = 0
num_samples = 40
x64 = true
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "run.toml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("model", None)


def command(*words):
    return CliRunner().invoke(app, ["run", "run.toml", "--no-report", *words])


def started(*words):
    number = next(STARTED)
    files = (Path(f"said-{number}.out"), Path(f"said-{number}.err"))
    return Forked(f"{__package__}.host", ["run", "run.toml", "--no-report", *words], Path(), *files)


def test_on_two_devices_as_without(folder):
    for words in (["--out", "plain"], ["--out", "two", "--devices", "2"], ["--out", "all", "--devices", "all"]):
        result = command(*words)
        assert result.exit_code == 0, result.output
    plain, two, every = (cs.load(name).kept[:] for name in ("plain", "two", "all"))
    np.testing.assert_allclose(two, plain, atol=1e-8)
    np.testing.assert_allclose(every, plain, atol=1e-8)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--devices", "many"], "--devices many: it is neither all nor a number. Write --devices all"),
        (
            ["--devices", "9"],
            "--devices 9: jax has 5 here. Write --devices all, or, to try several on a CPU: XLA_FLAGS=--xla_force",
        ),
        (["--host", "0"], "--host is for several hosts. Write --devices cluster with it"),
        (["--devices", "cluster", "--coordinator", "here:1"], "hosts and host: missing"),
        (["--devices", "cluster", "--coordinator", "here", "--hosts", "2", "--host", "0"], "a name and a port"),
        (["--devices", "cluster", "--coordinator", "7460", "--hosts", "2", "--host", "0"], "a name and a port"),
        (["--devices", "cluster", "--coordinator", "here:1", "--hosts", "2", "--host", "2"], "the first is 0"),
    ],
)
def test_refusals(folder, words, message):
    result = command(*words)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert not (folder / "runs").exists()


def test_outside_of_a_cluster(folder):
    process = started("--devices", "cluster")
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2 and "no cluster is known here" in errors


def both(words, second=()):
    """What two hosts said, and their exit codes."""
    cluster = ["--devices", "cluster", "--coordinator", f"127.0.0.1:{free_ports(1)[0]}", "--hosts", "2", "--host"]
    processes = [started(*words, *cluster, "0"), started(*words, *second, *cluster, "1")]
    try:
        return [(*process.communicate(timeout=PATIENCE), process.returncode) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_what_only_the_first_host_can_refuse_ends_both(folder):
    assert command("--out", "there").exit_code == 0
    (_, first, one), (_, second, two) = both(["--out", "there"])
    assert (one, two) == (2, 2)
    assert "already holds a run" in first and "host 0 refuses" in second


def test_an_error_of_one_host_ends_both(folder):
    (folder / "failing.py").write_text(
        "from consilience.store import checkpoints\n"
        "def full(*_): raise OSError(28, 'No space left on device')\n"
        "checkpoints.Checkpoints.write = full\n" + MODEL.replace("def load():", "def load_failing():")
    )
    failing = ["--set", 'data.loader="failing:load_failing"']
    (_, first, one), (_, second, two) = both(["--out", "run", "--set", "run.num_samples=100000"], failing)
    assert one == 1 and two != 0, (first, second)
    assert "No space left on device" in second and "another one has gone" in first


def test_two_hosts_of_which_one_dies(folder):
    def words(draws):
        port = free_ports(1)[0]
        draws = ["--set", f"run.num_samples={draws}", "--out", "shared", "--json", "--devices", "cluster"]
        return [*draws, "--coordinator", f"127.0.0.1:{port}", "--hosts", "2", "--host"]

    line = words(100_000)
    first, second = (started(*line, str(host)) for host in range(2))
    errors, reported = "", 0
    try:
        for said in first.errors():
            errors += f"{said}\n"
            report = re.search(r"dmala: ([\d,]+) of 100,000 iterations", said)
            if report is not None:
                reported = int(report[1].replace(",", ""))
                second.kill()
        out, _ = first.communicate(timeout=PATIENCE)
    finally:
        for process in (first, second):
            process.kill()
            process.wait()
    assert reported > 0, errors
    assert first.returncode == 1 and out == ""
    assert "another one has gone" in errors and "--resume --devices cluster --coordinator" in errors
    drawn = cs.load("shared").num_draws
    assert reported <= drawn < 100_000  # nothing that was reported is lost, and it was in the midst

    line = words(drawn + 50)
    first, second = (started("--resume", *line, str(host)) for host in range(2))
    (out, errors), (nothing, _) = (process.communicate(timeout=PATIENCE) for process in (first, second))
    assert (first.returncode, second.returncode) == (0, 0), errors
    assert json.loads(out)["paths"]["run"] == "shared" and nothing == ""
    assert command("--out", "undisturbed", "--set", f"run.num_samples={drawn + 50}").exit_code == 0
    np.testing.assert_allclose(cs.load("shared").kept[:], cs.load("undisturbed").kept[:], atol=1e-8)
