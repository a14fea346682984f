"""The file of the observer, who may watch a run: observer.toml, as `consilience init` writes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..peers import OBSERVER
from .agents import EXAMPLES, RUN_ID, check_names, own_files
from .config import check_tables, table_of
from .endpoints import check_endpoint, dialed
from .toml import read_toml

OBSERVER_FILE = f"{OBSERVER}.toml"


@dataclass(frozen=True)
class ObserverTable:
    run: str
    names: list[str]
    key: str = "key.pem"
    certificate: str = "certificate.pem"
    authority: str = "authority.pem"


@dataclass(frozen=True)
class ObserverFile:
    """The observer's file, checked: what `consilience status` knows of the run, and where all agents are.

    Attributes:
      path: path of the file.
      run_id: the run's id, 16 hexadecimal digits.
      key, certificate, authority: paths of its key, its certificate and the authority's certificate, PEM.
      names: names of all agents, in the network's order.
      agents: endpoints of all agents, by name, as Zenoh takes them.
    """

    path: Path
    run_id: str
    key: Path
    certificate: Path
    authority: Path
    names: tuple[str, ...]
    agents: dict[str, str]


def read_observer(path: Path) -> ObserverFile:
    """Read and check the file observer.toml."""
    path, tables = path.absolute(), read_toml(path)
    check_tables(tables, {OBSERVER: ObserverTable}, ("agents",))
    table = table_of(OBSERVER, ObserverTable, tables.get(OBSERVER, {}), EXAMPLES)
    check_names("[observer] names", table.names)
    if not RUN_ID.fullmatch(table.run):
        raise ValueError(f'[observer] run = "{table.run}": 16 hexadecimal digits are needed. Write {EXAMPLES["run"]}.')
    given = tables.get("agents", {})
    if set(given) != set(table.names):
        raise ValueError('[agents] needs a line for each of names and no other: a = "tls/10.0.0.1:7447".')
    agents = {name: dialed(check_endpoint(f"[agents] {name}", given[name])) for name in table.names}
    files = own_files(path.parent, OBSERVER, "the observer", table)
    return ObserverFile(path=path, run_id=table.run, names=tuple(table.names), agents=agents, **files)
