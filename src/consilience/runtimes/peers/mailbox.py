"""Messages of rounds, kept until their round comes; everything else is dropped, and said.

A neighbour is at most a round or two ahead, so few messages wait at a time. What is dropped never stops the run: a
message of another run, of another epoch, one that has been used, one that is not of the form of its round, numbers that
are not finite and do not say so. The round goes on waiting for a message that is right; one that came meanwhile is kept
as well, and of too many those that are the farthest ahead have to go.

A wait has no end of its own. It is said to be one when it is long for this run, by the rounds so far; and where a
neighbour has sent something else than this round's message and then nothing, the two have taken different turns.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from .wire import Form, Malformed, Message, arrays_of, pack, unpack

AHEAD = 64  # rounds that a neighbour may be ahead
SHORTEST_PATIENCE = 1.0  # seconds
PATIENCE = 20  # typical waits
PULSE = 0.25  # seconds between two looks at the clock while waiting
SAID = 20  # refusals of one sender, before only every thousandth is said

log = logging.getLogger("consilience.peers")


class Interrupted(Exception):  # noqa: N818
    """The rounds of this epoch are over, with the reason."""


class OutOfStep(Interrupted):
    """Agents have taken different turns."""


class Mailbox:
    """The post of one agent.

    Args:
      run: the run's eight bytes.
      names: of all agents.
      neighbors: the numbers of those whom this one has links with.
      deliver: sends bytes to a neighbour.

    Attributes:
      waiting_for: whom a round is waiting for, and since when (on the monotonic clock); None: nobody.
      sent: messages and bytes handed over, headers included, and `payload`, without them.
      refused: messages dropped, by sender.
      ended: why the rounds of this epoch are over, if they are.
    """

    def __init__(
        self, run: bytes, names: Sequence[str], neighbors: Sequence[int], deliver: Callable[[int, bytes], None]
    ) -> None:
        self._run, self._names, self._deliver = run, names, deliver
        self._arrived = threading.Condition()
        self._kept: dict[int, list[Message]] = {neighbor: [] for neighbor in neighbors}
        self._used: dict[int, int] = {}
        self._epoch, self._number = 0, 0
        self.ended: Interrupted | None = None
        self._typical = 0.0
        self.waiting_for: tuple[int, float] | None = None
        self.messages = self.bytes = self.payload = 0
        self.refused: Counter[int] = Counter()

    def begin(self, epoch: int) -> None:
        """A new epoch. Messages of it may be there already: others may have begun before."""
        with self._arrived:
            self._epoch, self._number, self.ended, self._used = epoch, 0, None, {}
            for kept in self._kept.values():
                kept[:] = [message for message in kept if message.epoch >= epoch]

    def end(self, reason: Interrupted) -> None:
        """Whoever waits for a message, or will in this epoch, gets `reason` instead."""
        with self._arrived:
            self.waiting_for = None
            self.ended = self.ended or reason
            self._arrived.notify_all()

    def send(self, to: Sequence[int], number: int, form: Form, arrays: Sequence[np.ndarray]) -> None:
        if self.ended is not None:
            raise self.ended
        self._number = number
        raw = pack(self._run, self._epoch, number, form, arrays)
        for neighbor in to:
            self._deliver(neighbor, raw)
        self.messages += len(to)
        self.bytes += len(to) * len(raw)
        self.payload += len(to) * form.bytes

    def receive(self, sender: int, number: int, form: Form) -> list[np.ndarray]:
        """The sender's arrays of a round; waits for them."""
        began = time.monotonic()
        stray = False
        with self._arrived:
            self._number = number
            kept = self._kept[sender]
            while True:
                if self.ended is not None:
                    raise self.ended
                for message in [message for message in kept if message.round == (self._epoch, number)]:
                    kept.remove(message)
                    try:
                        arrays = arrays_of(message, form)
                    except Malformed as reason:
                        self._refuse(sender, f"round {number}: {reason}")
                        stray = True
                        continue
                    self._used[sender] = number
                    self._settle(time.monotonic() - began)
                    return arrays
                self._wait(sender, began, stray)

    def _wait(self, sender: int, began: float, stray: bool) -> None:
        self._arrived.wait(PULSE)
        waited = time.monotonic() - began
        if waited > self.patience:
            self.waiting_for = (sender, began)
            if stray:
                self.ended = OutOfStep(f"{self._names[sender]} and this agent are at different steps")

    @property
    def patience(self) -> float:
        """Seconds after which a wait is long, for this run."""
        return max(SHORTEST_PATIENCE, PATIENCE * self._typical)

    def _settle(self, waited: float) -> None:
        self.waiting_for = None
        self._typical += (waited - self._typical) * (0.5 if waited < self._typical else 0.1)

    def arrive(self, sender: int, raw: bytes) -> None:
        """Of a link's thread."""
        try:
            message = unpack(self._run, raw)
        except Malformed as reason:
            self._refuse(sender, str(reason))
            return
        with self._arrived:
            if message.epoch < self._epoch:
                return  # was on its way when the agents met again
            kept = self._kept[sender]
            if message.epoch == self._epoch:
                if message.number <= self._used.get(sender, 0) or message in kept:
                    self._refuse(sender, f"round {message.number} has come before: a replay")
                    return
                if message.number > self._number + AHEAD:
                    self._refuse(sender, f"round {message.number} is far ahead of {self._number}")
                    return
            kept.append(message)
            if len(kept) > AHEAD:
                self._make_room(sender, kept)
            self._arrived.notify_all()

    def _make_room(self, sender: int, kept: list[Message]) -> None:
        kept[:] = [message for message in kept if message.round >= (self._epoch, self._number)]
        if len(kept) > AHEAD:
            farthest = max(kept, key=lambda message: message.round)
            kept.remove(farthest)
            self._refuse(sender, f"{AHEAD} of its messages are waiting, and round {farthest.number} is the last of all")

    def _refuse(self, sender: int, reason: str) -> None:
        self.refused[sender] += 1
        count = self.refused[sender]
        if count <= SAID or count % 1000 == 0:
            log.warning("refused a message from %s (%d so far): %s", self._names[sender], count, reason)
