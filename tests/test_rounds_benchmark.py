"""The rounds benchmark: cells become rows, rows become a page, and its statements follow the rows."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.rounds.cells import FULL, METHODS, QUICK, REFERENCE, RoundsCell, RoundsLength, all_cells
from benchmarks.rounds.measures import Moments, accuracy, lockstep_sums, mixing, moments
from benchmarks.rounds.page import AIMS, in_short, is_right, page, to_enough
from benchmarks.rounds.rows import OF_SURROGATE, measure, surrogate_figures
from benchmarks.rounds.runs import Book

DOCS = Path(__file__).parent.parent / "docs"
ROWS = json.loads((DOCS / "rounds.json").read_text(encoding="utf-8"))["rows"]
MODEL = "Poisson"
TINY = replace(QUICK, nuts=RoundsLength(2, 60, 40), reference=RoundsLength(4, 100, 100))


def cells(*methods: str) -> list[RoundsCell]:
    return [cell for cell in all_cells(TINY) if cell.model == MODEL and cell.method in methods]


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    reference, *methods = cells(REFERENCE, "nuts", "surrogate")
    first = measure(reference)
    return [first, *(measure(cell, first) for cell in methods)]


def row_of(model: str, method: str) -> dict:
    return next(row for row in ROWS if (row["model"], row["method"]) == (model, method))


def test_the_page_is_that_of_its_rows():
    assert (DOCS / "rounds.md").read_text(encoding="utf-8") == page(ROWS)
    assert Book(DOCS, all_cells(FULL)).missing() == []


def test_cells_are_measured(rows):
    reference, nuts, ours = rows
    for row in rows:
        assert row["status"] == "ok", row["error"]
    depth = 2  # of a tree on a ring of five
    # A sum goes up and down, and at the end of an iteration the root's state goes down, in the warm-up a step size too.
    assert nuts["sampling"]["rounds"] == 2 * depth * nuts["sampling"]["sums"] + depth * 40
    assert nuts["warm"]["rounds"] == 2 * depth * nuts["warm"]["sums"] + 2 * depth * 60
    assert ours["splits"] is False and ours["sampling"]["sums"] == 1
    # Points go down, a sum goes up and down, and digests of what it scored go up.
    assert ours["sampling"]["rounds"] == 4 * depth and ours["warm"]["sums"] == ours["fit_sums"]
    assert all(ours[name] is not None and nuts[name] is None for name in OF_SURROGATE)
    assert ours["ess"] > 1000 and abs(ours["variance_ratio"] - 1) < 0.3
    assert nuts["chain_sums"] > nuts["sampling"]["sums"]  # of two chains, side by side
    assert len(reference["moments"]["mean"]) == ours["dimension"] == 9


def test_a_figure_that_a_surrogate_does_not_have_is_an_error():
    """As after it was given another name: a row without it would look like one of a sampler without a surrogate."""
    stats = {name: np.array([[0.5]]) for name in ("surrogate_split", *OF_SURROGATE.values())}
    assert set(surrogate_figures(stats).values()) == {0.5}
    del stats["surrogate_correlation"]
    with pytest.raises(KeyError, match="surrogate_correlation"):
        surrogate_figures(stats)


def test_rows_are_kept_and_not_run_again(rows, tmp_path):
    chosen = cells(REFERENCE, "nuts", "surrogate")
    book = Book(tmp_path, chosen)
    assert book.missing() == chosen
    for row in rows:
        book.add(row)
    again = Book(tmp_path, chosen)
    assert again.missing() == []
    others = [replace(cell, seed=77) for cell in chosen]
    assert Book(tmp_path, others).missing() == others
    text = (tmp_path / "rounds.md").read_text(encoding="utf-8")
    assert text == page(list(again.rows.values())) and f"| {MODEL} " in text


def test_a_doubling_waits_for_the_longest_chain():
    """Of 7 = 1 + 2 + 4 steps beside 4 = 1 + 2 + 1, seven are waited for; of 1 beside 6 = 1 + 2 + 3, six."""
    assert lockstep_sums(np.array([[7, 4]])) == 7
    assert lockstep_sums(np.array([[1, 6]])) == 6
    assert lockstep_sums(np.array([[7, 4], [1, 6], [0, 0]])) == 13


def test_whole_blocks_of_scored_proposals_are_counted():
    row = row_of("logistic", "surrogate")
    blocks = row["draws"] / row["num_proposals"]
    for ess, sums in ((900 * blocks, 2), (1100 * blocks, 1), (400 * blocks, 3)):
        assert to_enough({**row, "ess": ess}, "sums") == row["warm"]["sums"] + sums
    nuts = row_of("logistic", "nuts")
    assert to_enough({**nuts, "ess": 2000.0}, "sums") == nuts["warm"]["sums"] + nuts["sampling"]["sums"] / 2
    assert to_enough({**nuts, "ess": 0.0}, "sums") is None


def test_statements_follow_the_rows():
    by_key = {(row["model"], row["method"]): row for row in ROWS}
    models = list(dict.fromkeys(row["model"] for row in ROWS))

    def said(**changes: dict) -> str:
        changed = dict(by_key)
        for model, change in changes.items():
            changed[model, "surrogate"] = {**changed[model, "surrogate"], **change}
        return " ".join(in_short(changed, models).split())

    few = sum(1 for model in models if (to_enough(by_key[model, "surrogate"], "sums") or np.inf) <= 60)
    assert f"{few} of {len(models)} models took at most 60 sums" in said()
    off = {"variance_ratio": 0.9, "variance_ratio_se": 0.01}
    assert "not: surrogate on Poisson (0.900 ± 0.010)" in said(Poisson=off)
    assert "Poisson (chains do not agree)" in said(Poisson={"r_hat": 1.2})
    assert f"{few - 1} of {len(models)} models took" in said(Poisson={"warm": {"sums": 60, "rounds": 1, "bytes": 1}})
    assert is_right({**off, "variance_ratio_se": 0.05}) and not is_right(off)
    for model in AIMS:
        worse = in_short({**by_key, (model, "surrogate"): split(by_key[model, "surrogate"])}, models)
        assert f"*{model}*, split trajectories: 50 sums" in worse and "**more than**" in worse


def split(row: dict) -> dict:
    """A row of split trajectories that needed many sums."""
    return {**row, "splits": True, "chain_sums": 50 * row["ess"], "warm": {**row["warm"], "sums": 700}}


def test_errors_of_independent_draws():
    """Of exact draws the ratio is 1 and the bias 0, and the stated errors are those of many repetitions."""
    random = np.random.default_rng(0)
    truth = Moments(np.zeros(3), np.ones(3), np.zeros(3), 0.0)
    found = [accuracy(random.standard_normal((200, 4, 3)), truth) for _ in range(300)]
    ratios = np.array([one["variance_ratio"] for one in found])
    stated = np.sqrt(np.mean([one["variance_ratio_se"] ** 2 for one in found]))
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / np.sqrt(300)
    assert stated == pytest.approx(ratios.std(), rel=0.15)
    known = moments(random.standard_normal((4000, 4, 3)))
    assert np.abs(known.mean / known.mean_error).max() < 6 and np.abs(known.variance - 1).max() < 0.06


def test_chains_that_go_back_and_forth_have_few_effective_squares():
    """As by a trajectory of half a turn: means look perfect, and how far out a chain is never changes."""
    random = np.random.default_rng(0)
    far = np.repeat(np.abs(random.standard_normal((10, 4, 1))), 100, axis=0)
    draws = far * np.where(np.arange(1000) % 2, 1.0, -1.0)[:, None, None] * (1 + 1e-3 * random.random((1000, 4, 1)))
    found = mixing(draws)
    assert found["ess"] == found["ess_squares"] < 200 < found["ess_bulk"]
    stuck = np.concatenate([draws[:, :3], np.zeros((1000, 1, 1))], axis=1)
    assert mixing(stuck)["ess"] == 0


def test_every_model_has_a_row_for_each_method():
    assert {(row["model"], row["method"]) for row in ROWS} == {cell.key for cell in all_cells(FULL)}
    assert {row["method"] for row in ROWS} == {REFERENCE, *METHODS}
