"""`consilience run`"""

import json
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import jax
import numpy as np
import pytest

import consilience as cs
from consilience._refused import Refused
from consilience.cli import run as command
from consilience.cli.build import SAMPLERS, build, sampler_from, settings_of
from consilience.cli.config import read_config

from .project import FILE, MODULE, assert_refused, invoke, patients

EXAMPLES = Path(__file__).parents[2] / "examples"


# --- a run ------------------------------------------------------------------------------------------


def test_a_run_prints_its_summary_its_scores_and_where_everything_is(done, project):
    assert done.exit_code == 0, done.output
    for words in (
        "w[age]",
        "r_hat",
        "acceptance",
        "accuracy",
        "NLL",
        "runs/small/report.html",
        "runs/small/config.toml",
    ):
        assert words in done.stdout
    assert "48 rows on 3 agents (north" in done.stderr
    assert "iterations" in done.stderr
    assert "users' functions may print" in done.stderr
    assert (project / "runs/small/report.html").read_text().startswith("<!doctype html>")
    run = cs.load(project / "runs/small")
    assert run.num_draws == 40
    assert run.names == ("north", "south", "west")
    assert run.columns == {"x": ("age", "bmi")}


def test_json_is_all_there_is_on_stdout_and_quiet_is_quiet(done, project):
    result = invoke("run", "small.toml", "--resume", "--json", "--quiet")
    told = json.loads(result.stdout)
    assert [row["name"] for row in told["summary"]["parameters"]] == ["b", "w[age]", "w[bmi]"]
    assert told["summary"]["verdict"]
    assert 0 <= told["scores"]["accuracy"][0] <= 1
    assert told["paths"]["report"] == "runs/small/report.html"
    assert result.stderr.splitlines() == ["users' functions may print"]


def test_a_run_can_be_repeated_from_its_folder(done, project):
    result = invoke("run", "runs/small/config.toml", "--out", "runs/again", "--no-report")
    assert result.exit_code == 0, result.output
    assert (cs.load("runs/again").positions == cs.load("runs/small").positions).all()
    assert not (project / "runs/again/report.html").exists()
    assert_refused(invoke("run", "runs/small/config.toml"), "runs/small already holds a run")


def test_a_run_is_gone_on_with(done):
    result = invoke("run", "runs/small/config.toml", "--resume", "--no-report", "--set", "run.num_samples=50")
    assert result.exit_code == 0, result.output
    assert cs.load("runs/small").num_draws == 50


def test_a_folder_with_a_run_is_refused_with_all_ways_on(done):
    result = invoke("run", "small.toml")
    assert_refused(result, "runs/small already holds a run", "--resume", "--out runs/small-2", "rm -r runs/small")


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (KeyboardInterrupt(), "interrupted", 130),
        (RuntimeError("the agents fell out of step"), "the agents fell out of step", 1),
        (OSError(28, "No space left on device"), "No space left on device", 1),
    ],
    ids=["interrupted", "out of step", "disk full"],
)
def test_a_run_that_does_not_end_says_how_to_go_on(done, monkeypatch, error, message, code):
    monkeypatch.setattr(command, "sample", Mock(side_effect=error))
    result = invoke("run", "small.toml", "--resume")
    assert_refused(result, message, "consilience run runs/small/config.toml --resume", code=code)


@pytest.mark.parametrize("bug", [KeyError("internal"), ValueError("numpy's"), TypeError("jax's")], ids=repr)
def test_a_bug_of_ours_keeps_its_traceback(project, monkeypatch, bug):
    monkeypatch.setattr(command, "build", Mock(side_effect=bug))
    assert invoke("run", "small.toml", "--out", "runs/bug").exception is bug


def test_it_is_the_class_that_makes_a_refusal_wherever_it_is_raised(project, monkeypatch):
    monkeypatch.setattr(command, "build", Mock(side_effect=Refused("[run] thin", "it is too much", "Write thin = 1.")))
    assert_refused(invoke("run", "small.toml", "--out", "runs/no"), "[run] thin: it is too much. Write thin = 1.")


def test_a_numpyro_model_in_double_precision(project):
    changes = [
        f'model={{numpyro = "{MODULE}:numpyro_model", arguments = {{scale = 2.0}}}}',
        "run.x64=true",
        "sampler={name = 'dula', step_size = 1e-4}",
    ]
    options = [word for change in changes for word in ("--set", change)]
    result = invoke("run", "small.toml", "--out", "runs/numpyro", "--no-report", "--quiet", *options)
    assert result.exit_code == 0, result.output
    assert "no scores" in result.stderr
    with jax.enable_x64(True):
        assert cs.load("runs/numpyro").draws["w"].dtype == "float64"


