"""Preparation of a run: its length, where its chains start, and what is kept of them; all of it checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import whole_number
from .._types import Batch, Key, Params
from ..model import RESERVED, Layout, Posterior, View, check_posterior, chosen, stack_on_host
from ..network import Network
from ..samplers import Sampler

MOST_SEED = 2**32 - 1


@dataclass(frozen=True)
class Length:
    """Length of a run (draws, warm-up, chains, thinning) and its seed."""

    num_samples: int
    num_warmup: int
    num_chains: int
    thin: int
    seed: int

    def __post_init__(self) -> None:
        whole_number("num_samples", self.num_samples, 1)
        whole_number("num_warmup", self.num_warmup, 0)
        whole_number("num_chains", self.num_chains, 1)
        whole_number("thin", self.thin, 1)
        whole_number("seed", self.seed, 0, MOST_SEED)

    @property
    def iterations(self) -> int:
        return self.num_warmup + self.num_samples * self.thin


@dataclass(frozen=True)
class Prepared:
    """A run that has been checked, and waits for a runtime.

    Attributes:
      starts: where the chains start, (chains, dimension).
      key: the random key of all that follows.
    """

    posterior: Posterior
    layout: Layout
    starts: jax.Array
    key: Key
    stacked: Any  # a Shard; for `simulate` it may be a ShardsBySize
    sampler: Sampler
    view: View


def prepare(
    posterior: Posterior,
    shards: Sequence[Batch],
    network: Network,
    sampler: Sampler,
    length: Length,
    init: Any,
    keep: Any,
    first: int = 0,
    lengths: Sequence[int] = (),
    stack: Callable[..., Any] = stack_on_host,
) -> Prepared:
    """Check all that a run is made of, refuse what cannot be run, and return the rest ready for a runtime.

    Args:
      shards: data of the agents that live here.
      first: number of the first of these agents.
      lengths: numbers of rows of all agents' shards, where the longest may be elsewhere.
      stack: the function of shards and lengths that stacks them for the runtime.
    """
    posterior = posterior.bind(shards[0])
    for_start, for_run = _keys(np.uint32(length.seed), jax.config.jax_default_prng_impl)  # type: ignore[attr-defined]
    layout, positions = _starts(_init(posterior, init), for_start, length.num_chains)
    start = jax.tree.map(jnp.asarray, layout.unravel(np.asarray(positions)[0]))
    for agent, shard in enumerate(shards, first):
        posterior.check_data(agent, start, shard)
    stacked = stack(shards, lengths)
    one = jax.tree.map(lambda form: jax.ShapeDtypeStruct(form.shape[1:], form.dtype), stacked.padded_form.batch)
    check_posterior(posterior, start, one)
    sampler = sampler.resolve(network, layout.dimension, length.num_warmup)
    view = View.of(layout, chosen(posterior.constrain, keep))
    _check_dims(posterior.dims, view.layout)
    return Prepared(posterior, layout, positions, for_run, stacked, sampler, view)


def _init(posterior: Posterior, init: Any) -> Any:
    """Return where chains start: where the user says, else where the posterior does."""
    if init is None and posterior.init is None:
        raise ValueError("init is missing: write init=params, the model's parameters, for example init=jnp.zeros(3).")
    return posterior.init if init is None else init


@partial(jax.jit, static_argnums=1)
def _keys(seed: jax.Array, generator: str) -> tuple[Key, Key]:
    """Return the random key of the starts and that of all that follows.

    The generator is an argument, since jax does not compile anew where its default changes.
    """
    for_start, for_run = jax.random.split(jax.random.key(seed, impl=generator))
    return for_start, for_run


def _starts(init: Params | Callable[[Key], Params], key: Key, chains: int) -> tuple[Layout, jax.Array]:
    """Return the parameters' layout, and where the chains start: (chains, dimension)."""
    if not (callable(init) and jax.tree_util.all_leaves([init])):  # a pytree may be callable too: a neural network is
        layout = Layout.of(init)
        return layout, jnp.asarray(np.tile(layout.ravel_on_host(init), (chains, 1)))
    layout = Layout.of(init(key))
    keys = jax.random.split(key, chains)
    return layout, jax.vmap(lambda k: layout.ravel(init(k)))(keys)


def _check_dims(dims: Mapping[str, Sequence[str]], kept: Layout) -> None:
    """Refuse names of axes that are not as many as the axes, repeated, or reserved."""
    for name, shape in zip(kept.names, kept.shapes, strict=True):
        axes = tuple(dims.get(name, ()))
        if name in dims and (len(axes) != len(shape) or len(set(axes)) < len(axes) or set(axes) & set(RESERVED)):
            raise ValueError(
                f"dims: {name} has shape {shape} and axes {axes}: every axis needs a name of its own, other than "
                f"{', '.join(RESERVED)}."
            )


def running_views(
    layout: Layout, posterior: Posterior, sampler: Sampler, moments: Any, watch: Any
) -> tuple[View | None, View | None]:
    """Return the view that running moments are taken of, and the view of their mean that is recorded."""
    averaged = _averaged_view(layout, posterior, moments)
    if sampler.second_stage is not None and averaged is not None:
        raise ValueError(
            f"{sampler.name} has its draws when all are there: it has no running moments. Leave out moments=."
        )
    return averaged, _watched_view(averaged, watch)


def _averaged_view(layout: Layout, posterior: Posterior, moments: Any) -> View | None:
    if not callable(moments) and not isinstance(moments, bool):
        raise TypeError(f"moments = {moments!r}: True, False, or a function of the parameters.")
    if moments is False:
        return None
    return View.of(layout, chosen(posterior.constrain, moments if callable(moments) else None), "moments")


def _watched_view(averaged: View | None, watch: Any) -> View | None:
    if watch is None:
        return None
    if averaged is None:
        raise ValueError("watch is of a running mean, and there is none: say of what, moments=...")
    fix = 'Write for example watch=lambda mean: {"error": jnp.abs(mean - truth).max()}.'

    def by_name(mean: Any) -> Mapping[str, Any]:
        found = watch(mean)
        if not isinstance(found, Mapping) or not found:
            raise ValueError(f"watch must give a dict of single numbers; it gave {found!r}. {fix}")
        return found

    view = View.of(averaged.layout, by_name, "watch")
    for name, shape in zip(view.layout.names, view.layout.shapes, strict=True):
        if shape:
            raise ValueError(f"watch must give single numbers; {name} has shape {shape}. {fix}")
    return view
