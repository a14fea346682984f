"""`consilience init`"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from .._extras import require
from ..network import Network, network_from_spec
from ..network.spec import EXAMPLES
from ..network.weights import RULES
from .agents import (
    AGENT,
    AUTHORITY,
    COLUMNS,
    MOST_PORT,
    NOT_FOR_AGENTS,
    OBSERVER,
    ON_LOSS,
    check_agent,
    check_mask,
    check_names,
    host_and_port,
    read_observer,
)
from .build import sampler_from
from .config import TABLES, NetworkTable, check_tables, table_of
from .ending import choose_from, errors_are_said
from .output import print_json
from .run import complete_set
from .toml import apply_change, read_toml
from .writing import check_folder

PORT = 7447
DAYS = 825
MOST_DAYS = 3650
LOCAL = "127.0.0.1"
SKELETON: dict[str, Any] = {
    "model": {"posterior": "model:posterior"},
    "data": {},
    "sampler": {"name": "nuts"},
    "run": {"num_samples": 1000, "num_warmup": 500, "num_chains": 4, "seed": 0},
}
AGENT_COMMENTS = {
    "listen": "where neighbours reach this agent",
    "names": "all agents, in the network's order",
    "on_loss": ", ".join(ON_LOSS),
}
COMMENTS = {
    "neighbors": "only those that it has a link with",
    "model": "the same for all agents, in a module beside this file or an installed one",
    "data": "how a table's columns are read; the file itself is named by --data",
    "network": "the same for all agents",
    "sampler": "the same for all agents",
    "run": "the same for all agents; the draws go to the folder run, beside this file",
}
COLUMN_LINES = '# features = ["age", "bmi"]\n# target = "ill"\n'


@dataclass(frozen=True)
class Place:
    """Where an agent is."""

    host: str
    port: int

    @property
    def endpoint(self) -> str:
        return f"tls/{self._shown(self.host)}:{self.port}"

    @property
    def listen(self) -> str:
        """All addresses of its machine, unless it is only for those on the same machine."""
        if _is_loopback(self.host):
            return self.endpoint
        return f"tls/{'[::]' if ':' in self.host else '0.0.0.0'}:{self.port}"

    @staticmethod
    def _shown(host: str) -> str:
        return f"[{host}]" if ":" in host else host


@dataclass(frozen=True)
class Plan:
    """All that is written, before it is."""

    run_id: str
    network: Network
    names: list[str]
    places: list[Place]
    tables: dict[str, Any]
    on_loss: str
    mask: bool
    modules: list[Path]
    left_out: list[str]

    def neighbors(self, agent: int) -> dict[str, str]:
        return {self.names[k]: self.places[k].endpoint for k in self.network.neighbors(agent)}


def init(
    folder: Annotated[Path, typer.Argument(help="A new folder.", metavar="DIR")],
    network: Annotated[
        str | None,
        typer.Option(
            help=f"The network: {', '.join(EXAMPLES.values())}.", autocompletion=lambda: list(EXAMPLES.values())
        ),
    ] = None,
    names: Annotated[
        str | None, typer.Option(help="The agents, in the network's order, commas between: agent0,... if not given.")
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(help=f"Where each is, HOST or HOST:PORT, commas between; {LOCAL} for all if not given."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="A run's file: its model, columns, sampler and run are the agents'.", metavar="FILE.toml"),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a key of the file: --set run.seed=3. As often as you like.",
            autocompletion=complete_set,
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="Of the agents without one.", min=1, max=MOST_PORT)] = PORT,
    on_loss: Annotated[
        str, typer.Option(help=f"When an agent is lost: {', '.join(ON_LOSS)}.", autocompletion=lambda: list(ON_LOSS))
    ] = ON_LOSS[0],
    mask: Annotated[bool, typer.Option("--mask", help="Hide each agent's part of sums from its neighbours.")] = False,
    weights: Annotated[
        str | None,
        typer.Option(help="Mixing weights: metropolis, uniform or max-degree.", autocompletion=lambda: list(RULES)),
    ] = None,
    days: Annotated[int, typer.Option(help="How long the certificates are good for.", min=1, max=MOST_DAYS)] = DAYS,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was made as JSON.")] = False,
) -> None:
    """Make a folder for each agent of a network: its file, its key, its certificate.

    Example: consilience init trial --network ring:3 --names a,b,c --hosts 10.0.0.1,10.0.0.2,10.0.0.3 --file run.toml

    Hand each folder to the agent's owner, who adds nothing but rows that no one else sees. Without --file, the agents'
    files are a skeleton to fill in, the same for all.
    """
    with errors_are_said():
        require("tomli_w", "cli")
        require("cryptography", "peers")
        _check_new(folder)
        plan = _plan(file, changes or [], network, weights, names, hosts, port, on_loss, mask)
        _make(folder, plan, days)
    if as_json:
        print_json(_data(folder, plan))
    else:
        print(_text(folder, plan))


def _check_new(folder: Path) -> None:
    check_folder(folder, "another DIR")
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(
            f"{folder} is not empty, and keys are not written over. Name a new folder: consilience init {folder}-2"
        )


# --- what to make -----------------------------------------------------------------------------------------


def _plan(
    file: Path | None,
    changes: Sequence[str],
    kind: str | None,
    weights: str | None,
    names: str | None,
    hosts: str | None,
    port: int,
    on_loss: str,
    mask: bool,
) -> Plan:
    """All that is asked for, checked as far as it can be without the agents' files."""
    tables: dict[str, Any] = (
        {name: dict(table) for name, table in SKELETON.items()} if file is None else read_toml(file)
    )
    for change in changes:
        apply_change(tables, change)
    check_tables(tables, TABLES)
    asked = {"kind": kind, "weights": weights}
    table = {**tables.get("network", {}), **{key: value for key, value in asked.items() if value is not None}}
    if "kind" not in table:
        raise ValueError("a network is needed. Write --network ring:5.")
    linked = table_of("network", NetworkTable, table)
    network = network_from_spec(linked.kind, linked.weights, linked.seed)
    if network.size < 2:
        raise ValueError(f"{linked.kind} has one agent, which has nobody to talk to. Write --network ring:3.")
    if on_loss not in ON_LOSS:
        raise ValueError(f"--on-loss {on_loss}: {choose_from(on_loss, ON_LOSS)}")
    check_mask(mask, network.size, sampler_from(tables.get("sampler", {})).name)
    called = _names(names, network.size, linked.kind)
    kept, left_out = _kept({**tables, "network": table})
    return Plan(
        run_id=secrets.token_hex(8),
        network=network,
        names=called,
        places=_places(hosts, called, port, linked.kind),
        tables=kept,
        on_loss=on_loss,
        mask=mask,
        modules=[] if file is None else _modules(file, tables),
        left_out=left_out,
    )


