"""Reading of a run's folder, at any moment, also while it is written.

    run.toml         what the run is: format, settings, seed, versions, fingerprints of data and code, status
    draws.zarr/      posterior/ and sample_stats/, one array (draw, chain, agent, ...) each, compressed; xarray opens it
                     own/<place of an agent>/: its own variables, where the model has some, (draw, chain, 1, group, ...)
    checkpoints/     how far it had come at its last iterations, and the states to go on from
    network.npz      edges and weights
    scores.json      predictive scores, where there are any

Draws that are the same on all agents are there once: their axis of agents has length one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from .._extras import require
from .._lazy import LazyModule
from ..model import Layout
from ..network import Network, assemble
from .checkpoints import Checkpoints, Progress, State
from .draws import DiskDraws
from .files import refusal
from .identity import FORMAT, Table

nx: Any = LazyModule("networkx")

RUN, DRAWS, NETWORK, SCORES = "run.toml", "draws.zarr", "network.npz", "scores.json"
POSTERIOR, STATS, SUBPOSTERIORS, OWN = "posterior", "sample_stats", "subposteriors", "own"
TABLES = ("run", "sampler", "network")  # of run.toml, at least
ANYHOW = f"{DRAWS} in it can be opened with xarray all the same."


class DiskStats(Mapping[str, np.ndarray]):
    """Sampler's figures on disk, (draw, chain, copy) each, read when asked for."""

    def __init__(self, folder: Path, length: int) -> None:
        self._length = length
        path = folder / DRAWS / STATS
        # Before the first draw that counts, a killed process may have left the folder without what makes it a group.
        self._arrays = dict(require("zarr", "store").open_group(path, mode="r").arrays()) if length else {}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name][: self._length]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._arrays))

    def __len__(self) -> int:
        return len(self._arrays)


def own_group(place: int) -> str:
    """Return the name of the group with an agent's own variables, by its place among the agents of the folder."""
    return f"{OWN}/{place}"


def disk_draws(
    folder: Path, kept: Layout, length: int, lanes: tuple[int, int], group_name: str = POSTERIOR
) -> DiskDraws:
    """Return a run's kept draws, read when sliced; `lanes` are the numbers of chains and copies if nothing is there."""
    path = folder / DRAWS / group_name
    if not length or not kept.names:
        return DiskDraws([], length, lanes, kept)
    if not path.exists():  # or what is missing would read as NaN
        raise refusal(folder, f"it has lost its draws: there is no {DRAWS}/{group_name} in it")
    group = require("zarr", "store").open_group(path, mode="r")
    return DiskDraws([group[name] for name in kept.names], length, lanes, kept)


def read_run(folder: Path) -> Table:
    """Read the folder's run.toml; refuse a folder that has none, or one that this version cannot read."""
    try:
        record = tomllib.loads((folder / RUN).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise refusal(folder, f"it holds no run: there is no {RUN} in it") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise refusal(folder / RUN, f"it is damaged: {error}", ANYHOW) from None
    if record.get("format") == 1:
        reason = f"it was written by consilience 0.1 (format 1), and this version reads format {FORMAT}"
        use = "Use the version that wrote it to go on with it or read it (pip install 'consilience<0.2')"
        raise refusal(folder, reason, f"{use}, or start a new run with another out=; {ANYHOW}")
    check_format(folder / RUN, record)
    if missing := [name for name in TABLES if name not in record]:
        raise refusal(folder / RUN, f"it is damaged: there is no [{missing[0]}] in it", ANYHOW)
    return record


def check_format(path: Path, record: Table) -> None:
    """Refuse a file that says that it has another format than this version writes."""
    if (found := record.get("format")) != FORMAT:
        reason = f"it has format {found!r}, and this version of consilience reads {FORMAT}"
        raise refusal(path, reason, "Use the version that wrote it.")


def copies_in(run: Table) -> int:
    """Return how many copies of the chain a folder has: all agents', or one that all share, or a peer's own."""
    return 1 if run["sampler"]["replicated"] or "agent" in run else run["network"]["agents"]


def read_checkpoint(folder: Path, run: Table) -> tuple[Progress, State | None]:
    """Read how far the run has come, and the state to go on from: None at the start."""
    found = Checkpoints(folder, copies_in(run)).newest()
    if found is None:
        raise refusal(folder, "it has lost its checkpoints, which say how many of its draws count", "Put them back.")
    return found


def read_network(folder: Path, run: Table) -> Network:
    """Read the network of a run from its folder."""
    facts = run["network"]
    try:
        with np.load(folder / NETWORK) as saved:
            edges, values = saved["edges"], saved["weights"]
    except (ValueError, KeyError, OSError, EOFError, BadZipFile) as error:
        raise refusal(folder / NETWORK, f"it is damaged: {error}", ANYHOW) from None
    graph = nx.empty_graph(facts["agents"])
    graph.add_edges_from(edges.tolist())
    weights = assemble(facts["agents"], edges, values) if facts["weights"] == "given" else facts["weights"]
    return Network(graph, weights, facts["name"])
