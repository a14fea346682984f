"""A cell is run and becomes a row."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from consilience.engine import Chains
from consilience.model import Layout, pool, stack_shards
from consilience.network import Network
from consilience.runs import simulation
from consilience.samplers import NUTS

from .cells import DIGITS, METHODS, RoundsCell, RoundsLength
from .measures import Moments, accuracy, chain_sums, mixing, moments, sums_of
from .models import MODELS, RoundsModel

Row = dict[str, Any]
AT_ONCE = 500  # draws of a chunk, where they fit into its buffer
DIGITS_KEPT = 6  # of a reference's moments
OF_SURROGATE = {  # a row's names for what a surrogate's fit says
    "trial_acceptance": "surrogate_acceptance",
    "pareto_k": "surrogate_pareto_k",
    "correlation": "surrogate_correlation",
}
SMALL_STEPS = 0.95  # acceptance at which nuts gets into funnels


def measure(cell: RoundsCell, reference: Row | None = None) -> Row:
    """Return the row of a cell: figures, or why there are none."""
    row = empty(cell) | {"status": "ok", "error": None}
    began = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = MODELS[cell.model]()
            row |= reference_figures(cell, model) if cell.is_reference else figures(cell, model, truth_of(reference))
        row["warnings"] = sorted({str(one.message)[:300] for one in caught})
    except Exception as error:
        traceback.print_exc()
        row |= {"status": "failed", "error": f"{type(error).__name__}: {error}"[:500]}
    row["seconds"] = round(time.perf_counter() - began, 1)
    return row


def died(cell: RoundsCell) -> Row:
    return empty(cell) | {"status": "failed", "error": "its process died", "seconds": None}


def empty(cell: RoundsCell) -> Row:
    return {"model": cell.model, "method": cell.method, "settings": cell.settings()}


# --- the long run ----------------------------------------------------------------------------------


def reference_figures(cell: RoundsCell, model: RoundsModel) -> Row:
    """Return a posterior's moments, by known draws or a long run on the pooled data in double precision."""
    if model.draws is not None:
        draws, source = model.draws.swapaxes(0, 1), "posteriordb's draws"
        r_hat = None
    else:
        length, one = cell.length(model), Network.complete(1)
        # On digits a start from the surrogate takes a tenth of the time.
        start, target = "surrogate" if DIGITS in cell.model else None, SMALL_STEPS if model.funnel else 0.8
        sampler = NUTS(start=start, target_acceptance=target)
        with jax.enable_x64(True):
            run = chains_of(model, pool(model.shards), one, sampler, length, cell.seed, np.float64)
            advance(run, length.warmup)
            draws = advance(run, length.draws)[0]
        source, r_hat = f"{length.chains} chains of {length.draws:,} draws by nuts", mixing(draws)["r_hat"]
    found = moments(draws)
    exact = {name: [float(f"{x:.{DIGITS_KEPT}g}") for x in getattr(found, name)] for name in found._fields[:3]}
    return {"text": model.text, "source": source, "r_hat": r_hat, "moments": exact | {"ratio_error": found.ratio_error}}


def truth_of(reference: Row | None) -> Moments:
    if reference is None or reference["status"] != "ok":
        raise RuntimeError("the reference run failed, so there is nothing to compare with.")
    known = reference["moments"]
    return Moments(*(np.array(known[name]) for name in Moments._fields[:3]), known["ratio_error"])


# --- a method --------------------------------------------------------------------------------------


def figures(cell: RoundsCell, model: RoundsModel, truth: Moments) -> Row:
    """Return what a method cost on a model, phase by phase, and what its draws are worth."""
    sampler, length = METHODS[cell.method](), cell.length(model)
    run = chains_of(model, model.shards, model.network, sampler, length, cell.seed, np.float32)
    _, warm_stats, warm_traffic = advance(run, length.warmup)
    draws, stats, traffic = advance(run, length.draws)
    if not np.isfinite(draws).all():
        return {"status": "diverged", "error": "left the numbers"}
    proposals = getattr(sampler, "num_proposals", 0)
    fit = next((int(stats[name][-1, 0]) for name in ("surrogate_sums", "start_sums") if name in stats), 0)
    start = 0 if "surrogate_split" in stats and not stats["surrogate_split"].any() else 1
    sent = warm_traffic + run.start_traffic
    return {
        "dimension": draws.shape[-1],
        "agents": len(model.shards),
        "chains": length.chains,
        "warmup": length.warmup,
        "draws": length.draws,
        "num_proposals": proposals,
        "splits": bool(stats["surrogate_split"].any()) if "surrogate_split" in stats else None,
        "start_used": bool(stats["start_used"][-1, 0]) if "start_used" in stats else None,
        "fit_sums": fit,
        "warm": cost(fit + start + sums_of(warm_stats, proposals, 0), sent),
        "sampling": cost(sums_of(stats, proposals, length.draws), traffic),
        "chain_sums": chain_sums(stats),
        "acceptance": float(stats["acceptance_rate"].mean()),
        **surrogate_figures(stats),
        **mixing(draws),
        **accuracy(draws, truth),
    }


def surrogate_figures(stats: Mapping[str, np.ndarray]) -> dict[str, float | None]:
    """Return what a surrogate's fit said of itself; None each of a sampler without one."""
    has_one = "surrogate_split" in stats
    return {name: float(stats[figure][-1, 0]) if has_one else None for name, figure in OF_SURROGATE.items()}


def cost(sums: int, traffic: Any) -> dict[str, int]:
    return {"sums": sums, "rounds": traffic.rounds, "bytes": traffic.bytes}


def chains_of(
    model: RoundsModel, shards: Any, network: Network, sampler: Any, length: RoundsLength, seed: int, dtype: Any
) -> Chains:
    """Return chains at the model's cold start, compiled."""
    init = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), model.init)
    layout = Layout.of(init)
    start = jnp.asarray(layout.ravel_on_host(init), dtype)
    resolved = sampler.resolve(network, layout.dimension, length.warmup).starting_at(start)
    stacked = stack_shards(jax.tree.map(lambda leaf: of_kind(leaf, dtype), list(shards)), network.size)
    positions = jnp.tile(start, (length.chains, 1))
    posterior = model.posterior
    return simulation(posterior, layout, stacked, network, resolved, positions, jax.random.key(seed)).started()


def of_kind(leaf: Any, dtype: Any) -> np.ndarray:
    leaf = np.asarray(leaf)
    return leaf.astype(dtype) if leaf.dtype.kind == "f" else leaf


def advance(run: Chains, iterations: int) -> tuple[np.ndarray, dict[str, np.ndarray], Any]:
    """Run some iterations; return positions (draw, chain, parameter), figures (draw, chain), and what was sent."""
    chunks, left = [], iterations
    while left:
        chunks.append(run.advance(min(left, AT_ONCE, run.program.buffer), 1))
        left -= len(chunks[-1].positions)
    positions = np.concatenate([chunk.positions[:, :, 0] for chunk in chunks])
    names = chunks[0].stats
    stats = {name: np.concatenate([chunk.stats[name][:, :, 0] for chunk in chunks]) for name in names}
    traffic = chunks[0].traffic
    for chunk in chunks[1:]:
        traffic += chunk.traffic
    return positions, stats, traffic