def _names(given: str | None, agents: int, kind: str) -> list[str]:
    if given is None:
        return [f"agent{k}" for k in range(agents)]
    names = [name.strip() for name in given.split(",")]
    if len(names) != agents:
        raise ValueError(f"--names has {len(names)} names, and {kind} has {agents} agents. Write one for each of them.")
    check_names("--names", names)
    return names


def _places(given: str | None, names: Sequence[str], port: int, kind: str) -> list[Place]:
    """Each agent's, with ports that are distinct on the same host."""
    hosts = [host.strip() for host in given.split(",")] if given is not None else [LOCAL] * len(names)
    if len(hosts) != len(names):
        raise ValueError(f"--hosts has {len(hosts)} hosts, and {kind} has {len(names)} agents. Write one for each.")
    found = [_host(host) for host in hosts]
    taken = [(_same(host), own) for host, own in found if own is not None]
    for host, used in taken:
        if taken.count((host, used)) > 1:
            raise ValueError(f"--hosts: two agents cannot share port {used} of {host}. Give one of them another.")
    places = []
    for host, own in found:
        place = Place(host, _free(host, port, taken) if own is None else own)
        taken.append((_same(host), place.port))
        places.append(place)
    return places


def _free(host: str, port: int, taken: Sequence[tuple[str, int]]) -> int:
    """The first port of `host` from `port` on that no agent has."""
    for candidate in range(port, MOST_PORT + 1):
        if (_same(host), candidate) not in taken:
            return candidate
    raise ValueError(f"--port {port}: there are not ports enough from there on for all agents of {host}. Leave it out.")


def _host(text: str) -> tuple[str, int | None]:
    found = host_and_port(text)
    if found is None:
        bare = text.count(":") > 1 and "[" not in text
        fix = f"[{text}]" if bare else "10.0.0.1, a.example.org or [fd00::1], and a port after a colon if you like"
        raise ValueError(f'--hosts: "{text}" is not a host. Write {fix}.')
    if found[0] in ("0.0.0.0", "::"):
        raise ValueError(f"--hosts: {text} is no address that neighbours can reach. Write the machine's own.")
    return found


def _same(host: str) -> str:
    """One spelling for one host."""
    if host.lower() == "localhost":
        return LOCAL
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(host))
    return host.lower()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(_same(host)).is_loopback
    except ValueError:
        return False


