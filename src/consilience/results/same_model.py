"""Refusal of a model, or of rows, that are not those of the run that is loaded with them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import jax
import numpy as np

from .._refused import Refused
from .._types import Batch, Key, Params
from ..engine import code_of_posterior, row_of
from ..model import (
    AGENT,
    Layout,
    Posterior,
    check_alike,
    numbered_groups,
    own_shards,
    shards_as_sampled,
    with_agents,
    without_agents,
)
from ..store import Table, describe_data, shown

PARTS = {"prior": "the prior", "own_prior": "the prior of own variables", "likelihood": "the likelihood"}
X64 = "jax_enable_x64"


Shards = Sequence[Batch] | Mapping[str, Batch] | Callable[[int], Batch]


def same_shards(folder: Path, record: Table, shards: Shards) -> list[Batch]:
    """Return shards as a run had them; refuse others than it was sampled with, naming whose they are."""
    there, names, labels = record["data"], agents_of(record), record.get("labels", {})
    size = len(there["rows"])
    if not callable(shards) and not isinstance(shards, Mapping) and len(shards) != size:
        whose = f"{names[0]}'s own, one shard" if "agent" in record else f"of {size} agents"
        fix = "Write shards=[mine]." if "agent" in record else "Pass the shards that it was sampled with."
        raise Refused("shards", f"there are {len(shards)}, and the run in {shown(folder)} is {whose}", fix)
    given = own_shards(shards, size, range(size)) if callable(shards) else shards
    found = shards_as_sampled(given, [record["agent"]["name"]] if "agent" in record else labels.get("agents", ()))
    is_numbered = labels.get("numbered", False)
    if is_numbered and AGENT in found[0]:
        found = without_agents(found)  # the run's own shards, which have been given them
    if (column := record.get("own", {}).get("column")) is not None:
        found, _ = numbered_groups(column, found, names)
    found = check_alike(found, names)
    here = describe_data(found)
    changed = [k for k in range(size) if here["fingerprints"][k] != there["fingerprints"][k]]
    if not changed:
        return with_agents(found, _numbers(record)) if is_numbered else found
    if sorted(here["fingerprints"]) == sorted(there["fingerprints"]):
        reason = f"{_listed(names, changed)} are out of place: the run in {shown(folder)} has them in another order"
        raise Refused("shards", reason, "Pass them in the order in which they were sampled.")
    first = changed[0]
    rows, were = here["rows"][first], there["rows"][first]
    how = f"there are {rows}, and were {were}" if rows != were else f"other values, columns or dtypes in {rows} rows"
    reason = f"the rows of {_listed(names, changed)} are not those that the run in {shown(folder)} was sampled with"
    example = f" ({names[first]}: {how})" if len(changed) > 1 else f" ({how})"
    raise Refused("shards", reason + example, "Pass the rows that it was sampled with, or sample with these.")


def check_same_posterior(
    folder: Path, record: Table, posterior: Posterior, layout: Layout, shards: Sequence[Batch] | None
) -> None:
    """Refuse a posterior whose prior or likelihood computes something else than what was sampled.

    Without data the likelihood cannot be traced, and the prior is compared alone. Where the record has nothing to
    compare with, a warning says so.
    """
    then = record["versions"]
    if then["jax"] != jax.__version__:
        reason = f"it was sampled with jax {then['jax']}, and this is {jax.__version__}"
        return _say_not_compared(folder, reason)
    is_double = then[X64] == "True"
    with jax.enable_x64(is_double):
        if shards is not None:
            posterior = posterior.bind(shards[0])
        here = code_of_posterior(posterior, layout, None if shards is None else row_of(shards[0]))
    if shards is None and not here:
        return _say_not_compared(folder, "it is read with data at hand, and there are no shards")
    parts = [part for part in PARTS if part != "own_prior" or posterior.own_log_prior is not None]
    wanted = [part for part in parts if part != "likelihood" or shards is not None]
    known = [part for part in wanted if part in record["model"]]
    if wanted != known:
        missing = _said([part for part in wanted if part not in known])
        _say_not_compared(folder, f"there is no fingerprint of {missing} in it")
    changed = [part for part in known if here.get(part) != record["model"][part]]
    if not changed:
        return None
    if all(part in here for part in changed):
        verb = "computes" if len(changed) == 1 else "compute"
        reason = f"{_said(changed)} {verb} something else than in the run in {shown(folder)}: other code or numbers"
        fix = "Pass the posterior that was sampled."
    else:
        there = ", ".join(f"{name} {tuple(shape)}" for name, shape in record["model"]["parameters"].items())
        reason = f"it cannot be computed with the parameters of the run in {shown(folder)}: {there}"
        fix = "Pass the posterior that was sampled; where its parameters are nested, with like=params."
    if is_double != bool(jax.config.read(X64)):
        fix = f'Write jax.config.update("{X64}", {is_double}) first, as it was sampled with.'
    raise Refused("posterior", reason, fix)


def parameters_of(record: Table, by_name: Layout, posterior: Posterior | None, like: Layout | None) -> Layout:
    """Return the layout of a run's parameters as its posterior takes them.

    It is that of `like` where it has the names and shapes that were recorded, else that of the posterior's own start,
    else `by_name`, a dictionary.
    """
    recorded = {name: tuple(shape) for name, shape in record["model"]["parameters"].items()}
    start = None if posterior is None else _start(posterior.init)
    for layout in (like, start):
        if layout is not None and dict(zip(layout.names, layout.shapes, strict=True)) == recorded:
            return layout
    return by_name


def agents_of(record: Table) -> list[str]:
    """Return what messages call the agents whose data are recorded."""
    if "agent" in record:
        return [record["agent"]["name"]]
    return [f"agent {name}" for name in record.get("labels", {}).get("agents") or range(len(record["data"]["rows"]))]


def _numbers(record: Table) -> Sequence[int]:
    """Return the numbers of the agents whose data are recorded, as their model has them."""
    if "agent" not in record:
        return range(len(record["data"]["rows"]))
    agent = record["agent"]
    if agent["without"]:
        reason = f"{', '.join(agent['without'])} had left when it was sampled, and it has not kept its agents' numbers"
        raise Refused("shards", reason, 'Sample with the numbers in the data: {"agent": ..., ...}.')
    return [agent["names"].index(agent["name"])]


def _start(init: Params | Callable[[Key], Params] | None) -> Layout | None:
    if init is None:
        return None
    if callable(init) and jax.tree_util.all_leaves([init]):  # a pytree may be callable too
        forms = jax.eval_shape(init, jax.random.key(0))
        init = jax.tree.map(lambda form: np.zeros(form.shape, form.dtype), forms)
    return Layout.of(init)


def _said(parts: Sequence[str]) -> str:
    return " and ".join(PARTS[part] for part in parts)


def _listed(names: Sequence[str], chosen: Sequence[int]) -> str:
    return ", ".join(names[k] for k in chosen)


def _say_not_compared(folder: Path, reason: str) -> None:
    warnings.warn(f"posterior: not compared with the run in {shown(folder)}: {reason}.", stacklevel=5)
