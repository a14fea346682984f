"""The command `consilience status`: the state of all agents of a run."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from .._refused import Refused
from ..peers import AGENT, OBSERVER, OBSERVER_FILE, ask, check_endpoint, described, dialed, read_observer
from .errors import end, exit_on_error
from .options import json_option
from .output import print_json
from .peer import STATUS

SECONDS = 10.0  # for an answer: an agent may be compiling


def status(
    place: Annotated[
        str, Argument(help="A folder of consilience init, or an agent's endpoint.", metavar="DIR|ENDPOINT")
    ],
    observer: Annotated[
        Path | None, Option(help="The observer's folder, with which an endpoint is asked.", metavar="DIR")
    ] = None,
    as_json: Annotated[bool, json_option("it")] = False,
) -> None:
    """Show how all agents of a run are.

    Example: consilience status peers

    A folder: what the agents there have said last, of themselves and of the others; where only the observer's folder is
    left, which init has made, they are asked. An endpoint, tls/HOST:PORT: what the agent there knows of all. It answers
    the observer, and nobody else.
    """
    with exit_on_error():
        found = _at_endpoint(place, observer) if place.startswith("tls/") else _in_folder(Path(place))
    if found is None:
        end(1, f"nothing has been heard of the agents of {place}: start them, consilience peer DIR/NAME/{AGENT}.")
    if as_json:
        print_json(found)
    else:
        print(status_text(found))


def agent_folders(folder: Path) -> dict[str, Path]:
    """Return the folders of all agents in a provisioned folder, in their order, or of the one whose folder it is."""
    if not folder.is_dir():
        raise Refused("", f"there is no folder {folder}", "consilience init makes it.")
    observer = folder / OBSERVER / OBSERVER_FILE
    if observer.exists():
        names = read_observer(observer).agents
        missing = [name for name in names if not (folder / name / AGENT).exists()]
        if missing:
            raise Refused(f"{folder} has no agent {missing[0]}", f"{folder / missing[0] / AGENT} is not there")
        return {name: folder / name for name in names}
    found = {path.parent.name: path.parent for path in sorted(folder.glob(f"*/{AGENT}"))}
    if not found and (folder / AGENT).exists():
        found = {folder.name: folder}
    if not found:
        raise Refused("", f"{folder} has no agents", "consilience init makes a folder with some.")
    return found


def read_statuses(folders: Iterable[Path]) -> list[dict[str, Any]]:
    """Read what the agents in these folders have said last, the latest at the end."""
    files = [path for folder in folders if (path := folder / STATUS).exists()]
    return sorted((json.loads(path.read_text(encoding="utf-8")) for path in files), key=lambda said: said["time"])


def _in_folder(folder: Path) -> dict[str, Any] | None:
    """Return what the agents in a folder have said last; if there is nothing, but an observer, ask them."""
    is_observed = (folder / OBSERVER / OBSERVER_FILE).exists()
    places = [] if is_observed and not any(folder.glob(f"*/{AGENT}")) else [*agent_folders(folder).values()]
    told = read_statuses(places)
    if not told:
        return _asked(folder / OBSERVER) if is_observed else None
    newest = told[-1]
    now = time.time()
    agents = {name: dict(agent) for name, agent in newest["agents"].items()}
    for status in told:
        own = status["agents"][status["told_by"]]
        # Each agent knows best of itself.
        agents[status["told_by"]] = {**own, "seconds_ago": round(now - status["time"], 1)}
    return {**newest, "agents": agents}


def _at_endpoint(endpoint: str, observer: Path | None) -> dict[str, Any] | None:
    endpoint = dialed(check_endpoint("the endpoint", endpoint))
    if observer is None:
        fix = f"Write consilience status {endpoint} --observer DIR/observer."
        raise Refused("", "an agent answers an observer only", fix)
    return _asked(observer, endpoint)


def _asked(observer: Path, endpoint: str | None = None) -> dict[str, Any] | None:
    """Ask the agent at an endpoint how the run is, or all until one answers; return None where none does."""
    known = read_observer(observer / OBSERVER_FILE if observer.is_dir() else observer)
    for name, place in known.agents.items():
        if endpoint in (None, place):
            answer = ask(known.run_id, name, place, known.credentials, SECONDS)
            if answer is not None:
                return json.loads(answer)
    return None


def status_text(status: Mapping[str, Any]) -> str:
    """Return a run's status as text, with a line for each agent."""
    width = max(map(len, status["agents"]))
    phases = max(len(agent["phase"]) for agent in status["agents"].values())
    lines = [f"run {status['run']}"]
    for name, agent in status["agents"].items():
        heard = agent.get("seconds_ago", 0.0)
        ago = f", last heard of {heard:,.0f} s ago" if heard > 5 else ""
        said = described(agent) if "iteration" in agent else ""
        lines.append(f"  {name:<{width}}  {agent['phase']:<{phases}}  {said}{ago}".rstrip())
    return "\n".join(lines)
