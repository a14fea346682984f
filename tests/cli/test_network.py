"""`consilience network`"""

import json

import pytest
from typer.testing import CliRunner

import consilience as cs
from consilience.cli.app import app

from .project import assert_refused


def invoke(*arguments, columns=120):
    return CliRunner().invoke(app, ["network", *arguments], env={"COLUMNS": str(columns)})


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("spec", ["ring:5", "grid:6x16", "complete:1", "star:1000"])
def test_nothing_is_cut_off(spec, columns):
    result = invoke(spec, columns=columns)
    assert result.exit_code == 0, result.output
    assert "…" not in result.output
    assert max(map(len, result.output.splitlines())) <= columns
    for word in ("tree", "finite-time", "chebyshev", "flooding", "rounds", "messages", "bytes", "accuracy"):
        assert word in result.output


def test_the_table_has_the_plan_s_numbers_and_reasons():
    result = invoke("random_regular:30x4", "--seed", "3")
    plan = cs.Network.random_regular(30, 4, seed=3).plan()
    rows = [line.split() for line in result.output.splitlines()]
    for row in plan.rows:
        counts = [f"{row.rounds:,}", f"{row.messages:,}", f"{row.bytes_per_parameter:,}"]
        name = row.method.split()
        assert any(cells[: len(name)] == name and cells[len(name) : len(name) + 3] == counts for cells in rows)
    flat = " ".join(result.output.split())
    assert plan.network in flat
    assert all(choice.why in flat for choice in plan.choices)


def test_quiet_is_the_table_alone():
    told, quiet = (invoke("ring:5", *options).output for options in ((), ("--quiet",)))
    assert told.startswith(quiet.rstrip())
    assert "tree" in quiet
    assert "Until all agents" not in quiet


def test_json_is_the_plan():
    told = json.loads(invoke("ring:5", "--json", "--weights", "uniform", "--tolerance", "1e-3").stdout)
    plan = cs.Network.ring(5).plan(1e-3)
    facts = told["network"]
    assert (facts["agents"], facts["edges"], facts["diameter"], facts["weights"]) == (5, 5, 2, "uniform")
    assert facts["beta"] == pytest.approx(cs.Network.ring(5).beta)
    assert [row["rounds"] for row in told["rows"]] == [row.rounds for row in plan.rows]
    assert told["choices"][0]["method"] == "tree"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rng:5"], "Write ring:5."),
        (["grid:3,4"], "Write grid:3x4."),
        (["ring:5", "--weights", "metropols"], "Write metropolis."),
        (["ring:5", "--tolerance", "2"], "Write tolerance=1e-6."),
        (["erdos_renyi:20x0.01"], "Take another seed"),
    ],
    ids=lambda value: str(value),
)
def test_bad_input_exits_with_2_and_the_right_line(arguments, message):
    assert_refused(invoke(*arguments), message)


def test_help_shows_an_example():
    output = invoke("--help").output
    assert "Example: consilience network ring:5" in output
    assert "erdos_renyi:20x0.3" in output
