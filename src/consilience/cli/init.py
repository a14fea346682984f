"""The command `consilience init`: a folder with file, key and certificate for each agent."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from .._extras import require
from .._refused import Refused
from .._tables import apply_change, check_tables, read_toml, table_of
from ..network import CONSENSUS, network_from_spec
from ..peers import (
    AGENT,
    AUTHORITY,
    LOCAL,
    MOST_PORT,
    OBSERVER,
    ON_LOSS,
    Address,
    check_consensus,
    check_mask,
    check_names,
    host_and_port,
    same_host,
)
from ..runs import NUM_CHAINS, NUM_SAMPLES, NUM_WARMUP
from ..store import check_folder
from .agents import COLUMNS, NOT_FOR_AGENTS
from .build import sampler_from
from .config import TABLES, NetworkTable
from .errors import exit_on_error
from .options import NETWORK_HELP, WEIGHTS, Changes, json_option, network_kinds
from .output import print_json
from .peer import check_on_loss
from .provision import Provision, provision

PORT = 7447
DAYS = 825
MOST_DAYS = 3650
SKELETON: dict[str, Any] = {
    "model": {"posterior": "model:posterior"},
    "data": {},
    "sampler": {"name": "nuts"},
    "run": {"num_samples": NUM_SAMPLES, "num_warmup": NUM_WARMUP, "num_chains": NUM_CHAINS, "seed": 0},
}


def init(
    folder: Annotated[Path, Argument(help="A new folder.", metavar="DIR")],
    network: Annotated[str | None, Option(help=NETWORK_HELP, autocompletion=network_kinds)] = None,
    names: Annotated[
        str | None, Option(help="The agents, in the network's order, commas between: agent0,... if not given.")
    ] = None,
    hosts: Annotated[
        str | None, Option(help=f"Where each is, HOST or HOST:PORT, commas between; {LOCAL} for all if not given.")
    ] = None,
    file: Annotated[
        Path | None,
        Option(help="A run's file: its model, columns, sampler and run are the agents'.", metavar="FILE.toml"),
    ] = None,
    changes: Changes = None,
    port: Annotated[int, Option(help="Of the agents without one.", min=1, max=MOST_PORT)] = PORT,
    on_loss: Annotated[
        str, Option(help=f"When an agent is lost: {', '.join(ON_LOSS)}.", autocompletion=lambda: list(ON_LOSS))
    ] = ON_LOSS[0],
    mask: Annotated[bool, Option("--mask", help="Hide each agent's part of sums from its neighbours.")] = False,
    consensus: Annotated[
        str, Option(help="The way of masked sums: auto, tree or gather.", autocompletion=lambda: list(CONSENSUS))
    ] = CONSENSUS[0],
    weights: Annotated[str | None, WEIGHTS] = None,
    days: Annotated[int, Option(help="How long the certificates are good for.", min=1, max=MOST_DAYS)] = DAYS,
    as_json: Annotated[bool, json_option("what was made")] = False,
) -> None:
    """Make a folder for each agent of a network: its file, its key, its certificate.

    Example: consilience init trial --network ring:3 --names a,b,c --hosts 10.0.0.1,10.0.0.2,10.0.0.3 --file run.toml

    Hand each folder to the agent's owner, who adds nothing but rows that no one else sees. Without --file, the agents'
    files are a skeleton to fill in, the same for all.
    """
    with exit_on_error():
        require("tomli_w", "cli")
        require("cryptography", "peers")
        check_folder(folder, "another DIR")
        if folder.exists() and any(folder.iterdir()):
            fix = f"Name a new folder: consilience init {folder}-2"
            raise Refused("", f"{folder} is not empty, and keys are not written over", fix)
        plan = _plan(file, changes or [], network, weights, names, hosts, port, on_loss, mask, consensus)
        provision(folder, plan, days)
    if as_json:
        print_json(_data(folder, plan))
    else:
        print(_text(folder, plan))


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
    consensus: str,
) -> Provision:
    """Return the plan of what the options ask for, checked as far as it can be without the agents' files."""
    tables = deepcopy(SKELETON) if file is None else read_toml(file)
    for change in changes:
        apply_change(tables, change)
    check_tables(tables, TABLES, ["sampler"])
    asked = {key: value for key, value in (("kind", kind), ("weights", weights)) if value is not None}
    table = tables.get("network", {}) | asked
    if "kind" not in table:
        raise Refused("", "a network is needed", "Write --network ring:5.")
    linked = table_of("network", NetworkTable, table)
    network = network_from_spec(linked.kind, linked.weights, linked.seed)
    if network.size < 2:
        reason = f"{linked.kind} has one agent, which has nobody to talk to"
        raise Refused("", reason, "Write --network ring:3.")
    check_on_loss(on_loss)
    check_mask(mask, network.size, sampler_from(tables.get("sampler", {})))
    check_consensus(consensus, mask, network.size)
    called = _names(names, network.size, linked.kind)
    beside = (file or Path()).parent / tables.get("folder", ".")
    kept, left_out = _kept({**tables, "network": table})
    return Provision(
        run_id=secrets.token_hex(8),
        network=network,
        names=called,
        places=_places(hosts, called, port, linked.kind),
        tables=kept,
        on_loss=on_loss,
        mask=mask,
        consensus=consensus,
        modules=[] if file is None else [path for name in _modules(kept) if (path := beside / f"{name}.py").is_file()],
        left_out=left_out,
    )


