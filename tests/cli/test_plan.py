"""`consilience plan`"""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import consilience as cs
from consilience.cli.app import app
from consilience.planning import LinkSpeeds, predict, recommend

from .project import assert_refused

LINKS = ("--latency", "20ms", "--bandwidth", "50Mbit/s")
MALA = ("--dimension", "650", "--sampler", "mala")


def invoke(*arguments, columns=120):
    return CliRunner().invoke(app, ["plan", *map(str, arguments)], env={"COLUMNS": str(columns)})


@pytest.mark.parametrize("columns", [80, 120])
def test_the_table_says_time_bottleneck_and_the_best_consensus(columns):
    result = invoke("ring:5", *LINKS, *MALA, columns=columns)
    assert result.exit_code == 0, result.output
    assert "…" not in result.output
    assert max(map(len, result.output.splitlines())) <= columns
    flat = " ".join(result.output.split())
    for words in (
        "time per draw",
        "bottleneck latency",
        "an agent sends",
        "tree",
        "finite-time",
        "--gradient-time 2ms",
    ):
        assert words in flat
    assert "time per effective draw" not in flat  # nobody said


def test_json_is_the_prediction():
    told = json.loads(
        invoke("ring:5", *LINKS, *MALA, "--gradient-time", "2ms", "--ess-per-draw", "0.1", "--json").stdout
    )
    network = cs.Network.ring(5)
    links = LinkSpeeds.alike(network, 0.02, 5e7)
    found = predict(network, links, cs.mala(), 650, gradient_seconds=0.002, ess_per_draw=0.1)
    assert told["seconds"] == pytest.approx(found.seconds)
    assert told["seconds_per_effective_draw"] == pytest.approx(10 * found.seconds)
    assert (told["bottleneck"], told["shares"]) == ("latency", pytest.approx(found.shares))
    assert [way["method"] for way in told["methods"] if way["is_best"]] == ["tree"]


def test_settings_of_the_sampler_count():
    few, more = (
        json.loads(
            invoke(
                *("ring:5", *LINKS, "--dimension", 9, "--sampler", "hmc", "--json"),
                *("--set", f"sampler.num_integration_steps={steps}"),
            ).stdout
        )
        for steps in (2, 4)
    )
    assert (few["evaluations"], more["evaluations"]) == (2, 4)
    assert more["seconds"] > few["seconds"]


def test_what_is_assumed_of_nuts_is_said():
    assumed = invoke("ring:5", *LINKS, "--dimension", 9)
    assert "15 gradients a draw are assumed" in " ".join(assumed.output.split())
    told = json.loads(invoke("ring:5", *LINKS, "--dimension", 9, "--evaluations", 31, "--json").stdout)
    assert told["evaluations"] == 31
    assert not any("assumed" in line for line in told["assumptions"])


def test_links_of_a_file(tmp_path):
    table = tmp_path / "links.csv"
    table.write_text("from,to,latency,bandwidth\n0,1,200ms,1Mbit/s\n")
    slow = json.loads(invoke("ring:5", *LINKS, *MALA, "--links", table, "--json").stdout)
    fast = json.loads(invoke("ring:5", *LINKS, *MALA, "--json").stdout)
    assert slow["seconds"] > 2 * fast["seconds"]
    assert slow["links"] == "200 ms and 1 Mbit/s at worst"


def test_a_figure_opens(tmp_path):
    from matplotlib.image import imread

    result = invoke("ring:5", *LINKS, *MALA, "--figure", tmp_path / "plan.png", "--quiet")
    assert result.exit_code == 0, result.output
    picture = imread(tmp_path / "plan.png")
    assert min(picture.shape[:2]) > 400
    assert np.unique(picture.reshape(-1, picture.shape[-1]), axis=0).shape[0] > 50


