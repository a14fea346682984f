"""Records: plain data that comes back as it was, and what is read off a run."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from consilience.experiments import EXPERIMENTS, bnn, boston, mnist_partial, mnist_ring, theorems
from consilience.experiments.claims import Exact, judge
from consilience.experiments.methods import _acceptance, curve_of, settings
from consilience.experiments.record import PAPER, Curve, Judged, MethodRow, Options, Record
from consilience.experiments.reproduction import command
from consilience.experiments.summary import method_cells, method_header, score_cell
from consilience.samplers import DMALA, DULA, HMC, Published

RECORDS = Path(__file__).parents[2] / "docs" / "experiments"


def record():
    row = MethodRow(
        "published",
        PAPER,
        "posterior",
        "published(step_size=0.1)",
        100,
        10,
        5,
        2,
        1.5,
        15.0,
        0.9,
        200,
        3.25,
        {"accuracy": [0.91234567, 0.93], "NLL": [float("inf"), 0.2], "ratio": [float("nan"), 1.0]},
        {"accuracy": Curve([5, 10], [0.5, 0.9], [0.0, 0.1])},
    )
    return Record(
        "gmm",
        "A title",
        "section 4",
        "small",
        2,
        "float32",
        "consilience reproduce gmm",
        "2026-01-01",
        1.5,
        {"device": "CPU, 2 cores", "machine": "x86_64"},
        {"jax": "0.10", "numpy": "2", "python": "3.11", "consilience": "0.1"},
        "data",
        {"accuracy": 3, "NLL": 2, "missing": 1},
        [row],
        [Judged("a | claim", PAPER, "1", None)],
        ["note"],
        {"points": [[1.0, float("nan")]]},
    )


def test_a_record_comes_back_as_it_was():
    text = record().to_json()
    again = Record.from_json(text)
    assert again.to_json() == text
    assert json.loads(text)["drawn"]["points"] == [[1.0, None]]
    assert again.rows[0].scores["NLL"] == [float("inf"), 0.2]
    assert np.isnan(again.rows[0].scores["ratio"][0])
    assert again.rows[0].curves["accuracy"] == Curve([5, 10], [0.5, 0.9], [0.0, 0.1])
    assert again.claims[0].verdict == "undecided"


def test_cells_are_means_with_their_spread():
    found = record()
    assert score_cell(found.rows[0], "accuracy", 3) == "0.921 ± 0.012"
    assert score_cell(found.rows[0], "NLL", 2) == "inf"
    assert score_cell(found.rows[0], "missing", 3) == "n/a"
    assert len(method_header(found)) == len(method_cells(found)[0])
    assert "target" not in method_header(found)


def test_the_command_repeats_the_run():
    assert command("bnn", Options("paper", None, Path("x"), "tf32")) == (
        "consilience reproduce bnn --scale paper --precision tf32"
    )
    assert command("gmm", Options(seeds=4, quick=True)) == "consilience reproduce gmm --scale small --seeds 4 --quick"


def test_settings_are_those_that_were_given():
    assert settings(DMALA()) == ""
    assert settings(Published(0.1, metropolis_after=None)) == "step_size=0.1, metropolis_after=None"
    assert settings(DULA(1e-3, noise="corrected")) == "step_size=0.001, noise='corrected'"
    assert settings(Published(0.1, metropolis_after=5)) == "step_size=0.1, metropolis_after=5"
    assert settings(HMC(num_integration_steps=7, inverse_mass_matrix=1.0)) == (
        "inverse_mass_matrix=1, num_integration_steps=7"
    )


def test_a_curve_is_over_agents_then_over_seeds():
    values = np.arange(2 * 3 * 100, dtype=float).reshape(2, 3, 100)  # agent, chain, draw
    run = SimpleNamespace(iterations=70 + 100 * 4, num_draws=100, thin=4)
    curve = curve_of(run, values)
    assert curve.iterations[0] == 70 + 4
    assert curve.iterations[-1] == 470
    by_seed = values.mean(axis=0)
    assert curve.mean[-1] == pytest.approx(by_seed[:, -1].mean())
    assert curve.sd[-1] == pytest.approx(by_seed[:, -1].std(ddof=1))
    assert curve_of(run, values[:, :1]).sd == [0.0] * len(curve.sd)


@pytest.mark.parametrize(("free", "expected"), [(0, 0.55), (None, 0.55), (20, 0.4), (25, 0.34), (80, None)])
def test_acceptance_is_that_of_iterations_with_a_metropolis_step(free, expected):
    """Eight draws of ten iterations each; a draw that has some of either kind is left out."""
    accepted = np.array([1, 1, 0.7, 0.3, 0.3, 0.3, 0.4, 0.4]).reshape(8, 1, 1)
    run = SimpleNamespace(iterations=80, thin=10, acceptance=0.55, raw_stats={"is_accepted": accepted})
    found = _acceptance(SimpleNamespace(metropolis_after=free), run)
    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_full_size_has_been_run(name):
    """All seeds and iterations of the paper's methods, with where and how."""
    found = Record.from_json((RECORDS / f"{name}.json").read_text(encoding="utf-8"))
    assert found.scale == "paper"
    assert found.seeds == EXPERIMENTS[name].seeds["paper"]
    assert found.command.startswith(f"consilience reproduce {name} --scale paper")
    assert found.hardware["device"]
    lengths = {"boston": 100_000, "mnist-partial": 8_000, "mnist-ring": 10_000, "bnn": 500_000}
    if name in lengths:
        published = found.row("published")
        assert (published.iterations, published.seeds) == (lengths[name], found.seeds)
        assert "NVIDIA H200" in found.hardware["device"] or name == "boston"


@pytest.mark.parametrize("experiment", [boston, mnist_partial, mnist_ring, bnn], ids=lambda one: one.EXPERIMENT.name)
def test_the_verdicts_on_record_are_those_of_the_numbers_on_record(experiment):
    found = Record.from_json((RECORDS / f"{experiment.EXPERIMENT.name}.json").read_text(encoding="utf-8"))
    texts = {judged.claim for judged in found.claims}
    claims = [claim for claim in experiment.CLAIMS if claim.text in texts]
    known = [Exact(name, {"MSE": [error]}) for name, error in found.drawn.get("exact", {}).items()]
    assert judge(claims, [*found.rows, *known], Options("paper")) == found.claims


def test_the_slopes_on_record_are_those_of_the_points_on_record():
    found = Record.from_json((RECORDS / "theory.json").read_text(encoding="utf-8"))
    assert [theorems._judged(curve) for curve in theorems.curves_of(found).values()] == found.claims
