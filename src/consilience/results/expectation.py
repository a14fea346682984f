"""Functions of the parameters, computed for every draw and for some rows of data at a time.

All that is averaged over draws goes through `pieces`. Whatever the number of draws and rows, it holds

    one piece of values, PIECE_BYTES or those of one draw if that is more,
    the parameters behind it, and one block of draws as `run.blocks` reads them,
    the inputs x.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._refused import Refused
from .._types import Batch, Params

if TYPE_CHECKING:
    from .run import Run

PIECE_BYTES = 16 << 20
LANES = 8  # draws that are computed side by side: a row of data alone does not fill a device


class Rows(NamedTuple):
    """Some rows of the inputs."""

    where: slice  # their place among all rows
    x: Batch  # their inputs, padded to as many rows as any other `Rows` has


class Piece(NamedTuple):
    """Values of a function for a few draws and some rows."""

    first: int  # number of the first of these draws
    rows: slice  # place of these rows among all rows of the inputs
    values: np.ndarray  # (draws, chains, copies, rows, ...), or without rows where the function has none


def in_rows(x: Batch, at_once: int) -> list[Rows]:
    """Cut `x` into parts of at most `at_once` rows, all of one shape: the last is padded with a row of its own."""
    count = len(jax.tree.leaves(x)[0])
    at_once = -(-count // -(-count // at_once))  # as even as can be: the less there is to pad
    found = []
    for first in range(0, count, at_once):
        last = min(first + at_once, count)
        chosen = np.minimum(np.arange(first, first + at_once), last - 1)
        found.append(Rows(slice(first, last), jax.tree.map(lambda leaf, chosen=chosen: leaf[chosen], x)))
    return found


def pieces(
    run: Run,
    function: Callable[..., jax.Array],
    parts: Sequence[Rows],
    has_rows: bool = True,
    rows_first: bool = False,
    seed: int | None = None,
) -> Iterator[Piece]:
    """Yield `function(params, x)` for all draws and all rows: draws in order, and for each few of them all rows.

    It is compiled once, for all draws and parts. (And once more when called again: it may use a variable that has
    changed since.)

    Args:
      parts: the inputs in parts, all of one shape.
      has_rows: whether the values' first axis is that of the rows.
      rows_first: go through all draws for one part after the other, and read the draws as often.
      seed: of a function that draws at random, `function(params, x, key)`: a key for every draw and part.
    """
    layout = run.layout
    like = value_shape(run, function, parts[0].x, *([] if seed is None else [jax.random.key(seed)]))
    one_draw = run.num_chains * run.copies
    numbers = one_draw * max(1, layout.dimension, math.prod(like.shape))
    count = min(run.num_draws, max(1, PIECE_BYTES // (numbers * max(layout.dtype.itemsize, like.dtype.itemsize))))
    groups = -(-count * one_draw // LANES)
    given = np.zeros((groups * LANES, layout.dimension), layout.dtype)

    @jax.jit
    def values_of(vectors: jax.Array, used: jax.Array, x: Batch, place: jax.Array) -> jax.Array:
        # Blocks differ in length. A loop of `used` turns wastes nothing on a short one, and needs no code of its own.
        lanes = vectors.reshape(groups, LANES, layout.dimension)
        empty = jnp.zeros((groups, LANES, *like.shape), like.dtype)

        def of_draw(w: jax.Array, lane: jax.Array) -> jax.Array:
            if seed is None:
                return function(layout.unravel(w), x)
            key = jax.random.fold_in(jax.random.key(seed), place[1])
            return function(layout.unravel(w), x, jax.random.fold_in(key, place[0] + lane))

        def put(k: jax.Array, so_far: jax.Array) -> jax.Array:
            values = jax.vmap(of_draw)(lanes[k], k * LANES + jnp.arange(LANES))
            return jax.lax.dynamic_update_index_in_dim(so_far, values, k, axis=0)

        done = jax.lax.fori_loop(0, used, put, empty)
        return done.reshape(groups * LANES, *like.shape)

    on_device = [Rows(part.where, jax.device_put(part.x)) for part in parts]
    for together in [[part] for part in on_device] if rows_first else [on_device]:
        first = 0
        for block in run.blocks(count):
            size = len(block) * one_draw
            given[:size] = block.reshape(size, layout.dimension)
            given[size:] = given[0]  # lanes of the last group that no draw is in
            vectors, used = jax.device_put((given, np.int32(-(-size // LANES))))
            for part in together:
                place = np.array([first * one_draw, part.where.start or 0], np.uint32)
                values = np.asarray(values_of(vectors, used, part.x, place))[:size]
                values = values.reshape(*block.shape[:3], *like.shape)
                if has_rows:
                    values = values[:, :, :, : part.where.stop - part.where.start]
                yield Piece(first, part.where, values)
            first += len(block)


def value_shape(run: Run, function: Callable[..., jax.Array], x: Any, *key: Any) -> jax.ShapeDtypeStruct:
    """Return shape and dtype of `function(params, x)` for one draw, without computing it; refuse what is no array."""
    value = jax.eval_shape(lambda w, x, *key: function(run.layout.unravel(w), x, *key), run.layout.vector, x, *key)
    if not isinstance(value, jax.ShapeDtypeStruct):
        name = type(value).__name__
        raise Refused("the function must return one array", f"it returned a {name}", "Stack its arrays.")
    return value


def mean_over_draws(
    run: Run,
    function: Callable[..., jax.Array],
    parts: Sequence[Rows],
    shape: Sequence[int],
    has_rows: bool,
    seed: int | None = None,
) -> np.ndarray:
    """Return the mean of `function(params, x)` over draws and chains, summed in float64: (agent, *shape)."""
    total = np.zeros((run.copies, *shape))
    for piece in pieces(run, function, parts, has_rows, seed=seed):
        total[(slice(None), piece.rows) if has_rows else ()] += piece.values.sum(axis=(0, 1), dtype=float)
    return np.broadcast_to(total / (run.num_draws * run.num_chains), (run.agents, *shape))


def expectation(run: Run, function: Callable[[Params], jax.Array]) -> np.ndarray:
    """Return the mean of `function(params)` over each agent's draws and chains: an array (agent, ...)."""

    def of_draw(params: Params, _: Any) -> jax.Array:
        return function(params)

    like = value_shape(run, of_draw, ())
    return mean_over_draws(run, of_draw, [Rows(slice(0), ())], like.shape, has_rows=False)
