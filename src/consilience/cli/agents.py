"""One agent's configuration file, agent.toml, as `consilience init` writes it: read and checked before all else.

It is a run's file, see `consilience.cli.config`, with two more tables. Every agent has a file of its own, and all files
have the same model, network, sampler and run. Keys with a star are needed.

| table | key | what it is |
|---|---|---|
| agent | name * | this agent's name |
| | run * | the run's id, 16 hexadecimal digits |
| | listen * | where neighbours reach this agent, "tls/HOST:PORT" |
| | names * | all agents, in the network's order |
| | key, certificate, authority | files; key.pem, certificate.pem and authority.pem if not given |
| | on_loss | what to do when a neighbour is lost: "wait", "stop" or "continue-without" |
| | mask | true: parts of sums are hidden from the neighbours |
| neighbors | NAME * | a line for each agent that this one is linked with: its endpoint, "tls/HOST:PORT" |

There is no [split] and no [report], and [data] says only how a table's columns are read. The rows themselves are named
when the agent is started, --data. The run's folder is run, beside the file, if not given.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..network import Network, network_from_spec
from ..peers import OBSERVER
from ..samplers import Sampler
from .build import sampler_from
from .columns import READERS
from .config import TABLES, Config, check_config, check_tables, table_of
from .ending import choose_from, no_file
from .endpoints import check_endpoint, dialed
from .toml import apply_change, read_toml

if TYPE_CHECKING:
    from ..peers import Identity

AGENT = "agent.toml"
AUTHORITY = "authority"
ON_LOSS = ("wait", "stop", "continue-without")
FEWEST_MASKED = 3  # agents: of two, each can work out the other's part of a sum
OUT = "run"
COLUMNS = ("features", "target")  # keys of [data] that say how a table is read
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
RUN_ID = re.compile(r"[0-9a-f]{16}")
EXAMPLES = {
    "name": '"a"',
    "run": '"4f2a9c0d1b3e5f67"',
    "listen": '"tls/0.0.0.0:7447"',
    "names": '["a", "b", "c"]',
}
OWN_ROWS = "each agent sees only its own rows"
NOT_FOR_AGENTS = {
    "agent": f"{OWN_ROWS}, and no column says whose they are. Leave agent out.",
    "test": f"{OWN_ROWS}, and there are no scores of all. Leave test out.",
    "test_fraction": f"{OWN_ROWS}, and there are no scores of all. Leave test_fraction out, and rows out of the file.",
    "test_seed": f"{OWN_ROWS}, and there are no scores of all. Leave test_seed out.",
    "standardize": f"{OWN_ROWS}, and would scale them by a mean and an sd of its own. Leave standardize out, and put "
    "constants that all have agreed on into the model.",
}


@dataclass(frozen=True)
class AgentTable:
    name: str
    run: str
    listen: str
    names: list[str]
    key: str = "key.pem"
    certificate: str = "certificate.pem"
    authority: str = "authority.pem"
    on_loss: str = "wait"
    mask: bool = False


@dataclass(frozen=True)
class AgentFile:
    """One agent's configuration, checked: who it is, its keys, its neighbours and the run that it takes part in.

    Attributes:
      path: path of the file.
      name: the agent's own name.
      run_id: the run's id, 16 hexadecimal digits.
      listen: endpoint at which neighbours reach it.
      key, certificate, authority: paths of its key, its certificate and the authority's certificate, PEM.
      names: names of all agents, in the network's order.
      on_loss: what to do when a neighbour is lost: "wait", "stop" or "continue-without".
      mask: whether parts of sums are hidden from the neighbours.
      neighbors: endpoints of the agents it is linked with, by name, in the network's order, as Zenoh takes them.
      config: model, data, network, sampler and run.
    """

    path: Path
    name: str
    run_id: str
    listen: str
    key: Path
    certificate: Path
    authority: Path
    names: tuple[str, ...]
    on_loss: str
    mask: bool
    neighbors: dict[str, str]
    config: Config

    @property
    def index(self) -> int:
        """Index of this agent in the network."""
        return self.names.index(self.name)

    @property
    def folder(self) -> Path:
        """Folder that holds the file."""
        return self.path.parent

    def identity(self) -> Identity:
        """Return the agent's key and certificate; refuse those of another agent, or of another run."""
        from ..peers import Identity, Untrusted, Verifier

        own = Identity(self.key.read_bytes(), self.certificate.read_bytes())
        try:
            Verifier(self.authority.read_bytes()).check(own.certificate, b"", own.sign(b""))
        except Untrusted as reason:
            raise ValueError(f"{self.certificate} is of no use here: {reason}") from None
        if own.name != self.name:
            raise ValueError(
                f"{self.certificate} is that of {own.name}, and this is agent {self.name}. Take the folder as it was "
                f"made."
            )
        return own


