"""The files that say who takes part in a run: an agent's agent.toml, and observer.toml of who may watch.

`consilience init` writes both. The tables of an agent's file that are read here are its own:

| table | key | what it is |
|---|---|---|
| agent | name * | this agent's name |
| | run * | the run's id, 16 hexadecimal digits |
| | listen * | where neighbours reach this agent, "tls/HOST:PORT" |
| | names * | all agents, in the network's order |
| | key, certificate, authority | files; key.pem, certificate.pem and authority.pem if not given |
| | on_loss | what to do when a neighbour is lost: "wait", "stop" or "continue-without" |
| | mask | true: parts of sums are hidden from the neighbours |
| | consensus | "tree" or "gather": the way of masked sums; "auto" if left out |
| neighbors | NAME * | a line for each agent that this one is linked with: its endpoint, "tls/HOST:PORT" |
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from .._checks import check_one_of
from .._lazy import LazyModule
from .._refused import Refused
from .._tables import check_tables, choose_from, no_file, read_toml, table_of
from ..network import CONSENSUS, MOST_AGENTS, Network
from .certificates import Identity, Untrusted, Verifier
from .endpoints import check_endpoint, dialed
from .session import OBSERVER, Credentials, Place

if TYPE_CHECKING:
    import msgspec

    from ..samplers import Sampler
else:
    msgspec = LazyModule("msgspec", "peers")  # it is the annotations below that need it, when a table is read

AGENT = "agent.toml"
OBSERVER_FILE = f"{OBSERVER}.toml"
AUTHORITY = "authority"  # name of the folder that init writes beside the agents' own
OnLoss = Literal["wait", "stop", "continue-without"]
Consensus = Literal["auto", "tree", "gather"]
ON_LOSS: tuple[str, ...] = get_args(OnLoss)
FEWEST_MASKED = 3  # agents: of two, each can work out the other's part of a sum
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
RUN_ID = r"^[0-9a-f]{16}\Z"
RUN_ID_NEEDED = "16 hexadecimal digits are needed"


@dataclass(frozen=True)
class AgentTable:
    name: Annotated[str, msgspec.Meta(examples=["a"])]
    run: Annotated[str, msgspec.Meta(pattern=RUN_ID, description=RUN_ID_NEEDED, examples=["4f2a9c0d1b3e5f67"])]
    listen: Annotated[str, msgspec.Meta(examples=["tls/0.0.0.0:7447"])]
    names: Annotated[list[str], msgspec.Meta(examples=[["a", "b", "c"]])]
    key: str = "key.pem"
    certificate: str = "certificate.pem"
    authority: str = "authority.pem"
    on_loss: OnLoss = "wait"
    mask: bool = False
    consensus: Consensus = "auto"


@dataclass(frozen=True)
class ObserverTable:
    run: Annotated[str, msgspec.Meta(pattern=RUN_ID, description=RUN_ID_NEEDED, examples=["4f2a9c0d1b3e5f67"])]
    names: Annotated[list[str], msgspec.Meta(examples=[["a", "b", "c"]])]
    key: str = "key.pem"
    certificate: str = "certificate.pem"
    authority: str = "authority.pem"


@dataclass(frozen=True)
class AgentFile:
    """One agent's file, checked: its place in the run, its keys, and what it does when others are lost.

    Attributes:
      path: path of the file.
      place: the run's id, the agent's own name, all names, and where it and its neighbours are, as Zenoh takes it.
      credentials: paths of its key, its certificate and the authority's certificate.
      on_loss: what to do when a neighbour is lost: "wait", "stop" or "continue-without".
      mask: whether parts of sums are hidden from the neighbours.
      consensus: the way of sums: "tree", "gather", or "auto".
    """

    path: Path
    place: Place
    credentials: Credentials
    on_loss: str
    mask: bool
    consensus: str

    @property
    def folder(self) -> Path:
        """Folder that holds the file."""
        return self.path.parent

    def identity(self) -> Identity:
        """Return the agent's key and certificate; refuse those of another agent, or of another run."""
        certificate = self.credentials.certificate
        own = Identity(self.credentials.key.read_bytes(), certificate.read_bytes())
        try:
            Verifier(self.credentials.authority.read_bytes()).check(own.certificate, b"", own.sign(b""))
        except Untrusted as error:
            raise Refused(f"{certificate} is of no use here", str(error)) from None
        if own.name != self.place.name:
            reason = f"{certificate} is that of {own.name}, and this is agent {self.place.name}"
            raise Refused("", reason, "Take the folder as it was made.")
        return own

    def check_network(self, network: Network, called: str) -> None:
        """Refuse a network of other agents, or with other neighbours, than the file's.

        Args:
          called: the network's name in messages, as the user wrote it.
        """
        name, names, there = self.place.name, self.place.names, self.place.neighbors
        if len(names) != network.size:
            reason = f"[agent] names has {len(names)} names, and {called} has {network.size} agents"
            raise Refused("", reason, "Name all, in the network's order.")
        wanted = [names[k] for k in network.neighbors(self.place.index)]
        wrong = [f"has {one}" for one in there if one not in wanted] + [
            f"lacks {one}" for one in wanted if one not in there
        ]
        if wrong:
            raise Refused(
                f"[neighbors] {' and '.join(wrong)}",
                f'"{called}" links {name} with {", ".join(wanted) or "nobody"}',
                f'Write a line for each of them and no other: {wanted[0] if wanted else "a"} = "tls/10.0.0.1:7447".',
            )


