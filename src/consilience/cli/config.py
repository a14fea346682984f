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

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from .. import store
from .._refused import Refused
from .._tables import apply_change, check_tables, read_toml, shown, table_of
from ..runs import MOST_SEED, NUM_CHAINS, NUM_SAMPLES, NUM_WARMUP

FREE = ("run.num_samples", "run.out", "report.file", "report.title")  # may differ when a run is resumed
AtLeast0 = Annotated[int, Meta(ge=0)]
AtLeast1 = Annotated[int, Meta(ge=1)]
Seed = Annotated[int, Meta(ge=0, le=MOST_SEED)]
Share = Annotated[float, Meta(gt=0, lt=1, description="it must be between 0 and 1", examples=[0.2])]


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
    test_fraction: Share | None = None
    test_seed: AtLeast0 = 0
    standardize: bool = False


@dataclass(frozen=True)
class SplitTable:
    by: str = "iid"
    seed: AtLeast0 = 0
    label: str | None = None
    alpha: float = 0.5
    feature: str | None = None
    blocks: list[int] | None = None


@dataclass(frozen=True)
class NetworkTable:
    kind: Annotated[str, Meta(examples=["ring:5"])]
    weights: str = "metropolis"
    seed: Seed = 0


@dataclass(frozen=True)
class RunTable:
    num_samples: AtLeast1 = NUM_SAMPLES
    num_warmup: AtLeast0 = NUM_WARMUP
    num_chains: AtLeast1 = NUM_CHAINS
    thin: AtLeast1 = 1
    seed: Seed = 0
    keep: list[str] | None = None
    out: str | None = None
    x64: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """Keys that `cs.sample` takes as they are, with their values."""
        return {name: value for name, value in asdict(self).items() if name not in ("out", "x64")}


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


def read_config(path: Path, changes: Sequence[str] = ()) -> Config:
    """Read and check the run's file at `path`, with `changes` such as "run.num_samples=2000" made to it."""
    tables = read_toml(path)
    for change in changes:
        apply_change(tables, change)
    return check_config(path, tables)


def check_config(path: Path, tables: Mapping[str, Any]) -> Config:
    """Return the `Config` of `tables`; refuse what is unknown, missing, of the wrong kind, out of range or too much."""
    check_tables(tables, TABLES, ["sampler"])
    found = {name: table_of(name, form, tables.get(name, {})) for name, form in TABLES.items()}
    config = Config(path, path.parent / tables.get("folder", "."), sampler=dict(tables.get("sampler", {})), **found)
    _check_choices(config, "split" in tables)
    return config


def _check_choices(config: Config, has_split: bool) -> None:
    """Refuse keys that contradict each other."""
    model, data = config.model, config.data
    _exactly_one("model", posterior=model.posterior, numpyro=model.numpyro)
    _exactly_one("data", file=data.file, loader=data.loader)
    if data.test is not None and data.test_fraction is not None:
        raise Refused("", "[data] has test and test_fraction, and one of them is enough", "Leave one out.")
    if data.agent is not None and has_split:
        raise Refused("[data] agent", "it says whose each row is, and [split] deals them out anew", "Leave one out.")
    if data.features == []:
        fix = "Leave features out for all but target and agent."
        raise Refused("[data] features = []", "at least one column is needed", fix)
    features = data.features or []
    for name in features:
        if name == data.target:
            rest = shown([other for other in features if other != name])
            reason = f"{name} is the target, too: the model would be given what it is to predict"
            raise Refused("[data] features", reason, f"Write features = {rest}.")
        if features.count(name) > 1:
            reason = f"{name} is there twice, and its two coefficients could not be told apart"
            raise Refused("[data] features", reason, f"Write features = {shown([*dict.fromkeys(features)])}.")
    has_columns = data.file is not None and not data.file.endswith(".npz")
    for name in ("features", "target", "test"):
        if getattr(data, name) is not None and not (has_columns or (name == "test" and data.file)):
            raise Refused(f"[data] {name}", "it is for tables, .csv and .parquet", "Leave it out.")
    if data.arguments and data.loader is None:
        raise Refused("", "[data] arguments are for a loader", "Leave them out.")


def _exactly_one(table: str, **choices: str | None) -> None:
    given = [name for name, value in choices.items() if value is not None]
    if len(given) != 1:
        example = {"model": 'posterior = "my_model:posterior"', "data": 'file = "patients.csv"'}[table]
        what = f"has {' and '.join(given)}: leave one out" if given else f"needs {' or '.join(choices)}"
        raise Refused("", f"[{table}] {what}", f"Write, for example, {example}.")


def differences(there: Config, here: Config) -> list[str]:
    """List the keys that make `here` another run than `there`, as lines of a message."""
    return store.differences({"there": _effective(there), "here": _effective(here)}, FREE, shown)


def _effective(config: Config) -> dict[str, Any]:
    tables = config.to_toml(str(config.folder.resolve()))
    return {**tables, "sampler": {"name": "nuts", **config.sampler}}