def read_agent(path: Path, data: str | None, changes: Sequence[str] = ()) -> AgentFile:
    """Read and check the agent's file at `path`, with `changes` such as "run.num_samples=2000" made to it.

    Args:
      data: the agent's own rows: a .csv, .parquet or .npz file, or "module:function", a loader in a module beside
        the agent's file or where you are. None if the file's [data] names them.
    """
    tables = read_toml(path)
    for change in changes:
        apply_change(tables, change)
    tables = _with_data(path, tables, data)
    return check_agent(path, tables)


def check_agent(path: Path, tables: Mapping[str, Any]) -> AgentFile:
    """Return the `AgentFile` of `tables`, whose [data] names the rows; check what runs need and what agents need."""
    path = path.absolute()
    _check_tables(tables)
    table = table_of("agent", AgentTable, tables.get("agent", {}), EXAMPLES)
    check_names("[agent] names", table.names)
    run = {"out": str(path.parent / OUT), **tables.get("run", {})}
    shared = {name: value for name, value in tables.items() if name not in ("agent", "neighbors")}
    config = check_config(path, {**shared, "run": run})
    network = network_from_spec(config.network.kind, config.network.weights, config.network.seed)
    sampler = sampler_from(config.sampler)
    _check_agent(table, network, config.network.kind)
    check_mask(table.mask, network.size, sampler)
    return AgentFile(
        path=path,
        name=table.name,
        run_id=table.run,
        listen=table.listen,
        names=tuple(table.names),
        on_loss=table.on_loss,
        mask=table.mask,
        neighbors=_neighbors(table, network, config.network.kind, tables.get("neighbors", {})),
        config=config,
        **own_files(path.parent, "agent", table.name, table),
    )


def check_names(what: str, names: Sequence[str]) -> None:
    """Refuse agents' names that are not distinct, or that cannot be used for folders and Zenoh keys."""
    for name in names:
        if not NAME.fullmatch(name):
            raise ValueError(f'{what}: "{name}" has to be 1 to 64 letters, digits, _ or -. Write {_as_name(name)}.')
        if name.lower() in (OBSERVER, AUTHORITY):
            raise ValueError(f"{what}: {name} is not an agent's name here. Write {name}0.")
    seen = [name.lower() for name in names]
    for name in names:
        if seen.count(name.lower()) > 1:
            raise ValueError(f"{what}: {name} is there twice, capitals or not. Give each agent a name of its own.")


def check_mask(mask: bool, agents: int, sampler: Sampler) -> None:
    """Refuse `mask` where it cannot hide anything: with too few agents, or a sampler without exact sums."""
    if mask and agents < FEWEST_MASKED:
        raise ValueError(
            f"mask with {agents} agents hides nothing: each knows its own part, and the rest of a sum is the other's. "
            f"Leave mask out, or let {FEWEST_MASKED} agents take part."
        )
    if mask and not sampler.maskable:
        raise ValueError(
            f"mask is not for {sampler.name}: masking hides each agent's part of exact sums over the tree, and "
            f"{sampler.name} lets neighbours see values of single agents, as all gossip does. Leave mask out, or take "
            f"another sampler: nuts, hmc, mala can be masked."
        )


def _check_tables(tables: Mapping[str, Any]) -> None:
    """Refuse tables and keys that only a run's file may have, and unknown ones."""
    if "split" in tables:
        raise ValueError(f"[split]: {OWN_ROWS}, and none are dealt out. Leave [split] out.")
    if "report" in tables:
        raise ValueError("[report]: agents write no page. Leave [report] out; consilience report is for that.")
    forms = {"agent": AgentTable} | {name: form for name, form in TABLES.items() if name not in ("split", "report")}
    check_tables(tables, forms, ("sampler", "neighbors"))
    for key in tables.get("data", {}):
        if key in NOT_FOR_AGENTS:
            raise ValueError(f"[data] {key}: {NOT_FOR_AGENTS[key]}")


