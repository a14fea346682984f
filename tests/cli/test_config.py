"""The file that describes a run, and what it may say."""

import re
from pathlib import Path

import pytest

from consilience._refused import Refused
from consilience._tables import apply_change, keys_of, read_toml
from consilience.cli import config
from consilience.cli.config import TABLES, check_config, differences, read_config

LEAST = {"model": {"posterior": "m:f"}, "data": {"file": "d.csv"}, "network": {"kind": "ring:3"}}


def with_key(place, value):
    tables = {name: dict(table) for name, table in LEAST.items()}
    table, _, key = place.partition(".")
    if key:
        tables.setdefault(table, {})[key] = value
    else:
        tables[table] = value
    return tables


def test_what_is_left_out_is_filled_in():
    found = check_config(Path("some/where.toml"), LEAST)
    assert (found.run.num_samples, found.run.num_chains, found.split.by) == (1000, 4, "iid")
    assert found.folder == Path("some")
    assert found.out == Path("runs/where")
    assert found.page == Path("runs/where/report.html")


def test_every_key_is_in_the_module_s_table():
    rows = [line.split("|") for line in config.__doc__.splitlines() if line.startswith("|")]
    documented, table = set(), ""
    for row in rows[2:]:
        table = row[1].strip() or table
        documented |= {(table, key.strip(" *")) for key in row[2].split(",")}
    assert {(table, key) for table, form in TABLES.items() for key in keys_of(form)} <= documented


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("run.num_sample", 3, "[run] has no key num_sample. Write num_samples."),
        ("run.zzz", 3, "[run] has no key zzz. There are num_samples, num_warmup,"),
        ("modle", {}, "there is no table [modle]. Write model."),
        ("num_samples", 3, "there is no key num_samples. It belongs into [run]."),
        ("run.num_samples", "many", '[run] num_samples = "many": a whole number is needed. Write num_samples = 1000.'),
        ("run.num_samples", True, "[run] num_samples = true: a whole number is needed."),
        ("run.num_samples", 10.5, "a whole number is needed"),
        ("run.x64", 1, "[run] x64 = 1: true or false is needed."),
        ("data.features", "age", 'a list of texts is needed. Write features = ["...", "..."].'),
        ("data.features", [], "[data] features = []: at least one column is needed. Leave features out"),
        ("run.num_samples", 0, "[run] num_samples = 0: a whole number of at least 1 is needed."),
        ("run.num_warmup", -1, "[run] num_warmup = -1: a whole number of at least 0 is needed."),
        ("run.thin", 0, "[run] thin = 0: a whole number of at least 1 is needed."),
        ("run.seed", 2**32, "[run] seed = 4294967296: a whole number from 0 to 4294967295 is needed."),
        ("split.seed", -1, "[split] seed = -1: a whole number of at least 0 is needed."),
        ("data.test_fraction", "half", "a number is needed"),
        ("data.test_fraction", 20, "[data] test_fraction = 20: it must be between 0 and 1. Write test_fraction = 0.2."),
        ("data.target", 3, '[data] target = 3: text in quotes is needed. Write target = "3".'),
        ("data.loader", "m:load", "[data] has file and loader: leave one out."),
        ("data.arguments", {"n": 3}, "[data] arguments are for a loader"),
        ("data.file", None, '[data] needs file or loader. Write, for example, file = "patients.csv".'),
        ("model.numpyro", "m:model", "[model] has posterior and numpyro: leave one out."),
        ("network", {}, '[network] needs kind. Write, for example, kind = "ring:5".'),
        ("network", "ring:5", 'network = "ring:5": a table is needed. Write [network] on a line of its own.'),
    ],
    ids=lambda value: str(value),
)
def test_what_cannot_be_meant_is_refused_with_the_fix(place, value, message):
    tables = with_key(place, value)
    if value is None:
        del tables["data"]["file"]
    with pytest.raises(Refused, match=re.escape(message)):
        check_config(Path("a.toml"), tables)


