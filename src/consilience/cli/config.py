"""A run's configuration file: its tables and keys, read and checked before anything else happens.

Keys with a star are needed. What a run reads, files and modules, is looked for beside the file; what it writes goes to
the current folder.

| table | key | what it is |
|---|---|---|
| | folder | where paths and modules are looked for, if not beside the file |
| model | posterior * | "module:function", which returns a `cs.Posterior`, or "module:name" of one |
| | numpyro * | instead of `posterior`: "module:function", a NumPyro model of the batch |
| | init | "module:name": the parameters to start from, or a function of a key; not needed where the model has them |
| | arguments | a table of keyword arguments for the function |
| data | file * | a table, .csv or .parquet: becomes x (rows, features) and y; or arrays by name, .npz |
| | loader * | instead of `file`: "module:function", which returns arrays with one row per example (any pytree), a list of such, one per agent, or a function of an agent's number that gives its own, or a dict of them with the keys train, test, ood |
| | arguments | a table of keyword arguments for the loader |
| | features | columns of the table; all but target and agent if not given |
| | target | a column; whole numbers become labels |
| | agent | the column that names the agent of each row, instead of [split] |
| | test | a file like `file`: held-out rows, for the scores |
| | test_fraction, test_seed | instead of `test`: which part of the rows is held out, at random |
| | standardize | true: features get mean 0 and sd 1, by the rows that are not held out |
| split | by | "iid", "label", "dirichlet" or "features": how `cs.shard` deals the rows to the agents |
| | seed, label, alpha, feature, blocks | as `cs.shard` takes them |
| network | kind * | "ring:5", "grid:3x4", ...: see `consilience network --help` |
| | weights, seed | "metropolis", "uniform" or "max-degree"; the seed of a random network |
| sampler | name | "nuts" if not given |
| | ... | every setting of that sampler, `target_acceptance = 0.9`; a schedule is a table, `rounds = {0 = 1, 1000 = 5}` |
| run | num_samples, num_warmup, num_chains, thin, seed, keep | as `cs.sample` takes them; 1000 draws after 500 iterations in 4 chains if not given |
| | out | the run's folder; runs/NAME of NAME.toml if not given |
| | x64 | true: double precision |
| report | file | the page; report.html in the run's folder if not given |
| | title | the title of the page |
"""  # noqa: E501

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar

from .. import store
from .._checks import whole_number
from ..runs import MOST_SEED
from .ending import choose_from
from .toml import apply_change, read_toml

T = TypeVar("T")

FREE = ("run.num_samples", "run.out", "report.file", "report.title")  # may differ when a run is resumed
NEEDED = {"kind": '"ring:5"'}


@dataclass(frozen=True)
class ModelTable:
    posterior: str | None = None
    numpyro: str | None = None
    init: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DataTable:
    file: str | None = None
    loader: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    features: list[str] | None = None
    target: str | None = None
    agent: str | None = None
    test: str | None = None
    test_fraction: float | None = None
    test_seed: int = 0
    standardize: bool = False


@dataclass(frozen=True)
class SplitTable:
    by: str = "iid"
    seed: int = 0
    label: str | None = None
    alpha: float = 0.5
    feature: str | None = None
    blocks: list[int] | None = None


@dataclass(frozen=True)
class NetworkTable:
    kind: str
    weights: str = "metropolis"
    seed: int = 0


@dataclass(frozen=True)
class RunTable:
    num_samples: int = 1000
    num_warmup: int = 500
    num_chains: int = 4
    thin: int = 1
    seed: int = 0
    keep: list[str] | None = None
    out: str | None = None
    x64: bool = False


@dataclass(frozen=True)
class ReportTable:
    file: str | None = None
    title: str | None = None