def test_the_example_runs_and_is_refused_a_second_time(project):
    few = ["--set", "run.num_samples=20", "--set", "run.num_warmup=50", "--set", "run.num_chains=2", "--no-report"]
    first, second = (invoke("run", EXAMPLES / "logistic.toml", *few) for _ in range(2))
    assert first.exit_code == 0, first.output
    for words in ("concave points", "accuracy", "runs/logistic"):
        assert words in first.stdout
    assert_refused(second, "runs/logistic already holds a run")


# --- refusals ---------------------------------------------------------------------------------------


def refused(*changes, file="small.toml"):
    options = [word for change in changes for word in ("--set", change)]
    return invoke("run", file, "--out", "runs/refused", "--quiet", *options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("sampler.name=nutz", '[sampler] name = "nutz": there is no such sampler. Write nuts.'),
        ("sampler.name=gibbs", "There are desghmc,"),
        ("sampler.target_acceptence=0.9", "mala has no setting target_acceptence. Write target_acceptance."),
        ("sampler.schedule=3", "mala has no setting schedule"),
        ("sampler.target_acceptance=2", "[sampler] mala: target_acceptance = 2: a number between 0 and 1 is needed"),
        ("sampler={name = 'dula'}", "[sampler] dula needs step_size. Write, for example, step_size = 0.01."),
        ("network.kind=rng:3", "Write ring:3."),
        ("network.weights=metropols", "Write metropolis."),
        ("network.kind=ring:4", 'Write, for example, kind = "ring:3" in [network].'),
        ("run.num_sample=3", "[run] has no key num_sample. Write num_samples."),
        ("run.num_samples=0", "a whole number of at least 1 is needed"),
        ('data.features=["agee"]', "has no column agee. Write age."),
        ("data.file=patient.csv", "Did you mean patients.csv?"),
        ("model.posterior=nothing_here:f", "there is no module nothing_here, neither in"),
        (f"model.posterior={MODULE[:-1]}:posterior", f'Write "{MODULE}:..."'),
        (f"model.posterior={MODULE}:posteriors", "has no posteriors. Write posterior."),
        (f"model.posterior={MODULE}", 'a module and a name in it are needed. Write "my_model:posterior".'),
        (f"model.posterior={MODULE}:START", "a cs.Posterior is needed"),
        (f"model.posterior={MODULE}:without_start", "init is missing"),
        ("model.arguments.prior_precison=2", "Write prior_precision."),
        ("model.arguments.prior_precision=-2", "prior_precision = -2: a positive number is needed"),
        (f"model.posterior={MODULE}:broken", "ZeroDivisionError: division by zero"),
        (f"model.posterior={MODULE}:other_column", "KeyError: 'z'"),
    ],
    ids=lambda value: value.replace(MODULE, "m")[:40],
)
def test_bad_input_exits_with_2_and_the_fix(project, change, message):
    assert_refused(refused(change), message)
    assert not (project / "runs/refused/run.toml").exists()


def test_an_error_in_the_user_s_code_is_shown_with_its_line(project):
    result = refused(f"model.posterior={MODULE}:broken")
    number = (project / f"{MODULE}.py").read_text().splitlines().index("    return 1 / 0") + 1
    assert_refused(result, f"{MODULE}.py:{number}, broken:\n    return 1 / 0")


def test_numbers_out_of_range_are_refused_before_anything_is_loaded(project, monkeypatch):
    monkeypatch.setattr(command, "build", Mock(side_effect=AssertionError))
    for change in ("run.num_samples=0", "run.seed=4294967296", "data.features=[]"):
        assert_refused(refused(change), "[")


@pytest.mark.parametrize(
    ("change", "messages"),
    [
        (
            'data.features=["age", "ill"]',
            ["[data] features: ill is the target, too", 'Write features = ["age"].'],
        ),
        (
            'data.features=["age", "bmi", "age"]',
            ["[data] features: age is there twice", 'Write features = ["age", "bmi"].'],
        ),
        (
            'sampler.name="decentralize"',
            [
                '[sampler] name = "decentralize": it makes a sampler of a function',
                "cs.sample(..., cs.decentralize(...))",
            ],
        ),
        ("sampler.target_accept=0.9", ["[sampler] mala has no setting target_accept. Write target_acceptance."]),
        ("run.draws=9", ["[run] has no key draws. Write num_samples."]),
    ],
)
def test_keys_that_contradict_each_other_or_are_called_otherwise(project, change, messages):
    assert_refused(refused(change), *messages)


