"""`Neighbors` for the peers runtime: agents are processes, and compiled code calls back to the host for every round.

Under a `vmap` over chains, the batching rule of the call makes it once for all of them, so that one message carries all
chains. Ordered effects would keep the calls in their order, but loops over chains do not take them. So

- every call takes a *number* and returns the next one, which the call after it takes: no compiler can put one before
  the other, or take two for one;
- the host knows which number is next, and how often each loop should have called: `Turns` refuses a call that is
  missing, doubled or out of turn, before it can become a wrong sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._compat import callback_for_all_chains, trace_state
from .._keys import key_numbers, keys_like
from ..network import Network
from .collectives import Arrays, Collectives, RiderForm
from .counting import Counted, CountedLoop, Exchange
from .gossip import SHORT, gossip, relaxed_gossip
from .lanes import AGENTS
from .protocol import T, message_bytes, projection
from .traffic import Kind

NUMBER = jax.ShapeDtypeStruct((), jnp.int32)


class PeerNeighbors(Counted):
    """`Neighbors` of one agent in a run in which every agent is a process of its own.

    It is the only lane of the axis of agents here; values are taken off that axis before they are sent. Messages are
    counted as they are sent, so that `exchanges` stays empty.

    Attributes:
      calls: how many calls the traced code makes outside of loops.
    """

    def __init__(self, collectives: Collectives, network: Network, index: int, secret: Sequence[int] = ()) -> None:
        super().__init__()
        self.secret = secret
        self._collectives, self._network, self._index = collectives, network, index
        self.calls = 0
        self._number: jax.Array = jnp.int32(0)  # of the next call
        self._inside: tuple[Any, jax.Array] = None, self._number  # the same inside of a loop, and of which
        neighbors = network.neighbors(index)
        self._weights = np.array([network.graph[index][neighbor]["weight"] for neighbor in neighbors])

    @property
    def size(self) -> int:
        return self._network.size

    @property
    def index(self) -> jax.Array:
        return jnp.int32(self._index)

    # --- gossip --------------------------------------------------------------------------------------

    def mix(self, x: T, rounds: int | jax.Array = 1) -> T:
        return self._gossip(x, rounds, lambda: gossip(self._weighted_flow, x, rounds))

    def average(self, x: T, factors: jax.Array) -> T:
        return self._gossip(x, len(factors), lambda: relaxed_gossip(self._weighted_flow, x, factors))

    def laplacian(self, x: T) -> T:
        return self._gossip(x, 1, lambda: jax.tree.map(jnp.negative, self._flow(x, np.ones_like(self._weights))))

    def all(self, flag: jax.Array) -> jax.Array:
        return self._collect("flood", "", self._collectives.flood, flag, flag)

    def _gossip(self, x: T, rounds: int | jax.Array, run: Callable[[], T]) -> T:
        """Run rounds of gossip, and count those that are in a loop: of a few, each is a call by itself."""
        if not self._is_outside:
            self._count("gossip", x, rounds)
        elif not isinstance(rounds, int) or rounds > SHORT:
            loop = self.repeated()
            loop.found[Exchange("gossip", 1, message_bytes(x)), ""] = None
            with loop:
                found = run()
            loop.times(rounds, found)
            return found
        return run()

    def _weighted_flow(self, x: T) -> T:
        return self._flow(x, self._weights)

    def _flow(self, x: T, weights: np.ndarray) -> T:
        """Return Σ_j w_ij (x_j - x_i), the weighted differences to the neighbours."""

        def gain(mine: jax.Array, others: jax.Array) -> jax.Array:
            total = jnp.zeros_like(mine)
            for weight, other in zip(weights, others, strict=True):
                total = total + jnp.asarray(weight, mine.dtype) * (other - mine)
            return total

        return jax.tree.map(gain, x, self._call(self._collectives.exchange, x, x, len(weights)))

    # --- over the tree -------------------------------------------------------------------------------

    def total(self, x: T, at: jax.Array | None = None) -> T:
        loop = None if self._is_outside or not self._open else self._open[-1]
        dimensions = jnp.ndim(jax.tree.leaves(x)[0])

        def rider(arrays: Arrays) -> list[RiderForm]:
            """Return the forms of the root's state, where it comes with this sum: for all chains, as the sum is."""
            if loop is None or loop.sums is None or self._collectives.turns.made(loop) % loop.sums:
                return []
            chains = arrays[0].shape[: arrays[0].ndim - dimensions]
            return [((*chains, *form.shape), form.dtype) for form in loop.rider]

        def total(arrays: Arrays) -> Arrays:
            return self._collectives.total(arrays, rider(arrays))

        def total_at(arrays: Arrays) -> Arrays:
            return self._collectives.total_at(arrays, rider(arrays))

        if at is None:
            return self._collect("sum", "total", total, x, x)
        return self._collect("sum", "total", total_at, (x, whereabouts(at)), x)

    def follow_root(self, x: T, digest: Any = (), after: Any = None) -> tuple[T, jax.Array]:
        has_digest = bool(jax.tree.leaves(digest))
        if after is not None and after.sums is not None:
            leaves = (key_numbers(jnp.asarray(leaf)) for leaf in jax.tree.leaves(x))
            after.rider = tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves)

        def follow(arrays: Arrays) -> Arrays:
            if has_digest:
                *arrays, marks = arrays
                self._collectives.mark(marks)
            return self._collectives.follow_root(arrays)

        # Whether all digests are alike comes with the next sum, which raises `OutOfStep` where they are not.
        return self._collect("pass", "follow", follow, (x, digest), x), jnp.array(True)

    # --- calls of the host -----------------------------------------------------------------------------

    def _collect(self, kind: Kind, way: str, function: Callable[[Arrays], Any], x: Any, like: Any) -> Any:
        """Call a collective that is one call of the host, and count it where it is in a loop."""
        if not self._is_outside:
            self._count(kind, x, 1, way)
        return self._call(function, x, like)

    def _call(self, function: Callable[[Arrays], Any], x: Any, like: Any, several: int | None = None) -> Any:
        """Call `function` on the host with the leaves of `x`, and return its result in the form of `like`.

        Random keys are passed as the numbers they are made of.

        Args:
          several: how many such results `function` returns; those of a leaf are stacked along a first axis.
        """
        is_outside, here, turns = self._is_outside, trace_state(), self._collectives.turns
        loop = None if is_outside else self._open[-1]
        number = self._inside[1] if self._inside[0] == here else self._number

        def in_turn(arrays: Arrays) -> Any:
            given, *rest = arrays
            if loop is None:
                turns.take(self, int(given.max()))
            else:
                turns.repeat(loop)
            found, after = function(rest), np.asarray(given + (loop is None))
            return [*found, after] if several is None else [[*each, after] for each in found]

        forms, structure = jax.tree.flatten(jax.tree.map(jnp.asarray, like))
        shapes = tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in map(key_numbers, forms))
        leaves = (_off_the_axis(key_numbers(jnp.asarray(leaf))) for leaf in jax.tree.leaves(x))
        *results, after = callback_for_all_chains(in_turn, (*shapes, NUMBER), several)(number, *leaves)
        after = after if several is None else after[0]
        if is_outside:
            self.calls, self._number = self.calls + 1, after
        else:
            self._inside = here, after
        return jax.tree.unflatten(
            structure, [keys_like(leaf, result) for leaf, result in zip(forms, results, strict=True)]
        )

    def _count_loop(self, loop: CountedLoop, count: int | jax.Array, after: Any, is_common: bool) -> None:
        """Check on the host that a loop has made as many calls as it should have, once it has returned `after`."""
        if after is None or not loop.found or not self._is_outside:
            return
        each: Any = sum(exchange.times for exchange, _ in loop.found)
        turns = self._collectives.turns

        def check(arrays: Arrays) -> Arrays:
            number, counts, *_ = arrays
            longest = counts.max(axis=tuple(range(number.ndim)))  # of all chains, at every stage
            turns.end(loop, int(number.max()), int(longest.sum()) * each, is_exact=number.size == 1)
            return [number]

        leaves = (_off_the_axis(key_numbers(jnp.asarray(leaf))) for leaf in (count, *jax.tree.leaves(after)))
        [self._number] = callback_for_all_chains(check, (NUMBER,))(self._number, *leaves)


def whereabouts(w: jax.Array) -> jax.Array:
    """Return two numbers of a vector: its projection, and how far apart rounding may put those of two agents."""
    rounding = float(np.sqrt(np.finfo(w.dtype).eps))
    return jnp.stack([projection(w), rounding * (1 + jnp.abs(w).sum())])


def _off_the_axis(x: jax.Array) -> jax.Array:
    """Return the only lane that this process has on the axis of agents."""
    return lax.all_gather(x, AGENTS)[0]
