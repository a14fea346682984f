"""Collective operations on the host, in rounds of messages between neighbours; `PeerNeighbors` is built on them.

All agents call the same functions in the same order. Each `exchange`, `up` or `down` takes the next *number*, so that a
message says by its number which call it belongs to; nothing else keeps agents in step.

- `exchange`: send arrays to each neighbour, and receive those of each.
- `flood`: find the least of all agents' values, by as many exchanges as the farthest two agents are apart.
- `up`, `down`: along the spanning tree. A parent combines its own arrays with its children's, in ascending order of
  their numbers, and the root's result travels down: the same bits on all agents.

On links of some milliseconds, time is rounds. So what an iteration sends beside its sums rides on them:

- *marks*, numbers that all agents should have alike, are not compared at once but with whatever goes to all agents
  next, a sum or a flood. Where they turn out to be apart, all agents learn it from the same message: `OutOfStep`. What
  has been computed from them is to be kept back until then.
- The root's state rides on the way down of the sum before it, where it is known which one that is: the root sends
  nothing down before it has the state that follows from the sum.

Under masks there is another way, half as long: `begin(masks, gathers=True)`. Every agent's masked words go to all,
along a tree of its own, and each adds them up: mod 2^64 a sum has the same bits in whatever order. The root's state
stays where it is. Agents whose processors are alike compute the same from the same sums, and a fingerprint of what each
has goes along with the next sum.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np

from ..network import Network
from .masks import Masks, decode, encode, fits
from .traffic import Kind, Traffic, price
from .wire import HEADER, Form, arrays_of

Arrays = list[np.ndarray]
RiderForm = tuple[tuple[int, ...], np.dtype]  # shape and dtype of an array that is yet to come
Combine = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Interrupted(Exception):  # noqa: N818
    """Raised when the rounds of this epoch have ended early, with the reason."""


class OutOfStep(Interrupted):
    """Raised when agents have taken different turns, and no longer do the same steps."""


class OutOfTurn(RuntimeError):  # noqa: N818
    """Raised when compiled code has not called the host once for every round, and in their order."""


class Turns:
    """Record of the calls that compiled code makes, which refuses one that is missing, doubled or out of turn.

    jax may do all of that to calls that it takes for pure. Calls outside of loops have numbers, from 0 in every
    iteration; those in loops are counted, and the loop's own count is compared with theirs.

    Args:
      end: called with the error, before it is raised: whoever waits for a message need not wait any longer.
    """

    def __init__(self, end: Callable[[Exception], None]) -> None:
        self._end = end
        self.begin()

    def begin(self) -> None:
        """Forget all calls: an epoch may have ended in the midst of an iteration."""
        self._program: Any = None
        self._taken = 0
        self._repeated: Counter[int] = Counter()

    def take(self, program: Any, number: int) -> None:
        """Take a call with this number from a piece of code that makes `program.calls` of them."""
        if number == 0 and (self._program is None or self._taken == self._program.calls):
            self._program, self._taken = program, 0
        if program is not self._program or number != self._taken:
            self.refuse(f"call {number} came where call {self._taken} was due")
        self._taken += 1

    def repeat(self, loop: object) -> None:
        """Count a call inside of a loop."""
        self._repeated[id(loop)] += 1

    def made(self, loop: object) -> int:
        """Return how many calls a loop has made so far."""
        return self._repeated[id(loop)]

    def end(self, loop: object, number: int, count: int, is_exact: bool) -> None:
        """Compare a loop's calls with their right `count`, or if not `is_exact` with the least that they can be.

        Of chains side by side, one may do a part once more, and the others go along without counting that.
        """
        if number not in (0, self._taken):
            self.refuse(f"a loop ended after call {number}, and {self._taken} had been made")
        calls = self._repeated.pop(id(loop), 0)
        if calls < count or (is_exact and calls != count):
            self.refuse(f"a loop made {calls} calls where {count} were due")

    def refuse(self, what: str) -> NoReturn:
        """End the rounds of this epoch, since compiled code has done what it must not."""
        error = OutOfTurn(f"compiled code called the other agents out of turn: {what}. This is a fault of jax.")
        self._end(error)
        raise error


class Post(Protocol):
    """Interface for sending numbered messages to neighbours and waiting for theirs."""

    def send(self, to: Sequence[int], number: int, form: Form, arrays: Arrays) -> None: ...

    def receive(self, senders: Sequence[int], number: int, form: Form) -> list[bytes]: ...

    def end(self, reason: Exception) -> None: ...


class Collectives:
    """One agent's side of the collective operations on its network.

    Args:
      post: sends and receives the messages.
      index: this agent's number.

    Attributes:
      masks: hide this agent's part of exact sums; None: it is sent as it is.
      turns: the calls that compiled code has made.
      traffic: of all agents, for the collectives so far: what one sends tells what all send.
    """

    def __init__(self, post: Post, network: Network, index: int) -> None:
        self._post, self._network, self._index = post, network, index
        self._neighbors = network.neighbors(index)
        tree = network.tree
        self._parent = None if index == tree.root else tree.parent[index]
        self._children = tree.children(index)
        self.traffic = Traffic()
        self.turns = Turns(post.end)
        self.begin()

    def begin(self, masks: Masks | None = None, gathers: bool = False) -> None:
        """Start a new epoch, in which messages are numbered from the start.

        Args:
          gathers: whether sums are gathered, which only masked ones may be.
        """
        self._number, self.masks = 0, masks
        self._gathers = gathers and masks is not None
        self._marks: Arrays = []  # that are yet to be compared
        self._held: Arrays | None = None  # a sum that the root has yet to send, with its state
        self._told: Arrays | None = None  # the root's state, which has come with a sum
        self.turns.begin()

    def exchange(self, arrays: Arrays, kind: str = "gossip") -> list[Arrays]:
        """Send arrays to all neighbours and return theirs, in ascending order of the neighbours' numbers."""
        number, form = self._next(), Form.of(kind, arrays)
        self._count("gossip", form)
        self._post.send(self._neighbors, number, form, arrays)
        return [arrays_of(raw, form) for raw in self._post.receive(self._neighbors, number, form)]

    def flood(self, arrays: Arrays) -> Arrays:
        """Return the least of all agents' values, element by element; marks that wait are compared on the way."""
        values, allowed = self._taken_marks()
        found = [*arrays, *values, *(-each for each in values), *allowed]
        for _ in range(self._network.diameter):
            for theirs in self.exchange(found, "flood"):
                found = [np.minimum(mine, other) for mine, other in zip(found, theirs, strict=True)]
        if values:
            low, minus_high, least_allowed = found[len(arrays) :]
            self._judge(difference(-minus_high, low) > least_allowed)
        return found[: len(arrays)]

    def total(self, arrays: Arrays, rider: Sequence[RiderForm] = ()) -> Arrays:
        """Return the sum of each array over all agents.

        Args:
          rider: the forms of the root's state, where it comes with this sum: `follow_root` is next, and gives it.
        """
        return self._summed(arrays, rider)

    def total_at(self, arrays: Arrays, rider: Sequence[RiderForm] = ()) -> Arrays:
        """Return the sums over all agents of all arrays but the last, which is a mark: where they were evaluated.

        Where the farthest two places are too far apart, agents have gone different ways and their values do not belong
        together.
        """
        *values, where = arrays
        self.mark(where)
        return self._summed(values, rider)

    def mark(self, numbers: np.ndarray) -> None:
        """Let numbers be compared with the other agents', by the next sum or flood.

        Args:
          numbers: (..., 2): a number, and how far apart those of two agents may be.
        """
        self._marks.append(numbers.copy())  # compiled code lends its memory for the time of a call

    def follow_root(self, state: Arrays) -> Arrays:
        """Return the root's arrays, which have come with the last sum, or come now.

        Where sums are gathered, they are this agent's own, and compared with the others' later, to the bit.
        """
        if self._gathers:
            self.mark(np.array([[fingerprint(state), 0.0]]))
        elif self._told is not None:
            state, self._told = self._told, None
        elif self._held is not None:
            held, self._held = self._held, None
            self.down([*held, *state])
        else:
            state = self.down(state)
        return state

    def _summed(self, arrays: Arrays, rider: Sequence[RiderForm]) -> Arrays:
        """Sum `arrays` over all agents, and compare the marks that wait, in the same messages."""
        if self._gathers and self.masks is not None:
            return self._gathered(arrays, self.masks)
        if self._held is not None or self._told is not None:
            self.turns.refuse("a sum came where the root's state was due")
        parts = arrays if self.masks is None else [self._masked(arrays, self.masks)]
        values, allowed = self._taken_marks()
        extremes = [*[np.maximum] * len(values), *[np.minimum] * len(values)]
        found = self.up([*parts, *values, *values], *[np.add] * len(parts), *extremes)
        sums, between = found[: len(parts)], found[len(parts) :]
        verdict = [difference(*between) > allowed[0]] if between else []
        if self._parent is None and rider and not any(map(np.any, verdict)):
            self._held = [*sums, *verdict]
        else:
            found = self.down([*sums, *verdict, *(np.zeros(*form) for form in rider)])
            sums, verdict = found[: len(parts)], found[len(parts) : len(parts) + len(verdict)]
            for apart in verdict:
                self._judge(apart)
            self._told = found[len(parts) + len(verdict) :] if rider else None
        return sums if self.masks is None else self._unmasked(sums[0], arrays)

    def _gathered(self, arrays: Arrays, masks: Masks) -> Arrays:
        """Sum `arrays` over all agents as `_summed` does, without a tree: everybody adds up what all have sent."""
        values, allowed = self._taken_marks()
        words, *marks = map(np.stack, zip(*self.gather([self._masked(arrays, masks), *values, *allowed]), strict=True))
        if marks:
            everywhere, limits = marks
            self._judge(difference(everywhere.max(axis=0), everywhere.min(axis=0)) > limits.min(axis=0))
        return self._unmasked(words.sum(axis=0, dtype=np.uint64), arrays)

    def gather(self, arrays: Arrays) -> list[Arrays]:
        """Return the arrays of all agents, in the order of their numbers."""
        known, schedule = {self._index: arrays}, self._network.gathering
        for links in schedule.rounds:
            number = self._next()
            for (sender, receiver), sources in links.items():
                if sender == self._index:
                    packed = [np.stack(each) for each in zip(*(known[source] for source in sources), strict=True)]
                    self._post.send([receiver], number, Form.of("gather", packed), packed)
            for (sender, receiver), sources in links.items():
                if receiver == self._index:
                    form = Form.of("gather", [np.empty((len(sources), *array.shape), array.dtype) for array in arrays])
                    [raw] = self._post.receive([sender], number, form)
                    known |= zip(sources, map(list, zip(*arrays_of(raw, form), strict=True)), strict=True)
        rounds, messages, carriers = price(self._network, "gather")
        size = sum(array.nbytes for array in arrays)
        self.traffic += Traffic(rounds, messages, messages * HEADER.size + carriers * size)
        return [known[agent] for agent in range(self._network.size)]

    def _taken_marks(self) -> tuple[Arrays, Arrays]:
        """Take the marks that wait: their numbers, and how far apart these may be, as one array of each, or none."""
        if not self._marks:
            return [], []
        marks, self._marks = np.concatenate([each.ravel() for each in self._marks]).reshape(-1, 2), []
        return [marks[:, 0].copy()], [marks[:, 1].copy()]

    def _judge(self, apart: np.ndarray) -> None:
        """End the epoch where some marks are apart: all agents judge by the same bits."""
        if apart.any():
            reason = OutOfStep("the agents are at different places, or took different decisions")
            self._post.end(reason)
            raise reason

    def up(self, arrays: Arrays, *combine: Combine, kind: str = "up") -> Arrays:
        """Combine this agent's arrays with those of all agents below it in the tree: at the root, with all there are.

        Args:
          combine: one function for all arrays, or one for each.
        """
        number, form = self._next(), Form.of(kind, arrays)
        self._count("pass", form)
        each = combine * len(arrays) if len(combine) == 1 else combine
        with np.errstate(all="ignore"):  # the sampler deals with numbers that are not finite
            for raw in self._post.receive(self._children, number, form):
                theirs = arrays_of(raw, form)
                arrays = [f(mine, other) for f, mine, other in zip(each, arrays, theirs, strict=True)]
        if self._parent is not None:
            self._post.send([self._parent], number, form, arrays)
        return arrays

    def down(self, arrays: Arrays, kind: str = "down") -> Arrays:
        """Return the root's arrays, passed down the tree."""
        number, form = self._next(), Form.of(kind, arrays)
        self._count("pass", form)
        if self._parent is not None:
            [raw] = self._post.receive([self._parent], number, form)
            arrays = arrays_of(raw, form)
        if self._children:
            self._post.send(self._children, number, form, arrays)
        return arrays

    def _masked(self, arrays: Arrays, masks: Masks) -> np.ndarray:
        """Return the arrays as fixed-point words with pads added, so that no agent can read another's numbers.

        Numbers that do not fit into fixed point are sent as zero, and a count of them goes along, several counts to a
        word: where it is not zero, the sum is NaN. That some agent has left the support is all that others learn.
        """
        flat = np.concatenate([array.ravel() for array in arrays]).astype(np.float64)
        good = fits(flat, self._network.size)
        counts = np.zeros(-(-len(flat) * self._counter.itemsize // 8) * 8 // self._counter.itemsize, self._counter)
        counts[: len(flat)] = ~good
        words = np.concatenate([encode(np.where(good, flat, 0.0), self._network.size), counts.view(np.uint64)])
        words += masks.pads(self._number + 1, len(words))  # the number of the message that will carry them
        return words

    def _unmasked(self, summed: np.ndarray, arrays: Arrays) -> Arrays:
        """Decode masked sums to the shapes and dtypes of `arrays`; a sum is NaN where some agent's part did not fit."""
        length = sum(array.size for array in arrays)
        lost = summed[length:].view(self._counter)[:length] > 0
        values = np.where(lost, np.nan, decode(summed[:length], np.float64))
        parts = np.split(values, np.cumsum([array.size for array in arrays])[:-1])
        return [part.reshape(array.shape).astype(array.dtype) for part, array in zip(parts, arrays, strict=True)]

    @property
    def _counter(self) -> np.dtype:
        """Integer type wide enough that no count of agents overflows into the next one in its word."""
        return np.dtype(np.uint8 if self._network.size <= 255 else np.uint32)

    def _count(self, kind: Kind, form: Form) -> None:
        rounds, messages, _ = price(self._network, kind)
        self.traffic += Traffic(rounds, messages, messages * (HEADER.size + form.bytes))

    def _next(self) -> int:
        self._number += 1
        return self._number


def fingerprint(arrays: Arrays) -> float:
    """Return a number of the arrays' bits, which others have with all but no chance: a whole number of 48 bits."""
    found = hashlib.blake2b(digest_size=6)
    for array in arrays:
        found.update(np.ascontiguousarray(array).data)
    return float(int.from_bytes(found.digest(), "big"))


def difference(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Return the greatest minus the least of all agents' numbers: NaN where both are the same infinity."""
    with np.errstate(invalid="ignore"):
        return np.asarray(high - low)