def test_a_run_knows_what_nobody_has_to_say(project, done):
    assert done.exit_code == 0
    told = json.loads(invoke("--run", "runs/small", *LINKS, "--json").stdout)
    run = cs.load("runs/small")
    assert (told["dimension"], told["chains"], told["sampler"]) == (3, run.num_chains, run.sampler.name)
    least = run.summary().columns["ess_bulk"].min()
    assert told["seconds"] / told["seconds_per_effective_draw"] == pytest.approx(least / (run.num_draws * run.thin))
    elsewhere = json.loads(invoke("path:9", "--run", "runs/small", *LINKS, "--json").stdout)
    assert elsewhere["network"] == "path of 9"
    assert elsewhere["seconds"] > told["seconds"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a network is needed"),
        (["rng:5", *LINKS, *MALA], "Write ring:5."),
        (["ring:5", *MALA], "Write --latency 20ms"),
        (["ring:5", *MALA, "--latency", "20ms"], "Write --bandwidth 50Mbit/s"),
        (["ring:5", *MALA, "--latency", "20", "--bandwidth", "50Mbit/s"], "Write --latency 20ms."),
        (["ring:5", *MALA, "--latency", "20ms", "--bandwidth", "fast"], "Write --bandwidth 50Mbit/s"),
        (["ring:5", *LINKS], "Write --dimension 650"),
        (["ring:5", *LINKS, "--dimension", "5", "--sampler", "mela"], "Write mala."),
        (["ring:5", *LINKS, *MALA, "--evaluations", "3"], "Leave it out."),
        (["ring:5", *LINKS, *MALA, "--ess-per-draw", "-1"], "Write --ess-per-draw 0.5."),
        (["ring:5", *LINKS, *MALA, "--set", "run.seed=1"], "Write --set sampler."),
        (["ring:5", *LINKS, *MALA, "--links", "nowhere.csv"], "there is no file nowhere.csv"),
        (["ring:5", *LINKS, *MALA, "--run", "nowhere"], "holds no run"),
        (["ring:5", *LINKS, *MALA, "--figure", "plan.txt"], ".png"),
        (["path:2", *LINKS, *MALA, "--consensus", "gather"], "two agents cannot mask"),
        (["path:2", *LINKS, "--dimension", "5", "--sampler", "surrogate", "--consensus", "gather"], "cannot mask"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_exits_with_2_and_the_right_line(arguments, message):
    assert_refused(invoke(*arguments), message)


def test_help_shows_an_example():
    output = " ".join(invoke("--help").output.split())
    assert "Example: consilience plan ring:5 --latency 20ms" in output
    assert "--gradient-time" in output


def test_a_surrogate_is_planned_as_a_whole_and_recommended_where_links_are_slow():
    asked = ("ring:4", *LINKS, "--dimension", 8, "--sampler", "surrogate")
    flat = " ".join(invoke(*asked).output.split())
    for words in ("1,000 effective draws from a cold start", "Take surrogate, 4 chains", "Only a trial can tell"):
        assert words in flat
    assert "time per draw" not in flat
    told = json.loads(invoke(*asked, "--json").stdout)
    ring = cs.Network.ring(4)
    found = recommend(ring, LinkSpeeds.alike(ring, 0.02, 5e7), 8)
    assert told["recommendation"]["sentence"] == found.sentence
    assert [run["rounds"] for run in told["recommendation"]["runs"]] == [run.rounds for run in found.runs]
    assert "seconds" not in told
    assert_refused(invoke(*asked, "--figure", "plan.png"), "a draw has no cost of its own to plan")


def test_what_more_chains_would_gain_is_said_where_links_are_slow_to_answer():
    one = json.loads(invoke("ring:5", *LINKS, *MALA, "--json").stdout)
    many = json.loads(invoke("ring:5", *LINKS, *MALA, "--chains", 64, "--json").stdout)
    assert one["seconds_of_many"] == pytest.approx(many["seconds"])
    ratio = one["seconds_of_many"] / one["seconds"]
    said = f"64 would take {ratio:.1f} × the time of one, and give 64 × the draws"
    assert said in " ".join(invoke("ring:5", *LINKS, *MALA).output.split())
    narrow = ("--latency", "1ms", "--bandwidth", "100kbit/s")
    assert "64 would take" not in invoke("ring:5", *narrow, *MALA).output
    assert "64 would take" not in invoke("ring:5", *LINKS, *MALA, "--chains", 64).output


def test_whole_runs_go_by_the_consensus_that_is_asked_for():
    asked = ("ring:4", *LINKS, "--dimension", 8, "--sampler", "surrogate", "--json")
    by_default, auto, tree = (
        json.loads(invoke(*asked, *way).stdout) for way in ((), ("--consensus", "auto"), ("--consensus", "tree"))
    )
    assert auto == by_default
    assert {run["consensus"] for run in tree["recommendation"]["runs"]} == {"tree"}
    assert by_default["recommendation"]["consensus"] == "gather"


@pytest.mark.parametrize("dimension", [8, 650])
def test_whole_runs_say_all_in_80_columns(dimension):
    result = invoke("ring:4", *LINKS, "--dimension", dimension, columns=80)
    assert "…" not in result.output
    assert max(map(len, result.output.splitlines())) <= 80
    assert "What a surrogate computes for itself" in " ".join(result.output.split())


def test_what_is_not_among_the_whole_runs_is_said():
    def told(dimension, sampler):
        asked = ("ring:4", *LINKS, "--dimension", dimension, "--sampler", sampler, "--json")
        return " ".join(json.loads(invoke(*asked).stdout)["assumptions"])

    large = told(5000, "surrogate")
    assert "not planned above 1,000 parameters" in large
    assert "computes for itself" not in large
    few = told(8, "mala")
    assert "mala is not among the whole runs." in few
    assert "not planned above" not in few
    assert "among the whole runs" not in told(8, "surrogate")
