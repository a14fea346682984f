"""Store of a run on disk: a folder that one process writes while it samples, and that any can read at any moment.

    run.toml         what the run is: settings, seed, versions, fingerprints of data and code, status
    draws.zarr/      posterior/ and sample_stats/, one array (draw, chain, agent, ...) each, compressed; xarray opens it
    checkpoint.npz   how far it has come, and the state to go on from; or, of hosts that share a run, parts/
    network.npz      edges and weights
    scores.json      predictive scores, where there are any

Draws that are the same on all agents are there once: their axis of agents has length one.

A chunk's draws are written before the checkpoint that counts them, and every file is replaced whole. So whatever moment
a process is killed at, the checkpoint's draws are there; what came after them is drawn again, to the same bits.
"""

from __future__ import annotations

import io
import json
import shutil
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from .._extras import check_installed, require
from .._lazy import LazyModule
from ..engine import Chunk
from ..model import Layout
from ..network import Network, assemble
from .draws import DiskDraws, rows_at_once
from .files import durable_zarr, locked, remove_partial, shown, write_whole
from .identity import FORMAT, Table, check_same
from .parts import PARTS, count, newest, read_parts
from .progress import Progress

nx: Any = LazyModule("networkx")

RUN, CHECKPOINT, DRAWS, NETWORK, SCORES = "run.toml", "checkpoint.npz", "draws.zarr", "network.npz", "scores.json"
POSTERIOR, STATS, SUBPOSTERIORS = "posterior", "sample_stats", "subposteriors"
LONGEST_NAME = 200  # bytes
SAMPLING_SHARE = 9  # seconds of sampling, at least, for each second that saving the state takes


