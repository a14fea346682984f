"""Network links of an agent: Zenoh in peer mode, with mutual TLS, to its neighbours and nobody else.

    consilience/RUN/round/SENDER/RECEIVER    the messages of rounds
    consilience/RUN/board/SENDER/RECEIVER    the agents' cards
    consilience/RUN/alive/AGENT              a token, there as long as the agent is
    consilience/RUN/status/AGENT             answers an observer, and nobody else, how the run is

Everything is denied but a list of what is allowed, by the common name of the other end's certificate: a neighbour
publishes on its own edges, in its own direction. Of the two agents of an edge, the one that comes later in the list of
names dials, over and over until the other answers.
"""

from __future__ import annotations

import json
import logging
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._extras import require
from .._refused import Refused

LEASE = 3000  # milliseconds without a sign of life after which a link is given up
PATIENT = 3_600_000_000  # microseconds that a message may wait for a slow link
# Messages of one neighbour that wait for their rounds. Honest ones are a few; of more, the oldest are dropped: if the
# link had to wait instead, so would those of all other neighbours, which Zenoh reads in the same threads.
WAITING = 1024
TOPICS = ("round", "board")
OBSERVER = "observer"

log = logging.getLogger("consilience.peers")


@dataclass(frozen=True)
class Credentials:
    """Paths of an agent's private key, its certificate and the authority's certificate."""

    key: Path
    certificate: Path
    authority: Path

    def tls(self) -> dict[str, Any]:
        key, certificate = str(self.key), str(self.certificate)
        return {
            "root_ca_certificate": str(self.authority),
            "listen_private_key": key,
            "listen_certificate": certificate,
            "connect_private_key": key,
            "connect_certificate": certificate,
            "enable_mtls": True,
            "verify_name_on_connect": True,
        }


@dataclass(frozen=True)
class Place:
    """An agent's place in a run: its name, its address and its neighbours.

    Args:
      run_id: the run's identifier, hexadecimal.
      names: names of all agents, in the network's order.
      listen: the endpoint at which neighbours reach it, such as "tls/0.0.0.0:7447".
      neighbors: its neighbours' endpoints, by name.
    """

    run_id: str
    name: str
    names: tuple[str, ...]
    listen: str
    neighbors: Mapping[str, str]

    @property
    def index(self) -> int:
        return self.names.index(self.name)

    def key(self, topic: str, *who: str) -> str:
        return "/".join(("consilience", self.run_id, topic, *who))


def configuration(place: Place, credentials: Credentials) -> dict[str, Any]:
    """Return Zenoh's configuration for an agent."""
    dialled = [name for name in place.neighbors if place.names.index(name) < place.index]
    return {
        **_common(credentials, [place.neighbors[name] for name in dialled]),
        "mode": "peer",
        "listen": {"endpoints": [place.listen]},
        "access_control": _access(place),
    }


def _common(credentials: Credentials, endpoints: Sequence[str]) -> dict[str, Any]:
    return {
        "connect": {
            "endpoints": list(endpoints),
            "timeout_ms": -1,
            "exit_on_failure": False,
            "retry": {"period_init_ms": 100, "period_max_ms": 1000, "period_increase_factor": 1.5},
        },
        "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
        "transport": {
            "shared_memory": {"enabled": False},  # between processes of one machine it would bypass TLS
            "link": {
                "tx": {
                    "lease": LEASE,
                    "keep_alive": 4,
                    # A slow link is not closed: what does not fit into its queue waits as long as the link lives.
                    "queue": {"congestion_control": {"block": {"wait_before_close": PATIENT}}},
                },
                "tls": credentials.tls(),
            },
        },
    }


def _access(place: Place) -> dict[str, Any]:
    """Return Zenoh's access rules, which deny all but what neighbours, and an observer, need."""
    status, mine = [place.key("status", place.name)], [place.key("alive", place.name)]
    watching = ["declare_liveliness_subscriber", "liveliness_query"]
    allowed = {OBSERVER: [("ingress", ["query"], status), ("egress", ["reply", "declare_queryable"], status)]}
    for name in place.neighbors:
        theirs = [place.key(topic, name, place.name) for topic in TOPICS]
        ours = [place.key(topic, place.name, name) for topic in TOPICS]
        its = [place.key("alive", name)]
        allowed[name] = [
            ("ingress", ["put"], theirs),
            ("ingress", ["declare_subscriber"], ours),
            ("egress", ["put"], ours),
            ("egress", ["declare_subscriber"], theirs),
            ("ingress", ["liveliness_token"], its),
            ("egress", ["liveliness_token"], mine),
            ("ingress", watching, mine),
            ("egress", watching, its),
        ]
    rules = [
        {"id": f"{who} {k}", "permission": "allow", "flows": [flow], "messages": messages, "key_exprs": keys}
        for who, given in allowed.items()
        for k, (flow, messages, keys) in enumerate(given)
    ]
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": [{"id": who, "cert_common_names": [who]} for who in allowed],
        "policies": [
            {"rules": [f"{who} {k}" for k in range(len(given))], "subjects": [who]} for who, given in allowed.items()
        ],
    }


