"""One agent's configuration file, agent.toml, as `consilience init` writes it: read and checked before all else.

It is a run's file, see `consilience.cli.config`, with the agent's own tables, see `consilience.peers.agent_file`. Every
agent has a file of its own, and all files have the same model, network, sampler and run.

There is no [split] and no [report], and [data] says only how a table's columns are read. The rows themselves are named
when the agent is started, --data. The run's folder is run, beside the file, if not given.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .._refused import Refused
from .._tables import apply_change, check_tables, no_file, read_toml
from ..model import Columns
from ..network import network_from_spec
from ..peers import AgentFile, AgentTable, agent_of, check_consensus, check_mask
from .build import sampler_from
from .columns import READERS
from .config import TABLES, Config, SplitTable, check_config
from .data import load_data
from .modules import named

OUT = "run"
COLUMNS = ("features", "target")  # keys of [data] that say how a table is read
OWN_ROWS = "each agent sees only its own rows"
NOT_FOR_AGENTS = {  # tables and keys: why, and what to do instead
    "[split]": (f"{OWN_ROWS}, and none are dealt out", "Leave [split] out."),
    "[report]": ("agents write no page", "Leave [report] out; consilience report is for that."),
    "[data] agent": (f"{OWN_ROWS}, and no column says whose they are", "Leave agent out."),
    "[data] test": (f"{OWN_ROWS}, and there are no scores of all", "Leave test out."),
    "[data] test_fraction": (
        f"{OWN_ROWS}, and there are no scores of all",
        "Leave test_fraction out, and rows out of the file.",
    ),
    "[data] test_seed": (f"{OWN_ROWS}, and there are no scores of all", "Leave test_seed out."),
    "[data] standardize": (
        f"{OWN_ROWS}, and would scale them by a mean and an sd of its own",
        "Leave standardize out, and put constants that all have agreed on into the model.",
    ),
}
FORMS = {"agent": AgentTable} | {name: form for name, form in TABLES.items() if f"[{name}]" not in NOT_FOR_AGENTS}


@dataclass(frozen=True)
class AgentRun(AgentFile):
    """One agent's whole file, checked: its own tables, and in `config` model, data, network, sampler and run."""

    config: Config


def read_agent(path: Path, data: str | None, changes: Sequence[str] = ()) -> AgentRun:
    """Read and check the agent's file at `path`, with `changes` such as "run.num_samples=2000" made to it.

    Args:
      data: the agent's own rows: a .csv, .parquet or .npz file, or "module:function", a loader in a module beside
        the agent's file or where you are. None if the file's [data] names them.
    """
    tables = read_toml(path)
    for change in changes:
        apply_change(tables, change)
    if isinstance(own := tables.get("data", {}), dict):
        tables["data"] = _named_rows(path, tables, own, data)
    return check_agent(path, tables)


def check_agent(path: Path, tables: Mapping[str, Any]) -> AgentRun:
    """Return the `AgentRun` of `tables`, whose [data] names the rows; check what runs need and what agents need."""
    path = path.absolute()
    _check_not_for_agents(f"[{name}]" for name in tables)
    check_tables(tables, FORMS, ("sampler", "neighbors"))
    _check_not_for_agents(f"[data] {key}" for key in tables.get("data", {}))
    own = agent_of(path, tables)
    run = {"out": str(path.parent / OUT), **tables.get("run", {})}
    shared = {name: value for name, value in tables.items() if name not in ("agent", "neighbors")}
    config = check_config(path, {**shared, "run": run})
    network = network_from_spec(config.network.kind, config.network.weights, config.network.seed)
    own.check_network(network, config.network.kind)
    check_mask(own.mask, network.size, sampler_from(config.sampler))
    check_consensus(own.consensus, own.mask, network.size)
    return AgentRun(**vars(own), config=config)


def own_rows(agent: AgentRun) -> tuple[Any, Columns]:
    """Load this agent's own data, and the names of the columns of tables in it."""
    table = agent.config.data
    if table.loader is not None:
        takes = inspect.signature(named("--data", table.loader, agent.config.folder)).parameters
        known = {"agent": agent.place.name, "index": agent.place.index}
        mine = {name: value for name, value in known.items() if name in takes and name not in table.arguments}
        table = replace(table, arguments={**table.arguments, **mine})
    data = load_data(table, SplitTable(), agent.config.folder, 1)
    shards = data.shards
    if callable(shards):
        return shards(agent.place.index), data.columns
    if len(shards) != 1:
        reason = f"--data {table.loader} gives {len(shards)} shards, and {agent.place.name} needs its own"
        raise Refused("", reason, "Return one, for example that of the argument index.")
    return shards[0], data.columns


def _check_not_for_agents(given: Iterable[str]) -> None:
    for what in given:
        if what in NOT_FOR_AGENTS:
            raise Refused(what, *NOT_FOR_AGENTS[what])


def _named_rows(path: Path, tables: Mapping[str, Any], own: Mapping[str, Any], data: str | None) -> dict[str, Any]:
    """Return the table [data] with the rows that `data` names in place of those that the file names."""
    if data is None:
        if not {"file", "loader"} & set(own):
            agent = tables.get("agent")
            name = agent.get("name", "the agent") if isinstance(agent, dict) else "the agent"
            fix = 'Write --data mine.csv, or another table, .parquet, arrays, .npz, or a loader, --data "my_data:load".'
            raise Refused("", f"{path} does not say where {name}'s rows are", fix)
        return dict(own)
    file, what, kinds = Path(data).expanduser(), f"--data {data}", ", ".join(READERS)
    if file.suffix in READERS:
        if not file.is_file():
            raise no_file(file, file.suffix)
        source = {"file": str(file.absolute())}
        left_out = ["arguments", *(COLUMNS if file.suffix == ".npz" else ())]
    elif re.fullmatch(r"[\w.]+:\w+", data):
        _find_loader(path.parent / str(tables.get("folder", ".")), data)
        source, left_out = {"loader": data}, [*COLUMNS]
    elif file.exists():
        raise Refused(what, f"{kinds} files are read", "Use a loader, --data my_data:load.")
    else:
        fix = "Write --data mine.csv, or --data my_data:load for the function load in my_data.py."
        raise Refused(what, f"a {kinds} file or a loader is needed", fix)
    return {key: value for key, value in own.items() if key not in ("file", "loader", *left_out)} | source


def _find_loader(folder: Path, reference: str) -> None:
    """Let Python find a loader's module in the current folder, where it is not beside the agent's file."""
    module = reference.partition(":")[0].removesuffix(".py").split(".")[0]
    here, there = ((place / f"{module}.py").is_file() or (place / module).is_dir() for place in (Path.cwd(), folder))
    if here and not there and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
