"""Write the folders of a run's agents: files, keys and certificates."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._extras import require
from .._tables import read_toml
from ..network import CONSENSUS, Network
from ..peers import AGENT, AUTHORITY, OBSERVER, OBSERVER_FILE, ON_LOSS, Address, Authority, read_observer
from .agents import check_agent

AGENT_COMMENTS = {
    "listen": "where neighbours reach this agent",
    "names": "all agents, in the network's order",
    "on_loss": ", ".join(ON_LOSS),
    "consensus": ", ".join(CONSENSUS),
}
COMMENTS = {
    "neighbors": "only those that it has a link with",
    "model": "the same for all agents, in a module beside this file or an installed one",
    "data": "how a table's columns are read; the file itself is named by --data",
    "network": "the same for all agents",
    "sampler": "the same for all agents",
    "run": "the same for all agents; the draws go to the folder run, beside this file",
}
FILES = {"key": "key.pem", "certificate": "certificate.pem", "authority": "authority.pem"}
COLUMN_LINES = '# features = ["age", "bmi"]\n# target = "ill"\n'


@dataclass(frozen=True)
class Provision:
    """A plan of all that `provision` writes."""

    run_id: str
    network: Network
    names: list[str]
    places: list[Address]
    tables: dict[str, Any]
    on_loss: str
    mask: bool
    consensus: str
    modules: list[Path]
    left_out: list[str]

    @property
    def endpoints(self) -> dict[str, str]:
        return {name: place.endpoint for name, place in zip(self.names, self.places, strict=True)}

    def neighbors(self, agent: int) -> dict[str, str]:
        return {self.names[k]: self.places[k].endpoint for k in self.network.neighbors(agent)}


def provision(folder: Path, plan: Provision, days: int) -> None:
    """Write all that is planned into a folder, or nothing: every agent's file is read back before the folder has it."""
    is_new = not folder.exists()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".init-") as name:
            draft = Path(name)
            authority = Authority.create(plan.run_id)
            _write(draft / AUTHORITY, {"authority.pem": authority.certificate, "authority-key.pem": authority.key})
            for k, agent in enumerate(plan.names):
                _write(
                    draft / agent,
                    {AGENT: _agent_text(plan, k).encode()}
                    | _certified(authority, agent, [plan.places[k].host], days)
                    | {module.name: module.read_bytes() for module in plan.modules},
                )
                _read_back(draft / agent / AGENT)
            _write(
                draft / OBSERVER,
                {OBSERVER_FILE: _observer_text(plan).encode()} | _certified(authority, OBSERVER, [], days),
            )
            read_observer(draft / OBSERVER / OBSERVER_FILE)
            for made in sorted(draft.iterdir()):
                made.rename(folder / made.name)
    except BaseException:
        if is_new:
            shutil.rmtree(folder)
        raise


def _certified(authority: Any, name: str, hosts: Sequence[str], days: int) -> dict[str, bytes]:
    key, certificate = authority.issue(name, hosts, days)
    return {"key.pem": key, "certificate.pem": certificate, "authority.pem": authority.certificate}


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make a folder with these files; it is for its owner only, as are the keys in it."""
    folder.mkdir(mode=0o700)
    for name, content in files.items():
        mode = 0o600 if name.endswith("key.pem") else 0o644
        with os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)


def _read_back(path: Path) -> None:
    tables = read_toml(path)
    check_agent(path, {**tables, "data": {**tables["data"], "file": "mine.csv"}}).identity()


def _agent_text(plan: Provision, agent: int) -> str:
    """Return the text of an agent's agent.toml."""
    name = plan.names[agent]
    table = {
        "name": name,
        "run": plan.run_id,
        "listen": plan.places[agent].listen,
        **FILES,
        "names": plan.names,
        "on_loss": plan.on_loss,
        "mask": plan.mask,
        "consensus": plan.consensus,
    }
    lines = _toml({"agent": table}).splitlines()
    for k, line in enumerate(lines):
        comment = AGENT_COMMENTS.get(line.partition(" = ")[0])
        lines[k] = f"{line}  # {comment}" if comment else line
    parts = [
        f"# Agent {name} of the run {plan.run_id}: for its owner only. key.pem must not leave this folder.",
        "\n".join(lines),
        *(_commented(key, value) for key, value in {"neighbors": plan.neighbors(agent), **plan.tables}.items()),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _commented(name: str, table: Mapping[str, Any]) -> str:
    columns = COLUMN_LINES if name == "data" and not table else ""
    return f"# {COMMENTS[name]}\n{_toml({name: table})}{columns}"


def _observer_text(plan: Provision) -> str:
    """Return the text of observer.toml."""
    tables = {OBSERVER: {"run": plan.run_id, **FILES, "names": plan.names}, "agents": plan.endpoints}
    return f"# For who watches the run {plan.run_id}. key.pem must not leave this folder.\n\n{_toml(tables)}"


def _toml(tables: Mapping[str, Any]) -> str:
    return str(require("tomli_w", "cli").dumps(tables))
