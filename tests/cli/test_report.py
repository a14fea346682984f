"""`consilience report`"""

import json

import pytest

from .project import assert_refused, invoke


@pytest.fixture(scope="module")
def two(project, done):
    result = invoke("run", "small.toml", "--quiet", "--no-report", "--out", "runs/other", "--set", "run.seed=1")
    assert result.exit_code == 0, result.output
    return ["runs/small", "runs/other"]


def test_two_runs_are_one_page(two, project):
    result = invoke("report", *two, "--out", "pages/both.html", "--title", "Two seeds")
    assert result.exit_code == 0, result.output
    page = (project / "pages/both.html").read_text()
    for words in ("Two seeds", "small", "other", "Side by side"):
        assert words in page
    assert "small: Run(mala on ring of 3" in result.stdout
    assert "pages/both.html written." in result.stdout


def test_json_has_every_run(two):
    told = json.loads(invoke("report", *two, "--json").stdout)
    assert list(told["runs"]) == ["small", "other"]
    assert told["report"] == "report.html"
    for run in told["runs"].values():
        assert {row["name"] for row in run["summary"]["parameters"]} == {"b", "w[age]", "w[bmi]"}
        assert run["summary"]["verdict"]
        assert 0 <= run["scores"]["accuracy"][0] <= 1


def test_quiet_prints_the_path_alone(two):
    result = invoke("report", two[0], "--quiet")
    assert (result.exit_code, result.output) == (0, "report.html\n")


def test_runs_of_one_name_are_told_apart_by_their_paths(two, project):
    (project / "elsewhere").mkdir()
    (project / "elsewhere/small").symlink_to(project / "runs/small")
    told = json.loads(invoke("report", "runs/small", "elsewhere/small", "--json").stdout)
    assert list(told["runs"]) == ["runs/small", "elsewhere/small"]


def test_a_folder_without_a_run_is_refused_with_the_nearest(two, project):
    assert_refused(invoke("report", "runs/smal"), "runs/smal holds no run. Did you mean runs/small?")
    assert_refused(invoke("report", "runs/zzz"), "There are runs/other, runs/small.")
    assert_refused(invoke("report", "nothing"), "A run is made by: consilience run FILE.toml")


def test_a_file_in_place_of_a_run_is_refused_in_our_own_words(two):
    for path, fix in (("small.toml", "A run is made by"), ("runs/small/run.toml", "Did you mean runs/small?")):
        assert_refused(invoke("report", path), f"{path} is a file, and the folder of a run is needed. {fix}")


def test_a_page_that_cannot_be_written_is_refused_with_the_fix(two):
    assert_refused(invoke("report", two[0], "--out", "runs"), "runs is a folder", "Name another: --out FILE.html.")
    assert_refused(invoke("report", two[0], "--out", "small.toml/a.html"), "small.toml is a file", "--out FILE.html")


def test_help_shows_an_example():
    assert "Example: consilience report runs/nuts runs/dmala" in invoke("report", "--help").output
