"""Decisions of the threads of links and of the pulse, while an agent's own thread goes on: each is of one moment.

The agents here have cards and a mailbox, and no links, model or folder.
"""

import threading
from types import SimpleNamespace

import pytest

import consilience as cs
from consilience.peers import Authority, Board, Identity, Mailbox, Place, Verifier
from consilience.runs import Stopped
from consilience.runs.member import Member
from consilience.runs.segment import Meeting

NAMES = ("a", "b", "c")
AT_ONCE = 0.3  # seconds in which another thread does what it does, unless it has to wait


class Segment:
    """A part of a run that ends as soon as it begins."""

    members, without, alike, checkpoints = NAMES, (), {"agent.without": "[]"}, (0,)
    progress = SimpleNamespace(drawn=0)

    @property
    def job(self):
        return SimpleNamespace(sink=self)

    def begin(self, meeting):
        raise Stopped


@pytest.fixture
def member():
    """Agent a, in the midst of epoch 1."""
    authority = Authority.create("run")
    member = Member.__new__(Member)
    member.place = Place("00" * 8, "a", NAMES, "tls/127.0.0.1:1", {"b": "tls/127.0.0.1:2", "c": "tls/127.0.0.1:3"})
    member.terms = SimpleNamespace(on_loss="continue-without", patience=0.0, mask=False)
    member.request = SimpleNamespace(network=cs.Network.complete(3), length=SimpleNamespace(num_samples=9))
    member.mailbox = Mailbox(bytes(8), NAMES, [1, 2], lambda *_: None, lambda _: None)
    member.board = Board(
        Identity(*authority.issue("a", [])),
        Verifier(authority.certificate),
        NAMES,
        ["b", "c"],
        lambda *_: None,
        lambda: None,
        dict,
    )
    member._alive, member._said, member._key = dict.fromkeys("bc", True), set(), None
    member._has_met, member._attempt, member._floor = True, 0, 2
    member._segment, member._deciding = Segment(), threading.RLock()
    member._running = (1, member._segment)
    member.mailbox.begin(1)
    return member


def meanwhile(function):
    """Call a function in another thread, and give it time."""
    thread = threading.Thread(target=function)
    thread.start()
    thread.join(AT_ONCE)
    return thread


def test_what_was_to_end_one_epoch_does_not_end_the_next(member):
    """While the pulse decides that epoch 1 is over, this agent begins epoch 2."""
    started, ended = [], []

    def run():
        with pytest.raises(Stopped):
            member._run_epoch(member._segment, Meeting(2, 0, 0, None, 0))
        member._judging.wait()
        ended.append(member.mailbox.ended)

    def decided(cards):
        if started:
            return ()
        started.append(meanwhile(run))
        return ("c",)

    member._decided = decided
    member._judge_losses = lambda: None
    member._judging = threading.Event()
    member._look()
    member._judging.set()
    started[0].join()
    assert member.mailbox._epoch == 2 and member._running is None
    assert ended == [None]


def test_a_mistake_in_what_shows_the_status_is_said_once_and_ends_nothing(member, caplog):
    member.meter = SimpleNamespace(report=dict)
    member._show = lambda status: 1 / 0
    with caplog.at_level("WARNING", "consilience.peers"):
        assert member._report()["without"] == [] == member._report()["without"]
    said = [record.getMessage() for record in caplog.records]
    assert said.count("the status is not shown: ZeroDivisionError: division by zero") == 1


def test_a_vote_that_is_cast_during_a_meeting_is_not_lost(member):
    """While this agent writes its card for a meeting, the pulse gives up c, of which nothing is heard."""
    member._running, member._alive["c"] = None, False
    member._check_wishes = lambda cards: None
    member.board.silence = lambda name: 0.0 if name == "b" else 99.0
    threads = []

    class Watched(Segment):
        @property
        def checkpoints(self):
            if not threads:
                threads.append(meanwhile(member._look))
            return (0,)

    member._segment = Watched()
    member._enter = lambda without: member._segment

    def wait(seconds):
        raise Stopped

    member.board.wait = wait
    with pytest.raises(Stopped):
        member._meet()
    threads[0].join()
    assert member.board.own.epoch == 2
    assert member.board.own.without == ("c",)