@dataclass(frozen=True)
class Config:
    """A run's configuration: the tables of its file, with all that it leaves out filled in.

    Attributes:
      path: path of the file.
      folder: folder in which its paths and modules are looked for.
      sampler: the sampler's name and settings as the file has them; `build.sampler_from` checks them.
    """

    path: Path
    folder: Path
    model: ModelTable
    data: DataTable
    split: SplitTable
    network: NetworkTable
    sampler: dict[str, Any]
    run: RunTable
    report: ReportTable

    @property
    def out(self) -> Path:
        return Path(self.run.out or Path("runs") / self.path.stem)

    @property
    def page(self) -> Path:
        return Path(self.report.file) if self.report.file else self.out / "report.html"

    def to_toml(self, folder: str) -> dict[str, Any]:
        """Return plain tables that make the same run again; `folder` is `self.folder`, as the new file sees it."""
        tables = {name: asdict(getattr(self, name)) for name in TABLES} | {"sampler": self.sampler}
        tables["run"]["out"] = str(self.out)
        if self.data.agent is not None:  # which says all that [split] would
            del tables["split"]
        given = {name: {k: v for k, v in table.items() if v not in (None, {})} for name, table in tables.items()}
        return {"folder": folder} | {name: table for name, table in given.items() if table}


TABLES: dict[str, Any] = {
    "model": ModelTable,
    "data": DataTable,
    "split": SplitTable,
    "network": NetworkTable,
    "run": RunTable,
    "report": ReportTable,
}
KINDS = {
    str: "text in quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list[str]: 'a list of texts, ["...", "..."],',
    list[int]: "a list of whole numbers, [1, 2],",
    dict[str, Any]: "a table, {name = value},",
}


def read_config(path: Path, changes: Sequence[str] = ()) -> Config:
    """Read and check the run's file at `path`, with `changes` such as "run.num_samples=2000" made to it."""
    tables = read_toml(path)
    for change in changes:
        apply_change(tables, change)
    return check_config(path, tables)


def check_config(path: Path, tables: Mapping[str, Any]) -> Config:
    """Return the `Config` of `tables`; refuse unknown tables and keys, values of the wrong kind, and missing keys."""
    check_tables(tables, TABLES)
    folder = _checked("folder", tables.get("folder", "."), str)
    config = Config(
        path=path,
        folder=path.parent / folder,
        sampler=dict(tables.get("sampler", {})),
        **{name: table_of(name, form, tables.get(name, {})) for name, form in TABLES.items()},
    )
    _check_choices(config, tables)
    _check_ranges(config)
    return config


def check_tables(tables: Mapping[str, Any], forms: Mapping[str, Any], free: Sequence[str] = ("sampler",)) -> None:
    """Refuse values that are no tables, and tables neither in `forms` nor in `free`, which may have any keys."""
    known = [*forms, *free, "folder"]
    for name, table in tables.items():
        if name not in known:
            homes = [home for home, form in forms.items() if name in keys_of(form)]
            fix = f"It belongs into [{homes[0]}]." if homes else choose_from(name, known)
            raise ValueError(f"there is no {f'table [{name}]' if isinstance(table, dict) else f'key {name}'}. {fix}")
        if name != "folder" and not isinstance(table, dict):
            raise ValueError(f"{name} = {_shown(table)}: a table is needed. Write [{name}] on a line of its own.")


def _check_choices(config: Config, tables: Mapping[str, Any]) -> None:
    """Refuse keys that contradict each other."""
    model, data = config.model, config.data
    _exactly_one("model", posterior=model.posterior, numpyro=model.numpyro)
    _exactly_one("data", file=data.file, loader=data.loader)
    if data.test is not None and data.test_fraction is not None:
        raise ValueError("[data] has test and test_fraction, and one of them is enough: leave one out.")
    if data.test_fraction is not None and not 0 < data.test_fraction < 1:
        raise ValueError(f"[data] test_fraction = {data.test_fraction}: it must be between 0 and 1. Write 0.2.")
    if data.agent is not None and "split" in tables:
        raise ValueError("[data] agent says whose each row is, and [split] deals them out anew: leave one out.")
    if data.features == []:
        raise ValueError(
            "[data] features = []: at least one column is needed. Leave features out for all but target and agent."
        )
    table = data.file is not None and not data.file.endswith(".npz")
    for name in ("features", "target", "test"):
        if getattr(data, name) is not None and not (table or (name == "test" and data.file)):
            raise ValueError(f"[data] {name} is for tables, .csv and .parquet: leave it out.")
    if data.arguments and data.loader is None:
        raise ValueError("[data] arguments are for a loader: leave them out.")


