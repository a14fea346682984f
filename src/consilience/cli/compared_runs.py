"""Runs that `consilience compare` is given, found with their models and data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from .._refused import Refused
from .._tables import read_toml
from ..peers import AGENT
from ..results import Run, load
from ..store import RUN, read_run
from .agents import AgentRun, own_rows, read_agent
from .build import build, model_of
from .config import Config, read_config
from .modules import own_modules
from .report import load_run
from .run import CONFIG


@dataclass(frozen=True)
class ComparedRun:
    """A run that has been found, and waits to be loaded.

    Attributes:
      name: its name in the table, where one was given.
      title: what it is called otherwise, where that tells the runs apart.
      agent: the agent's file, of an owner's own folder.
    """

    name: str | None
    title: str
    folder: Path
    config: Config
    agent: AgentRun | None = None


def find_run(given: str, data: str | None) -> ComparedRun:
    """Find the run that an argument, "RUN" or "NAME=RUN", stands for: a folder, a TOML file, or an agent's folder.

    Args:
      data: the rows of the owner, where it is an owner's.
    """
    name, equals, place = given.partition("=")
    if not equals or Path(given).exists():
        name, place = "", given
    path = Path(place).expanduser()
    if path.is_dir() and (path / RUN).is_file():
        owner = read_run(path).get("agent")
        file = path.parent / AGENT if owner else path / CONFIG
        if not file.is_file():
            what = "an owner's, and its agent.toml is not beside it" if owner else "not of consilience run"
            fix = "Name the agent's file." if owner else "From Python, its model is at hand: cs.compare({...})."
            raise Refused("", f"{path} says nothing of its model: it is {what}", fix)
        return _of_agent(name, file, data, path) if owner else _of_file(name, file, path)
    if path.is_dir() and (path / AGENT).is_file():
        return _of_agent(name, path / AGENT, data)
    if path.suffix == ".toml" and path.is_file():
        return _of_agent(name, path, data) if "agent" in read_toml(path) else _of_file(name, path)
    load_run(path)  # refuses, with what was probably meant
    raise AssertionError(path)


def load_compared(found: ComparedRun) -> Run:
    """Load a run with its model and data, which must be those that it was sampled with."""
    with own_modules(found.config.folder):
        if found.agent is not None:
            posterior, init = model_of(found.config)
            shards: Any = [own_rows(found.agent)[0]]
        else:
            job = build(found.config)
            posterior, init, shards = job.posterior, job.init, job.data.shards
    # The structure of nested parameters is the start's, which the model may leave to the file.
    like = init if posterior.init is None and posterior.constrain is None and found.config.run.keep is None else None
    if callable(like) and jax.tree_util.all_leaves([like]):
        like = like(jax.random.key(0))
    return load(found.folder, like=like, posterior=posterior, shards=shards)


def is_double(runs: Mapping[str, ComparedRun]) -> bool:
    """Tell whether the runs were sampled in double precision; refuse some of each."""
    found = {name: read_run(run.folder)["versions"]["jax_enable_x64"] == "True" for name, run in runs.items()}
    if len(set(found.values())) > 1:
        double = ", ".join(name for name, is_so in found.items() if is_so)
        reason = f"{double} was sampled in double precision, and others were not"
        raise Refused("", reason, "Sample all with x64 = true in [run], or none.")
    return next(iter(found.values()))


def _of_agent(name: str, file: Path, data: str | None, folder: Path | None = None) -> ComparedRun:
    agent = read_agent(file, data)
    folder = agent.config.out if folder is None else folder
    load_run(folder)
    model = agent.config.model
    return ComparedRun(name or None, model.posterior or model.numpyro or "", folder, agent.config, agent)


def _of_file(name: str, file: Path, folder: Path | None = None) -> ComparedRun:
    config = read_config(file)
    folder = config.out if folder is None else folder
    load_run(folder)
    return ComparedRun(name or None, folder.resolve().name, folder, config)