def test_a_column_that_the_test_file_lacks(project):
    (project / "later.csv").write_text("age,BMI,ill\n50,20,1\n")
    table = 'file = "patients.csv", test = "later.csv", features = ["age", "bmi"], target = "ill", agent = "hospital"'
    result = refused(f"data={{{table}}}")
    assert_refused(result, "[data] test:", "later.csv has no column bmi, which", "Rename its column BMI.")


@pytest.mark.parametrize("out", ["/proc/nope/x", "small.toml/x", "small.toml"])
def test_a_folder_that_cannot_be_made_is_refused_with_the_fix(project, out):
    result = invoke("run", "small.toml", "--out", out)
    assert_refused(result, out.removesuffix("/x"), "Name another: --out DIR.")
    assert "Errno" not in result.stderr


def test_a_page_that_cannot_be_written_is_refused_before_the_run(project):
    assert_refused(refused("report.file=small.toml/a.html"), "small.toml is a file", "in [report]")


def test_a_folder_in_place_of_the_file_is_called_one(project):
    assert_refused(refused(file="."), ". is a folder, and a .toml file is needed.", "small.toml")


def test_bad_toml_exits_with_2_and_the_line(project):
    (project / "bad.toml").write_text((project / "small.toml").read_text().replace('"ring:3"', "ring:3"))
    assert_refused(refused(file="bad.toml"), "bad.toml, line", "    kind = ring:3", 'Write kind = "ring:3".')


@pytest.mark.parametrize(
    ("column", "value", "messages"),
    [
        (3, "7", ["y is 7 in row", "the model's classes are 0 to 1", "Number the labels"]),
        (0, "nan", ["age is missing (NaN) in 1 of 60 rows, the first is line 8", "Drop or impute"]),
        (1, "", ["bmi is missing (NaN)", "Drop or impute"]),
        (1, "heavy", ["line 8: bmi is 'heavy', and a number is needed"]),
    ],
    ids=["label", "nan", "empty", "text"],
)
def test_bad_data_exit_with_2_and_the_fix(project, column, value, messages):
    lines = [line.split(",") for line in patients()]
    lines[7][column] = value
    (project / "bad.csv").write_text("\n".join(map(",".join, lines)))
    table = 'data={file = "bad.csv", features = ["age", "bmi"], target = "ill", agent = "hospital"}'
    assert_refused(refused(table), *messages)


def test_test_rows_unlike_the_agents_are_refused_before_the_run(project):
    for name, columns in (("a", 2), ("b", 3)):
        np.savez(project / f"{name}.npz", x=np.ones((6, columns), np.float32), y=np.arange(6) % 2)
    result = refused('data={file = "a.npz", test = "b.npz"}')
    assert_refused(result, "the test data: an example of x has shape (3,), agent 0's has (2,)")


def test_labels_that_are_held_out_are_checked_before_the_run(project):
    lines = [f"{line[:-1]}7" if k else line for k, line in enumerate(patients()[:10])]
    (project / "odd.csv").write_text("\n".join(lines))
    table = 'file = "patients.csv", test = "odd.csv", features = ["age", "bmi"], target = "ill", agent = "hospital"'
    assert_refused(refused(f"data={{{table}}}"), "the test data: y is 7 in row 0, and the model's classes are 0 to 1.")


def test_a_store_of_another_model_is_refused_with_the_difference(done):
    result = invoke("run", "small.toml", "--resume", "--quiet", "--set", "model.arguments.prior_precision=3")
    assert_refused(result, "holds another run", "code", "consilience run runs/small/config.toml --resume", "--out DIR")
    assert_refused(
        result, "runs/small/config.toml has other values:\n  model.arguments.prior_precision: nothing there, 3"
    )


def test_the_configuration_is_kept_as_utf_8_whatever_the_locale(project):
    (project / "title.toml").write_text(f'{FILE}\n[report]\ntitle = "Größe"\n', encoding="utf-8")
    code = "from consilience.cli.run import _save, read_config; from pathlib import Path; "
    code += "_save(read_config(Path('title.toml'), ['run.out=kept']))"
    (project / "kept").mkdir()
    locale = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    subprocess.run([sys.executable, "-c", code], env=os.environ | locale, check=True)
    assert read_config(project / "kept/config.toml").report.title == "Größe"


