"""Tracing: the code of a run, before anything is compiled, and what agents send to each other in it."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..neighbors import Exchange
from .fingerprint import Fingerprint, fingerprint
from .loop import Inputs, Model, Replayed, buffer_of, move_all, see, start_all, trace_noise
from .moments import Accumulated, form_of


class Traced(NamedTuple):
    """Traced code of a start, an iteration and a look at a draw, and the forms of what goes through it."""

    start: Replayed
    draw_noise: Any
    move: Replayed
    see: Any
    noise: Any  # form of an iteration's
    moments: Accumulated | None  # forms
    start_exchanges: list[Exchange]  # collectives of a start
    exchanges: list[Exchange]  # collectives of an iteration

    @property
    def state(self) -> Any:
        """Form of the state of all chains."""
        return self.start.form

    @property
    def info(self) -> Any:
        """Form of what an iteration says of itself."""
        return self.move.form[1]

    def fingerprint(self) -> Fingerprint:
        """Compute the fingerprint of model, sampler and what is kept."""
        return fingerprint(self.start.code, self.draw_noise, self.move.code, self.see)


def trace(model: Model, inputs: Inputs, positions: jax.Array) -> Traced:
    """Trace a start at `positions`, an iteration, and a look at a draw, without compiling them."""
    start_exchanges: list[Exchange] = []
    exchanges: list[Exchange] = []

    def observe_move(found: list[Exchange]) -> None:
        exchanges[:] = [exchange._replace(times=0) for exchange in found]  # how often is known when it has run

    observe_start = partial(start_exchanges.__setitem__, slice(None))
    start = Replayed(partial(start_all, model, observe=observe_start), inputs, positions)
    state, (draw_noise, noise) = start.form, trace_noise(model, inputs)
    move = Replayed(partial(move_all, model, observe=observe_move), inputs, noise, state)
    lanes = state.position.shape[:-1]  # chains, and agents where each has a copy
    moments = None if model.averaged is None else form_of(lanes, model.averaged.layout)
    shared = jax.ShapeDtypeStruct((*lanes, model.layout.dimension), state.position.dtype)
    seen = jax.make_jaxpr(partial(see, model))(buffer_of(1, shared), moments, jnp.int32(1))
    return Traced(start, draw_noise, move, seen, noise, moments, start_exchanges, exchanges)
