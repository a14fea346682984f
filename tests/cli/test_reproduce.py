"""`consilience reproduce`, all experiments with far too few iterations."""

import json
from html import unescape
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from typer.testing import CliRunner

from consilience.cli import reproduce as command
from consilience.cli.app import app
from consilience.experiments import EXPERIMENTS, bnn, boston, data, gmm, images, mnist_partial, mnist_ring, reproduction
from consilience.experiments.record import Options, Record
from consilience.experiments.summary import method_cells
from consilience.samplers import DULA

RECORDS = Path(__file__).parents[2] / "docs" / "experiments"


def invoke(*arguments):
    return CliRunner().invoke(app, ["reproduce", *arguments])


def a_fifth():
    """Return scikit-learn's digits, every fifth of them."""
    train, test, side, source = BUNDLED()
    return *({name: column[::5] for name, column in part.items()} for part in (train, test)), side, source


BUNDLED = images._bundled


@pytest.fixture
def small(monkeypatch):
    """Fewer images, and fewer draws to compare: what is tried here is the way from a command to its page."""
    monkeypatch.setattr(data, "found", lambda name: False)  # as on a fresh machine
    monkeypatch.setattr(images, "_bundled", a_fifth)
    monkeypatch.setattr(gmm, "COMPARED", 100)
    monkeypatch.setattr(gmm, "CELLS", 101)


SLOW = {"mnist-partial": mnist_partial, "mnist-ring": mnist_ring, "boston": boston, "bnn": bnn}  # to compile


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.soak) if name in SLOW else name for name in EXPERIMENTS]
)
def test_an_experiment_gives_a_record_a_figure_and_a_page(name, tmp_path, small, monkeypatch):
    monkeypatch.setenv("COLUMNS", "170")
    result = invoke(name, "--quick", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    home = tmp_path / name
    record = Record.from_json((home / "results.json").read_text(encoding="utf-8"))
    assert record.experiment == name
    assert record.command == f"consilience reproduce {name} --scale small --quick"
    assert (home / "figure.png").read_bytes().startswith(b"\x89PNG")
    shown = unescape((tmp_path / "index.html").read_text(encoding="utf-8"))
    for words in (record.title, record.data, "data:image/png;base64,"):
        assert words in shown
    assert all(claim.measured in shown for claim in record.claims)
    for row in record.rows:
        assert row.name in result.output
        assert row.name in (home / "report.html").read_text(encoding="utf-8")
        assert (home / "runs" / row.name.replace(" ", "-").replace(",", "") / "run.toml").exists()
    if record.rows:  # a quick look decides nothing; the theory's has all it needs
        assert {claim.holds for claim in record.claims} == {None}


@pytest.mark.parametrize("name", SLOW)
def test_an_experiment_is_conducted_and_drawn(name, tmp_path, small, monkeypatch):
    """With samplers that compile quickly in the place of exact ones, and without the report on their runs."""
    for heavy in {"NUTS", "HMC", "DMALA"} & vars(SLOW[name]).keys():
        monkeypatch.setattr(SLOW[name], heavy, lambda **_: DULA(1e-7))
    drawn = Mock()
    monkeypatch.setattr("consilience.report.report", drawn)
    record = reproduction.reproduce(EXPERIMENTS[name], Options(seeds=2, out=tmp_path, quick=True))
    assert {row.name for row in record.rows} >= {"centralized HMC", "published", "D-ULA"}
    assert all(np.isfinite(values).all() for row in record.rows for values in row.scores.values())
    assert {column for row in record.rows for column in row.scores} >= set(record.columns)
    assert {claim.holds for claim in record.claims} == (set() if name == "bnn" else {None})
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert list(drawn.call_args.args[0]) == [row.name for row in record.rows]


def test_a_second_time_is_the_first_again_and_json_is_json(tmp_path, small):
    first, again = (json.loads(invoke("gmm", "--quick", "--json", "--out", str(tmp_path)).stdout) for _ in range(2))
    assert first[0]["rows"] == again[0]["rows"]
    other = invoke("gmm", "--quick", "--seeds", "2", "--out", str(tmp_path))
    assert other.exit_code == 2
    assert "num_chains: 3 there, 2 here" in other.stderr
    assert "--out DIR starts anew" in other.stderr


def test_all_are_run_in_order_and_shown_on_one_page(tmp_path, monkeypatch):
    seen, written = [], Mock()
    monkeypatch.setattr(command, "run_experiment", lambda one, options: seen.append(one.name))
    monkeypatch.setattr(command, "show", Mock())
    monkeypatch.setattr(command, "write_page", written)
    assert invoke("all", "--out", str(tmp_path)).exit_code == 0
    assert seen == list(EXPERIMENTS)
    assert written.call_args.args[1:] == (tmp_path, tmp_path / "index.html")


def test_the_page_keeps_what_was_run_before(tmp_path, monkeypatch):
    """The record of an earlier command, and a figure, are all it needs."""
    monkeypatch.setattr(command, "show", Mock())

    def ran(experiment, options):
        options.out.mkdir(parents=True)
        record = Record.from_json((RECORDS / f"{experiment.name}.json").read_text(encoding="utf-8"))
        (options.out / "results.json").write_text(record.to_json(), encoding="utf-8")
        (options.out / "figure.png").write_bytes((RECORDS / f"{experiment.name}.png").read_bytes())
        return record

    monkeypatch.setattr(command, "run_experiment", ran)
    for name in ("boston", "gmm"):
        assert invoke(name, "--out", str(tmp_path)).exit_code == 0
    shown = unescape((tmp_path / "index.html").read_text(encoding="utf-8"))
    assert shown.index('id="gmm"') < shown.index('id="boston"')


def test_an_interruption_says_how_to_go_on(tmp_path, monkeypatch):
    def stopped(experiment, options):
        (options.out / "runs" / "nuts").mkdir(parents=True)
        (options.out / "runs" / "nuts" / "run.toml").write_text("")
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run_experiment", stopped)
    result = invoke("gmm", "--out", str(tmp_path))
    assert result.exit_code == 130
    assert "the same command goes on with it" in result.stderr


@pytest.mark.parametrize("width", [40, 80, 400])
def test_no_number_is_cut_off(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    record = Record.from_json((RECORDS / "boston.json").read_text(encoding="utf-8"))
    command.show(record)
    printed = " ".join(capsys.readouterr().out.split())
    for cells in method_cells(record):
        for cell in cells:
            assert cell in printed


def test_an_unknown_experiment_is_refused_with_the_nearest(tmp_path):
    result = invoke("mnist", "--out", str(tmp_path))
    assert result.exit_code == 2
    assert "there is no experiment 'mnist'. Write mnist-ring." in result.stderr
    assert "was drawn" not in result.stderr


def test_the_paper_s_scale_needs_its_data_before_the_first_draw(tmp_path, monkeypatch):
    monkeypatch.setenv("CONSILIENCE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(data, "MIRRORS", dict.fromkeys(data.MIRRORS, ("http://127.0.0.1:9/",)))
    monkeypatch.setattr(command, "run_experiment", Mock(side_effect=AssertionError))
    result = invoke("all", "--scale", "paper", "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    for file in ("boston/boston_house_prices.csv", "mnist/train-images-idx3-ubyte.gz", "fashion-mnist/t10k-labels"):
        assert file in result.stderr
    assert "Traceback" not in result.output
