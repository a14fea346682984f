"""The accuracy benchmark: cells become rows, rows become a page, and its statements follow the rows."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.accuracy.cells import QUICK, Cell, Length, all_cells
from benchmarks.accuracy.measures import accuracy
from benchmarks.accuracy.page import page
from benchmarks.accuracy.rows import measure
from benchmarks.accuracy.runs import Book
from benchmarks.accuracy.statements import band_statement, ratio_text, summary
from benchmarks.accuracy.targets import Truth

LENGTHS = {"metropolis": Length(80, 40), "unadjusted": Length(20, 40, 2)}
TINY = replace(QUICK, small=replace(QUICK.small, lengths=LENGTHS, pilot=20))


def cells(*samplers: str) -> list[Cell]:
    return [c for c in all_cells(TINY, 0) if c.key in {("skewed", "ring of 5", s) for s in samplers}]


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return [measure(cell) for cell in cells("mala", "desgld")]


def right(row: dict) -> dict:
    """A row of a run that was long enough."""
    return {**row, "variance_ratio": 1.01, "variance_ratio_se": 0.005, "r_hat": 1.001, "bias_beyond_noise": False}


def data(rows: list[dict]) -> dict:
    machine = {"cores": 2, "python": "3", "jax": "0", "seconds": 60}
    return {"machines": [machine], "reference": None, "rows": rows}


def test_cells_are_measured(rows: list[dict]) -> None:
    for row in rows:
        assert row["status"] == "ok", row["error"]
        assert 0.05 < row["variance_ratio"] < 20
        assert row["variance_ratio_se"] > 0 and row["worst_bias_se"] > 0 and row["step_size"] > 0
        assert row["gradients"] == 4 * row["settings"]["draws"] * row["settings"]["thin"]
    mala, desgld = rows
    # A sum over a tree of depth 2, up and down, with all else in it: 4 rounds an iteration; gossip has one.
    assert mala["rounds"] == pytest.approx(4 * 40) and desgld["rounds"] == pytest.approx(80)
    assert mala["halvings"] is None and desgld["halvings"] >= 0


def test_rows_are_kept_and_not_run_again(rows: list[dict], tmp_path: Path) -> None:
    both = cells("mala", "desgld")
    book = Book(tmp_path, both)
    assert book.missing() == both
    for row in rows:
        book.add(row)
    assert Book(tmp_path, both).missing() == []
    assert Book(tmp_path, [replace(cell, seed=77) for cell in both]).missing() != []
    stored = json.loads((tmp_path / "accuracy.json").read_text(encoding="utf-8"))["rows"]
    assert [row["sampler"] for row in stored] == ["mala", "desgld"]
    text = (tmp_path / "accuracy.md").read_text(encoding="utf-8")
    assert "## Skewed" in text and "**ring of 5**" in text
    assert all(ratio_text(row) in text for row in rows)


def test_statements_follow_the_rows(rows: list[dict]) -> None:
    good = right(rows[0])
    bad = {**good, "network": "path of 10", "variance_ratio": 0.5}
    assert "**yes**, 1 of 1" in band_statement([good], "mala", 0.03)
    found = band_statement([good, bad], "mala", 0.03)
    assert "**no**, 1 of 2" in found and "skewed, path of 10 (0.500 ± 0.005)" in found
    assert columns(summary([good])) == ["mala", "1", "1", "1", "1", "1", "1.010"]
    assert columns(summary([good, bad])) == ["mala", "2", "2", "**1**", "**1**", "2", "0.500 to 1.010"]
    assert summary([good, bad]) in page(data([good, bad]))


def columns(table: str) -> list[str]:
    """The first ones of the last line."""
    return [cell.strip() for cell in table.splitlines()[-1].split("|")[1:8]]


def test_noise_does_not_convict_and_is_named(rows: list[dict]) -> None:
    noisy = {**right(rows[0]), "variance_ratio": 1.1, "variance_ratio_se": 0.05}
    found = band_statement([noisy], "mala", 0.03)
    assert "**yes**" in found and "Outside, but within noise: skewed, ring of 5" in found


def test_what_went_wrong_is_shown(rows: list[dict]) -> None:
    unmixed = {**right(rows[0]), "r_hat": 1.2}
    failed = {**rows[1], "status": "failed", "error": "ValueError: no"}
    off = {**right(rows[0]), "network": "path of 10", "bias_beyond_noise": True, "worst_bias": 0.4}
    text = " ".join(page(data([unmixed, failed, off])).split())
    assert "| 1.010 ± 0.005 † |" in text and "| 1.200 |" in text
    assert "`desgld`: skewed, ring of 5 (failed: ValueError: no)" in text
    assert "Means off: skewed, path of 10 (0.400" in text


def test_a_failing_cell_says_why() -> None:
    digits = next(cell for cell in all_cells(QUICK, 0) if cell.target == "digits")
    row = measure(digits, None)  # its reference is missing
    assert row["status"] == "failed" and "reference" in row["error"]


def test_errors_of_independent_draws() -> None:
    """Of exact draws the ratio is 1 and the bias 0, and the stated errors are those of many repetitions."""
    random = np.random.default_rng(0)
    truth = Truth(np.zeros(3), np.ones(3), 1.0, np.zeros(3), 0.0)
    found = [accuracy(random.standard_normal((50, 8, 1, 3)), truth) for _ in range(400)]
    ratios = np.array([one["variance_ratio"] for one in found])
    stated = np.sqrt(np.mean([one["variance_ratio_se"] ** 2 for one in found]))
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / 20
    assert stated == pytest.approx(ratios.std(), rel=0.15)
    assert sum(one["bias_beyond_noise"] for one in found) <= 4
