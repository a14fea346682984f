"""`consilience compare`: runs from files, and owners who hand over sums."""

import json
import shutil
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import tomli_w

import consilience as cs
from consilience.cli.agents import own_rows, read_agent
from consilience.cli.build import model_of
from consilience.cli.modules import own_modules
from consilience.results.loo_rows import loo_rows

from .project import assert_refused, invoke

MODEL = """
import jax.numpy as jnp

import consilience as cs


def posterior(columns=2):
    print("users' functions may print")

    def mean(params, x):
        return x[:, :columns] @ params["w"] + params["b"]

    return cs.Posterior.regressor(mean, init={"b": 0.0, "w": jnp.zeros(columns)})
"""
FILE = """
[model]
posterior = "model_to_compare:posterior"
arguments = {{ columns = {columns} }}

[data]
target = "y"
{more}

[sampler]
name = "mala"

[run]
num_samples = 60
num_warmup = 60
num_chains = 2
"""
WHOLE = 'file = "rows.csv"\nagent = "owner"\n\n[network]\nkind = "ring:3"'
MODELS = {"two": 2, "one": 1}  # columns
ROWS = {"a": 6, "b": 20, "c": 41}


def leaves(value):
    """All single values in some JSON."""
    if isinstance(value, dict | list):
        return [leaf for inner in (value.values() if isinstance(value, dict) else value) for leaf in leaves(inner)]
    return [value]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a module, owners' tables, and all of them in one; commands are run in it."""
    folder = tmp_path_factory.mktemp("compare")
    random = np.random.default_rng(0)
    (folder / "model_to_compare.py").write_text(MODEL)
    whole = ["owner,u,v,y"]
    for owner, count in ROWS.items():
        u, v, noise = random.normal(size=(3, count))
        lines = [f"{a},{b},{a + 0.6 * b + c}" for a, b, c in zip(u, v, noise, strict=True)]
        (folder / f"{owner}.csv").write_text("\n".join(["u,v,y", *lines]))
        whole += [f"{owner},{line}" for line in lines]
    (folder / "rows.csv").write_text("\n".join(whole))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", list(sys.path))
        yield folder
    sys.modules.pop("model_to_compare", None)


@pytest.fixture(scope="module")
def runs(folder):
    """Two runs of `consilience run`, in runs/two and runs/one."""
    for name, columns in MODELS.items():
        (folder / f"{name}.toml").write_text(FILE.format(columns=columns, more=WHOLE))
        result = invoke("run", f"{name}.toml", "--no-report", "--quiet")
        assert result.exit_code == 0, result.output
    del sys.modules["model_to_compare"]  # as in a process of its own


@pytest.fixture(scope="module")
def owners(folder):
    """Two runs as three owners hold them, in trial-two/a and so on: sampled here, split up as peers would have them."""
    sampled = {}
    for name, columns in MODELS.items():
        (folder / f"peers-{name}.toml").write_text(FILE.format(columns=columns, more=""))
        options = ("--network", "ring:3", "--names", ",".join(ROWS), "--file", f"peers-{name}.toml")
        made = invoke("init", f"trial-{name}", *options)
        assert made.exit_code == 0, made.output
        files = {owner: folder / f"trial-{name}" / owner / "agent.toml" for owner in ROWS}
        agents = [read_agent(file, f"{owner}.csv") for owner, file in files.items()]
        with own_modules(agents[0].folder):
            posterior, _ = model_of(agents[0].config)
        shards, out = [own_rows(agent)[0] for agent in agents], folder / f"pooled-{name}"
        settings = agents[0].config.run.settings
        sampled[name] = cs.sample(posterior, shards, cs.Network.ring(3), cs.mala(), **settings, out=out, progress=False)
        for k, agent in enumerate(agents):
            shutil.copytree(out, agent.folder / "run")
            record = tomllib.loads((out / "run.toml").read_text())
            record["data"] = {what: values[k : k + 1] for what, values in record["data"].items()}
            names = {"name": agent.place.name, "run": agent.place.run_id, "names": [*ROWS], "without": []}
            record["agent"] = {**names, "mask": False}
            (agent.folder / "run" / "run.toml").write_text(tomli_w.dumps(record))
    return sampled