def _kept(tables: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What the agents' files say of the run, and the keys that they leave out."""
    data, run = tables.get("data", {}), tables.get("run", {})
    if data.get("standardize"):
        raise ValueError(f"[data] standardize: {NOT_FOR_AGENTS['standardize']}")
    kept = {
        "model": tables.get("model", {}),
        "data": {key: value for key, value in data.items() if key in COLUMNS},
        "network": tables["network"],
        "sampler": tables.get("sampler", SKELETON["sampler"]),
        "run": {key: value for key, value in run.items() if key != "out"},
    }
    table_of("data", TABLES["data"], data)  # what is left out is checked as well
    left_out = ["folder"] * ("folder" in tables) + [f"[{name}]" for name in ("split", "report") if name in tables]
    left_out += [f"data.{key}" for key in data if key not in COLUMNS] + ["run.out"] * ("out" in run)
    return kept, left_out


def _modules(file: Path, tables: Mapping[str, Any]) -> list[Path]:
    """The files of [model] that are beside the run's file."""
    model, folder = tables.get("model", {}), tables.get("folder", ".")
    found = []
    for key in ("posterior", "numpyro", "init"):
        module = str(model.get(key, "")).partition(":")[0].removesuffix(".py")
        path = file.parent / str(folder) / f"{module}.py"
        if module.isidentifier() and path.is_file() and path not in found:
            found.append(path)
    return found


# --- making it ------------------------------------------------------------------------------------------------


def _make(folder: Path, plan: Plan, days: int) -> None:
    """All of it, or nothing: every agent's file is read back before the folder has it."""
    from ..runtimes.peers.certificates import Authority

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
                {f"{OBSERVER}.toml": _observer_text(plan).encode()} | _certified(authority, OBSERVER, [], days),
            )
            read_observer(draft / OBSERVER / f"{OBSERVER}.toml")
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
    """A folder for its owner only, as are the keys in it."""
    folder.mkdir(mode=0o700)
    for name, content in files.items():
        mode = 0o600 if name.endswith("key.pem") else 0o644
        with os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)


def _read_back(path: Path) -> None:
    tables = read_toml(path)
    check_agent(path, {**tables, "data": {**tables["data"], "file": "mine.csv"}}).identity()


def _agent_text(plan: Plan, agent: int) -> str:
    """agent.toml"""
    name = plan.names[agent]
    table = {
        "name": name,
        "run": plan.run_id,
        "listen": plan.places[agent].listen,
        "key": "key.pem",
        "certificate": "certificate.pem",
        "authority": "authority.pem",
        "names": plan.names,
        "on_loss": plan.on_loss,
        "mask": plan.mask,
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


def _observer_text(plan: Plan) -> str:
    """observer.toml"""
    endpoints = {name: place.endpoint for name, place in zip(plan.names, plan.places, strict=True)}
    files = {"key": "key.pem", "certificate": "certificate.pem", "authority": "authority.pem"}
    tables = {OBSERVER: {"run": plan.run_id, **files, "names": plan.names}, "agents": endpoints}
    return f"# For who watches the run {plan.run_id}. key.pem must not leave this folder.\n\n{_toml(tables)}"


def _toml(tables: Mapping[str, Any]) -> str:
    return str(require("tomli_w", "cli").dumps(tables))


# --- saying it ------------------------------------------------------------------------------------------------


def _data(folder: Path, plan: Plan) -> dict[str, Any]:
    return {
        "run": plan.run_id,
        "folder": str(folder),
        "network": plan.network.name,
        "agents": [
            {
                "name": name,
                "folder": str(folder / name),
                "endpoint": place.endpoint,
                "listen": place.listen,
                "neighbors": list(plan.neighbors(k)),
            }
            for k, (name, place) in enumerate(zip(plan.names, plan.places, strict=True))
        ],
        "observer": str(folder / OBSERVER),
        "authority": str(folder / AUTHORITY),
        "left_out": plan.left_out,
    }


def _text(folder: Path, plan: Plan) -> str:
    rows = [("folder", "for", "reached at")]
    rows += [
        (str(folder / name), f"the owner of {name}", place.endpoint)
        for name, place in zip(plan.names, plan.places, strict=True)
    ]
    rows += [(str(folder / OBSERVER), "who may watch the run", "")]
    rows += [(str(folder / AUTHORITY), "nobody: keep it, it can make any agent's certificate", "")]
    first = max(len(row[0]) for row in rows)
    second = max(len(row[1]) for row in rows if row[2])
    lines = [f"run {plan.run_id}: {len(plan.names)} agents, {plan.network.name}", ""]
    lines += [f"{one:<{first}}  {two:<{second}}  {three}".rstrip() for one, two, three in rows]
    lines += ["", *_notes(plan)]
    agent = plan.names[min(1, len(plan.names) - 1)]
    lines += [
        f"each owner, on their machine:   consilience peer {agent}/{AGENT} --data mine.csv",
        f"or all of them on this one:     consilience launch {folder} --data ...",
        f"to watch the run:               consilience status {folder}",
    ]
    return "\n".join(lines)


def _notes(plan: Plan) -> list[str]:
    """What is still to be done, and what was not taken over."""
    notes = []
    copied = {path.stem for path in plan.modules}
    references = [
        str(plan.tables["model"][key]) for key in ("posterior", "numpyro", "init") if key in plan.tables["model"]
    ]
    missing = {reference.partition(":")[0].removesuffix(".py") for reference in references} - copied
    if missing:
        notes.append(f"every agent needs {', '.join(sorted(missing))}: beside its {AGENT}, or installed.")
    if plan.left_out:
        notes.append(f"not in the agents' files, which have rows of their own: {', '.join(plan.left_out)}")
    return [*notes, ""] if notes else []
