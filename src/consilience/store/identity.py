"""Identity of a run, its settings, data, code and versions: recorded when it starts, compared when it is resumed."""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import jax
import numpy as np

from .._types import Batch
from ..model import KeptOwn, Layout
from ..network import Network
from ..samplers import Sampler

Table = dict[str, Any]

MOST_SHOWN = 60  # characters of a value that differs

FORMAT = 2  # of the folder; docs/keep.md says when it changes

# Recorded, but free to differ: none of it changes a draw.
FREE = (
    *("format", "created", "status", "run.num_samples", "dims.", "labels."),
    *("versions.python", "versions.numpy", "versions.consilience"),
    *(
        "model.prior",
        "model.likelihood",
        "model.own_prior",
    ),  # model.code has them, too, and folders of earlier versions have that alone
)
# Settings of jax that change draws.
FLAGS = ("jax_enable_x64", "jax_threefry_partitionable", "jax_default_matmul_precision", "jax_default_prng_impl")
# These differ wherever something else does, and are named only where nothing else is.
CONSEQUENCES = {
    "network.fingerprint": "the network's edges or weights: not as they were",
    "sampler.fingerprint": "the sampler's settings: not as they were",
    "model.start": "where the chains start: not as it was",
    "own.start": "where own variables start: not as it was",
    "sampler.bias": "what the sampler says of its bias",
    "model.prior": "the prior: it computes something else now",
    "model.likelihood": "the likelihood: it computes something else now",
    "model.own_prior": "the prior of own variables: it computes something else now",
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
    labels: Table,
    code: str,
    of_posterior: Mapping[str, str],
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
      labels: names of agents and columns, and labels along axes: what there is of these.
      code: the fingerprint of model, sampler and what is kept, as traced.
      of_posterior: the fingerprints of prior and likelihood alone, for those who load the run with its posterior.
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
            **of_posterior,
        },
        "versions": surroundings(),
        "dims": {name: list(axes) for name, axes in dims.items()},
        **({"labels": labels} if labels else {}),
    }


def describe_own(own: KeptOwn, init: Any) -> Table:
    """Return the record of variables that stay with their owner; `init` is where those of a group start."""
    column = own.variables.column
    return {
        "variables": _shapes(own.variables.one),
        "groups": list(own.counts),
        **({} if column is None else {"column": column}),
        "start": digest(own.variables.one.ravel_on_host(init)),
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


def describe_sampler(sampler: Sampler) -> Table:
    """Return a sampler's settings as plain values, the same in every process; what is not given is left out."""
    settings = vars(sampler)
    if is_dataclass(sampler):
        settings = {field.name: settings[field.name] for field in fields(sampler) if field.repr}
    return _plain({name: value for name, value in settings.items() if value is not None})


def _plain(value: Any) -> Any:
    """Return a setting as TOML can hold it: an array by its fingerprint, a function by its name.

    What a function computes is in the fingerprint of the code, which is the same for one that is written again.
    """
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        array = np.asarray(value)
        return array.item() if not array.ndim else {"shape": list(array.shape), "fingerprint": digest(array)}
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, bool | int | float | str):
        return value
    kind = value if callable(value) and hasattr(value, "__qualname__") else type(value)
    return {"function" if callable(value) else "object": kind.__qualname__}


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


def differences(tables: Mapping[str, Table], free: Sequence[str] = (), show: Callable[[Any], str] = repr) -> list[str]:
    """Say in what tables differ, and who has what: a line for each difference.

    Of "there" and "here" it reads `seed: 1 there, 2 here`, of others `seed: c: 2; a, b: 1`.

    Args:
      tables: the tables by the names of those whose they are.
      free: names of entries that are free to differ; with a dot at the end, of tables.
      show: how a value is written.
    """
    parties = {who: dict(flat(table)) for who, table in tables.items()}
    found = {}
    for name in sorted(set().union(*parties.values())):
        groups: dict[str, list[str]] = {}
        for who, entries in parties.items():
            groups.setdefault(repr(entries.get(name)), []).append(who)
        if len(groups) > 1 and not any(name == one or (one[-1] == "." and name.startswith(one)) for one in free):
            found[name] = _said(name, {who: entries.get(name) for who, entries in parties.items()}, groups, show)
    causes = [line for name, line in found.items() if name not in CONSEQUENCES]
    return causes or [found[name] for name in CONSEQUENCES if name in found][:1]


def _said(name: str, values: Table, groups: Mapping[str, list[str]], show: Callable[[Any], str]) -> str:
    """Say who has what under a name."""
    title, shown = name.removeprefix("run."), {who: _cut(value, show) for who, value in values.items()}
    if values.keys() != {"there", "here"}:
        all_groups = sorted(groups.values(), key=len)
        return f"{title}: " + "; ".join(f"{', '.join(group)}: {shown[group[0]]}" for group in all_groups)
    old, new = values["there"], values["here"]
    if name == "data.fingerprints" and old is not None and new is not None and len(old) == len(new):
        changed = [str(agent) for agent, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
        return f"the data of agent{'s' * (len(changed) > 1)} {', '.join(changed)}: not what it was"
    return CONSEQUENCES.get(name, f"{title}: {shown['there']} there, {shown['here']} here")


def _cut(value: Any, show: Callable[[Any], str]) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{32,}", value):  # it says only that something differs
        return f"{value[:8]}..."
    text = show(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield a table's entries with those of the tables in it, under names with dots."""
    for key, value in table.items():
        if isinstance(value, Mapping):
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