def hand_over(owner, *options, runs=("two=trial-two", "one=trial-one")):
    folders = [f"{run}/{owner}" for run in runs]
    return invoke("compare", *folders, "--data", f"{owner}.csv", "--out", f"{owner}.json", *options)


@pytest.fixture(scope="module")
def files(owners):
    """The owners' files, a.json and so on; one has named its runs in another order, by other names."""
    for owner in ROWS:
        runs = ("one=trial-one", "trial-two") if owner == "b" else ("two=trial-two", "one=trial-one")
        result = hand_over(owner, runs=runs)
        assert result.exit_code == 0, result.output
    return [f"{owner}.json" for owner in ROWS]


# --- runs of one machine ------------------------------------------------------------------------------


def test_folders_and_files_of_runs_are_compared_as_in_python(runs):
    result = invoke("compare", "runs/two", "runs/one", "--json")
    assert result.exit_code == 0, result.output
    assert "users' functions may print" in result.stderr
    told = json.loads(result.stdout)
    assert told["weights"] == "stacking"
    assert told["file"] is None
    assert {model["name"]: model["rank"] for model in told["models"]} == {"two": 0, "one": 1}
    assert json.loads(invoke("compare", "two.toml", "one.toml", "--json").stdout) == told
    text = invoke("compare", "big=runs/two", "small=one.toml").stdout
    assert "67 rows of 3 owners, weights by stacking" in text
    assert f"{told['models'][0]['elpd']:.2f}" in text
    assert "big is ahead of small by" in text


def test_one_run_is_told_how_well_it_predicts(runs):
    told = json.loads(invoke("compare", "runs/two", "--json").stdout)
    assert told["rows"] == 67
    assert "leave-one-out over 67 rows of 3 owners, 120 draws" in invoke("compare", "runs/two").stdout


def test_what_is_no_run_or_does_not_say_its_model_is_refused(runs, folder, tmp_path):
    assert_refused(invoke("compare", "runs/tow"), "runs/tow holds no run. Did you mean runs/two?")
    assert_refused(invoke("compare", "runs/two", "runs/two"), "two of these runs are the same")
    shutil.copytree(folder / "runs/two", tmp_path / "bare")
    (tmp_path / "bare/config.toml").unlink()
    assert_refused(invoke("compare", tmp_path / "bare"), "says nothing of its model", "cs.compare({...})")


def test_a_run_of_another_model_than_its_file_has_by_now_is_refused(runs, folder):
    text = (folder / "runs/one/config.toml").read_text()
    shutil.copytree(folder / "runs/one", folder / "runs/changed")
    (folder / "runs/changed/config.toml").write_text(text.replace("columns = 1", "columns = 2"))
    refused = invoke("compare", "runs/changed")
    assert refused.exit_code == 2
    assert "cannot be computed with the parameters of the run in runs/changed" in refused.stderr


# --- owners -------------------------------------------------------------------------------------------


def test_sums_that_owners_hand_over_give_what_pooled_rows_give(owners, files):
    expected = cs.compare(owners, weights="pseudo-BMA")
    told = json.loads(invoke("compare", *files, "--json").stdout)
    assert (told["rows"], told["weights"]) == (67, "pseudo-BMA")
    for found, model in zip(told["models"], expected.models, strict=True):
        for name in ("elpd", "se", "elpd_diff", "dse", "p_loo", "weight", "high_k", "rank"):
            assert found[name] == pytest.approx(getattr(model, name), abs=1e-8), name
    text = invoke("compare", *files).stdout
    assert "67 rows of 3 owners, weights by pseudo-BMA" in text
    assert "These are rows of" not in text
    assert json.loads(invoke("compare", *reversed(files), "--json").stdout)["models"][0]["name"] == "two"


def test_an_owner_sees_its_own_figures_and_where_its_file_is(owners, files):
    result = hand_over("a")
    for words in ("6 rows of 1 owner", "These are rows of a alone: without b, c", "a.json has a's sums"):
        assert words in result.stdout
    assert "consilience compare a.json b.json c.json" in result.stdout
    assert hand_over("a", "--quiet").stdout == "a.json\n"
    assert json.loads(hand_over("a", "--json").stdout)["file"] == "a.json"
    alone = invoke("compare", "trial-two/a/run", "--data", "a.csv", "--out", "alone.json")
    assert "leave-one-out over 6 rows of 1 owner" in alone.stdout


