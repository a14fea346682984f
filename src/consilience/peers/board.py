"""Board of signed cards, on which every agent describes itself, and which neighbours pass on until all know them.

Each agent has one card, and keeps the newest it has seen of every other agent's. A new one is passed on to the
neighbours, and a neighbour that appears is shown them all. So all agents come to know all cards, over whatever links
there are, and lost messages do no harm: every agent shows a new revision of its card with every pulse.

A card is signed with its agent's key, under a certificate of the run's authority: nobody can write another's. Cards of
one agent are ordered by *incarnation*, which grows each time it is started, and *revision*.
"""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import re
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from .certificates import Identity, Untrusted, Verifier
from .mailbox import is_said

PULSE = 1.0  # seconds after which an agent shows its card again
ASLEEP = 3 * PULSE  # seconds without a pulse after which this process has been asleep
LENGTHS = struct.Struct("<III")
LARGEST = 1 << 20  # bytes of a card
LONGEST_WISH = 500  # characters of a wish to stop
MOST_WAITING = 10_000  # cards to be shown to a neighbour

log = logging.getLogger("consilience.peers")


@dataclass(frozen=True)
class Card:
    """An agent's description of itself: where it is in the run, what it runs, and what it wants.

    Attributes:
      epoch: number of the meeting it is at, or was at last.
      phase: joining, ready (to start in this epoch), running, done (with all draws on disk), complete (so are all
        others), stopped, failed.
      bases: the iterations it could go back to when this epoch began, besides the start.
      attempt: how often agents that had taken different turns have started anew with other random numbers.
      without: the agents that this one gives up; they are left out when more than half of all agents do.
      stop: why all agents should end, to be resumed later; empty: they should not.
      key: a public key of this epoch, for masks; hexadecimal.
      identity: facts in which all agents must agree, as text by name.
      report: its progress and its links, for people.
    """

    name: str
    incarnation: int
    revision: int = 0
    epoch: int = 0
    phase: str = "joining"
    bases: tuple[int, ...] = ()
    attempt: int = 0
    without: tuple[str, ...] = ()
    stop: str = ""
    key: str = ""
    identity: Mapping[str, str] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)

    @property
    def age(self) -> tuple[int, int]:
        return self.incarnation, self.revision

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, raw: bytes) -> Card:
        """Read a card, and refuse what is not one by a ValueError."""
        try:
            found = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"a card that is not JSON: {error}") from None
        if not isinstance(found, dict) or set(found) != {known.name for known in fields(cls)}:
            raise ValueError("a card without the fields of one")
        for name in ("without", "bases"):
            found[name] = tuple(found[name]) if isinstance(found[name], list) else None
        for name, kind in _KINDS.items():
            value: Any = found[name]
            if type(value) is not kind or (isinstance(value, int) and not 0 <= value < _MOST.get(name, 2**63)):
                raise ValueError(f"a card whose {name} is {str(value)[:40]!r}")
        if not all(isinstance(value, str) for value in (*found["without"], *found["identity"].values())):
            raise ValueError("a card with a list or table of something else than text")
        if not all(type(base) is int and base >= 0 for base in found["bases"]):
            raise ValueError("a card with bases that are no iterations")
        if not re.fullmatch(r"(?:[0-9a-f]{64})?", found["key"]):
            raise ValueError("a card with a key that is none")
        # The report may be shown to people as it is: entries that are unknown, or of a wrong type, are left out.
        found["report"] = {
            name: value for name, value in found["report"].items() if name in _REPORT and _REPORT[name](value)
        }
        found["stop"] = _printable(found["stop"])
        return cls(**found)


_KINDS: dict[str, type] = {
    **dict.fromkeys(("name", "phase", "stop", "key"), str),
    **dict.fromkeys(("incarnation", "revision", "epoch", "attempt"), int),
    **dict.fromkeys(("without", "bases"), tuple),
    "identity": dict,
    "report": dict,
}
_MOST = {"epoch": 2**32, "attempt": 2**31}  # limits of the header of messages, and of what random keys are made from


def _printable(text: str) -> str:
    return "".join(letter for letter in text if letter.isprintable())[:LONGEST_WISH]


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) or value is None


def _are_words(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(word, str) and word.isprintable() for word in values)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and _are_words([*value, *value.values()])


_REPORT: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("iteration", "total", "messages", "refused"), _is_count),
    **dict.fromkeys(("acceptance", "iterations_per_second", "rounds_per_second", "megabytes"), _is_number),
    **dict.fromkeys(("waiting_for", "without"), _are_words),
    "neighbors": _is_table,
}


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
            self.own = replace(self.own, revision=self.own.revision + 1, **changes)
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
        except (ValueError, RecursionError) as reason:
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
                self.own = replace(self.own, incarnation=card.incarnation + 1)
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
        try:
            signer = self._verifier.check(certificate, body, signature)
        except Untrusted as reason:
            raise ValueError(str(reason)) from None
        card = Card.from_bytes(body)
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
