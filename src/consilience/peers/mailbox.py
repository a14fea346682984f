"""Mailbox that keeps each neighbour's messages until their round comes, and drops everything else.

A neighbour is at most a round or two ahead, so few messages wait at a time. What is dropped is logged, and never stops
the run: a message of another run, one that has been used, one that is not of the form of its round, numbers that are
not finite without a flag; one of an earlier epoch is not even logged. The round goes on waiting for the right message.
Those of later rounds are kept too; of too many, the farthest ahead are dropped. Numbers that are not finite, and have a
flag, are honest: the sampler rejects them, or the chain has diverged. Who sent the first of them is logged.

A wait has no time limit. It is reported when it is long for this run, by the rounds so far; and where a neighbour has
sent a wrong message for this round and then nothing, the two agents have taken different turns: `OutOfStep`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from ..neighbors import Form, Malformed, Message, OutOfStep, fault_of, header_of, pack, unpack
from .session import Links

AHEAD = 64  # rounds that a neighbour may be ahead
MOST_KEPT = 1 << 30  # bytes of a neighbour's messages that wait, besides one
SHORTEST_PATIENCE = 1.0  # seconds
PATIENCE = 20  # typical waits after which a wait is long
SAID = 20  # refusals of one sender, after which only every thousandth is logged

log = logging.getLogger("consilience.peers")


def is_said(count: int) -> bool:
    """Tell whether to log a sender's refusal number `count`: no sender may fill the log with refusals."""
    return count <= SAID or count % 1000 == 0


