"""Rounds of messages between neighbours, on the host: what the twins of `Neighbors` are made of here.

All agents call the same functions in the same order. Each call takes the next *number*, or two, so that a message says
by its number which call it belongs to; nothing else keeps agents in step.

- `exchange`: to each neighbour, and one from each.
- `flood`: the least of all agents' values, exchanged as often as the farthest two agents are apart.
- `up`, `down`: along the spanning tree. What children say is combined in ascending order of their numbers, on top of
  the parent's own, and the root's result travels down: the same bits on all agents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from ...network import Network
from .mailbox import Interrupted, OutOfStep
from .masks import Masks, decode, encode, fits
from .wire import Form, arrays_of

Arrays = list[np.ndarray]
Combine = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Post(Protocol):
    """Sends numbered messages to neighbours, and waits for theirs."""

    def send(self, to: Sequence[int], number: int, form: Form, arrays: Arrays) -> None: ...

    def receive(self, senders: Sequence[int], number: int, form: Form) -> list[bytes]: ...

    def end(self, reason: Interrupted) -> None: ...


class Collectives:
    """One agent's part in the rounds of its network.

    Args:
      post: how messages travel.
      index: which agent this is.

    Attributes:
      masks: hide this agent's part of exact sums, where they are set.
    """

    def __init__(self, post: Post, network: Network, index: int) -> None:
        self._post, self._network, self._index = post, network, index
        self._neighbors = network.neighbors(index)
        tree = network.tree
        self._parent = None if index == tree.root else tree.parent[index]
        self._children = tree.children(index)
        self._number = 0
        self.rounds = 0
        self.masks: Masks | None = None

    def begin(self, masks: Masks | None = None) -> None:
        """A new epoch: rounds are counted from the start."""
        self._number, self.masks = 0, masks

    def exchange(self, arrays: Arrays, kind: str = "gossip") -> list[Arrays]:
        """The neighbours' arrays, neighbours in ascending order."""
        number, form = self._next(), Form.of(kind, arrays)
        self.rounds += 1
        self._post.send(self._neighbors, number, form, arrays)
        return [arrays_of(raw, form) for raw in self._post.receive(self._neighbors, number, form)]

    def flood(self, arrays: Arrays) -> Arrays:
        """The least of all agents' values, element by element."""
        for _ in range(self._network.diameter):
            for theirs in self.exchange(arrays, "flood"):
                arrays = [np.minimum(mine, other) for mine, other in zip(arrays, theirs, strict=True)]
        return arrays

    def total(self, arrays: Arrays) -> Arrays:
        """The sum over all agents."""
        return self._summed(arrays, [], [])[0]

    def total_at(self, arrays: Arrays) -> Arrays:
        """The sum over all agents, of all arrays but the last, which says where they were evaluated.

        That is (..., 2): a place, and how far from it is still there. The farthest two places travel with the sums, and
        where they are too far apart, agents have gone different ways: what they sum does not belong together.
        """
        *values, where = arrays
        place, allowed = where[..., 0].copy(), where[..., 1]
        sums, [high, low] = self._summed(values, [place, place], [np.maximum, np.minimum])
        if (difference(high, low) > allowed).any():
            reason = OutOfStep("the agents are at different places, by more than rounding")
            self._post.end(reason)
            raise reason
        return sums

    def _summed(self, arrays: Arrays, others: Arrays, combine: list[Combine]) -> tuple[Arrays, Arrays]:
        """The sums of `arrays`, and `others` combined, in the same messages."""
        parts = arrays if self.masks is None else [self._masked(arrays, self.masks)]
        found = self.down(self.up([*parts, *others], *[np.add] * len(parts), *combine))
        sums, rest = found[: len(parts)], found[len(parts) :]
        return (sums if self.masks is None else self._unmasked(sums[0], arrays)), rest

    def up(self, arrays: Arrays, *combine: Combine, kind: str = "up") -> Arrays:
        """This agent's arrays combined with those of all below it; the root's with all there are.

        Args:
          combine: one function for all arrays, or one for each.
        """
        number, form = self._next(), Form.of(kind, arrays)
        self.rounds += self._network.tree.depth
        each = combine * len(arrays) if len(combine) == 1 else combine
        with np.errstate(all="ignore"):  # numbers that are not finite are the sampler's to judge
            for raw in self._post.receive(self._children, number, form):
                theirs = arrays_of(raw, form)
                arrays = [f(mine, other) for f, mine, other in zip(each, arrays, theirs, strict=True)]
        if self._parent is not None:
            self._post.send([self._parent], number, form, arrays)
        return arrays

    def down(self, arrays: Arrays, kind: str = "down") -> Arrays:
        """The root's arrays."""
        number, form = self._next(), Form.of(kind, arrays)
        self.rounds += self._network.tree.depth
        if self._parent is not None:
            [raw] = self._post.receive([self._parent], number, form)
            arrays = arrays_of(raw, form)
        if self._children:
            self._post.send(self._children, number, form, arrays)
        return arrays

    def _masked(self, arrays: Arrays, masks: Masks) -> np.ndarray:
        """Fixed-point numbers of which nobody sees another's.

        Numbers that have no fixed point are sent as zero, and a count of them goes along, several counts to a word:
        where it is not zero, the sum is not a number. That some agent has left the support is all that shows.
        """
        flat = np.concatenate([array.ravel() for array in arrays]).astype(np.float64)
        good = fits(flat, self._network.size)
        counts = np.zeros(-(-len(flat) * self._counter.itemsize // 8) * 8 // self._counter.itemsize, self._counter)
        counts[: len(flat)] = ~good
        words = np.concatenate([encode(np.where(good, flat, 0.0), self._network.size), counts.view(np.uint64)])
        words += masks.pads(self._number + 1, len(words))  # the number of the message that they are for
        return words

    def _unmasked(self, summed: np.ndarray, arrays: Arrays) -> Arrays:
        """The sums in the form of `arrays`."""
        length = sum(array.size for array in arrays)
        lost = summed[length:].view(self._counter)[:length] > 0
        values = np.where(lost, np.nan, decode(summed[:length], np.float64))
        parts = np.split(values, np.cumsum([array.size for array in arrays])[:-1])
        return [part.reshape(array.shape).astype(array.dtype) for part, array in zip(parts, arrays, strict=True)]

    @property
    def _counter(self) -> np.dtype:
        """Wide enough that no count of agents runs over into the next."""
        return np.dtype(np.uint8 if self._network.size <= 255 else np.uint32)

    def _next(self) -> int:
        self._number += 1
        return self._number


def difference(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Of the greatest and the least of all agents' numbers; where they are infinite, it is not a number."""
    with np.errstate(invalid="ignore"):
        return np.asarray(high - low)
