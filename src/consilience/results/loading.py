"""Loading of a run from its folder, `cs.load`; its draws stay there until they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._checks import refuse_unknown_keywords
from .._refused import Refused
from .._types import Batch, Params
from ..engine import MOMENTS, Accumulated, read_moments
from ..model import Layout, Posterior
from ..store import DiskStats, Table, disk_draws, own_group, read_checkpoint, read_network, read_run, shown
from .own import own_draws
from .run import Moments, Owner, Run
from .same_model import agents_of, check_same_posterior, parameters_of, same_shards


@dataclass(frozen=True)
class RecordedSampler:
    """Record of the sampler that filled a folder."""

    name: str
    bias: str | None
    replicated: bool


@refuse_unknown_keywords("cs.load")
def load(
    path: str | Path,
    *,
    like: Params | None = None,
    posterior: Posterior | None = None,
    shards: Sequence[Batch] | Mapping[str, Batch] | Callable[[int], Batch] | None = None,
) -> Run:
    """Load the run in a folder that `cs.sample(..., out=path)` fills or has filled, finished or not.

    No draws are read: they stay on disk until they are used, and `run.blocks()`, `run.summary()` and
    `run.to_arviz()` read them piece by piece. Another posterior than was sampled, or other rows, are refused by the
    fingerprints that the folder has of them; what cannot be compared is said in a warning.

    Args:
      path: the folder.
      like: parameters of the model, whose structure the draws are to have; without it they have that of the posterior's
        own start, or are a dictionary by name.
      posterior: what was sampled, for `run.evaluate`, `run.loo` and for ArviZ's other groups.
      shards: the agents' data as `cs.sample` took them, for the same; of a peer's own folder, `[mine]`.
    """
    folder = Path(path).expanduser().absolute()
    record = read_run(folder)
    dtype = np.dtype(record["model"]["dtype"])
    layout = None if like is None else _in(Layout.of(like, "like"), dtype)
    data = None if shards is None else same_shards(folder, record, shards)
    if posterior is not None:
        unbound = posterior
        posterior = posterior if data is None else posterior.bind(data[0])
        by_name = named_layout(record["model"]["parameters"], dtype)
        parameters = parameters_of(record, by_name, posterior, layout)
        check_same_posterior(folder, record, unbound, parameters, data)
        if layout is None and posterior.constrain is None and record["model"]["kept"] == record["model"]["parameters"]:
            layout = _in(parameters, dtype)
    return replace(stored_run(folder, layout), posterior=posterior, shards=data)


def _in(layout: Layout, dtype: np.dtype) -> Layout:
    """Return a layout in the precision that was recorded."""
    return replace(layout, dtypes=(dtype,) * len(layout.names))


def stored_run(folder: Path, layout: Layout | None = None, averaged: Layout | None = None) -> Run:
    """Load the run in a folder; `layout` is that of its draws and `averaged` that of its moments, where known."""
    record = read_run(folder)
    settings, facts = record["run"], record["sampler"]
    progress, snapshot = read_checkpoint(folder, record)
    length = progress.combined if facts["one_shot"] else progress.drawn
    network = read_network(folder, record)
    kept = named_layout(record["model"]["kept"], np.dtype(record["model"]["dtype"]))
    if layout is not None:
        _check_form(folder, layout, kept)
    sampler = RecordedSampler(facts["name"], facts["bias"] or None, facts["replicated"])
    owner, labels = _owner(record, progress.attempt), record.get("labels", {})
    lanes = (settings["num_chains"], 1 if sampler.replicated or owner is not None else network.size)
    moments = None
    if snapshot is not None and any(name.startswith(MOMENTS) for name in snapshot):
        found = read_moments(snapshot)
        unravel = _by_name(record["model"]["moments"], found.mean.dtype) if averaged is None else averaged.unravel
        moments = moments_of(found, unravel, network.size)
    return Run(
        kept=disk_draws(folder, layout or kept, length, lanes),
        raw_stats=DiskStats(folder, length),
        layout=layout or kept,
        sampler=sampler,
        network=network,
        iterations=progress.iterations(settings["thin"]),
        thin=settings["thin"],
        traffic=progress.traffic,
        seconds=progress.seconds,
        planned=settings["num_samples"],
        parameters=named_layout(record["model"]["parameters"], np.dtype(record["model"]["dtype"])),
        dims=_tuples(record["dims"]),
        coords=_tuples(labels.get("coords", {})),
        columns=_tuples(labels.get("columns", {})),
        names=tuple(labels.get("agents", () if owner is None else owner.names)),
        rows=tuple(record["data"]["rows"]) if owner is None else None,
        moments=moments,
        folder=folder,
        owner=owner,
        facts=_facts(record),
        own_draws=own_draws(
            record, lambda agent, own: disk_draws(folder, own, length, (lanes[0], 1), own_group(agent))
        ),
    )


def moments_of(found: Accumulated | None, unravel: Callable[[np.ndarray], Params], agents: int) -> Moments:
    """Return moments as users have them: (agent, chain, ...), also where all agents hold the same."""
    assert found is not None
    mean, squares = (np.asarray(values) for values in (found.mean, found.squares))
    draws = int(found.draws)

    def shown(values: np.ndarray) -> Params:
        by_agent = values[None] if values.ndim == 2 else np.swapaxes(values, 0, 1)
        return unravel(np.broadcast_to(by_agent, (agents, *by_agent.shape[1:])))

    return Moments(draws, shown(mean), shown(squares / max(1, draws)))


def _by_name(shapes: Mapping[str, Sequence[int]], dtype: np.dtype) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """Return a function that splits vectors into a dictionary, in the order of `shapes`, which jax would sort."""
    order = Layout(None, tuple(map(tuple, shapes.values())), (dtype,) * len(shapes), tuple(shapes))
    return lambda vectors: dict(order.leaves(vectors))


def named_layout(shapes: Mapping[str, Sequence[int]], dtype: np.dtype) -> Layout:
    """Return the layout of a dictionary by name; jax sorts its keys."""
    names = tuple(sorted(shapes))
    structure = jax.tree.structure(dict.fromkeys(names, 0))
    return Layout(structure, tuple(tuple(shapes[name]) for name in names), (dtype,) * len(names), names)


def _check_form(folder: Path, layout: Layout, kept: Layout) -> None:
    wanted, found = (dict(zip(form.names, form.shapes, strict=True)) for form in (layout, kept))
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise Refused(
                "like",
                f"{name} has shape {wanted.get(name, 'none')}, in {shown(folder)} it has {found.get(name, 'none')}",
                "Pass parameters of the model that was sampled, or leave out like=.",
            )


def _tuples(table: Table) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(values) for name, values in table.items()}


def _owner(record: Table, attempts: int) -> Owner | None:
    agent = record.get("agent")
    return agent and Owner(agent["name"], tuple(agent["names"]), tuple(agent["without"]), attempts)


def _facts(record: Table) -> dict[str, str]:
    """Return what a reader may want to know of where a run comes from: settings, versions, fingerprints."""
    return {
        "created": record["created"],
        "status": record["status"],
        **{name: str(value) for name, value in {**record["run"], **record["versions"]}.items()},
        "sampler": _call(record["sampler"]),
        "model's code": record["model"]["code"],
        **({"agent": record["agent"]["name"], "run id": record["agent"]["run"]} if "agent" in record else {}),
        **{
            f"data of agent {agent.removeprefix('agent ')}": text
            for agent, text in zip(agents_of(record), record["data"]["fingerprints"], strict=True)
        },
    }


def _call(sampler: Table) -> str:
    """Return a sampler with its settings as people write it; arrays and functions are left out."""
    settings = (
        f"{name}={'...' if isinstance(value, Mapping) else repr(value)}" for name, value in sampler["settings"].items()
    )
    return f"{sampler['name']}({', '.join(settings)})"