def _names(given: str | None, agents: int, kind: str) -> list[str]:
    if given is None:
        return [f"agent{k}" for k in range(agents)]
    names = [name.strip() for name in given.split(",")]
    if len(names) != agents:
        reason = f"--names has {len(names)} names, and {kind} has {agents} agents"
        raise Refused("", reason, "Write one for each of them.")
    check_names("--names", names)
    return names


def _places(given: str | None, names: Sequence[str], port: int, kind: str) -> list[Address]:
    """Return each agent's address, with ports that are distinct on the same host."""
    hosts = [host.strip() for host in given.split(",")] if given is not None else [LOCAL] * len(names)
    if len(hosts) != len(names):
        reason = f"--hosts has {len(hosts)} hosts, and {kind} has {len(names)} agents"
        raise Refused("", reason, "Write one for each.")
    found = [_host(host) for host in hosts]
    taken = [(same_host(host), own) for host, own in found if own is not None]
    for host, used in taken:
        if taken.count((host, used)) > 1:
            raise Refused("--hosts", f"two agents cannot share port {used} of {host}", "Give one of them another.")
    places = []
    for host, own in found:
        free = (one for one in range(port, MOST_PORT + 1) if (same_host(host), one) not in taken)
        if (number := own or next(free, None)) is None:
            reason = f"there are not ports enough from there on for all agents of {host}"
            raise Refused(f"--port {port}", reason, "Leave it out.")
        taken.append((same_host(host), number))
        places.append(Address(host, number))
    return places


def _host(text: str) -> tuple[str, int | None]:
    found = host_and_port(text)
    if found is None:
        bare = text.count(":") > 1 and "[" not in text
        fix = f"[{text}]" if bare else "10.0.0.1, a.example.org or [fd00::1], and a port after a colon if you like"
        raise Refused("--hosts", f'"{text}" is not a host', f"Write {fix}.")
    if found[0] in ("0.0.0.0", "::"):
        reason = f"{text} is no address that neighbours can reach"
        raise Refused("--hosts", reason, "Write the machine's own.")
    return found


def _kept(tables: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the tables that go into the agents' files, and the names of those tables and keys that do not."""
    data, run = tables.get("data", {}), tables.get("run", {})
    if data.get("standardize"):
        what = "[data] standardize"
        raise Refused(what, *NOT_FOR_AGENTS[what])
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


def _modules(tables: Mapping[str, Any]) -> list[str]:
    """Return the names of the modules that [model] refers to."""
    references = [
        str(tables["model"][key]) for key in ("posterior", "numpyro", "init") if key in tables.get("model", {})
    ]
    return list(dict.fromkeys(reference.partition(":")[0].removesuffix(".py") for reference in references))


# --- saying it ------------------------------------------------------------------------------------------------


def _data(folder: Path, plan: Provision) -> dict[str, Any]:
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


def _text(folder: Path, plan: Provision) -> str:
    rows = [("folder", "for", "reached at")]
    rows += [(str(folder / name), f"the owner of {name}", endpoint) for name, endpoint in plan.endpoints.items()]
    rows += [(str(folder / OBSERVER), "who may watch the run", "")]
    rows += [(str(folder / AUTHORITY), "nobody: keep it, it can make any agent's certificate", "")]
    first, second = max(len(row[0]) for row in rows), max(len(row[1]) for row in rows if row[2])
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


def _notes(plan: Provision) -> list[str]:
    """Return notes on what is still to be done, and on what was not taken over from the run's file."""
    notes = []
    missing = {*_modules(plan.tables)} - {path.stem for path in plan.modules}
    if missing:
        notes.append(f"every agent needs {', '.join(sorted(missing))}: beside its {AGENT}, or installed.")
    if plan.left_out:
        notes.append(f"not in the agents' files, which have rows of their own: {', '.join(plan.left_out)}")
    return [*notes, ""] if notes else []