def test_a_file_has_no_figure_of_a_row_and_is_as_long_for_many_rows_as_for_few(owners, files, folder):
    held = {name: json.loads((folder / name).read_text()) for name in files}
    numbers = {name: [leaf for leaf in leaves(one) if isinstance(leaf, float)] for name, one in held.items()}
    assert len({len(leaves(one)) for one in held.values()}) == 1
    assert {len(found) for found in numbers.values()} == {2 * 3 + 2 * 2}  # k limit, elpd and p_loo; the squares
    for owner, (name, run) in [(owner, item) for owner in ROWS for item in owners.items()]:
        agent = [*ROWS].index(owner)
        rows = loo_rows(run, owner, run.shards[agent], agent)
        of_rows = np.concatenate([rows.elpd, rows.p_loo, rows.k])
        closest = np.abs(np.subtract.outer(numbers[f"{owner}.json"], of_rows)).min()
        assert closest > 1e-9, name


def test_owners_that_are_missing_or_there_twice_are_named(files):
    assert_refused(invoke("compare", "a.json", "c.json"), "there is no file of b")
    assert_refused(invoke("compare", "a.json"), "there is no file of b, c")
    assert_refused(invoke("compare", *files, "a.json"), "a file is named twice")
    shutil.copy("a.json", "again.json")
    assert_refused(invoke("compare", *files, "again.json"), "again.json: it is of a, and so is a.json")


def changed(name, edit):
    held = json.loads(Path(name).read_text())
    edit(held)
    Path("changed.json").write_text(json.dumps(held))
    return "changed.json"


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda held: held["models"][0].update(run="0" * 16), "it is of the runs 0000000000000000"),
        (lambda held: held["models"][0].update(draws=100), "it is of 100 draws of two, and a.json of 120"),
        (lambda held: held["models"][0].update(fingerprint="0" * 32), "it is of other draws of two than a.json"),
        (lambda held: held.update(owners=["a", "c"]), "its owners are ('a', 'c')"),
        (lambda held: held.update(variables=["z"]), "its variables are ('z',)"),
        (lambda held: held.update(format=2), "it has format 2, and this version of consilience reads 1"),
        (lambda held: held.update(kind="else"), "it has no leave-one-out sums of one owner"),
        (lambda held: held["models"][0].update(elpd="much"), "it is damaged: Expected `float`, got `str`"),
        (lambda held: held["squares"].pop(), "it is damaged"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(files, edit, said):
    assert_refused(invoke("compare", "a.json", "b.json", changed("c.json", edit)), "changed.json", said)


def test_what_is_no_file_is_refused_and_so_is_a_mixture(files, runs):
    assert_refused(invoke("compare", "d.json"), "there is no file d.json. An owner makes it: consilience compare")
    Path("text.json").write_text("no JSON")
    assert_refused(invoke("compare", "text.json"), "it is not JSON")
    assert_refused(invoke("compare", "a.json", "runs/two"), "some of these are owners' files and some are runs")
    mixed = invoke("compare", "trial-two/a", "runs/one", "--data", "a.csv")
    assert_refused(mixed, "model_to_compare:posterior is an owner's, and others are not")


def test_rows_of_another_owner_and_no_rows_are_refused(owners):
    wrong = invoke("compare", "trial-two/a", "--data", "b.csv", "--out", "wrong.json")
    assert_refused(wrong, "the rows of a are not those", "there are 20, and were 6")
    assert_refused(invoke("compare", "trial-two/a"), "does not say where a's rows are")
    twice = invoke("compare", "x=trial-two/a", "y=trial-two/a/run", "--data", "a.csv", "--out", "wrong.json")
    assert_refused(twice, "one run is there twice")
    assert not Path("wrong.json").exists()


def test_sums_of_few_rows_are_handed_over_on_demand_only(owners, monkeypatch):
    monkeypatch.setattr("consilience.cli.loo_files.FEWEST_ROWS", 7)
    Path("a.json").unlink(missing_ok=True)
    assert_refused(hand_over("a"), "a: sums over 6 rows tell much of each", "write --few-rows")
    assert not Path("a.json").exists()
    assert hand_over("a", "--few-rows").exit_code == 0
