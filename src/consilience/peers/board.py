"""Board of signed cards, on which every agent describes itself, and which neighbours pass on until all know them.

Each agent has one card, and keeps the newest it has seen of every other agent's. A new one is passed on to the
neighbours, and a neighbour that appears is shown them all. So all agents come to know all cards, over whatever links
there are, and lost messages do no harm: every agent shows a new revision of its card with every pulse.

A card is signed with its agent's key, under a certificate of the run's authority: nobody can write another's. Cards of
one agent are ordered by *incarnation*, which grows each time it is started, and *revision*.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .card import Card
from .certificates import Identity, Verifier
from .mailbox import is_said

PULSE = 1.0  # seconds after which an agent shows its card again
ASLEEP = 3 * PULSE  # seconds without a pulse after which this process has been asleep
LENGTHS = struct.Struct("<III")
LARGEST = 1 << 20  # bytes of a card
MOST_WAITING = 10_000  # cards to be shown to a neighbour

log = logging.getLogger("consilience.peers")


class Board:
    """One agent's copy of all agents' cards, kept up to date with its neighbours.

    Args:
      identity: this agent's key and certificate.
      verifier: checks that cards are signed under certificates of the run's authority.
      names: names of all agents.
      neighbors: names of the agents to show cards to.
      show: sends a card to a neighbour.
      changed: called after another's card has changed, and with every pulse, without the lock.
      report: returns the report for this agent's card; called with every pulse.

    Attributes:
      refused: how many cards have been refused, by who showed them.
    """

    def __init__(
        self,
        identity: Identity,
        verifier: Verifier,
        names: Sequence[str],
        neighbors: Sequence[str],
        show: Callable[[str, bytes], None],
        changed: Callable[[], None],
        report: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._identity, self._verifier, self._names = identity, verifier, names
        self._neighbors, self._show, self._changed, self._report = neighbors, show, changed, report
        self._cards: dict[str, Card] = {}
        self._raw: dict[str, bytes] = {}
        self._seen: dict[str, float] = {}
        self._lock = threading.Condition()
        self._to_show: dict[str, queue.Queue[bytes | None]] = {name: queue.Queue(MOST_WAITING) for name in neighbors}
        self.refused: Counter[str] = Counter()
        self._closed = False
        self._threads: list[threading.Thread] = []
        self.own = Card(identity.name, time.time_ns())
        self._put(self.own)

    def open(self) -> None:
        """Start to show cards to the neighbours; to be called once the links are there."""
        self._threads = [threading.Thread(target=self._deliver, args=(name,), daemon=True) for name in self._neighbors]
        self._threads.append(threading.Thread(target=self._pulse, daemon=True))
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Show the cards that are still waiting to be shown, then stop."""
        self._closed = True
        for to_show in self._to_show.values():
            with contextlib.suppress(queue.Full):
                to_show.put_nowait(None)
        for thread in self._threads:
            thread.join(timeout=2 * PULSE)

    # --- this agent's own card -------------------------------------------------------------------------

    def update(self, **changes: Any) -> Card:
        """Make a new revision of this agent's card, with these fields changed, and show it to the neighbours."""
        with self._lock:
            self.own = self.own.changed(revision=self.own.revision + 1, **changes)
            self._put(self.own)
            raw = self._raw[self.own.name]
        self._show_all(raw)
        return self.own

    def _put(self, card: Card) -> None:
        body = card.to_bytes()
        self._raw[card.name] = _framed(body, self._identity.sign(body), self._identity.certificate)
        self._cards[card.name], self._seen[card.name] = card, time.monotonic()

    # --- all agents' cards -------------------------------------------------------------------------------

    @property
    def cards(self) -> dict[str, Card]:
        """The newest card of every agent that has been heard of, by name."""
        with self._lock:
            return dict(self._cards)

    def silence(self, name: str) -> float:
        """Return the seconds since an agent was heard of, over whatever links."""
        with self._lock:
            now = time.monotonic()
            if now - self._seen[self.own.name] > ASLEEP:
                return 0.0  # this process itself has been asleep, and has yet to read what has come meanwhile
            return now - self._seen[name] if name in self._seen else float("inf")

    def wait(self, seconds: float) -> None:
        """Wait until a card changes, for so many seconds at most."""
        with self._lock:
            self._lock.wait(seconds)

    def greet(self, neighbor: str) -> None:
        """Show all cards to a neighbour that has just come."""
        with self._lock:
            cards = list(self._raw.values())  # this agent's own comes first, then those it has heard of
        for raw in cards:
            self._later(neighbor, raw)

    def arrive(self, sender: str, raw: bytes) -> None:
        """Check a card that a neighbour shows, its own or another's; keep it and pass it on if it is new."""
        try:
            card = self._believed(raw)
        except ValueError as reason:
            self.refused[sender] += 1
            count = self.refused[sender]
            if is_said(count):
                log.warning("refused a card from %s (%d so far): %s", sender, count, reason)
            return
        with self._lock:
            known = self._cards.get(card.name)
            if known is not None and card.age <= known.age:
                return
            if card.name == self.own.name:
                # From an earlier start of this agent: this start must count as newer, whatever the clock says.
                self.own = self.own.changed(incarnation=card.incarnation + 1)
                self._put(self.own)
                self._lock.notify_all()
                return
            self._cards[card.name], self._raw[card.name] = card, raw
            self._seen[card.name] = time.monotonic()
            self._lock.notify_all()
        self._show_all(raw, but=sender)
        self._changed()

    def _believed(self, raw: bytes) -> Card:
        body, signature, certificate = _unframed(raw)
        signer = self._verifier.check(certificate, body, signature)
        card = Card.from_bytes(body, signer, self.own.name)
        if card.name != signer:
            raise ValueError(f"a card of {card.name[:40]!r} that {signer} has signed")
        for name in (card.name, *card.without):
            if name not in self._names:
                raise ValueError(f"a card of {name[:40]!r}, who is no agent of this run")
        return card

    def _show_all(self, raw: bytes, but: str | None = None) -> None:
        for neighbor in self._neighbors:
            if neighbor != but:
                self._later(neighbor, raw)

    def _later(self, neighbor: str, raw: bytes) -> None:
        try:
            self._to_show[neighbor].put_nowait(raw)
        except queue.Full:
            log.debug("a card is shown at the next pulse: there are too many")

    def _deliver(self, neighbor: str) -> None:
        """Send a neighbour its cards, in its own thread: neither readers nor other neighbours wait for a slow link."""
        while (raw := self._to_show[neighbor].get()) is not None:
            try:
                self._show(neighbor, raw)
            except Exception as error:
                log.debug("a card could not be shown to %s: %s", neighbor, error)

    def _pulse(self) -> None:
        while not self._closed:
            time.sleep(PULSE)
            with self._lock:
                now = time.monotonic()
                if now - self._seen[self.own.name] > ASLEEP:
                    self._seen = dict.fromkeys(self._seen, now)
            try:
                self.update(report=self._report())
                self._changed()
            except Exception:  # the pulse goes on: without it, all others would take this agent for lost
                log.exception("a pulse failed")


def _framed(body: bytes, signature: bytes, certificate: bytes) -> bytes:
    return LENGTHS.pack(len(body), len(signature), len(certificate)) + body + signature + certificate


def _unframed(raw: bytes) -> tuple[bytes, bytes, bytes]:
    if not LENGTHS.size <= len(raw) <= LARGEST:
        raise ValueError(f"{len(raw)} bytes are no card")
    lengths = LENGTHS.unpack_from(raw)
    if sum(lengths) != len(raw) - LENGTHS.size:
        raise ValueError("a card that is not as long as it says")
    parts, place = [], LENGTHS.size
    for length in lengths:
        parts.append(raw[place : place + length])
        place += length
    return parts[0], parts[1], parts[2]
