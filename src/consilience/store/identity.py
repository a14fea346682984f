"""Identity of a run, its settings, data, code and versions: recorded when it starts, compared when it is resumed."""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._types import Batch
from ..model import Layout
from ..network import Network
from ..samplers import Sampler
from .files import shown

Table = dict[str, Any]

FORMAT = 1  # version of the record, and of the folder that it is in

# Recorded, but free to differ: none of it changes a draw.
FREE = ("format", "created", "status", "run.num_samples", "versions.python", "versions.numpy", "versions.consilience")
# Settings of jax that change draws.
FLAGS = ("jax_enable_x64", "jax_threefry_partitionable", "jax_default_matmul_precision", "jax_default_prng_impl")
# These differ wherever something else does, and are named only where nothing else is.
CONSEQUENCES = {
    "network.fingerprint": "the network's edges or weights: not as they were",
    "sampler.fingerprint": "the sampler's settings: not as they were",
    "model.start": "where the chains start: not as it was",
    "sampler.bias": "what the sampler says of its bias",
    "model.code": "code of the model, the sampler, keep=, moments= or watch=: it computes something else now",
}


def describe(
    network: Network,
    sampler: Sampler,
    data: Table,
    starts: np.ndarray,
    parameters: Layout,
    kept: Layout,
    averaged: Layout | None,
    dims: Mapping[str, Sequence[str]],
    code: str,
    settings: Mapping[str, int],
) -> Table:
    """Return the record of a run that `run.toml` holds.

    Args:
      data: record of the agents' data, as `describe_data` gives it.
      starts: positions at which the chains start.
      parameters: layout of what is sampled.
      kept: layout of what is kept of it.
      averaged: layout of what moments are taken of; None: of nothing.
      dims: names of the axes of what is kept.
      code: the fingerprint of model, sampler and what is kept, as traced.
      settings: num_samples and the like.
    """
    return {
        "format": FORMAT,
        "status": "running",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "run": dict(settings),
        "sampler": {
            "name": sampler.name,
            "settings": describe_sampler(sampler),
            "fingerprint": digest(*map(np.asarray, jax.tree.leaves(sampler))),
            "bias": sampler.bias or "",
            "replicated": sampler.replicated,
            "one_shot": sampler.second_stage is not None,
        },
        "network": describe_network(network),
        "data": data,
        "model": {
            "parameters": _shapes(parameters),
            "kept": _shapes(kept),
            **({} if averaged is None else {"moments": _shapes(averaged)}),
            "dtype": str(kept.dtype),
            "start": digest(starts),
            "code": code,
        },
        "versions": surroundings(),
        "dims": {name: list(axes) for name, axes in dims.items()},
    }


def describe_network(network: Network) -> Table:
    """Return the record of a network: its name, size, weights and fingerprint."""
    return {
        "name": network.name,
        "agents": network.size,
        "weights": network.rule,
        "fingerprint": digest(np.array(network.edges), network.edge_weights),
    }


def describe_data(shards: Sequence[Batch]) -> Table:
    """Return the record of the agents' data: the number of rows of each shard, and its fingerprint."""
    return {
        "rows": [len(jax.tree.leaves(shard)[0]) for shard in shards],
        "fingerprints": [digest(*map(np.asarray, jax.tree.leaves(shard))) for shard in shards],
    }


def describe_sampler(sampler: Sampler) -> str:
    """Return a sampler's settings as text, the same in every process: addresses of functions are left out."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(sampler))


def surroundings() -> Table:
    """Return what a run runs on: versions, device, and the settings of jax that change draws."""
    return {
        "consilience": _version("consilience"),
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "device": jax.local_devices()[0].device_kind,
        **{flag: str(getattr(jax.config, flag)) for flag in FLAGS},
    }


def check_same(folder: Path, there: Table, here: Table) -> None:
    """Refuse to go on with a folder's run where this is another one, and say what differs."""
    if lines := causes(there, here):
        raise ValueError(
            f"{shown(folder)} holds another run; going on would mix the two:\n{lines}\n"
            f"Write the call as it was there, or start a new run with another out=."
        )


def causes(there: Table, here: Table, free: Sequence[str] = FREE) -> str:
    """Return what makes two runs different, a line each; empty where only what is `free` to differ does."""
    found = dict(_differences(there, here, free))
    lines = [line for name, line in found.items() if name not in CONSEQUENCES]
    lines = lines or [line for name, line in CONSEQUENCES.items() if name in found][:1]
    return "\n".join(f"  {line}" for line in lines)


def _differences(there: Table, here: Table, free: Sequence[str]) -> Iterator[tuple[str, str]]:
    old, new = dict(flat(there)), dict(flat(here))
    for name in sorted(old.keys() | new.keys()):
        if name not in free and not name.startswith("dims.") and old.get(name) != new.get(name):
            yield name, _said(name, old.get(name), new.get(name))


def _said(name: str, old: Any, new: Any) -> str:
    if name == "data.fingerprints" and old is not None and new is not None and len(old) == len(new):
        changed = [str(agent) for agent, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
        return f"the data of agent{'s' * (len(changed) > 1)} {', '.join(changed)}: not what it was"
    shown = ("nothing" if value is None else repr(value) for value in (old, new))
    return "{}: {} there, {} here".format(name.removeprefix("run."), *shown)


def flat(table: Table, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def digest(*arrays: np.ndarray) -> str:
    """Return a hash of the arrays' types, shapes and values."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()[:32]


def _shapes(layout: Layout) -> Table:
    return {name: list(shape) for name, shape in zip(layout.names, layout.shapes, strict=True)}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # run from a folder of sources
        return "unknown"