def check_free(listen: str) -> None:
    """Refuse an endpoint at which nothing can listen, before anything takes long."""
    host, _, port = listen.removeprefix("tls/").rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, int(port)))
        except OSError as error:
            raise Refused(
                f"nothing can listen at {listen}",
                f"{error.strerror}",
                "Is this agent running already? Another port is written in [agent] listen, and in the [neighbors] of "
                "those who dial it.",
            ) from None


class Links:
    """An agent's Zenoh session, with all that it declares in it, from `open` to `close`.

    Args:
      arrive: called with topic, sender's name and bytes, from threads of Zenoh's.
      pulled: topics whose messages are not passed to `arrive`, but wait for `pull`.
      alive: called with a neighbour's name and whether it is there, when that changes.
      answer: returns what to tell an observer.
    """

    def __init__(
        self,
        place: Place,
        credentials: Credentials,
        arrive: Callable[[str, str, bytes], None],
        alive: Callable[[str, bool], None],
        answer: Callable[[], bytes],
        pulled: Sequence[str] = (),
    ) -> None:
        self.place, self._credentials = place, credentials
        self._arrive, self._alive, self._answer, self._pulled = arrive, alive, answer, pulled
        self._nudge = secrets.token_bytes(16)  # the message that wakes a `pull`; nobody else can guess it
        self.session: Any = None

    def open(self) -> None:
        """Open the session: listen, and dial the neighbours for as long as it takes."""
        zenoh = require("zenoh", "peers")
        place, arrive, alive, answer = self.place, self._arrive, self._alive, self._answer
        self._failure, self._local = zenoh.ZError, zenoh.Locality.SESSION_LOCAL
        try:
            self.session = zenoh.open(zenoh.Config.from_json5(json.dumps(configuration(place, self._credentials))))
        except zenoh.ZError as error:
            reason = str(error).partition(" at /")[0]
            raise Refused(f"{place.name} cannot listen at {place.listen}", reason) from None
        ways = [(topic, name) for topic in TOPICS for name in place.neighbors]
        self._publishers = {
            (topic, name): self.session.declare_publisher(
                place.key(topic, place.name, name),
                congestion_control=zenoh.CongestionControl.BLOCK,
                # Cards overtake the rounds: signs of life must not wait behind them.
                priority=zenoh.Priority.INTERACTIVE_HIGH if topic == "board" else zenoh.Priority.DATA,
                reliability=zenoh.Reliability.RELIABLE,
                express=True,
            )
            for topic, name in ways
        }

        def of(topic: str, name: str) -> Callable[[Any], None]:
            return lambda sample: arrive(topic, name, sample.payload.to_bytes())

        def token_of(name: str) -> Callable[[Any], None]:
            return lambda sample: alive(name, sample.kind == zenoh.SampleKind.PUT)

        self._subscribers = {
            (topic, name): self.session.declare_subscriber(
                place.key(topic, name, place.name),
                zenoh.handlers.RingChannel(WAITING) if topic in self._pulled else of(topic, name),
            )
            for topic, name in ways
        }
        liveliness, status = self.session.liveliness(), place.key("status", place.name)
        watched = {name: place.key("alive", name) for name in place.neighbors}
        self._declared = [
            *(liveliness.declare_subscriber(key, token_of(name), history=True) for name, key in watched.items()),
            self.session.declare_queryable(status, lambda query: query.reply(status, answer())),
            liveliness.declare_token(place.key("alive", place.name)),
        ]

    @property
    def is_open(self) -> bool:
        return self.session is not None

    def send(self, topic: str, name: str, raw: bytes) -> None:
        """Send bytes to a neighbour; over a lost link nothing is sent, and the loss is noticed elsewhere."""
        try:
            self._publishers[topic, name].put(raw)
        except self._failure as error:
            log.debug("nothing sent to %s: %s", name, error)

    def pull(self, topic: str, name: str) -> bytes | None:
        """Wait for a neighbour's next message of a topic that is pulled; None, if woken by `wake` instead."""
        raw: bytes = self._subscribers[topic, name].recv().payload.to_bytes()
        return None if raw == self._nudge else raw

    def wake(self, topic: str, name: str) -> None:
        """Make a `pull` that waits for a neighbour's message return None."""
        self.session.put(self.place.key(topic, name, self.place.name), self._nudge, allowed_destination=self._local)

    def close(self) -> None:
        self.session.close()


def ask(run_id: str, name: str, endpoint: str, credentials: Credentials, seconds: float) -> bytes | None:
    """Ask the agent at an endpoint how the run is, and return what it says; None: no answer."""
    zenoh = require("zenoh", "peers")
    config = {**_common(credentials, [endpoint]), "mode": "client"}
    config["connect"] = {"endpoints": [endpoint], "timeout_ms": int(seconds * 1000), "exit_on_failure": True}
    try:
        session = zenoh.open(zenoh.Config.from_json5(json.dumps(config)))
    except zenoh.ZError as error:
        log.info("%s: %s", endpoint, error)
        return None
    try:
        for reply in session.get(f"consilience/{run_id}/status/{name}", timeout=seconds):
            if reply.ok is not None:
                return bytes(reply.ok.payload.to_bytes())
        return None
    finally:
        session.close()
