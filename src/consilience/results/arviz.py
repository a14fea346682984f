"""Runs as ArviZ knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._extras import require

if TYPE_CHECKING:
    from .run import Run

SAMPLE_DIMS = ("agent", "chain", "draw")


def data_tree(run: Run) -> Any:
    """posterior and sample_stats as an xarray DataTree, every variable with the dimensions of SAMPLE_DIMS first."""
    xarray = require("xarray", "report")
    posterior = {
        name: ((*SAMPLE_DIMS, *(f"{name}_dim_{k}" for k in range(leaf.ndim - 3))), leaf)
        for name, leaf in zip(run.layout.names, jax.tree.leaves(run.draws), strict=True)
    }
    stats = {name: (SAMPLE_DIMS, values) for name, values in run.stats.items()}
    draws, chains, agents, _ = run.positions.shape
    coordinates = {"agent": np.arange(agents), "chain": np.arange(chains), "draw": np.arange(draws)}
    facts = {"inference_library": "consilience", "sampler": run.sampler.name, "network": run.network.name}
    return xarray.DataTree.from_dict(
        {
            "posterior": xarray.Dataset(posterior, coordinates, facts),
            "sample_stats": xarray.Dataset(stats, coordinates, facts),
        }
    )