def test_modules_that_cannot_be_imported_are_refused_with_the_reason(project):
    for name, text, message in (
        ("bad_syntax_here", "def f(:\n", "line 1 is not Python"),
        ("bad_import_here", "import no_such_package\n", "needs no_such_package, which is not installed: pip install"),
        ("bad_name_here", "f = undefined\n", "NameError: name 'undefined' is not defined"),
        ("json", "f = 1\n", "is hidden by another module json"),
    ):
        (project / f"{name}.py").write_text(text)
        assert_refused(refused(f"model.posterior={name}:f"), message)
    (project / "json.py").unlink()


def test_a_model_may_ask_for_the_agent_s_number_where_rows_are_held_out(project):
    text = FILE.replace(f'posterior = "{MODULE}:posterior"', f'numpyro = "{MODULE}:numpyro_of_sites"')
    (project / "sites.toml").write_text(text)
    job = build(read_config(project / "sites.toml"))
    assert set(job.data.shards[0]) == {"x", "y"}  # cs.sample adds the numbers


# --- what the file names ---------------------------------------------------------------------------------------


def test_where_to_start_and_arguments_come_from_the_module(project):
    changes = [f"model.posterior={MODULE}:without_start", f"model.init={MODULE}:START"]
    job = build(read_config(project / "small.toml", changes))
    assert set(job.init) == {"w", "b"}
    job = build(read_config(project / "small.toml", ["model.arguments.prior_precision=4"]))
    assert job.posterior.log_prior({"w": 1.0}) == pytest.approx(-2)


def test_every_sampler_has_a_name_and_settings_that_can_be_written():
    assert {
        name for name in cs.__all__ if isinstance(getattr(cs, name), type) and hasattr(getattr(cs, name), "resolve")
    } == set(SAMPLERS)
    assert settings_of(cs.nuts) == [
        "step_size",
        "inverse_mass_matrix",
        "target_acceptance",
        "start",
        "dense_mass",
        "max_num_doublings",
    ]
    assert "contraction" not in settings_of(cs.dmala)


def test_settings_are_as_toml_has_them():
    assert isinstance(sampler_from({}), cs.nuts)
    sampler = sampler_from({"name": "published", "step_size": 0.1, "rounds": {"0": 1, "1000": 5}})
    assert sampler.rounds == ((0, 1), (1000, 5))
    assert sampler_from({"name": "nuts", "inverse_mass_matrix": [1.0, 2]}).inverse_mass_matrix.tolist() == [1, 2]


# --- help and completion ----------------------------------------------------------------------------


def test_help_shows_an_example_a_file_and_the_exit_codes():
    output = invoke("run", "--help").output
    for words in (
        "Example: consilience run examples/logistic.toml",
        "[model]",
        'kind = "ring:5"',
        "Exit codes: 0 done",
    ):
        assert words in output
    for name in ("demo", "run", "report", "network"):
        assert "No progress, and nothing but the result on stdout." in flat(invoke(name, "--help").output)
        assert f"Example: consilience {name}" in invoke(name, "--help").output
        assert name in invoke("--help").output


def flat(text):
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("run --set sampler.na", ["sampler.name="]),
        ("run --set sampler.name=nu", ["sampler.name=nuts"]),
        ("run --set network.kind=gr", ["network.kind=grid:3x4"]),
        ("run --set run.num_", ["run.num_samples=", "run.num_warmup=", "run.num_chains="]),
        ("network ri", ["ring:5"]),
        ("network ring:5 --weights uni", ["uniform"]),
        ("re", ["report", "reproduce"]),
    ],
)
def test_the_shell_completes_commands_keys_and_kinds(typed, words):
    assert sorted(complete(typed)) == sorted(words)


def complete(typed):
    """What bash would offer, by the protocol that Typer's script speaks with it."""
    from typer.testing import CliRunner

    from consilience.cli.app import app

    parts = typed.split()
    env = {
        "_CONSILIENCE_COMPLETE": "complete_bash",
        "COMP_WORDS": f"consilience {typed}",
        "COMP_CWORD": str(len(parts)),
    }
    return CliRunner().invoke(app, [], env=env, prog_name="consilience").stdout.split()