@dataclass(frozen=True)
class ObserverFile:
    """The observer's file, checked: what `consilience status` knows of the run, and where all agents are.

    Attributes:
      run_id: the run's id, 16 hexadecimal digits.
      agents: endpoints of all agents, by name, in the network's order, as Zenoh takes them.
      credentials: paths of its key, its certificate and the authority's certificate.
    """

    run_id: str
    agents: dict[str, str]
    credentials: Credentials


def read_agent_file(path: Path) -> AgentFile:
    """Read an agent's own tables, [agent] and [neighbors], from the file at `path`; other tables are not looked at."""
    return agent_of(path, read_toml(path))


def agent_of(path: Path, tables: Mapping[str, Any]) -> AgentFile:
    """Return the `AgentFile` of a file's tables."""
    own = {name: tables.get(name, {}) for name in ("agent", "neighbors")}
    check_tables(own, {"agent": AgentTable}, ["neighbors"])
    table = table_of("agent", AgentTable, own["agent"])
    check_names("[agent] names", table.names)
    if table.name not in table.names:
        raise Refused(f'[agent] name = "{table.name}"', "names has none", choose_from(table.name, table.names))
    given = {name: dialed(check_endpoint(f"[neighbors] {name}", end)) for name, end in own["neighbors"].items()}
    known = [*table.names, *given]
    neighbors = {name: given[name] for name in sorted(given, key=known.index)}
    listen = check_endpoint("[agent] listen", table.listen)
    place = Place(table.run, table.name, tuple(table.names), listen, neighbors)
    path = path.absolute()
    credentials = _credentials(path.parent, "agent", table.name, table)
    return AgentFile(path, place, credentials, table.on_loss, table.mask, table.consensus)


def read_observer(path: Path) -> ObserverFile:
    """Read and check the file observer.toml."""
    path, tables = path.absolute(), read_toml(path)
    check_tables(tables, {OBSERVER: ObserverTable}, ("agents",))
    table = table_of(OBSERVER, ObserverTable, tables.get(OBSERVER, {}))
    check_names("[observer] names", table.names)
    given = tables.get("agents", {})
    if set(given) != set(table.names):
        raise Refused("[agents]", "a line for each of names and no other is needed", 'Write a = "tls/10.0.0.1:7447".')
    agents = {name: dialed(check_endpoint(f"[agents] {name}", given[name])) for name in table.names}
    return ObserverFile(table.run, agents, _credentials(path.parent, OBSERVER, "the observer", table))


def check_names(what: str, names: Sequence[str]) -> None:
    """Refuse agents' names that are not distinct, or that cannot be used for folders and Zenoh keys."""
    for name in names:
        if not NAME.fullmatch(name):
            better = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:64] or "agent0"
            raise Refused(what, f'"{name}" has to be 1 to 64 letters, digits, _ or -', f"Write {better}.")
        if name.lower() in (OBSERVER, AUTHORITY):
            raise Refused(what, f"{name} is not an agent's name here", f"Write {name}0.")
    seen = [name.lower() for name in names]
    for name in names:
        if seen.count(name.lower()) > 1:
            raise Refused(what, f"{name} is there twice, capitals or not", "Give each agent a name of its own.")


def check_mask(mask: bool, agents: int, sampler: Sampler) -> None:
    """Refuse `mask` where it cannot hide anything: with too few agents, or a sampler without exact sums."""
    if mask and agents < FEWEST_MASKED:
        raise Refused(
            f"mask with {agents} agents hides nothing",
            "each knows its own part, and the rest of a sum is the other's",
            f"Leave mask out, or let {FEWEST_MASKED} agents take part.",
        )
    if mask and not sampler.maskable:
        raise Refused(
            f"mask is not for {sampler.name}",
            f"masking hides each agent's part of exact sums over the tree, and {sampler.name} lets neighbours see "
            f"values of single agents, as all gossip does",
            "Leave mask out, or take another sampler: nuts, hmc, mala can be masked.",
        )


def check_consensus(consensus: str, mask: bool, agents: int) -> None:
    """Refuse to gather sums whose parts everybody could read, or that too many would pass on."""
    subject = f'consensus = "{consensus}"'
    check_one_of("consensus", consensus, CONSENSUS)
    if consensus == "gather" and not mask:
        reason = "every agent's own part of a sum would go to all others, and nothing hides it"
        raise Refused(subject, reason, 'Write mask = true, or consensus = "tree".')
    if consensus == "gather" and agents > MOST_AGENTS:
        reason = f"each of {agents:,} agents would pass on what nearly all others have sent"
        raise Refused(subject, reason, 'Write consensus = "tree".')


def _credentials(folder: Path, table_name: str, owner: str, table: AgentTable | ObserverTable) -> Credentials:
    """Return the paths of key and certificates; refuse missing files, and a key that other users can read."""
    files = {file: folder / getattr(table, file) for file in ("key", "certificate", "authority")}
    for file, place in files.items():
        if not place.is_file():
            missing = no_file(place, ".pem")
            fix = f"{missing.fix} consilience init makes it."
            raise Refused(f"[{table_name}] {file}", missing.reason, fix)
    key = files["key"]
    if os.name == "posix" and key.stat().st_mode & 0o077:
        reason = "can be read by others on this machine, and whoever has it can pass for"
        raise Refused("", f"{key} {reason} {owner}", f"Write\n  chmod 600 {shlex.quote(str(key))}")
    return Credentials(**files)