def _check_agent(table: AgentTable, network: Network, kind: str) -> None:
    if len(table.names) != network.size:
        raise ValueError(
            f"[agent] names has {len(table.names)} names, and {kind} has {network.size} agents. Name all, in the "
            f"network's order."
        )
    if table.name not in table.names:
        raise ValueError(f'[agent] name = "{table.name}": names has none. {choose_from(table.name, table.names)}')
    if not RUN_ID.fullmatch(table.run):
        raise ValueError(f'[agent] run = "{table.run}": 16 hexadecimal digits are needed. Write {EXAMPLES["run"]}.')
    if table.on_loss not in ON_LOSS:
        raise ValueError(f'[agent] on_loss = "{table.on_loss}": {choose_from(table.on_loss, ON_LOSS)}')
    check_endpoint("[agent] listen", table.listen)


def _neighbors(table: AgentTable, network: Network, kind: str, given: Mapping[str, Any]) -> dict[str, str]:
    wanted = [table.names[k] for k in network.neighbors(table.names.index(table.name))]
    if set(given) != set(wanted):
        wrong = [f"has {name}" for name in given if name not in wanted]
        wrong += [f"lacks {name}" for name in wanted if name not in given]
        raise ValueError(
            f'[neighbors] {" and ".join(wrong)}: "{kind}" links {table.name} with {", ".join(wanted) or "nobody"}. '
            f'Write a line for each of them and no other: {wanted[0] if wanted else "a"} = "tls/10.0.0.1:7447".'
        )
    return {name: dialed(check_endpoint(f"[neighbors] {name}", given[name])) for name in wanted}


def own_files(folder: Path, who: str, name: str, table: Any) -> dict[str, Path]:
    """Return the paths of key and certificates; refuse missing files, and a key that other users can read."""
    files = {file: folder / getattr(table, file) for file in ("key", "certificate", "authority")}
    for file, place in files.items():
        if not place.is_file():
            raise FileNotFoundError(f"[{who}] {file}: {no_file(place, '.pem')} consilience init makes it.")
    key = files["key"]
    if os.name == "posix" and key.stat().st_mode & 0o077:
        raise PermissionError(
            f"{key} can be read by others on this machine, and whoever has it can pass for {name}. Write\n"
            f"  chmod 600 {shlex.quote(str(key))}"
        )
    return files


def _with_data(path: Path, tables: Mapping[str, Any], data: str | None) -> dict[str, Any]:
    """Return `tables` with the rows that `data` names in place of those that the file names."""
    there = tables.get("data", {})
    if not isinstance(there, dict):
        return dict(tables)
    if data is None:
        if not {"file", "loader"} & set(there):
            raise ValueError(
                f"{path} does not say where {_name(tables)}'s rows are. Write --data mine.csv, or another table, "
                f'.parquet, arrays, .npz, or a loader, --data "my_data:load".'
            )
        return dict(tables)
    kept = {key: value for key, value in there.items() if key not in ("file", "loader")}
    file = Path(data).expanduser()
    if file.suffix in READERS:
        if not file.is_file():
            raise no_file(file, file.suffix)
        source, left_out = {"file": str(file.absolute())}, ["arguments"]
        if file.suffix == ".npz":
            left_out += COLUMNS
    elif re.fullmatch(r"[\w.]+:\w+", data):
        _find_loader(path, tables, data)
        source, left_out = {"loader": data}, [*COLUMNS]
    elif file.exists():
        raise ValueError(f"--data {data}: {', '.join(READERS)} files are read. Use a loader, --data my_data:load.")
    else:
        raise ValueError(
            f"--data {data}: a {', '.join(READERS)} file or a loader is needed. Write --data mine.csv, or "
            f"--data my_data:load for the function load in my_data.py."
        )
    return {**tables, "data": {**{k: v for k, v in kept.items() if k not in left_out}, **source}}


def _find_loader(path: Path, tables: Mapping[str, Any], reference: str) -> None:
    """Let Python find a loader's module in the current folder, where it is not beside the agent's file."""
    module = reference.partition(":")[0].removesuffix(".py").split(".")[0]
    folder = tables.get("folder", ".")
    here, there = Path.cwd(), path.parent / (folder if isinstance(folder, str) else ".")
    if not _has(there, module) and _has(here, module) and str(here) not in sys.path:
        sys.path.append(str(here))


def _has(folder: Path, module: str) -> bool:
    return (folder / f"{module}.py").is_file() or (folder / module).is_dir()


def _name(tables: Mapping[str, Any]) -> str:
    agent = tables.get("agent")
    return str(agent["name"]) if isinstance(agent, dict) and "name" in agent else "the agent"


def _as_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:64] or "agent0"
