"""Those who meet on the wire: agents with links, mailbox and board but no model, and intruders.

All of it is real: Zenoh over mutual TLS, on this machine, at ports that are free when a test begins.
"""

import json
import queue
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import zenoh

from consilience.peers import Authority, Board, Credentials, Identity, Links, Mailbox, Place, Verifier

from ..patience import PATIENCE
from .crew import free_ports

RUN = "0123456789abcdef"
RING = ("a", "b", "c", "d")  # a is under attack; b and d are its neighbours, c is not
HOST = "127.0.0.1"
NOTHING_MORE = 0.4  # seconds in which what was going to arrive has arrived
REFUSED = 0.4  # seconds in which one that is turned away tries a few times


def until(condition, seconds=PATIENCE):
    """Wait for something that is to happen."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


@dataclass
class Ring:
    """Four agents of one run: who they are, and where."""

    folder: Path
    run_id: str = RUN
    authority: Authority = field(default_factory=lambda: Authority.create(RUN))
    ports: dict[str, int] = field(default_factory=lambda: dict(zip(RING, free_ports(len(RING)), strict=True)))
    _number: count = field(default_factory=count)

    def endpoint(self, name):
        return f"tls/{HOST}:{self.ports[name]}"

    def place(self, name):
        where = RING.index(name)
        neighbors = sorted({RING[where - 1], RING[(where + 1) % len(RING)]})
        return Place(self.run_id, name, RING, self.endpoint(name), {other: self.endpoint(other) for other in neighbors})

    def credentials(self, name, days=825, authority=None):
        """New ones, of this run's authority. Another may be given for the other end to be checked with."""
        folder = self.folder / f"{name}-{next(self._number)}"
        folder.mkdir(parents=True)
        key, certificate = self.authority.issue(name, [HOST], days)
        made = {"key": key, "certificate": certificate, "authority": (authority or self.authority).certificate}
        for file, content in made.items():
            (folder / f"{file}.pem").write_bytes(content)
        return Credentials(*(folder / f"{file}.pem" for file in made))

    def identity(self, name):
        return identity_of(self.credentials(name))

    def agent(self, name):
        return Agent(self.place(name), self.credentials(name))


def identity_of(credentials):
    return Identity(credentials.key.read_bytes(), credentials.certificate.read_bytes())


class Agent:
    """Links, mailbox and board, put together as `peering.Member` does.

    Attributes:
      heard: topic, sender and bytes of whatever came in.
      seen: neighbours' tokens, as they came and went.
      troubles: what was raised by what came in. Zenoh does not pass it on.
    """

    def __init__(self, place, credentials):
        self.place, self.heard, self.seen, self.troubles = place, [], [], []
        numbers = [place.names.index(name) for name in place.neighbors]
        self._come = {number: queue.SimpleQueue() for number in numbers}  # what rounds have yet to look at
        self.mailbox = Mailbox(bytes.fromhex(place.run_id), place.names, numbers, self._send_round, self._pull_round)
        self.identity = identity_of(credentials)
        verifier = Verifier(credentials.authority.read_bytes())
        self.board = Board(
            self.identity, verifier, place.names, [*place.neighbors], self._send_card, lambda: None, lambda: {"n": 1}
        )
        self.links = Links(place, credentials, self._arrive, self._see, lambda: b"well")
        self.links.open()
        self.board.open()

    @property
    def alive(self):
        """The neighbours that are there."""
        return {name for name, is_there in dict(self.seen).items() if is_there}

    def look(self):
        """At all that has come, as the next rounds would."""
        for sender, come in self._come.items():
            while not come.empty():
                self.mailbox.arrive(sender, come.get())

    @property
    def refused(self):
        if self.mailbox._wanted is None:  # else a round is at it
            self.look()
        return {self.place.names[sender]: count for sender, count in self.mailbox.refused.items()}

    @property
    def linked(self):
        """How many sessions this one has a link with, whoever they are."""
        return len(list(self.links.session.info.peers_zid()))

    def close(self):
        self.board.close()
        self.links.close()

    def _send_round(self, neighbor, raw):
        self.links.send("round", self.place.names[neighbor], raw)

    def _pull_round(self, neighbor):
        try:
            return self._come[neighbor].get(timeout=0.02)
        except queue.Empty:
            return None

    def _send_card(self, name, raw):
        self.links.send("board", name, raw)

    def _arrive(self, topic, sender, raw):
        with self._noted():
            self.heard.append((topic, sender, raw))
            if topic == "round":
                self._come[self.place.names.index(sender)].put(raw)
            else:
                self.board.arrive(sender, raw)

    def _see(self, name, is_there):
        with self._noted():
            self.seen.append((name, is_there))
            if is_there:
                self.board.greet(name)

    @contextmanager
    def _noted(self):
        try:
            yield
        except BaseException as error:
            self.troubles.append(error)
            raise


class Intruder:
    """A session that says what it likes.

    Args:
      dials: an endpoint; ZError if that does not take it.
      listens: an endpoint.
      tls: as `Credentials.tls` gives it, or less.
      seconds: for which it dials; few where it is to be refused.
    """

    def __init__(self, tls, dials=None, listens=None, seconds=PATIENCE, **more):
        config = {
            "mode": "peer",
            "connect": {
                "endpoints": [] if dials is None else [dials],
                "timeout_ms": int(seconds * 1000),
                "exit_on_failure": True,
                "retry": {"period_init_ms": 100, "period_max_ms": 100, "period_increase_factor": 1},
            },
            "listen": {"endpoints": [] if listens is None else [listens]},
            "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
            "transport": {"shared_memory": {"enabled": False}, "link": {"tls": tls}},
            **more,
        }
        self.session = zenoh.open(zenoh.Config.from_json5(json.dumps(config)))
        self._declared = []

    def put(self, key, raw):
        self.session.put(key, raw, congestion_control=zenoh.CongestionControl.BLOCK, express=True)

    def listen_to(self, key):
        """What others send there from now on, in a list that grows."""
        found = []
        self._declared.append(
            self.session.declare_subscriber(
                key, lambda sample: found.append(sample.payload.to_bytes()), allowed_origin=zenoh.Locality.REMOTE
            )
        )
        return found

    def claim(self, key):
        """A liveliness token; call the result to take it away."""
        self._declared.append(self.session.liveliness().declare_token(key))
        return self._declared[-1].undeclare

    def close(self):
        self.session.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
