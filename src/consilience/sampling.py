"""`cs.sample`: check everything, then run."""

from __future__ import annotations

import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._checks import whole_number
from ._types import Batch, Key, Params
from .network import Network
from .posterior import Layout, Posterior, check_posterior, stack_shards
from .results import Run
from .runtimes import Chunk, Simulation
from .runtimes.progress import progress_bar
from .runtimes.traffic import Traffic, price
from .samplers import OneShot, Sampler

MOST_SEED = 2**32 - 1
MOST_REDONE = 1e-3  # of all iterations


def sample(
    posterior: Posterior,
    shards: Sequence[Batch],
    network: Network,
    sampler: Sampler,
    *,
    init: Params | Callable[[Key], Params],
    num_samples: int,
    num_warmup: int = 0,
    num_chains: int = 1,
    thin: int = 1,
    seed: int = 0,
    progress: bool | str = True,
) -> Run:
    """Sample one posterior over a network, no agent seeing another's data.

    Args:
      posterior: what is sampled.
      shards: one pytree of data per agent, as `cs.shard` gives them.
      network: who may talk to whom.
      sampler: how: `cs.nuts()` where nothing speaks against it.
      init: where all agents start: the parameters, or a jax function of a key that gives them, another for every chain.
      num_samples: kept draws per chain.
      num_warmup: iterations before the first kept one. Samplers that tune themselves do it here.
      num_chains: independent chains, run side by side.
      thin: iterations per kept draw.
      seed: the same seed gives the same draws.
      progress: show a bar; a string is its label.
    """
    _check_arguments(posterior, network, sampler)
    whole_number("num_samples", num_samples, 1)
    whole_number("num_warmup", num_warmup, 0)
    whole_number("num_chains", num_chains, 1)
    whole_number("thin", thin, 1)
    whole_number("seed", seed, 0, MOST_SEED)

    for_start, for_run = jax.random.split(jax.random.key(seed))
    layout, positions = _starts(init, for_start, num_chains)
    stacked = stack_shards(shards, network.size)
    check_posterior(posterior, layout.unravel(positions[0]), jax.tree.map(lambda leaf: leaf[0], stacked.batch))
    sampler = sampler.resolve(network, layout.dimension, num_warmup)

    began = time.perf_counter()
    simulation = Simulation(posterior, layout, stacked, network, sampler, positions, for_run)
    draws = np.empty((num_samples, num_chains, simulation.copies, layout.dimension), layout.dtype)
    stats: dict[str, list[np.ndarray]] = defaultdict(list)
    traffic, kept, diverged, redone = simulation.start_traffic, 0, None, (0, 0)
    label = progress if isinstance(progress, str) else sampler.name
    with progress_bar(label, num_warmup + num_samples * thin, bool(progress)) as report:
        for chunk in simulation.warm_up(num_warmup):
            redone = _check_in_step(chunk, redone)
            traffic += chunk.traffic
            report(chunk.iterations)
        for chunk in simulation.draws(num_samples, thin):
            redone = _check_in_step(chunk, redone)
            diverged = diverged or _divergence(chunk, kept)
            draws[kept : kept + len(chunk.positions)] = chunk.positions
            kept += len(chunk.positions)
            for name, values in chunk.stats.items():
                stats[name].append(values)
            traffic += chunk.traffic
            report(chunk.iterations)
    if diverged:
        warnings.warn(f"the sampler diverged: {diverged}. Use smaller steps.", stacklevel=2)
    if isinstance(sampler, OneShot):
        traffic += _exact_sums(network, sampler.combine_bytes(draws))
        draws = sampler.combine(draws)
    return Run(
        positions=_for_all_agents(draws, network.size),
        raw_stats={name: _for_all_agents(np.concatenate(chunks), network.size) for name, chunks in stats.items()},
        layout=layout,
        sampler=sampler,
        network=network,
        iterations=num_warmup + num_samples * thin,
        thin=thin,
        traffic=traffic,
        seconds=time.perf_counter() - began,
    )


def _check_arguments(posterior: Any, network: Any, sampler: Any) -> None:
    """Refuse what is easily passed by mistake."""
    for name, value, kind, fix in (
        ("posterior", posterior, Posterior, "cs.Posterior(log_prior, log_likelihood)"),
        ("network", network, Network, "cs.Network.from_networkx(graph) or cs.Network.ring(5)"),
    ):
        if not isinstance(value, kind):
            raise TypeError(f"{name} is a {type(value).__name__}; write {name}={fix}.")
    if isinstance(sampler, type):
        name = getattr(sampler, "name", "nuts")
        raise TypeError(f"sampler is the class {sampler.__name__}, without settings; write sampler=cs.{name}(...).")
    if not isinstance(sampler, Sampler):
        raise TypeError(f"sampler is a {type(sampler).__name__}; write for example sampler=cs.nuts().")


def _divergence(chunk: Chunk, drawn: int) -> str | None:
    """Where a chain left the numbers, if it did; its draws may stay finite while all it computes has become NaN.

    Args:
      drawn: the draws before this chunk.
    """
    bad = ~np.isfinite(chunk.positions).all(axis=-1)
    for values in chunk.stats.values():
        bad |= ~np.isfinite(values)
    for draw, chain, agent in np.argwhere(bad)[:1]:
        return f"agent {agent}, chain {chain} is not finite from draw {drawn + draw} on"
    return None


def _exact_sums(network: Network, parts: Sequence[int]) -> Traffic:
    """Of a sum over the tree, up and down again, for each of `parts`: the bytes of one agent's part."""
    rounds, messages = price(network, "tree pass")
    return sum((Traffic(2 * rounds, 2 * messages, 2 * messages * part) for part in parts), Traffic())


def _for_all_agents(values: np.ndarray, agents: int) -> np.ndarray:
    """(draw, chain, agent, ...) of what is kept for every agent, or once for all: a view."""
    return np.broadcast_to(values, (*values.shape[:2], agents, *values.shape[3:]))


def _check_in_step(chunk: Chunk, so_far: tuple[int, int]) -> tuple[int, int]:
    """Redone and all iterations, this chunk's added; stops a run whose agents do not compute alike."""
    if "redone" not in chunk.stats:
        return so_far
    redone = round(float(chunk.stats["redone"].sum()) * chunk.iterations / len(chunk.stats["redone"]))
    lost = "out_of_step" in chunk.stats and chunk.stats["out_of_step"].any()
    redone, iterations = so_far[0] + redone, so_far[1] + chunk.iterations * chunk.positions.shape[1]
    if lost or redone > max(1, MOST_REDONE * iterations):
        raise RuntimeError(
            f"the agents fell out of step in {redone} of {iterations} iterations: they do not compute alike. This is "
            f"jax {jax.__version__} on {jax.devices()[0].device_kind}; every agent needs the same versions, and a "
            f"model whose decisions do not hang on its last digits: check it in float64."
        )
    return redone, iterations


def _starts(init: Params | Callable[[Key], Params], key: Key, chains: int) -> tuple[Layout, jax.Array]:
    """The parameters' layout, and where the chains start: (chains, dimension)."""
    if not (callable(init) and jax.tree_util.all_leaves([init])):  # a pytree may be callable too, as a network is
        layout = Layout.of(init)
        return layout, jnp.tile(layout.ravel(init), (chains, 1))
    layout = Layout.of(init(key))
    keys = jax.random.split(key, chains)
    return layout, jax.vmap(lambda k: layout.ravel(init(k)))(keys)