class Mailbox:
    """One agent's mailbox, which sends the messages of rounds and waits for those of its neighbours.

    The thread that wants a message takes it from the links, checks it and uses it, which is the fastest way; other
    threads may only look, and `end` its wait.

    Args:
      run: the run's identifier, eight bytes.
      names: names of all agents.
      neighbors: numbers of the agents that this one has links with.
      deliver: sends bytes to a neighbour.
      pull: waits for the next bytes from a neighbour and returns them; None, if it is woken.
      wake: makes a `pull` of bytes from a neighbour return.

    Attributes:
      messages, bytes: how many have been sent, headers included.
      payload: bytes sent, without headers.
      refused: how many messages have been refused, by sender.
      ended: why the rounds of this epoch have ended; None while they have not.
    """

    def __init__(
        self,
        run: bytes,
        names: Sequence[str],
        neighbors: Sequence[int],
        deliver: Callable[[int, bytes], None],
        pull: Callable[[int], bytes | None],
        wake: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._run, self._names, self._deliver, self._pull, self._wake = run, names, deliver, pull, wake
        self._kept: dict[int, list[Message]] = {neighbor: [] for neighbor in neighbors}
        self._used: dict[int, int] = {}
        self._not_finite: set[int] = set()  # who has sent numbers that are not finite in this epoch
        self._epoch, self._number = 0, 0
        self._usual: tuple[int, Form | None, bytes] = (0, None, b"")  # number and form of a round, and its header
        self.ended: Exception | None = None
        self._typical = 0.0
        self._wanted: tuple[int, float, bool] | None = None  # from whom, since when, and whether a wrong one came
        self._ending = threading.Lock()
        self.messages = self.bytes = self.payload = 0
        self.refused: Counter[int] = Counter()

    @classmethod
    def over(cls, links: Links) -> Mailbox:
        """Make the mailbox of the agent that has these links, on which rounds are a topic that is pulled."""
        place = links.place
        names = place.names
        return cls(
            bytes.fromhex(place.run_id),
            names,
            [names.index(name) for name in place.neighbors],
            lambda neighbor, raw: links.send("round", names[neighbor], raw),
            lambda neighbor: links.pull("round", names[neighbor]),
            lambda neighbor: links.wake("round", names[neighbor]),
        )

    def begin(self, epoch: int) -> None:
        """Start a new epoch, and keep messages of it that are there already: others may have begun before."""
        with self._ending:
            self._epoch, self._number, self.ended, self._used = epoch, 0, None, {}
        self._usual = (0, None, b"")
        self._not_finite.clear()
        for kept in self._kept.values():
            kept[:] = [message for message in kept if message.epoch >= epoch]

    def end(self, reason: Exception) -> None:
        """End this epoch's rounds: who waits for a message, now or later, gets `reason` raised. From any thread."""
        with self._ending:
            self.ended = self.ended or reason
        wanted = self._wanted  # `receive` sets it, then looks at `ended`: one of the two sees the other
        if wanted is not None:
            self._wake(wanted[0])

    def send(self, to: Sequence[int], number: int, form: Form, arrays: Sequence[np.ndarray]) -> None:
        if self.ended is not None:
            raise self.ended
        self._number = number
        raw = pack(self._header(number, form), form, arrays)
        for neighbor in to:
            self._deliver(neighbor, raw)
        self.messages += len(to)
        self.bytes += len(to) * len(raw)
        self.payload += len(to) * form.bytes

    def receive(self, senders: Sequence[int], number: int, form: Form) -> list[bytes]:
        """Wait for the senders' messages of a round, which are of `form`, and return them."""
        if not senders:
            return []
        began = time.monotonic()
        self._number, usual = number, self._header(number, form)
        size = len(usual) + form.bytes
        found = []
        try:
            for sender in senders:
                self._wanted = (sender, began, False)
                raw = None if self._kept[sender] or self.ended is not None else self._pull(sender)
                # Nearly always it is the right message, and needs no further checks.
                if raw is None or not raw.startswith(usual) or len(raw) != size or fault_of(raw, form) is not None:
                    raw = self._awaited(sender, number, form, raw)
                self._used[sender] = number
                found.append(raw)
        finally:
            self._wanted = None
        self._settle(time.monotonic() - began)
        return found

    def _awaited(self, sender: int, number: int, form: Form, raw: bytes | None) -> bytes:
        """Wait for the sender's right message of a round, after `raw` and whatever else comes before it."""
        began, stray = time.monotonic(), False
        while True:
            if raw is not None:
                self.arrive(sender, raw)
            self._wanted = (sender, began, stray)
            if self.ended is not None:
                raise self.ended
            message = self._kept_of(sender, number)
            if message is None:
                raw = self._pull(sender)
            elif self._is_right(sender, message, form):
                kept = self._kept[sender]
                kept[:] = [other for other in kept if other.round > message.round]
                return message.raw
            else:
                raw, stray = None, True
            self.tick()

    def _header(self, number: int, form: Form) -> bytes:
        """Return the header of a round's messages with finite numbers: the same for this agent and its neighbours."""
        if self._usual[0] != number or self._usual[1] is not form:
            self._usual = (number, form, header_of(self._run, self._epoch, number, form))
        return self._usual[2]

    def _kept_of(self, sender: int, number: int) -> Message | None:
        """Remove and return a kept message of this round, which came before its time; None: there is none."""
        for k, message in enumerate(self._kept[sender]):
            if message.round == (self._epoch, number):
                return self._kept[sender].pop(k)
        return None

    def _is_right(self, sender: int, message: Message, form: Form) -> bool:
        """Tell whether a message of this round is what it should be, and refuse it if not."""
        fault = message.fault(form)
        if fault is not None:
            self._refuse(sender, f"round {message.number}: {fault}")
        elif message.flags and sender not in self._not_finite:
            self._not_finite.add(sender)
            log.info(
                "from %s come numbers that are not finite, from round %d on: its own, or in a sum that it passes on",
                self._names[sender],
                message.number,
            )
        return fault is None

    @property
    def waiting_for(self) -> int | None:
        """Number of the agent that a round has been waiting for, for longer than `patience`; None: no one."""
        wanted = self._wanted
        if wanted is None or time.monotonic() - wanted[1] <= self.patience:
            return None
        return wanted[0]

    def tick(self) -> None:
        """End a long wait for an agent that sent a wrong message; to be called now and then, from any thread."""
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
        """Keep a message until its round comes, unless it is to be dropped."""
        try:
            message = unpack(self._run, raw)
        except Malformed as reason:
            self._refuse(sender, str(reason))
            return
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
        if len(kept) > AHEAD or sum(len(each.raw) for each in kept) > MOST_KEPT:
            self._make_room(sender, kept)

    def _make_room(self, sender: int, kept: list[Message]) -> None:
        kept[:] = [message for message in kept if message.round >= (self._epoch, self._number)]
        while len(kept) > AHEAD or (len(kept) > 1 and sum(len(each.raw) for each in kept) > MOST_KEPT):
            farthest = max(kept, key=lambda message: message.round)
            kept.remove(farthest)
            self._refuse(
                sender, f"{len(kept)} of its messages are waiting, and round {farthest.number} is the last of all"
            )

    def _refuse(self, sender: int, reason: str) -> None:
        self.refused[sender] += 1
        count = self.refused[sender]
        if is_said(count):
            log.warning("refused a message from %s (%d so far): %s", self._names[sender], count, reason)