class Store:
    """Sink that writes a run to a folder while it is sampled.

    Args:
      folder: where to write: empty or not there yet, or, where `resume`, with the same run.
      identity: record of this run, as `describe` gives it.
      kept: layout of what is kept of a draw.
      planned: number of draws.
      group: name of the group in draws.zarr that the draws go to.
      agents_per_file: number of agents whose draws may share a file; None: all agents'.
    """

    def __init__(
        self,
        folder: Path,
        identity: Table,
        network: Network,
        kept: Layout,
        planned: int,
        group: str = POSTERIOR,
        resume: bool = False,
        agents_per_file: int | None = None,
    ) -> None:
        for module in ("zarr", "tomli_w"):
            check_installed(module, "store")
        self.folder, self.identity, self.kept, self.planned, self.group = folder, identity, kept, planned, group
        self.progress = Progress()
        self.snapshot: Mapping[str, np.ndarray] | None = None
        self._agents_per_file = agents_per_file
        self._arrays: dict[str, Any] = {}
        self._saved, self._cost = -np.inf, 0.0
        self._open(network, resume)

    def _open(self, network: Network, resume: bool) -> None:
        _check_folder(self.folder, self.kept)
        self._lock = locked(self.folder)
        try:
            self._begin(network, resume)
        except BaseException:
            self._lock.close()
            raise

    def _begin(self, network: Network, resume: bool) -> None:
        if (self.folder / RUN).exists():
            there = read_run(self.folder)
            if not resume:
                raise ValueError(
                    f"{shown(self.folder)} already holds a run. Write resume=True to go on with it, or another out=."
                )
            check_same(self.folder, there, self.identity)
            self.identity = {**self.identity, "created": there["created"]}
            self.progress, self.snapshot = read_checkpoint(self.folder)
            if self.planned < self.progress.drawn:
                raise ValueError(
                    f"{shown(self.folder)} has {self.progress.drawn} draws, more than num_samples = {self.planned}. "
                    f"Write num_samples={self.progress.drawn} or more, or cs.load({str(shown(self.folder))!r})."
                )
            if self.progress.drawn:
                disk_draws(self.folder, self.kept, self.progress.drawn, (1, 1), self.group)  # refuses a folder without
            self._take_over()
        remove_partial(self.folder)
        edges = np.array(network.edges, dtype=int).reshape(-1, 2)
        write_whole(self.folder / NETWORK, _npz({"edges": edges, "weights": network.edge_weights}))
        self._say("running")  # last: a folder with a run.toml can be read

    def _take_over(self) -> None:
        """Take over what several hosts have saved in parts, for this process to go on with alone."""
        if (self.folder / PARTS).exists():
            if self.snapshot is not None:
                self.save(self.progress, dict(self.snapshot))
            shutil.rmtree(self.folder / PARTS)

    def append(self, chunk: Chunk, first: int) -> None:
        """Write a chunk's draws and figures as draws `first` and on."""
        self._write(self.group, chunk.positions, self.kept, first, chunk.first)
        for name, values in chunk.stats.items():
            self._put(f"{STATS}/{name}", values, first, chunk.first)

    def own_draws(self) -> np.ndarray:
        """Read all draws that have been appended into memory."""
        return disk_draws(self.folder, self.kept, self.progress.drawn, (1, 1), self.group)[:]

    def put(self, values: np.ndarray, layout: Layout) -> None:
        """Write the posterior's draws, beside what has been appended."""
        self._write(POSTERIOR, values, layout)

    def _write(self, group: str, values: np.ndarray, layout: Layout, first: int = 0, agent: int = 0) -> None:
        """Write vectors (draw, chain, copy, number) to their parameters' arrays."""
        for name, leaf in layout.leaves(values):
            self._put(f"{group}/{name}", leaf, first, agent)

    def _put(self, path: str, values: np.ndarray, first: int, agent: int) -> None:
        """Write draws `first` and on, of agents `agent` and on, to the array at `path`."""
        array = self._array(path, values)
        array[first : first + len(values), :, agent : agent + values.shape[2]] = values

    def state(
        self, snapshot: Callable[[], dict[str, np.ndarray]], at_once: bool = False
    ) -> dict[str, np.ndarray] | None:
        """Return the state to save now; None, if saving it again already would take more than a tenth of the time."""
        is_due = time.perf_counter() - self._saved >= SAMPLING_SHARE * self._cost
        return snapshot() if is_due or at_once else None

    def save(self, progress: Progress, state: dict[str, np.ndarray]) -> bool:
        """Save how far the run has come, and the state to go on from; return whether that is safe."""
        began = time.perf_counter()
        facts = np.frombuffer(json.dumps(asdict(progress)).encode(), np.uint8)
        is_safe = self._write_checkpoint(progress, _npz({"progress": facts, **state}))
        self.progress = progress
        self._saved = time.perf_counter()
        self._cost = self._saved - began
        return is_safe

    def _write_checkpoint(self, progress: Progress, content: bytes) -> bool:
        """Write a checkpoint; return whether it is safe now."""
        write_whole(self.folder / CHECKPOINT, content)
        return True

    def finish(self, status: str) -> None:
        """Record how the run ended, and unlock the folder."""
        try:
            self._say(status)
        finally:
            self._lock.close()

    def _say(self, status: str) -> None:
        self.identity = {**self.identity, "status": status}
        write_whole(self.folder / RUN, require("tomli_w", "store").dumps(self.identity).encode())

    def _array(self, path: str, values: np.ndarray) -> Any:
        """Return the array that draws like `values` go to, made if it is not there: as long as draws are planned."""
        if path not in self._arrays:
            self._arrays[path] = self._made(path, values)
        return self._arrays[path]

    def _made(self, path: str, values: np.ndarray) -> Any:
        zarr = require("zarr", "store")
        root = zarr.open_group(durable_zarr(self.folder / DRAWS), mode="a")
        shape = self._shape(values)
        if path in root:
            array = root[path]
            if array.shape != shape:
                array.resize(shape)
            return array
        name = path.rpartition("/")[2]
        together = (*shape[:2], min(self._agents_per_file or shape[2], shape[2]), *shape[3:])
        return root.create_array(
            path,
            shape=shape,
            chunks=(rows_at_once(together, values.dtype), *(max(1, n) for n in together[1:])),
            dtype=values.dtype,
            compressors=zarr.codecs.BloscCodec(cname="lz4", clevel=1, shuffle="bitshuffle"),
            fill_value=np.nan,
            dimension_names=["draw", "chain", "agent", *(f"{name}_dim_{k}" for k in range(values.ndim - 3))],
        )

    def _shape(self, values: np.ndarray) -> tuple[int, ...]:
        """Return the shape of the array for draws like `values`."""
        return (self.planned, *values.shape[1:])


