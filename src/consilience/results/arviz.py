"""Conversion of runs to xarray DataTrees, with the groups, names and dimensions of ArviZ's schema.

ArviZ takes every axis but chain and draw for one of the variable, and in `log_likelihood` for one of observations.
Agents that hold one chain are therefore shown as the one chain that it is, and of agents with chains of their own one
agent's is shown, or all agents' along an axis that only `agent="all"` asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._extras import require
from .._refused import Refused
from .._types import Key, Params
from ..store import DRAWS, POSTERIOR
from .arviz_rows import DataRows, variable_name
from .own import own_datasets
from .per_draw import copy_of, per_draw
from .pointwise import posterior_of
from .selection import agent_number

if TYPE_CHECKING:
    from .run import Run

ALL = "all"
ARVIZ_NAMES = {
    "is_divergent": "diverging",
    "num_integration_steps": "n_steps",
    "num_trajectory_expansions": "tree_depth",
    "logdensity": "lp",
}
WHOLE_NUMBERS = ("n_steps", "tree_depth")
OF_ONE_DRAW = ("energy", "lp")  # a mean over the iterations behind a draw would be taken for the draw's own
TOTAL = ""  # of the prior's parts, and no site's name
NOTE = "Chains of different agents are not independent: take one agent's for loo and compare, to_arviz(agent=0)."


def data_tree(run: Run, agent: int | str, log_likelihood: bool, posterior_predictive: bool, seed: int) -> Any:
    """Return a run as an xarray DataTree: the groups that are asked for, and those that need no computation."""
    xarray = require("xarray", "report")
    chosen = None if _is_all(run, agent) else agent_number(run, 0 if agent == ALL else agent)
    rows = DataRows(run) if run.posterior is not None and run.shards is not None else None
    if rows is None and (log_likelihood or posterior_predictive):
        fix = "Write cs.load(path, posterior=..., shards=...).to_arviz(...)."
        raise Refused("", "this run was loaded without its data", fix)
    if log_likelihood and chosen is None:
        reason = "ArviZ's loo and compare would count every agent's draws as observations of their own"
        raise Refused('log_likelihood=True with agent="all"', reason, "Write agent=0 for the draws of one agent.")
    coordinates: dict[str, Any] = {} if chosen is not None else {"agent": np.array(run.agent_names)}
    coordinates |= {"chain": np.arange(run.num_chains), "draw": np.arange(run.num_draws)}
    dims = tuple(coordinates)
    groups, stats = {"posterior": _posterior(run, chosen)}, _sample_stats(run, chosen)
    if rows is not None and log_likelihood and chosen is not None:
        pointwise = rows.log_likelihoods(chosen)
        priors = _log_priors(run, chosen)
        of_data = [values.sum(axis=-1, dtype=float) for values in pointwise.values()]
        stats.setdefault("lp", priors.pop(TOTAL) + sum(of_data))
        groups["log_likelihood"] = rows.likelihoods_dataset(pointwise, dims)
        groups["log_prior"] = xarray.Dataset({name: (dims, values) for name, values in priors.items()})
    if rows is not None and posterior_predictive:
        groups["posterior_predictive"] = rows.dataset(rows.predicted(chosen, seed), dims)
    groups["sample_stats"] = xarray.Dataset({name: (dims, values) for name, values in stats.items()})
    facts = _facts(run, chosen)
    of_own = {"chain": coordinates["chain"], "draw": coordinates["draw"]}
    groups = {name: group.assign_coords(coordinates).assign_attrs(facts) for name, group in groups.items()}
    data = {} if rows is None else rows.groups()
    groups |= {name: group.assign_coords(of_own).assign_attrs(facts) for name, group in own_datasets(run).items()}
    # Where a group does not say which of its axes are draws, ArviZ 1 looks for chains and draws in data, too.
    groups = {name: group.assign_attrs(sample_dims=["chain", "draw"]) for name, group in groups.items()}
    groups |= {name: group.assign_attrs(sample_dims=[]) for name, group in data.items()}
    return xarray.DataTree.from_dict(groups)


def _is_all(run: Run, agent: int | str) -> bool:
    """Tell whether the draws get an axis of agents: all are asked for, and each has its own."""
    return agent == ALL and run.copies > 1 and not run.sampler.replicated


def _facts(run: Run, chosen: int | None) -> dict[str, str]:
    """Return what the groups of draws say of where they come from."""
    facts = {"inference_library": "consilience", "sampler": run.sampler.name, "network": run.network.name}
    facts |= {"bias": run.sampler.bias or "none"}
    if "consilience" in run.facts:
        facts["inference_library_version"] = run.facts["consilience"]
    if chosen is None:
        facts["note"] = NOTE
    elif run.copies > 1:
        facts["agent"] = run.agent_names[chosen]
    return facts


def _posterior(run: Run, chosen: int | None) -> Any:
    """Return every parameter with its dimensions as a Dataset; draws on disk are opened and not read."""
    xarray = require("xarray", "report")
    forms = dict(zip(run.layout.names, run.layout.shapes, strict=True))
    dims = {
        name: run.dims.get(name, tuple(f"{name}_dim_{k}" for k in range(len(shape)))) for name, shape in forms.items()
    }
    draws = ("chain", "draw") if chosen is not None else ("agent", "chain", "draw")
    copy = slice(None) if chosen is None else copy_of(run, chosen)
    if isinstance(run.kept, np.ndarray) or run.folder is None or not run.num_draws or not dims:
        vectors = np.moveaxis(run.positions[:, :, copy], 0, -2)  # (chain, agent, draw, number), or without the agent
        vectors = vectors if chosen is not None else np.swapaxes(vectors, 0, 1)
        variables = {name: ((*draws, *dims[name]), leaf) for name, leaf in run.layout.leaves(vectors)}
    else:
        # Indexed by whole axes only, which xarray leaves undone until values are asked for.
        stored = xarray.open_zarr(run.folder / DRAWS, group=POSTERIOR, consolidated=False, chunks=None)
        stored = stored[list(dims)].isel(draw=slice(run.num_draws), agent=copy)
        variables = {
            name: stored[name].rename({f"{name}_dim_{k}": new for k, new in enumerate(own)}).transpose(*draws, ...)
            for name, own in dims.items()
        }
    sizes = {dim: size for name, own in dims.items() for dim, size in zip(own, forms[name], strict=True)}
    labels = {dim: list(names) for dim, names in run.coords.items() if sizes.get(dim) == len(names)}
    return xarray.Dataset(variables).assign_coords(labels)


def _sample_stats(run: Run, chosen: int | None) -> dict[str, np.ndarray]:
    """Return the sampler's own figures under ArviZ's names where it has one, with the dimensions of the draws.

    Where draws of all agents were combined after the last one, figures are of the chains before, and left out.
    """
    found = {}
    for own, name in {own: ARVIZ_NAMES.get(own, own) for own in run.raw_stats}.items():
        is_of_other_chains = run.raw_stats[own].shape[2] > run.copies
        if is_of_other_chains or (run.thin > 1 and name in OF_ONE_DRAW):
            continue
        values = run.stats[own] if chosen is None else run.stats[own][chosen]
        if name == "diverging":
            values = values > 0
        elif name in WHOLE_NUMBERS and run.thin == 1:
            values = np.rint(values).astype(int)
        found[name] = values
    return found


def _log_priors(run: Run, agent: int) -> dict[str, np.ndarray]:
    """Compute the log density of the prior by its parts, and that of what is sampled, with its Jacobians, in total."""
    posterior = posterior_of(run)

    def parts(key: Key, params: Params) -> dict[str, jax.Array]:
        return {**posterior.log_priors(params), TOTAL: posterior.log_prior(params)}

    found = per_draw(run, parts, agent=agent)
    return {name if name == TOTAL else variable_name(name): values for name, values in found.items()}
