"""`consilience demo`, small."""

import json
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from unittest.mock import Mock

import jax
import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from consilience.cli.app import app
from consilience.experiments import digits

SAMPLERS = ["nuts", "surrogate", "dmala", "published", "dula", "centralized HMC", "agent 0 alone"]


def invoke(*arguments):
    return CliRunner().invoke(app, list(arguments))


class Quick(NamedTuple):
    out: Path
    result: Result
    outcome: digits.DemoOutcome


def fewer(data):
    """Return every fifth of the images, of which four pixels are one."""
    x = data["x"][::5].reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
    return {"x": x, "y": data["y"][::5]}


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """`consilience demo --quick` on fewer and smaller images, and what it found."""
    out, found, whole = tmp_path_factory.mktemp("demo"), [], digits.compare_on_digits

    def kept(*arguments, **options):
        found.append(whole(*arguments, **options))
        return found[-1]

    images = tuple(map(fewer, digits.bundled_digits()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digits, "bundled_digits", lambda: images)
        patch.setattr(digits, "INIT", {**digits.INIT, "w": digits.INIT["w"][:16]})
        patch.setattr("consilience.experiments.compare_on_digits", kept)
        result = invoke("demo", "--quick", "--out", str(out))
    assert result.exit_code == 0, result.output
    return Quick(out, result, found[0])


def test_it_prints_a_table_and_saves_it_with_a_figure(quick):
    out, result, _ = quick
    assert "reference: 12 of 12 iterations" in result.output
    for word in (*SAMPLERS, "accuracy", "NLL", "var/ref", "accept", "rounds", "MB", "samples about π² instead of π"):
        assert word in result.output
    rows = json.loads((out / "results.json").read_text())
    assert [row["sampler"] for row in rows] == SAMPLERS
    assert (out / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert all(name in (out / "report.html").read_text() for name in SAMPLERS)


def test_cost_and_bias_are_in_the_rows(quick):
    rows = {row["sampler"]: row for row in json.loads((quick.out / "results.json").read_text())}
    published = rows["published"]
    iterations = 50 + 10 * 25
    assert published["rounds"] == 2 * iterations
    assert published["megabytes"] == pytest.approx(10 * iterations * 2 * 4 * (171 + 170) / 1e6)
    assert published["bias"]
    assert rows["centralized HMC"]["bias"] is None
    assert rows["nuts"]["bias"] is rows["surrogate"]["bias"] is None
    assert rows["surrogate"]["rounds"] < rows["nuts"]["rounds"]
    assert "approximate" in rows["dmala"]["bias"]
    assert rows["agent 0 alone"]["accuracy"] < 0.3


def test_figures_mean_what_the_table_says():
    """Of a made-up run of known draws: twice the reference's sd, and a classifier that is always right."""
    train, test = digits.bundled_digits()
    options = {"init": digits.INIT, "num_samples": 50, "progress": False}
    reference = digits.sample(
        digits.POSTERIOR, [train], digits.Network.complete(1), digits.CentralizedHMC(0.02), **options
    )
    wide = replace(reference, kept=2 * reference.kept)
    assert digits._row("wide", wide, reference, test).variance_ratio == pytest.approx(4, rel=1e-5)
    row = digits._row("same", reference, reference, test)
    assert row.variance_ratio == pytest.approx(1)
    predicted = reference.predict(lambda p, x: jax.nn.softmax(digits.logits(p, x)), test["x"])[0]
    assert row.nll == pytest.approx(-np.log(predicted[np.arange(len(test["y"])), test["y"]]).mean(), rel=1e-5)
    assert row.accuracy == pytest.approx((predicted.argmax(axis=1) == test["y"]).mean())


def test_a_folder_that_cannot_be_written_is_refused_before_the_first_draw(tmp_path):
    (tmp_path / "file").write_text("")
    result = invoke("demo", "--quick", "--out", str(tmp_path / "file" / "x"))
    assert result.exit_code == 2
    assert "iterations" not in result.output
    assert "Traceback" not in result.output
    assert "is a file, and a folder is needed. Name another: --out DIR." in result.output


def test_json_is_json_and_quiet_is_quiet(quick, tmp_path, monkeypatch):
    asked = Mock(return_value=quick.outcome)
    monkeypatch.setattr("consilience.experiments.compare_on_digits", asked)
    monkeypatch.setattr("consilience.experiments.plot_digits", Mock())
    monkeypatch.setattr("consilience.report.report", Mock())
    result = invoke("demo", "--quick", "--json", "--quiet", "--out", str(tmp_path))
    assert json.loads(result.stdout) == json.loads((quick.out / "results.json").read_text())
    assert result.stderr == ""
    assert asked.call_args.kwargs["progress"] is False


def test_quiet_prints_the_table_alone(tmp_path, monkeypatch):
    row = digits.DemoRow("dula", 0.9, 0.8, 0.3, 1.0, 50.0, None, 10, 2.0, "not exact", 1.0)
    monkeypatch.setattr("consilience.experiments.compare_on_digits", Mock(return_value=Mock(rows=[row], runs={})))
    monkeypatch.setattr("consilience.experiments.plot_digits", Mock())
    monkeypatch.setattr("consilience.report.report", Mock())
    told, quiet = (invoke("demo", "--quick", "--out", str(tmp_path), *option).stdout for option in ([], ["--quiet"]))
    assert told.startswith(quiet.rstrip())
    assert "dula" in quiet
    for words in ("Accuracy and NLL on", "not exact", "written", "--quick"):
        assert words in told
        assert words not in quiet


def test_help_shows_an_example():
    assert "Example: consilience demo" in invoke("demo", "--help").output
    assert "demo" in invoke("--help").output
    assert invoke("--version").output.startswith("consilience ")


def test_an_agent_learns_classes_it_never_saw():
    """Accuracy on held-out images of the eight digits that an agent has no example of."""
    train, test = digits.bundled_digits()
    shards = digits.shard(train, digits.AGENTS, by="label")
    run = digits.sample(
        digits.POSTERIOR,
        shards,
        digits.Network.ring(digits.AGENTS),
        digits.Published(step_size=0.02, metropolis_after=1000),
        init=digits.INIT,
        num_warmup=1500,
        num_samples=100,
        thin=10,
        progress=False,
    )
    row = digits._row("published", run, run, test)
    assert row.worst_accuracy > 0.85
    assert run.evaluation.seen == ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9))
    assert (run.evaluation.unseen_accuracy > 0.85).all()
