"""Preparation of a run: where its chains start, and what is kept of them; all of it checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import nearest
from .._refused import Refused
from .._types import Batch, Key, Params
from ..model import (
    RESERVED,
    Layout,
    OwnVariables,
    Posterior,
    Shards,
    View,
    check_own,
    check_posterior,
    kept_function,
)
from ..network import Network
from ..samplers import Sampler
from .request import Request


@dataclass(frozen=True)
class Prepared:
    """A run that has been checked, and waits for a runtime.

    Attributes:
      starts: where the chains start, (chains, dimension).
      key: the random key of all that follows.
      stacked: data of the agents that live here.
      names: their names.
      view: what is kept of the posterior's draws, `drawn` of those that the chains draw: not the same where they are
        combined into the posterior's in a second stage.
      averaged: what running moments are taken of; None: of nothing.
      watched: numbers that say how the running mean settles; None: none.
      own: variables that stay with their owner; None: there are none.
    """

    posterior: Posterior
    network: Network
    sampler: Sampler
    layout: Layout
    starts: jax.Array
    key: Key
    stacked: Shards
    names: tuple[str, ...]
    view: View
    drawn: View
    averaged: View | None
    watched: View | None
    own: OwnVariables | None = None

    @property
    def positions(self) -> jax.Array:
        """Where the chains start, with own variables after the shared ones, alike on all agents."""
        if self.own is None:
            return self.starts
        own = np.tile(self.own.start(self.posterior), (len(self.starts), 1))
        return jnp.concatenate([self.starts, own.astype(self.layout.dtype)], axis=1)

    def log_likelihood(self, params: Params, batch: Batch) -> jax.Array:
        """Return the log-likelihood of a batch, own variables being where they start."""
        if self.own is None:
            return self.posterior.log_likelihood(params, batch)
        rows, one = len(jax.tree.leaves(batch)[0]), self.own.one
        start = one.unravel(jnp.asarray(one.ravel_on_host(self.posterior.own_init)))
        own = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (rows, *leaf.shape)), start)
        return self.posterior.log_likelihood(params, own, batch)

    @property
    def row(self) -> Any:
        """Form of one row of the data."""
        return jax.tree.map(
            lambda form: jax.ShapeDtypeStruct(form.shape[2:], form.dtype), self.stacked.padded_form.batch
        )


def prepare(request: Request, shards: Sequence[Batch], names: Sequence[str], stack: Callable[..., Shards]) -> Prepared:
    """Check all that a run is made of, refuse what cannot be run, and return the rest ready for a runtime.

    Args:
      shards: data of the agents that live here.
      names: their names.
      stack: stacks them for the runtime.
    """
    posterior, network = request.posterior.bind(shards[0]), request.network
    for_start, for_run = _keys(np.uint32(request.length.seed), jax.config.jax_default_prng_impl)  # type: ignore[attr-defined]
    layout, starts = _starts(_init(posterior, request.init), for_start, request.length.num_chains)
    start = jax.tree.map(jnp.asarray, layout.unravel(np.asarray(starts)[0]))
    stacked = stack(shards, whole=not posterior.per_row)
    one = jax.tree.map(lambda form: jax.ShapeDtypeStruct(form.shape[1:], form.dtype), stacked.padded_form.batch)
    check_posterior(posterior, start, one)
    own = OwnVariables.of(posterior, shards)
    if own is not None:
        check_own(posterior, own, start, one)
        _check_moves_own(request.sampler)
    for name, shard in zip(names, shards, strict=True):
        posterior.check_data(name, start, shard)
    dimension = layout.dimension + (0 if own is None else own.one.dimension)
    sampler = request.sampler.resolve(network, dimension, request.length.num_warmup).starting_at(starts[0])
    view = View.of(layout, kept_function(posterior.constrain, request.keep))
    if request.keep is None:
        _check_known(posterior.dims, [*layout.names, *view.layout.names])
    _check_dims(posterior.dims, view.layout)
    averaged = _averaged_view(layout, posterior, request.moments)
    if sampler.second_stage is not None and averaged is not None:
        raise Refused(
            sampler.name, "it has its draws when all are there, and no running moments", "Leave out moments=."
        )
    watched = _watched_view(averaged, request.watch)
    drawn = view if sampler.second_stage is None else View.of(layout)
    return Prepared(
        posterior, network, sampler, layout, starts, for_run, stacked, tuple(names), view, drawn, averaged, watched, own
    )


def _check_moves_own(sampler: Sampler) -> None:
    if not sampler.moves_own:
        reason = (
            "it samples parameters that all agents share, and the posterior has variables that stay with their owner"
        )
        raise Refused(sampler.name, reason, "Write sampler=cs.nuts(), or cs.hmc(), which sample both.")


def _init(posterior: Posterior, init: Any) -> Any:
    """Return where chains start: where the user says, else where the posterior does."""
    if init is None and posterior.init is None:
        raise Refused("init is missing", "write init=params, the model's parameters, for example init=jnp.zeros(3)")
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


def _check_known(dims: Mapping[str, Sequence[str]], names: Sequence[str]) -> None:
    """Refuse names of axes of a parameter that is not there."""
    for name in dims:
        if name not in names:
            near = nearest(name, names) or next(iter(names), "w")
            reason = f"no parameter is called {name!r}; there are {', '.join(dict.fromkeys(names))}"
            raise Refused("dims", reason, f'Write dims={{"{near}": ...}}.')


def _check_dims(dims: Mapping[str, Sequence[str]], kept: Layout) -> None:
    """Refuse names of axes that are not as many as the axes, repeated, or reserved."""
    for name, shape in zip(kept.names, kept.shapes, strict=True):
        axes = tuple(dims.get(name, ()))
        if isinstance(dims.get(name), str):
            reason = f"{name} has {dims[name]!r}, and a name for each of its axes is needed"  # type: ignore[call-overload]
            raise Refused("dims", reason, f'Write dims={{"{name}": ("{dims[name]}",)}}.')  # type: ignore[call-overload]
        if name in dims and (len(axes) != len(shape) or len(set(axes)) < len(axes) or set(axes) & set(RESERVED)):
            raise Refused(
                "dims",
                f"{name} has shape {shape} and axes {axes}: every axis needs a name of its own, other than "
                f"{', '.join(RESERVED)}",
            )


def _averaged_view(layout: Layout, posterior: Posterior, moments: Any) -> View | None:
    if not callable(moments) and not isinstance(moments, bool):
        raise Refused(f"moments = {moments!r}", "True, False, or a function of the parameters")
    if moments is False:
        return None
    return View.of(layout, kept_function(posterior.constrain, moments if callable(moments) else None), "moments")


def _watched_view(averaged: View | None, watch: Any) -> View | None:
    if watch is None:
        return None
    if not callable(watch):
        raise Refused(
            f"watch = {watch!r}", "a function of the running mean is needed", "Write watch=lambda mean: {...}."
        )
    if averaged is None:
        raise Refused("watch is of a running mean, and there is none", "say of what, moments=...")
    fix = 'Write for example watch=lambda mean: {"error": jnp.abs(mean - truth).max()}.'

    def by_name(mean: Any) -> Mapping[str, Any]:
        found = watch(mean)
        if not isinstance(found, Mapping) or not found:
            raise Refused("watch", f"it must give a dict of single numbers; it gave {found!r}", fix)
        return found

    view = View.of(averaged.layout, by_name, "watch")
    for name, shape in zip(view.layout.names, view.layout.shapes, strict=True):
        if shape:
            raise Refused("watch", f"it must give single numbers; {name} has shape {shape}", fix)
    return view