def _check_ranges(config: Config) -> None:
    """Refuse numbers out of range now: the code that uses them sees them only once the data are loaded."""
    for table, key, least, most in (
        ("run", "num_samples", 1, None),
        ("run", "num_warmup", 0, None),
        ("run", "num_chains", 1, None),
        ("run", "thin", 1, None),
        ("run", "seed", 0, MOST_SEED),
        ("network", "seed", 0, MOST_SEED),
        ("split", "seed", 0, None),
        ("data", "test_seed", 0, None),
    ):
        whole_number(f"[{table}] {key}", getattr(getattr(config, table), key), least, most)


def _exactly_one(table: str, **choices: str | None) -> None:
    given = [name for name, value in choices.items() if value is not None]
    if len(given) != 1:
        example = {"model": 'posterior = "my_model:posterior"', "data": 'file = "patients.csv"'}[table]
        what = f"has {' and '.join(given)}: leave one out" if given else f"needs {' or '.join(choices)}"
        raise ValueError(f"[{table}] {what}. Write, for example, {example}.")


def table_of(name: str, form: type[T], values: Mapping[str, Any], examples: Mapping[str, str] = NEEDED) -> T:
    """Return one table as its dataclass `form`; refuse unknown keys, values of the wrong kind, and missing keys.

    Args:
      examples: for each key that is needed, a value to show in the message.
    """
    for key in values:
        if key not in keys_of(form):
            raise ValueError(f"[{name}] has no key {key}. {choose_from(key, keys_of(form))}")
    hints = typing.get_type_hints(form)
    checked = {key: _checked(f"[{name}] {key}", value, hints[key]) for key, value in values.items()}
    for known in fields(form):  # type: ignore[arg-type]
        if known.name not in checked and known.default is MISSING and known.default_factory is MISSING:
            raise ValueError(f"[{name}] needs {known.name}. Write, for example, {known.name} = {examples[known.name]}.")
    return form(**checked)


def _checked(what: str, value: Any, hint: Any) -> Any:
    """Return `value` if it is of the kind that `hint` says, and refuse it otherwise."""
    kind = next(k for k in typing.get_args(hint) if k is not NoneType) if isinstance(hint, UnionType) else hint
    if not _is(value, kind):
        fix = f' Write "{value}".' if kind is str and isinstance(value, int | float) else ""
        raise ValueError(f"{what} = {_shown(value)}: {KINDS[kind]} is needed.{fix}")
    return value


def _is(value: Any, kind: Any) -> bool:
    if typing.get_origin(kind) is list:
        return isinstance(value, list) and all(_is(one, typing.get_args(kind)[0]) for one in value)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, typing.get_origin(kind) or kind) and (kind is bool or not isinstance(value, bool))


def differences(there: Config, here: Config) -> list[str]:
    """List the keys that make `here` another run than `there`, as lines of a message."""
    return store.differences({"there": _effective(there), "here": _effective(here)}, FREE, _shown)


def _effective(config: Config) -> dict[str, Any]:
    tables = config.to_toml(str(config.folder.resolve()))
    return {**tables, "sampler": {"name": "nuts", **config.sampler}}


def keys_of(form: Any) -> list[str]:
    """Return the names of a table's keys."""
    return [known.name for known in fields(form)]


def _shown(value: Any) -> str:
    """Return a value as text, as the file has it."""
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