class AgreedStore(Store):
    """Store of one of several processes: all save after the same iterations, so none decides by itself when."""

    @property
    def is_due(self) -> bool:
        """Tell whether it is time to save again, as far as this process is concerned."""
        return super().state(lambda: {}) is not None

    def state(
        self, snapshot: Callable[[], dict[str, np.ndarray]], at_once: bool = False
    ) -> dict[str, np.ndarray] | None:
        if not at_once:
            return None
        self._saved = np.inf  # until it has been saved it is not due again
        return snapshot()


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


def disk_draws(
    folder: Path, kept: Layout, length: int, lanes: tuple[int, int], group_name: str = POSTERIOR
) -> DiskDraws:
    """Return a run's kept draws, read when sliced; `lanes` are the numbers of chains and copies if nothing is there."""
    path = folder / DRAWS / group_name
    if not length or not kept.names:
        return DiskDraws([], length, lanes, kept)
    if not path.exists():  # or what is missing would read as NaN
        raise ValueError(f"{shown(folder)} has lost its draws: there is no {DRAWS}/{group_name} in it.")
    group = require("zarr", "store").open_group(path, mode="r")
    return DiskDraws([group[name] for name in kept.names], length, lanes, kept)


def read_run(folder: Path) -> Table:
    """Read the folder's run.toml; refuse a folder that has none, or one that this version did not write."""
    try:
        record = tomllib.loads((folder / RUN).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"{shown(folder)} holds no run: there is no {RUN} in it.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{shown(folder / RUN)} is damaged: {error}. Its draws are in {DRAWS}, which xarray opens."
        ) from None
    if record.get("format") != FORMAT:
        raise ValueError(
            f"{shown(folder / RUN)} has format {record.get('format')!r}; this version of consilience reads {FORMAT}."
        )
    return record


def read_checkpoint(folder: Path) -> tuple[Progress, Mapping[str, np.ndarray] | None]:
    """Read how far the run has come, and the state to go on from: None before the first checkpoint."""
    found: tuple[Progress, Mapping[str, np.ndarray] | None] = (Progress(), None)
    if (folder / CHECKPOINT).exists():
        found = _read_state(folder / CHECKPOINT)
    whole = newest(folder)
    while whole is not None and whole.done > count(found[0]):
        try:
            return read_parts(whole.parts, _read_state)
        except ValueError:
            before, whole = whole, newest(folder)
            if whole == before:  # no newer one has taken its place
                raise
    return found


def _read_state(path: Path) -> tuple[Progress, dict[str, np.ndarray]]:
    try:
        with path.open("rb") as file:
            arrays = dict(np.load(file))
    except (ValueError, OSError, EOFError, BadZipFile) as error:
        raise ValueError(f"{shown(path)} is damaged: {error}. Its draws are in {DRAWS}.") from None
    return Progress(**json.loads(arrays.pop("progress").tobytes())), arrays


def read_network(folder: Path, run: Table) -> Network:
    """Read the network of a run from its folder."""
    facts = run["network"]
    with np.load(folder / NETWORK) as saved:
        edges, values = saved["edges"], saved["weights"]
    graph = nx.empty_graph(facts["agents"])
    graph.add_edges_from(edges.tolist())
    weights = assemble(facts["agents"], edges, values) if facts["weights"] == "given" else facts["weights"]
    return Network(graph, weights, facts["name"])


def _check_folder(folder: Path, kept: Layout) -> None:
    """Refuse a folder with files of somebody else's, and parameters whose names cannot be those of folders."""
    if folder.is_dir() and not (folder / RUN).exists():
        others = [path.name for path in folder.iterdir() if not path.name.startswith(".") and path.name != NETWORK]
        if others:
            raise ValueError(
                f"{shown(folder)} holds other files. Name a new folder: out={str(shown(folder) / 'run')!r}."
            )
    for name in kept.names:
        if name.startswith((".", "__")) or name == "zarr.json" or "\0" in name or len(name.encode()) > LONGEST_NAME:
            raise ValueError(f"the parameter {name[:40]!r} cannot be a folder's name. Rename it, or leave out out=.")


def _npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **dict(arrays))  # type: ignore[arg-type]
    return file.getvalue()
