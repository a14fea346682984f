"""Conversion of runs to xarray DataTrees, as ArviZ reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._extras import require
from .._refused import Refused
from .._types import Batch
from ..model import leaf_name
from ..store import DRAWS, POSTERIOR
from .per_draw import per_draw

if TYPE_CHECKING:
    from .run import Run

SAMPLE_DIMS = ("agent", "chain", "draw")


def data_tree(run: Run, log_likelihood: bool, posterior_predictive: bool, seed: int) -> Any:
    """Return a run as an xarray DataTree: the groups that are asked for, and those that need no computation."""
    xarray = require("xarray", "report")
    agents = run.agents
    coordinates = {"agent": np.arange(agents), "chain": np.arange(run.num_chains), "draw": np.arange(run.num_draws)}
    facts = {"inference_library": "consilience", "sampler": run.sampler.name, "network": run.network.name}
    facts |= {"bias": run.sampler.bias or "none"}
    groups = {
        "posterior": _posterior(run).assign_coords(coordinates).assign_attrs(facts),
        "sample_stats": xarray.Dataset(
            {name: (SAMPLE_DIMS, values) for name, values in run.stats.items()}, coordinates, facts
        ),
    }
    if run.shards is not None:
        pooled = jax.tree.map(lambda *leaves: np.concatenate(leaves), *run.shards)
        owner = np.repeat(np.arange(agents), [len(jax.tree.leaves(shard)[0]) for shard in run.shards])
        examples = {"example": np.arange(len(owner)), "owner": ("example", owner)}
        leaves = {_data_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(pooled)}
        observed = {name: (_example_dims(name, leaf.ndim), leaf) for name, leaf in leaves.items()}
        groups["observed_data"] = xarray.Dataset(observed, examples)
        wanted = {}
        if log_likelihood:
            wanted["log_likelihood"] = _log_likelihoods(run, pooled)
        if posterior_predictive:
            wanted["posterior_predictive"] = _predicted(run, pooled, seed)
        for name, variables in wanted.items():
            dims = {key: (*SAMPLE_DIMS, *_example_dims(key, values.ndim - 3)) for key, values in variables.items()}
            values = {key: (dims[key], values) for key, values in variables.items()}
            groups[name] = xarray.Dataset(values, {**coordinates, **examples}, facts)
    elif log_likelihood or posterior_predictive:
        raise Refused(
            "", "this run was loaded without its data", "Write cs.load(path, posterior=..., shards=...).to_arviz(...)."
        )
    return xarray.DataTree.from_dict(groups)


def _posterior(run: Run) -> Any:
    """Return every parameter with its dimensions as a Dataset; draws on disk are opened and not read."""
    xarray = require("xarray", "report")
    dims = {
        name: run.dims.get(name, tuple(f"{name}_dim_{k}" for k in range(len(shape))))
        for name, shape in zip(run.layout.names, run.layout.shapes, strict=True)
    }
    if isinstance(run.kept, np.ndarray) or run.folder is None or not run.num_draws or not dims:
        leaves = run.layout.leaves(np.swapaxes(run.positions, 0, 2))
        return xarray.Dataset({name: ((*SAMPLE_DIMS, *dims[name]), leaf) for name, leaf in leaves})
    # Indexed by whole axes only, which xarray leaves undone until values are asked for.
    stored = xarray.open_zarr(run.folder / DRAWS, group=POSTERIOR, consolidated=False, chunks=None)
    stored = stored[list(dims)].isel(draw=slice(run.num_draws))
    if run.copies == 1:
        stored = stored.isel(agent=np.zeros(run.agents, int))
    variables = {
        name: stored[name].rename({f"{name}_dim_{k}": new for k, new in enumerate(own)}) for name, own in dims.items()
    }
    return xarray.Dataset({name: variable.transpose(*SAMPLE_DIMS, ...) for name, variable in variables.items()})


def _log_likelihoods(run: Run, examples: Batch) -> dict[str, np.ndarray]:
    """Compute the log likelihood of every example under every draw."""
    posterior = run.posterior
    assert posterior is not None
    return per_draw(run, lambda key, params: {"log_likelihood": posterior.log_likelihood(params, examples)})


def _predicted(run: Run, examples: Batch, seed: int) -> dict[str, np.ndarray]:
    """Draw new observations for every example and draw of the parameters."""
    predictive = None if run.posterior is None else run.posterior.predictive
    if predictive is None:
        raise Refused(
            "posterior_predictive",
            "this posterior cannot draw observations",
            "Write cs.Posterior(..., predictive=...), a function of (key, params, batch), or use "
            "cs.Posterior.from_numpyro, .classifier or .regressor.",
        )
    return per_draw(run, lambda key, params: dict(predictive(key, params, examples)), seed)


def _data_name(path: Any) -> str:
    name = leaf_name(path, root="data")
    return f"data.{name}" if name in ("example", "owner") else name  # those are coordinates


def _example_dims(name: str, ndim: int) -> tuple[str, ...]:
    return ("example", *(f"{name}_dim_{k}" for k in range(ndim - 1)))
