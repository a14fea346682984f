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
      pull: waits for the next bytes from a neighbour, in the thread that wants them, which is the fastest way; empty
        bytes wake it. Without it, bytes come by `arrive` only.
      wake: lets a `pull` of bytes from a neighbour return.

    Attributes:
      sent: messages and bytes handed over, headers included, and `payload`, without them.
      refused: messages dropped, by sender.
      ended: why the rounds of this epoch are over, if they are.
    """

    def __init__(
        self,
        run: bytes,
        names: Sequence[str],
        neighbors: Sequence[int],
        deliver: Callable[[int, bytes], None],
        pull: Callable[[int], bytes] | None = None,
        wake: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._run, self._names, self._deliver, self._pull, self._wake = run, names, deliver, pull, wake
        self._arrived = threading.Condition()
        self._kept: dict[int, list[Message]] = {neighbor: [] for neighbor in neighbors}
        self._used: dict[int, int] = {}
        self._epoch, self._number = 0, 0
        self.ended: Interrupted | None = None
        self._typical = 0.0
        self._wanted: tuple[int, float, bool] | None = None  # from whom, since when, and whether another one came
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
            self.ended = self.ended or reason
            self._arrived.notify_all()
            wanted = self._wanted
        if wanted is not None:
            self._wake(wanted[0])

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
        self._number = number
        try:
            while True:
                with self._arrived:
                    self._wanted = (sender, began, stray)
                    if self.ended is not None:
                        raise self.ended
                    arrays, is_stray = self._taken(sender, number, form)
                    if arrays is not None:
                        self._settle(time.monotonic() - began)
                        return arrays
                    stray = stray or is_stray
                    if self._pull is None:
                        self._arrived.wait(PULSE)
                if self._pull is not None:
                    raw = self._pull(sender)
                    if raw:
                        self.arrive(sender, raw)
                self.tick()
        finally:
            self._wanted = None

    def _taken(self, sender: int, number: int, form: Form) -> tuple[list[np.ndarray] | None, bool]:
        """The arrays of a message that is there, if one is right; and whether one was not."""
        kept, is_stray = self._kept[sender], False
        for message in [message for message in kept if message.round == (self._epoch, number)]:
            kept.remove(message)
            try:
                arrays = arrays_of(message, form)
            except Malformed as reason:
                self._refuse(sender, f"round {number}: {reason}")
                is_stray = True
                continue
            self._used[sender] = number
            return arrays, is_stray
        return None, is_stray

    @property
    def waiting_for(self) -> tuple[int, float] | None:
        """Whom a round has been waiting for, for long, and since when (on the monotonic clock)."""
        wanted = self._wanted
        if wanted is None or time.monotonic() - wanted[1] <= self.patience:
            return None
        return wanted[:2]

    def tick(self) -> None:
        """Look at the clock, now and then, from any thread: a wait for one who sent something else is no wait."""
        wanted = self._wanted
        if wanted is not None and wanted[2] and time.monotonic() - wanted[1] > self.patience:
            self.end(OutOfStep(f"{self._names[wanted[0]]} and this agent are at different steps"))

    @property
    def patience(self) -> float:
        """Seconds after which a wait is long, for this run."""
        return max(SHORTEST_PATIENCE, PATIENCE * self._typical)

    def _settle(self, waited: float) -> None:
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