def test_an_owner_s_column_and_a_split_contradict_each_other():
    tables = with_key("data.agent", "hospital") | {"split": {"by": "label"}}
    with pytest.raises(Refused, match="Leave one out"):
        check_config(Path("a.toml"), tables)


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("run.seed=3", 3),
        ("run.seed = 3", 3),
        ("run.x=1e-3", 1e-3),
        ("run.x=true", True),
        ("run.x=ring:5", "ring:5"),
        ("run.x=runs/a=b", "runs/a=b"),
        ('run.x="3"', "3"),
        ('run.x=["age", "bmi"]', ["age", "bmi"]),
        ("run.x={0 = 1, 1000 = 5}", {"0": 1, "1000": 5}),
        ("run.deep.er=nuts", {"er": "nuts"}),
    ],
)
def test_set_takes_toml_s_values_and_bare_text(change, value):
    tables = {"run": {"seed": 0}}
    apply_change(tables, change)
    name = change[4:].partition("=")[0].partition(".")[0].strip()
    assert tables["run"][name] == value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("run.seed", "a key, an equals sign and a value are needed"),
        ("=3", "a key, an equals sign and a value are needed"),
        ("run.seed=", "nothing is not a value"),
        ("run.keep=[1,", "is not a value as TOML writes it"),
        ("run.seed.deeper=3", "seed is not a table"),
    ],
)
def test_set_refuses_what_it_cannot_read(change, message):
    with pytest.raises(Refused, match=re.escape(message)):
        apply_change({"run": {"seed": 0}}, change)


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("[network]\nkind = ring:5  # five\n", ["line 2", "    kind = ring:5", 'Write kind = "ring:5".']),
        ("[network\nkind = 3\n", ["line 1", "    [network\n            ^", "A line is key = value or [table]"]),
        ('[run]\nout = "runs/a', ["line 2", 'out = "runs/a']),
        ("[run]\nseed = 1\nseed = 2\n", ["line 3"]),
    ],
    ids=["no quotes", "open bracket", "open quote", "twice"],
)
def test_bad_toml_is_refused_with_the_line(tmp_path, text, messages):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(Refused) as refused:
        read_toml(path)
    for message in messages:
        assert message in str(refused.value)


def test_a_file_that_is_not_there_is_refused_with_the_nearest(tmp_path):
    (tmp_path / "logistic.toml").write_text("")
    with pytest.raises(Refused, match=r"Did you mean .*logistic\.toml"):
        read_toml(tmp_path / "logistics.toml")
    with pytest.raises(Refused, match="nor a folder"):
        read_toml(tmp_path / "no" / "logistic.toml")


def test_a_folder_in_place_of_a_file_is_called_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refused, match=r"^\. is a folder, and a \.toml file is needed\. Name the file\.$"):
        read_toml(Path())
    (tmp_path / "logistic.toml").write_text("")
    with pytest.raises(Refused, match=r"needed\. Write logistic\.toml\.$"):
        read_toml(Path())
    (tmp_path / "other.toml").write_text("")
    with pytest.raises(Refused, match=r"needed\. There are logistic\.toml, other\.toml\.$"):
        read_toml(Path())


def test_text_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "a.toml").write_bytes(b'[report]\ntitle = "\xfc"\n')
    with pytest.raises(Refused, match="UTF-8"):
        read_toml(tmp_path / "a.toml")


@pytest.mark.parametrize("extra", [{}, {"agent": "hospital", "test_fraction": 0.5}], ids=["split", "agent"])
def test_a_saved_configuration_says_the_same(tmp_path, extra):
    tomli_w = pytest.importorskip("tomli_w")
    tables = {**LEAST, "data": {**LEAST["data"], **extra}, "sampler": {"name": "published", "rounds": {"0": 1}}}
    found = check_config(tmp_path / "a.toml", tables)
    saved = tmp_path / "runs" / "a" / "config.toml"
    saved.parent.mkdir(parents=True)
    saved.write_text(tomli_w.dumps(found.to_toml("../..")))
    again = read_config(saved)
    assert again.folder.resolve() == found.folder.resolve()
    assert (again.model, again.data, again.split, again.sampler) == (
        found.model,
        found.data,
        found.split,
        found.sampler,
    )
    assert (again.out, again.page) == (found.out, found.page)


@pytest.mark.parametrize(
    ("place", "value", "lines"),
    [
        ("model.arguments", {"sd": 3}, ["model.arguments.sd: 2.5 there, 3 here"]),
        ("model.arguments", {}, ["model.arguments.sd: 2.5 there, nothing here"]),
        ("sampler", {"name": "mala"}, ['sampler.name: "nuts" there, "mala" here']),
        ("sampler", {"name": "nuts"}, []),
        ("run", {"num_samples": 5, "out": "elsewhere"}, []),
        ("report", {"title": "Another"}, []),
        ("data", {"file": "d.csv", "features": ["a" * 99]}, [f'data.features: nothing there, ["{"a" * 58}... here']),
    ],
    ids=lambda value: str(value)[:30],
)
def test_keys_that_make_another_run_are_named(place, value, lines):
    there = with_key("model.arguments", {"sd": 2.5})
    here = {**there, **(with_key(place, value) if "." in place else {place: value})}
    assert differences(check_config(Path("a.toml"), there), check_config(Path("a.toml"), here)) == lines
