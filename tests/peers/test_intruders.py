"""Whoever is not meant to take part: nothing of theirs gets in, it is said, and the run goes on as if nobody was there.

The other side is a Zenoh session over TLS in every test.
"""

import json
import random
import re
import socket
import struct
import subprocess
import sys
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("zenoh")
pytest.importorskip("cryptography")
import zenoh

import consilience as cs
from consilience.neighbors import HEADER, Form, Interrupted, header_of, pack
from consilience.neighbors.wire import MAGIC, NOT_FINITE, arrays_of
from consilience.peers import OBSERVER, Authority, Card, Credentials, Place, board, mailbox
from consilience.peers.board import _framed
from consilience.peers.mailbox import AHEAD, SAID

from ..patience import PATIENCE
from .crew import MODEL, Crew
from .parties import HOST, NOTHING_MORE, REFUSED, RING, RUN, Agent, Intruder, Ring, until

A, B, C, D = range(4)
OTHER_RUN = "fedcba9876543210"
VALUES = [np.arange(6.0).reshape(2, 3), np.array([True, False])]
FORM = Form.of("test", VALUES)


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """The run."""
    return Ring(tmp_path_factory.mktemp("ring"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """Another run of agents of the same names, under an authority of its own."""
    return Ring(tmp_path_factory.mktemp("stranger"), OTHER_RUN, Authority.create(OTHER_RUN))


@pytest.fixture(scope="module")
def agents(ring):
    """a, and its neighbours b and d, linked with it."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setattr(board, "PULSE", 0.1)
        patch.setattr(mailbox, "SHORTEST_PATIENCE", PATIENCE)  # none is out of step: the right message is on its way
        found = {name: stack.enter_context(closing(ring.agent(name))) for name in ("a", "b", "d")}
        until(lambda: found["a"].alive == {"b", "d"} and found["b"].alive == found["d"].alive == {"a"})
        yield found


@pytest.fixture
def a(agents):
    """Under attack, at the beginning of an epoch. After the test, nothing may have been raised by what came in."""
    meet(agents)
    for agent in agents.values():
        agent.look()
        agent.mailbox.refused.clear()
        agent.board.refused.clear()
        agent.heard.clear()
        agent.seen[:] = [(name, True) for name in agent.alive]
    yield agents["a"]
    for agent in agents.values():
        assert agent.troubles == []
    assert agents["a"].alive == {"b", "d"}
    swap(agents, number=agents["a"].mailbox._number + 1)


@pytest.fixture
def insider(ring, a):
    """A session with b's key, linked with a: b itself, gone mad."""
    with Intruder(ring.credentials("b").tls(), ring.endpoint("a")) as session:
        yield session


@pytest.fixture
def said(caplog):
    """What the agents' log has: warnings, as one text."""
    caplog.set_level("WARNING", "consilience.peers")
    return lambda: "\n".join(record.getMessage() for record in caplog.records if record.name == "consilience.peers")


def meet(agents, epochs=1):
    """The agents begin so many epochs later."""
    for agent in agents.values():
        agent.mailbox.begin(agent.mailbox._epoch + epochs)


def swap(agents, number, kind="swap"):
    """A round between a, b and d: everybody has the right numbers."""
    form = Form.of(kind, VALUES)
    sides = ((agents["a"], A, (B, D)), (agents["b"], B, (A,)), (agents["d"], D, (A,)))
    for agent, own, others in sides:
        agent.mailbox.send(others, number, form, mine(own, number))
    for agent, _, others in sides:
        for other in others:
            same(received(agent, other, number, form), mine(other, number))


@contextmanager
def receiving(agent, sender, number, form=FORM, seconds=PATIENCE):
    """`Mailbox.receive` in a thread of its own, for at most so long: call what is given for the arrays."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: arrays_of(agent.mailbox.receive([sender], number, form)[0], form))
        late = threading.Timer(seconds, agent.mailbox.end, [Interrupted("nothing came")])
        late.start()
        try:
            yield waiting
        finally:
            wait([waiting])
            late.cancel()


def received(agent, sender, number, form=FORM):
    with receiving(agent, sender, number, form) as arrays:
        return arrays.result()


def mine(agent, number):
    return [VALUES[0] + 100 * agent + number, VALUES[1] ^ bool(number % 2)]


def same(arrays, expected):
    for array, right in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(array, right)


def edge(sender, receiver="a", topic="round", run_id=RUN):
    return f"consilience/{run_id}/{topic}/{sender}/{receiver}"


def rounds_of(agent):
    return [raw for topic, _, raw in agent.heard if topic == "round"]


# --- who gets in --------------------------------------------------------------------------------------------


def without_certificate(ring, stranger):
    return {"root_ca_certificate": str(ring.credentials("b").authority)}


def without_anything(ring, stranger):
    return {}


def of_another_authority(ring, stranger):
    return stranger.credentials("b", authority=ring.authority).tls()


def of_another_run(ring, stranger):
    return stranger.credentials("b").tls()


def expired(ring, stranger):
    tls = ring.credentials("b", days=0).tls()
    time.sleep(1.1)  # it was good until the end of that second
    return tls


def with_another_s_key(ring, stranger):
    mixed = replace(ring.credentials("b"), key=stranger.credentials("b").key)
    return mixed.tls()


@pytest.mark.parametrize(
    "papers",
    [without_certificate, without_anything, of_another_authority, of_another_run, expired, with_another_s_key],
    ids=lambda papers: papers.__name__,
)
def test_a_stranger_does_not_get_in(ring, stranger, a, papers):
    tls = papers(ring, stranger)
    linked = a.linked
    with pytest.raises(zenoh.ZError), Intruder(tls, ring.endpoint("a"), seconds=REFUSED) as intruder:
        intruder.put(edge("b"), b"not reached")
    assert a.linked == linked and rounds_of(a) == []
    with Intruder(ring.credentials("b").tls(), ring.endpoint("a")) as welcome:
        until(lambda: a.linked == linked + 1)
        welcome.put(edge("b"), b"as b")
        until(lambda: rounds_of(a) == [b"as b"])


def test_there_is_no_way_in_without_tls(ring, a):
    linked = a.linked
    with pytest.raises(zenoh.ZError):
        Intruder({}, ring.endpoint("a").replace("tls/", "tcp/"), seconds=REFUSED)
    assert a.linked == linked and rounds_of(a) == []


def test_connections_that_say_nothing_keep_nobody_out(ring, a):
    with ExitStack() as stack:
        for k in range(12):  # Zenoh pauses 0.1 s after every one that fails, and lets nobody in meanwhile
            silent = stack.enter_context(socket.create_connection((HOST, ring.ports["a"])))
            if k % 4 == 0:
                silent.sendall(b"GET / HTTP/1.1\r\n\r\n" * k)
        with Intruder(ring.credentials("b").tls(), ring.endpoint("a")) as late:
            late.put(edge("b"), b"as b")
            until(lambda: rounds_of(a) == [b"as b"])


def test_an_agent_of_another_run_is_refused(ring, stranger, a):
    """One that has the ports wrong: its own authority and its own run, but a's address."""
    linked = a.linked
    place = stranger.place("b")
    lost = replace(place, neighbors={"a": ring.endpoint("a")}, listen=stranger.endpoint("b"))
    with closing(Agent(lost, stranger.credentials("b"))) as other:
        other.mailbox.send([A], 1, FORM, VALUES)
        time.sleep(1.0)  # in which it dials a few times
        assert other.alive == set() and other.heard == [] and a.linked == linked
    assert rounds_of(a) == []


def test_an_agent_of_another_run_of_the_same_authority_is_not_heard(ring, a):
    """It has a link, and nothing to say on it."""
    linked, cards = a.linked, a.board.cards.keys()
    place = Place(OTHER_RUN, "b", RING, ring.endpoint("c"), {"a": ring.endpoint("a")})
    with closing(Agent(place, ring.credentials("b"))) as other:
        until(lambda: a.linked == linked + 1)
        other.mailbox.send([A], 1, FORM, VALUES)
        time.sleep(NOTHING_MORE)
        assert other.alive == set() and other.heard == []
        assert rounds_of(a) == [] and a.seen == [(name, True) for name in dict(a.seen)]
    assert a.board.cards.keys() == cards and a.refused == {}


# --- who may say what -----------------------------------------------------------------------------------------


def test_a_neighbor_cannot_speak_for_another(ring, a):
    keys = [edge("b"), edge("b", topic="board"), edge("*"), f"consilience/{RUN}/*/**/a", f"consilience/{RUN}/**", "**"]
    keys += [edge("a", "b"), edge("d", "b"), edge("d", run_id=OTHER_RUN), edge("d", "*"), edge("d", topic="*")]
    with Intruder(ring.credentials("d").tls(), ring.endpoint("a")) as d:
        for key in keys:
            d.put(key, b"forged")
        d.session.delete(edge("d"))
        d.put(edge("d"), b"as d")  # over the same link, after all the others
        until(lambda: rounds_of(a))
        time.sleep(NOTHING_MORE / 4)
    assert [(sender, raw) for topic, sender, raw in a.heard if topic == "round"] == [("d", b"as d")]
    assert b"forged" not in {raw for *_, raw in a.heard}
    assert a.refused == {"d": 1}  # the one that came through is no message


@pytest.mark.parametrize("name", ["c", OBSERVER, "e"])
def test_who_is_not_linked_is_not_heard(ring, a, name):
    """Of the same run, with a good certificate: it gets a link, and no further."""
    linked = a.linked
    with Intruder(ring.credentials(name).tls(), ring.endpoint("a")) as other:
        until(lambda: a.linked == linked + 1)
        heard = other.listen_to("consilience/**")
        for sender in ("b", "c", "d", name):
            for topic in ("round", "board"):
                other.put(edge(sender, topic=topic), b"from afar")
            other.claim(f"consilience/{RUN}/alive/{sender}")()
        a.mailbox.send([B, D], 1, FORM, VALUES)
        time.sleep(NOTHING_MORE)
        assert heard == []
    assert b"from afar" not in {raw for *_, raw in a.heard}
    assert a.seen == [(neighbor, True) for neighbor in dict(a.seen)]


def test_a_neighbor_cannot_pretend_that_another_has_come_or_gone(ring, a):
    with Intruder(ring.credentials("d").tls(), ring.endpoint("a")) as d:
        for name in ("b", "c", "*"):
            d.claim(f"consilience/{RUN}/alive/{name}")()
        d.put(edge("d"), b"as d")
        until(lambda: rounds_of(a))
        time.sleep(NOTHING_MORE / 4)
    assert a.seen == [(name, True) for name in dict(a.seen)]


def test_a_neighbor_hears_only_what_is_for_it(ring, agents, a):
    with Intruder(ring.credentials("d").tls(), ring.endpoint("a")) as d:
        everything = d.listen_to("consilience/**")
        own = d.listen_to(edge("a", "d"))

        def has_come():
            a.links.send("round", "d", b"for d")  # before a knows that this one listens, nothing goes to it
            return b"for d" in own

        until(has_come)
        a.links.send("round", "b", b"for b")
        until(lambda: b"for b" in rounds_of(agents["b"]))
        time.sleep(NOTHING_MORE / 4)
        assert b"for b" not in everything + own
        assert list(d.session.get(f"consilience/{RUN}/status/a", timeout=0.3)) == []


def test_another_s_session_number_is_of_no_use(ring, agents, a):
    """Zenoh tells sessions apart by a number that each chooses."""
    number = str(agents["b"].links.session.info.zid())
    with pytest.raises(zenoh.ZError):
        Intruder(ring.credentials("c").tls(), ring.endpoint("a"), seconds=REFUSED, id=number)
    assert a.seen == [(name, True) for name in dict(a.seen)] and rounds_of(a) == []


@pytest.mark.parametrize("who", ["stranger", "b", "c"])
def test_who_answers_at_a_neighbor_s_address_is_not_taken_for_it(tmp_path, ring, stranger, who):
    """d dials c, and another is there."""
    here = replace(ring, folder=tmp_path, ports=Ring(tmp_path).ports)
    tls = (stranger.credentials("c") if who == "stranger" else here.credentials(who)).tls()
    with Intruder(tls, listens=here.endpoint("c")) as other, closing(here.agent("d")) as d:
        other.claim(f"consilience/{RUN}/alive/c")
        heard = other.listen_to("consilience/**")
        own = other.listen_to(edge("d", "c"))
        until(lambda: d.linked == (who != "stranger"))
        end = time.monotonic() + (1.0 if who != "c" else PATIENCE)
        while time.monotonic() < end and not (rounds_of(d) and own):
            d.links.send("round", "c", b"for c")
            other.put(edge("c", "d"), b"as c")
            time.sleep(0.05)
        if who == "c":  # this is what it looks like when it is c
            assert rounds_of(d) and own
            until(lambda: d.alive == {"c"})
        else:
            assert d.seen == [] and d.heard == [] and heard == own == []
            assert d.linked == (who == "b")
        assert d.troubles == []


# --- messages of rounds ------------------------------------------------------------------------------------------

RIGHT = mine(B, 1)


def header(epoch, number=1, **changes):
    fields = {
        "magic": MAGIC,
        "run": bytes.fromhex(RUN),
        "epoch": epoch,
        "number": number,
        "form": FORM.digest,
        "flags": 0,
        "length": FORM.bytes,
    }
    return HEADER.pack(*{**fields, **changes}.values())


def message(epoch, number=1, arrays=RIGHT, kind="test"):
    form = Form.of(kind, arrays)
    return pack(header_of(bytes.fromhex(RUN), epoch, number, form), form, arrays)


BODY = message(1)[HEADER.size :]
UNSAID = [np.where(np.arange(6).reshape(2, 3) == 4, np.nan, RIGHT[0]), RIGHT[1]]
INFINITE = [np.where(np.arange(6).reshape(2, 3) % 3 == 1, [[np.inf], [-np.inf]], RIGHT[0]), RIGHT[1]]
MALFORMED = {
    "nothing": (lambda epoch: b"", "0 bytes are no message"),
    "short": (lambda epoch: message(epoch)[: HEADER.size - 1], "39 bytes are no message"),
    "wrong magic": (lambda epoch: header(epoch, magic=b"CSL0") + BODY, "does not begin as a message does"),
    "another run": (lambda epoch: header(epoch, run=bytes.fromhex(OTHER_RUN)) + BODY, f"another run, {OTHER_RUN}"),
    "too long": (lambda epoch: header(epoch) + BODY + b"\0", "it says 50 bytes and has 51"),
    "cut": (lambda epoch: header(epoch) + BODY[:-1], "it says 50 bytes and has 49"),
    "length of 2⁶⁴": (lambda epoch: header(epoch, length=2**64 - 1) + BODY, "bytes and has 50"),
    "unknown flags": (lambda epoch: header(epoch, flags=6) + BODY, "unknown flags, 0x6"),
    "all flags": (lambda epoch: header(epoch, flags=2**32 - 1) + BODY, "unknown flags"),
    "far ahead": (lambda epoch: header(epoch, 2 + AHEAD) + BODY, f"round {2 + AHEAD} is far ahead of 1"),
    "farther": (lambda epoch: header(epoch, 2**64 - 1) + BODY, "is far ahead"),
    "round 0": (lambda epoch: header(epoch, 0) + BODY, "round 0"),
    # These are known only by who waits for the round.
    "wrong shape": (lambda epoch: message(epoch, arrays=[RIGHT[0].T, RIGHT[1]]), "not of the shapes and dtypes"),
    "wrong dtype": (lambda epoch: message(epoch, arrays=[RIGHT[0].astype("f4"), RIGHT[1]]), "not of the shapes and"),
    "an array less": (lambda epoch: message(epoch, arrays=RIGHT[:1]), "not of the shapes and dtypes"),
    "another kind": (lambda epoch: message(epoch, kind="other"), "not of the shapes and dtypes"),
    "empty": (lambda epoch: header(epoch, length=0), "not of the shapes and dtypes"),
    "NaN, not said": (
        lambda epoch: header(epoch) + message(1, arrays=UNSAID)[HEADER.size :],
        "not finite, and does not say so",
    ),
    "∞, not said": (
        lambda epoch: header(epoch) + message(1, arrays=INFINITE)[HEADER.size :],
        "not finite, and does not say so",
    ),
    "neither true nor false": (lambda epoch: header(epoch) + BODY[:-1] + b"\2", "neither true nor false"),
}


@pytest.mark.parametrize("early", [False, True], ids=["waited for", "early"])
@pytest.mark.parametrize("wrong", MALFORMED)
def test_a_malformed_message_is_dropped_and_the_right_one_taken(a, insider, said, wrong, early):
    make, reason = MALFORMED[wrong]
    epoch = a.mailbox._epoch
    if early:  # both are there before the round is
        a.mailbox.send([], 1, FORM, VALUES)
        insider.put(edge("b"), make(epoch))
        insider.put(edge("b"), message(epoch))
        until(lambda: len(rounds_of(a)) == 2)
    with receiving(a, B, 1) as arrays:
        if not early:
            until(lambda: a.mailbox._number == 1)
            insider.put(edge("b"), make(epoch))
            until(lambda: a.refused == {"b": 1})
            assert not arrays.done()
            insider.put(edge("b"), message(epoch))
        same(arrays.result(), RIGHT)
    assert a.refused == {"b": 1}
    assert "refused a message from b" in said() and reason in said()


def test_numbers_that_are_not_finite_are_taken_if_they_say_so(a, insider, caplog):
    """Off a posterior's support that happens to honest agents; who was the first is said, once."""
    caplog.set_level("INFO", "consilience.peers")
    for number in (1, 2):
        insider.put(edge("b"), message(a.mailbox._epoch, number, INFINITE))
        same(received(a, B, number), INFINITE)
    assert caplog.text.count("from b come numbers that are not finite, from round 1 on") == 1
    assert "round 2" not in caplog.text
    assert struct.unpack_from("<I", rounds_of(a)[0], 28) == (NOT_FINITE,) and a.refused == {}


def test_replays_are_dropped(a, insider, said):
    epoch = a.mailbox._epoch
    first = message(epoch, 1)
    insider.put(edge("b"), first)
    insider.put(edge("b"), first)  # before it is used
    until(lambda: a.refused == {"b": 1})
    same(received(a, B, 1), RIGHT)
    insider.put(edge("b"), first)  # after
    insider.put(edge("b"), message(epoch, 2, mine(B, 2)))
    same(received(a, B, 2), mine(B, 2))
    for old in (first, message(epoch, 1, mine(B, 9)), message(epoch, 2, mine(B, 9))):
        insider.put(edge("b"), old)
    until(lambda: a.refused == {"b": 5})
    insider.put(edge("b"), message(epoch, 3, mine(B, 3)))
    same(received(a, B, 3), mine(B, 3))
    assert said().count("refused a message from b") == 5 == said().count("a replay")


def test_messages_of_other_epochs_do_not_count(agents, a, insider):
    """Earlier ones are dropped, and not held against the sender: they were on their way. Later ones wait."""
    epoch = a.mailbox._epoch
    insider.put(edge("b"), message(epoch, 1, mine(B, 9)))  # waits, and gets too old
    until(lambda: len(rounds_of(a)) == 1)
    a.look()
    meet(agents)
    for other in (epoch, 0, epoch + 2):
        insider.put(edge("b"), message(other, 1, mine(B, other)))
    insider.put(edge("b"), message(epoch + 1))
    same(received(a, B, 1), RIGHT)
    assert a.refused == {}
    assert [kept.round for kept in a.mailbox._kept[B]] == [(epoch + 2, 1)]
    meet(agents)
    same(received(a, B, 1), mine(B, epoch + 2))


def test_rounds_that_never_come_leave_room_for_those_that_do(agents, a, insider, said):
    """A neighbour that is ahead has a few messages waiting; any number of others must not push them out."""
    epoch = a.mailbox._epoch
    for k in range(3 * AHEAD):
        insider.put(edge("b"), message(epoch + 1 + k % 7, 1 + k))  # of epochs that nobody has called
    for k in range(3 * AHEAD):
        insider.put(edge("b"), message(epoch, 2 + k % AHEAD, mine(B, k)))
    insider.put(edge("b"), message(epoch, 1))
    until(lambda: len(rounds_of(a)) == 6 * AHEAD + 1)
    same(received(a, B, 1), RIGHT)
    assert f"{AHEAD} of its messages are waiting" in said()
    assert len(a.mailbox._kept[B]) <= AHEAD
    meet(agents, 20)


def test_large_messages_that_nobody_waits_for_are_not_hoarded(agents, a, insider, said, monkeypatch):
    monkeypatch.setattr(mailbox, "MOST_KEPT", 3 * len(message(1)))
    epoch = a.mailbox._epoch
    for number in (5, 4, 3, 2, 1):
        insider.put(edge("b"), message(epoch, number))
    until(lambda: len(rounds_of(a)) == 5)
    a.look()
    assert [kept.number for kept in a.mailbox._kept[B]] == [3, 2, 1]
    assert "3 of its messages are waiting, and round 5 is the last of all" in said()
    assert a.refused == {"b": 2}
    same(received(a, B, 1), RIGHT)
    meet(agents)


def test_rounds_that_have_passed_leave_room(agents, a, insider):
    """Edges off the tree are silent for many rounds; what a neighbour says of those is of no use to anybody."""
    epoch = a.mailbox._epoch
    for start in (1, 1 + AHEAD // 2, 1 + AHEAD):
        before = len(rounds_of(a))
        for k in range(AHEAD):
            insider.put(edge("b"), message(epoch, start + k, mine(B, 9)))
        until(lambda: len(rounds_of(a)) == before + AHEAD)  # noqa: B023
        a.look()
        a.mailbox.send([D], start + AHEAD // 2, FORM, VALUES)  # this agent has gone on, with d
    number = 1 + 2 * AHEAD
    for agent in agents.values():
        agent.mailbox.send([], number, FORM, VALUES)
    insider.put(edge("b"), message(epoch, number))
    same(received(a, B, number), RIGHT)


def test_a_flood_is_not_said_line_by_line(a, insider, said):
    for topic, who in (("round", "a message"), ("board", "a card")):
        before = len(a.heard)
        for _ in range(1000):
            insider.put(edge("b", topic=topic), b"noise")
        until(lambda: sum(raw == b"noise" for *_, raw in a.heard[before:]) == 1000)  # noqa: B023
        a.look()
        until(lambda: said().count(f"refused {who} from b") == SAID + 1)  # noqa: B023
    assert a.refused == {"b": 1000}


# --- cards ----------------------------------------------------------------------------------------------------------

LATER = time.time_ns() + 10**15


def card(name="b", **changes):
    """One that would put all agents to a stop, if it were believed."""
    return Card(name, LATER, stop="forged", epoch=9, phase="running").changed(**changes)


def signed(identity, shown):
    body = shown if isinstance(shown, bytes) else shown.to_bytes()
    return _framed(body, identity.sign(body), identity.certificate)


def altered(but=None, **changes):
    fields = {**json.loads(card().to_bytes()), **changes}
    return json.dumps({name: value for name, value in fields.items() if name != but}).encode()


def nested(depth):
    return json.loads("[" * depth + "]" * depth)


INT = "Expected `int`"
WRITTEN = {  # signed by b itself
    "not JSON": (b"a card", "JSON is malformed"),
    "not UTF-8": (b"\xff\xfe\x00", "JSON is malformed"),
    "nothing": (b"", "Input data was truncated"),
    "nested": (b"[" * 100_000 + b"]" * 100_000, "Expected `object`"),
    "a list": (b"[]", "Expected `object`"),
    "a field less": (json.dumps({"name": "b", "format": 1}).encode(), "it has no incarnation"),
    "a field less that has a default": (altered(but="epoch"), "it has no epoch"),
    "a field more": (altered(more=1), "unknown field `more`"),
    "a name that is a number": (altered(name=1), "got `int` - at `$.name`"),
    "a phase that is none": (altered(phase="\x1b[2J"), "Invalid enum value"),
    "an epoch that is a text": (altered(epoch="9"), f"{INT}, got `str` - at `$.epoch`"),
    "an epoch that is true": (altered(epoch=True), f"{INT}, got `bool` - at `$.epoch`"),
    "an epoch that is a fraction": (altered(epoch=9.5), f"{INT}, got `float` - at `$.epoch`"),
    "an epoch that is not a number": (altered(epoch=float("nan")), "JSON is malformed"),
    "an epoch below 0": (altered(epoch=-1), f"{INT} >= 0 - at `$.epoch`"),
    "an epoch that no message can be of": (altered(epoch=2**32), f"{INT} <= 4294967295 - at `$.epoch`"),
    "an attempt of 32 bits": (altered(attempt=2**31), f"{INT} <= 2147483647 - at `$.attempt`"),
    "a revision of 64 bits": (altered(revision=2**63), f"{INT} <= 9223372036854775807 - at `$.revision`"),
    "an incarnation of 4000 digits": (altered(incarnation=10**4000), "at `$.incarnation`"),
    "an incarnation of 5000 digits": (altered()[:-1] + b',"incarnation":' + b"9" * 5000 + b"}", "out of range"),
    "bases that are nothing": (altered(bases=None), "got `null` - at `$.bases`"),
    "bases that are texts": (altered(bases=["9"]), "at `$.bases[0]`"),
    "bases below 0": (altered(bases=[0, -1]), "at `$.bases[1]`"),
    "a key that is too short": (altered(key="00"), "at `$.key`"),
    "a key that is none": (altered(key="x" * 64), "at `$.key`"),
    "a key and a line's end": (altered(key="0" * 64 + "\n"), "at `$.key`"),
    "a stop that is nested": (altered(stop=nested(900)), "at `$.stop`"),
    "without a text": (altered(without="b"), "at `$.without`"),
    "without a number": (altered(without=[1]), "at `$.without[0]`"),
    "without somebody who is not here": (altered(without=["../../elsewhere"]), "'../../elsewhere', who is no agent"),
    "an identity that is a list": (altered(identity=["x"]), "at `$.identity`"),
    "an identity of numbers": (altered(identity={"x": 1}), "at `$.identity[...]`"),
    "a report that is a text": (altered(report="well"), "at `$.report`"),
    "a format that is a text": (altered(format="1"), "Expected `int`, got `str`"),
    "a later format": (
        altered(format=2, more=1),
        "the card of b: it has format 2, and a reads format 1. Upgrade consilience at a, which has the older version",
    ),
    "no format": (
        altered(but="format"),
        "the card of b: it has format 0, and a reads format 1. Upgrade consilience at b, which has the older version",
    ),
    "somebody else's name": (card("d").to_bytes(), "a card of 'd' that b has signed"),
}


def forged(ring, stranger):
    """Cards that b shows, and the words that they are refused with."""
    b, c = ring.identity("b"), ring.identity("c")
    good = signed(b, card())
    body = card("c").to_bytes()
    yield signed(b, card("c")), "a card of 'c' that b has signed"
    yield signed(stranger.identity("c"), card("c")), "another authority"
    yield signed(stranger.identity("b"), card()), "another authority"
    yield _framed(body, b.sign(body), c.certificate), "the signature is not that of c"
    yield _framed(body, c.sign(body + b" "), c.certificate), "the signature is not that of c"
    yield _framed(body, b"", c.certificate), "the signature is not that of c"
    yield _framed(body, c.sign(body), b""), "the certificate is not PEM"
    yield _framed(body, c.sign(body), ring.authority.certificate), "the certificate is an authority's"
    yield _framed(body, c.sign(body), c.certificate * 40), "16384 are the most"
    yield signed(ring.identity("e"), card("e")), "a card of 'e', who is no agent of this run"
    yield signed(ring.identity(OBSERVER), card(OBSERVER)), "a card of 'observer', who is no agent of this run"
    yield signed(ring.identity("*"), card("*")), "a card of '*', who is no agent of this run"
    yield b"", "0 bytes are no card"
    yield good[:11], "11 bytes are no card"
    yield good[:-1], "not as long as it says"
    yield good + b"\0", "not as long as it says"
    yield struct.pack("<III", 2**32 - 1, 2**32 - 1, 2**32 - 1) + good[12:], "not as long as it says"
    yield b"\0" * (board.LARGEST + 1), f"{board.LARGEST + 1} bytes are no card"
    yield message(1), "not as long as it says"
    for written, words in WRITTEN.values():
        yield signed(b, written), words


def test_forged_cards_are_refused(ring, stranger, agents, a, insider, said, monkeypatch):
    monkeypatch.setattr(mailbox, "SAID", 1000)
    cases = list(forged(ring, stranger))
    for raw, _ in cases:
        insider.put(edge("b", topic="board"), raw)
    show_c(ring, a, insider)
    lines = [line for line in said().splitlines() if line.startswith("refused a card from b")]
    for (_, words), line in zip(cases, lines, strict=True):
        assert words in line, (words, line[:300])
    until(lambda: agents["d"].board.cards.keys() == a.board.cards.keys())
    assert a.board.cards.keys() == {*RING}
    for agent in agents.values():
        assert {shown.stop for shown in agent.board.cards.values()} == {""}
        assert {shown.epoch for shown in agent.board.cards.values()} == {0}


def show_c(ring, a, insider, revision=1):
    """c, whom a has no link with, writes a card, and b passes it on."""
    known = a.board.cards.get("c")
    new = Card("c", time.time_ns(), revision) if known is None else known.changed(revision=known.revision + revision)
    insider.put(edge("b", topic="board"), signed(ring.identity("c"), new))
    until(lambda: a.board.cards.get("c") == new)
    return new


def test_old_cards_change_nothing(ring, agents, a, insider, said):
    """Honest neighbours show them all the time; so nothing is said."""
    new = show_c(ring, a, insider, revision=5)
    c = ring.identity("c")
    since = a.board.silence("c")
    for old in (
        new,
        new.changed(revision=new.revision - 1, stop="old"),
        new.changed(incarnation=new.incarnation - 1, revision=new.revision + 99, stop="old"),
        new.changed(stop="the same age"),
    ):
        insider.put(edge("b", topic="board"), signed(c, old))
    insider.put(edge("b"), b"last")
    until(lambda: rounds_of(a))
    time.sleep(NOTHING_MORE / 4)
    assert a.board.cards["c"] == new and "card" not in said()
    assert a.board.silence("c") > since  # nor do they count as a sign of life
    until(lambda: agents["d"].board.cards["c"] == new)  # who has it from a


def test_an_agent_s_own_card_is_nobody_else_s_to_write(a, insider, ring, said):
    before = a.board.own.incarnation
    insider.put(edge("b", topic="board"), signed(ring.identity("b"), card("a")))
    show_c(ring, a, insider)
    assert a.board.own.incarnation == before and a.board.own.stop == ""
    assert "a card of 'a' that b has signed" in said()


# --- anything at all ----------------------------------------------------------------------------------------------


def mutated(chance, base):
    """Something that was a message or a card."""
    raw = bytearray(base)
    for _ in range(chance.choice((1, 1, 1, 2, 8))):
        where = chance.randrange(len(raw)) if chance.random() < 0.5 else chance.randrange(min(len(raw), HEADER.size))
        kind = chance.randrange(7)
        if kind == 0:
            raw[where] ^= 1 << chance.randrange(8)
        elif kind == 1:
            raw[where] = chance.randrange(256)
        elif kind == 2:
            del raw[where : where + chance.randrange(1, 40)]
        elif kind == 3:
            raw[where:where] = chance.randbytes(chance.randrange(1, 40))
        elif kind == 4:
            field, extreme = chance.choice((1, 2, 4, 8)), chance.choice((b"\0", b"\xff", b"\x7f", b"\x01"))
            raw[where : where + field] = extreme * field
        elif kind == 5:
            raw[where:] = raw[: len(raw) - where]
        else:
            raw[where:] = b""
        if not raw:
            break
    return bytes(raw)


def fuzz(ring, agents, insider, said, times):
    """So many things on each topic, from b's session, while a is in rounds with b and d."""
    seed = random.SystemRandom().getrandbits(64)
    print(f"the seed is {seed}")
    chance = random.Random(seed)
    a, before = agents["a"], {name: agent.mailbox._epoch for name, agent in agents.items()}
    cards = {name: shown.incarnation for name, shown in a.board.cards.items()}
    swap(agents, 1)
    identity = ring.identity("b")
    shown = card("b")
    count = 0
    for k in range(times):
        number = 2 + k * 30 // times
        if number > a.mailbox._number:
            swap(agents, number)  # the rounds of a run go on meanwhile
        for topic in ("round", "board"):
            messages = message(before["a"], 1), message(before["a"], number, kind="fuzz"), signed(identity, shown)
            base = messages[2 if (topic == "board") == (chance.random() < 0.9) else chance.randrange(2)]
            if topic == "board" and base is messages[2] and chance.random() < 0.5:
                raw = signed(identity, mutated(chance, shown.to_bytes()))  # signed, whatever it says
            else:
                raw = mutated(chance, base) if chance.random() < 0.8 else chance.randbytes(chance.randrange(400))
            insider.put(edge("b", topic=topic), raw)
            count += 1
    insider.put(edge("b"), b"the last")
    insider.put(edge("b", topic="board"), b"the last")
    until(lambda: sum(raw == b"the last" for *_, raw in a.heard) == 2)
    assert count == 2 * times
    assert a.refused["b"] > times / 2
    assert "a pulse failed" not in said()
    for name, incarnation in cards.items():
        assert name == "b" or a.board.cards[name].incarnation == incarnation, seed
    assert all(shown.name == name for name, shown in a.board.cards.items()), seed
    swap(agents, 40, kind="after all that")
    assert a.mailbox.ended is None


def test_anything_at_all_is_survived(ring, agents, a, insider, said):
    fuzz(ring, agents, insider, said, 500)


@pytest.mark.soak
def test_very_much_of_anything_is_survived(ring, agents, a, insider, said):
    fuzz(ring, agents, insider, said, 10_000)


# --- a run, in the midst of it ----------------------------------------------------------------------------------------

INTRUDER = """
import itertools, json, random, struct, sys, threading, time
import zenoh

told = json.loads(sys.argv[1])
over = threading.Event()
count = dict.fromkeys(("refused", "let in", "put"), 0)
keys = [f"consilience/{told['run']}/{topic}/agent{k}/agent0" for topic in ("round", "board") for k in (2, 1)]


def opened(tls, seconds):
    config = {
        "mode": "peer",
        "connect": {"endpoints": [told["endpoint"]], "timeout_ms": int(1000 * seconds), "exit_on_failure": True},
        "listen": {"endpoints": []},
        "scouting": {"multicast": {"enabled": False}},
        "transport": {"link": {"tls": tls}},
    }
    return zenoh.open(zenoh.Config.from_json5(json.dumps(config)))


def strangers():
    for tls in itertools.cycle([told["nobody"], told["foreign"]]):
        try:
            with opened(tls, 0.4) as session:
                session.put(keys[0], b"stranger")
            count["let in"] += 1
        except zenoh.ZError:
            count["refused"] += 1
        if over.wait(0.1):
            return


def bad_neighbor():
    session = None
    while session is None and not over.is_set():
        try:
            session = opened(told["agent2"], 5)
        except zenoh.ZError:
            time.sleep(0.3)
    for k in itertools.count():
        for key in keys:
            magic, run, length = b"CSL1", bytes.fromhex(told["run"]), 48
            epoch, number = random.choice([(0, 1), (1, 10**6), (2**32 - 1, 1 + k), (5, 2**64 - 1)])
            wrong = random.randrange(4)
            if wrong == 0:
                run = random.randbytes(8)
            elif wrong == 1:
                length = random.getrandbits(40)
            raw = struct.pack("<4s8sIQIIQ", magic, run, epoch, number, random.getrandbits(32), 0, length)
            raw = raw + random.randbytes(48) if wrong < 3 else random.randbytes(random.randrange(200))
            session.put(key, raw)
            count["put"] += 1
        if over.wait(0.01):
            return session.close()


threads = [threading.Thread(target=work) for work in (strangers, bad_neighbor)]
for thread in threads:
    thread.start()
for _ in sys.stdin:
    print(json.dumps(count), flush=True)
over.set()
for thread in threads:
    thread.join()
print(json.dumps(count))
"""

ENOUGH = {"refused": 5, "put": 100}
AT_THE_DOOR = re.compile(r"WARNING at the door \(\d+ so far\): zenoh")


def asked(intruder):
    """What it has done so far."""
    intruder.stdin.write("\n")
    intruder.stdin.flush()
    return json.loads(intruder.stdout.readline())


def test_a_run_is_what_it_would_have_been(tmp_path, stranger):
    """Of real processes, under attack from before the first one starts to after the last one has ended."""
    settings = ["--set", "run.x64=false", "--set", "sampler.max_num_doublings=3"]
    crew = Crew(tmp_path, num_samples=15, settings=settings, sampler="nuts")
    folder = tmp_path / "peers" / "agent2"
    papers = Credentials(*(folder / f"{file}.pem" for file in ("key", "certificate", "authority")))
    told = {
        "run": tomllib.loads((folder / "agent.toml").read_text())["agent"]["run"],
        "endpoint": f"tls/{HOST}:{crew.ports[0]}",
        "nobody": {"root_ca_certificate": str(papers.authority)},
        "foreign": {**stranger.credentials("agent2").tls(), "root_ca_certificate": str(papers.authority)},
        "agent2": papers.tls(),
    }
    command = [sys.executable, "-c", INTRUDER, json.dumps(told)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as intruder:
        try:
            crew.start("agent0")
            until(lambda: "refused a card from agent2" in crew.logged("agent0"))
            before = asked(intruder)
            crew.start("agent1")
            until(lambda: all(asked(intruder)[what] > before[what] + many for what, many in ENOUGH.items()))
            until(lambda: AT_THE_DOOR.search(crew.logged("agent0")))
            codes = crew.start("agent2").finish()  # not before: no run is over too early for what it is to survive
            did = json.loads(intruder.communicate("", timeout=PATIENCE)[0])
        finally:
            crew.end()
            intruder.kill()
    assert set(codes.values()) == {0}, crew.said()
    assert did["let in"] == 0
    for what in ("a message", "a card"):
        assert f"refused {what} from agent2" in crew.logged("agent0")
        assert f"refused {what} from agent1" not in crew.logged("agent0")
    assert "different steps" not in crew.said()

    model = {}
    exec(MODEL, model)
    expected = cs.sample(
        model["posterior"],
        [model["rows"](index) for index in range(3)],
        crew.network,
        cs.nuts(0.1, 1.0, max_num_doublings=3),
        num_samples=15,
        num_warmup=0,
        num_chains=2,
        seed=5,
        progress=False,
    ).positions
    for draws in crew.positions().values():
        assert draws.dtype == np.float32
        np.testing.assert_allclose(draws[:, :, 0], expected[:, :, 0], atol=1e-5)
