"""Rounds between mailboxes in one process: what they add up to, and how agents that go different ways are found out."""

import queue
import threading
import time
from functools import partial

import numpy as np
import pytest

import consilience as cs
from consilience.neighbors import (
    HEADER,
    Collectives,
    Form,
    Interrupted,
    KeyPair,
    Masks,
    OutOfStep,
    OutOfTurn,
    header_of,
    pack,
)
from consilience.neighbors.wire import arrays_of
from consilience.peers import Mailbox
from consilience.peers import mailbox as mailboxes

from ..patience import PATIENCE

RUN = bytes(8)


class Room:
    """Agents whose mailboxes are side by side."""

    def __init__(self, network, mask=False, gathers=False):
        self.network = network
        names = [f"agent{k}" for k in range(network.size)]
        self.sent = []
        self.under_way = {(i, j): queue.SimpleQueue() for i in range(network.size) for j in network.neighbors(i)}
        self.mailboxes = [
            Mailbox(
                RUN, names, network.neighbors(k), partial(self.deliver, k), partial(self.pull, k), partial(self.wake, k)
            )
            for k in range(network.size)
        ]
        self.collectives = [Collectives(box, network, k) for k, box in enumerate(self.mailboxes)]
        keys = [KeyPair() for _ in names]
        for k, (box, rounds) in enumerate(zip(self.mailboxes, self.collectives, strict=True)):
            box.begin(1)
            rounds.begin(Masks(keys[k], k, [key.public for key in keys], b"test") if mask else None, gathers)

    def deliver(self, sender, to, raw):
        self.sent.append((sender, to, raw))
        self.under_way[sender, to].put(raw)

    def pull(self, receiver, sender):
        return self.under_way[sender, receiver].get()

    def wake(self, receiver, sender):
        self.under_way[sender, receiver].put(None)

    def all(self, function):
        """`function(collectives, index)` of every agent, at once; results or errors."""
        found = [None] * self.network.size

        def work(k):
            try:
                found[k] = function(self.collectives[k], k)
            except Exception as error:
                found[k] = error

        threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(self.network.size)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + PATIENCE
        while any(thread.is_alive() for thread in threads) and time.monotonic() < end:
            time.sleep(0.01)
            for box in self.mailboxes:  # as an agent's pulse does
                box.tick()
        assert not any(thread.is_alive() for thread in threads)
        return found


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("network", [cs.Network.ring(5), cs.Network.star(4), cs.Network.path(3)], ids=repr)
def test_sums_of_several_arrays(network, mask):
    room = Room(network, mask)
    values = np.random.default_rng(0).standard_normal((network.size, 3, 4))
    for _ in range(3):  # with new masks each time
        found = room.all(lambda c, k: c.total([values[k], values[k, 0, 0]]))
        for vectors, number in found:
            np.testing.assert_allclose(vectors, values.sum(axis=0), atol=1e-8)
            np.testing.assert_array_equal(vectors, found[0][0])
            np.testing.assert_allclose(number, values[:, 0, 0].sum(), atol=1e-8)


@pytest.mark.parametrize("network", [cs.Network.path(5), cs.Network.ring(5), cs.Network.star(4)], ids=repr)
def test_one_no_reaches_the_farthest_agent(network):
    room = Room(network)
    for against in range(network.size):
        for [found] in room.all(lambda c, k: c.flood([np.array([k != against])])):  # noqa: B023
            assert not found
    assert all(found for [found] in room.all(lambda c, k: c.flood([np.array([True])])))


def test_masks_hide_what_is_sent_and_say_only_that_someone_left_the_support():
    room = Room(cs.Network.ring(4), mask=True)
    bad = np.array([[1.0, 2.0, 3.0], [np.nan, 2.0, 3.0], [1.0, 1e30, 3.0], [1.0, 2.0, 3.0]])
    for [found] in room.all(lambda c, k: c.total([bad[k]])):
        np.testing.assert_array_equal(found, [np.nan, np.nan, 12.0])
    ups = [raw[HEADER.size :] for sender, to, raw in room.sent if room.network.tree.parent[sender] == to]
    assert len(ups) == 3
    for value in (1.0, 2.0, 3.0):
        plain = (np.float64(value).tobytes(), np.uint64(int(value) << 32).tobytes())
        assert not any(words in raw for raw in ups for words in plain)


def test_agents_at_different_places_are_found_out_by_their_sum():
    room = Room(cs.Network.ring(5))

    def evaluated(place):
        return lambda c, k: c.total_at([np.ones(2), np.array([place(k), 1e-8])])

    for [found] in room.all(evaluated(lambda k: 0.5 + 1e-12 * k)):  # rounding
        np.testing.assert_array_equal(found, [5.0, 5.0])
    for error in room.all(evaluated(lambda k: 0.6 if k == 3 else 0.5)):
        assert isinstance(error, OutOfStep)
    assert all(isinstance(box.ended, OutOfStep) for box in room.mailboxes)


STATE = [((2,), np.dtype(float)), ((), np.dtype(np.int32))]


def state_of(k):
    return [np.array([k, 0.5]), np.int32(3 * k)]


def iteration(c, k, digest=0.0, rides=True):
    """An iteration of a sampler that makes one sum; its state is the root's."""
    [found] = c.total_at([np.ones(2), np.array([0.5, 1e-8])], STATE if rides else ())
    c.mark(np.array([[0.25, 1e-8], [digest, 0.0]]))
    vector, number = c.follow_root(state_of(k))
    return found, vector, int(number)


@pytest.mark.parametrize("mask", [False, True])
def test_the_root_s_state_comes_with_the_sum_before_it(mask):
    room = Room(cs.Network.ring(5), mask)
    root = room.network.tree.root
    for rides, rounds in ((True, 4), (False, 6)):
        before = room.collectives[0].traffic
        for found, vector, number in room.all(lambda c, k: iteration(c, k, rides=rides)):  # noqa: B023
            np.testing.assert_allclose(found, [5.0, 5.0])
            np.testing.assert_array_equal(vector, [root, 0.5])
            assert number == 3 * root
        sent = {c.traffic - before for c in room.collectives}
        assert {(each.rounds, each.messages) for each in sent} == {(rounds, rounds // 2 * 4)}


@pytest.mark.parametrize("rides", [True, False])
@pytest.mark.parametrize("perturbed", range(5))
def test_a_digest_that_differs_is_found_out_by_the_next_sum_and_no_later(rides, perturbed):
    room = Room(cs.Network.ring(5))

    def perturb(c, k):
        iteration(c, k, rides=rides)
        iteration(c, k, float(k == perturbed), rides=rides)
        assert room.mailboxes[k].ended is None  # nobody has waited for it
        iteration(c, k, rides=rides)

    errors = room.all(perturb)
    assert all(isinstance(error, OutOfStep) for error in errors), errors
    assert {c.traffic.rounds for c in room.collectives} == {3 * 4 if rides else 6 + 6 + 4}


@pytest.mark.parametrize("perturbed", range(5))
def test_the_last_digest_of_a_chunk_is_compared_by_the_flood_after_it(perturbed):
    room = Room(cs.Network.ring(5))

    def last(digest):
        def draw(c, k):
            iteration(c, k, digest(k))
            return c.flood([np.array([k])])

        return draw

    assert room.all(last(lambda k: 1.0)) == [[np.array([0])]] * 5
    assert all(isinstance(error, OutOfStep) for error in room.all(last(lambda k: float(k == perturbed))))


def test_digests_that_nobody_has_compared_do_not_outlive_their_epoch():
    room = Room(cs.Network.ring(5))
    room.all(lambda c, k: iteration(c, k, float(k == 3)))
    for box, rounds in zip(room.mailboxes, room.collectives, strict=True):
        box.begin(2)
        rounds.begin()
    for found, _, number in room.all(iteration):
        np.testing.assert_array_equal(found, [5.0, 5.0])
        assert number == 3 * room.network.tree.root


def test_a_sum_where_the_root_s_state_was_due_is_refused_and_not_waited_for():
    room = Room(cs.Network.ring(5))
    root = room.network.tree.root

    def once_too_often(c, k):
        c.total([np.ones(2)], STATE)  # of which the root has yet to send what it adds up to
        c.total([np.ones(2)], STATE)

    def until_the_root_stops(c, k):
        try:
            once_too_often(c, k)
        finally:
            for box in room.mailboxes if k == root else ():
                box.end(Interrupted("the root has stopped"))

    errors = room.all(until_the_root_stops)
    assert isinstance(errors[root], OutOfTurn)
    assert "a sum came where the root's state was due" in str(errors[root])


NETWORKS = [cs.Network.ring(5), cs.Network.star(4), cs.Network.path(5), cs.Network.grid(2, 3)]


@pytest.mark.parametrize("network", NETWORKS, ids=repr)
def test_what_is_gathered_has_the_bits_of_a_sum_over_the_tree(network):
    values = 100 * np.random.default_rng(0).standard_normal((network.size, 3, 4))
    values[0, 1, 2] = np.nan
    rooms = Room(network, mask=True), Room(network, mask=True, gathers=True)
    for _ in range(3):  # with new masks each time
        tree, gathered = (room.all(lambda c, k: c.total([values[k], values[k, 0, 0]])) for room in rooms)
        for by_tree, by_gather in zip(tree, gathered, strict=True):
            assert np.isfinite(by_tree[0]).sum() == 11
            for one, other in zip(by_tree, by_gather, strict=True):
                np.testing.assert_array_equal(one, other)
    each = {c.traffic.rounds for c in rooms[1].collectives}
    assert each == {3 * network.diameter}


@pytest.mark.parametrize("network", NETWORKS, ids=repr)
def test_what_is_gathered_is_counted_as_it_is_sent(network):
    room = Room(network, mask=True, gathers=True)
    room.all(lambda c, k: iteration(c, k))
    sent = {c.traffic for c in room.collectives}
    assert {(each.messages, each.bytes) for each in sent} == {
        (len(room.sent), sum(len(raw) for _, _, raw in room.sent)),
    }
    assert sum(box.messages for box in room.mailboxes) == len(room.sent)


def test_where_sums_are_gathered_states_stay_and_are_compared_to_the_bit():
    room = Room(cs.Network.ring(5), mask=True, gathers=True)

    def of(state):
        def draw(c, k):
            c.total_at([np.ones(2), np.array([0.5, 1e-8])], STATE)
            [found] = c.follow_root([state(k)])
            c.total_at([np.ones(2), np.array([0.5, 1e-8])], STATE)
            c.follow_root([state(k)])
            return float(found[0])

        return draw

    assert room.all(of(lambda k: np.array([0.1, 0.2]))) == [0.1] * 5
    assert {c.traffic.rounds for c in room.collectives} == {2 * 2}  # the diameter, and nothing for the state
    for c in room.collectives:
        c._marks = []
    errors = room.all(of(lambda k: np.array([0.1, np.nextafter(0.2, float(k == 3))])))
    assert all(isinstance(error, OutOfStep) for error in errors), errors


def test_what_a_neighbour_passes_on_is_hidden_by_masks():
    room = Room(cs.Network.ring(5), mask=True, gathers=True)
    room.all(lambda c, k: c.total([np.array([1.0 + k, 2.0])]))
    words = [np.frombuffer(raw[HEADER.size :], np.uint64) for _, _, raw in room.sent]
    plain = {int(value) << 32 for value in (1, 2, 3, 4, 5)}
    assert not any(int(word) in plain for sent in words for word in sent)


def test_agents_that_take_different_turns_do_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(mailboxes, "SHORTEST_PATIENCE", 0.3)
    room = Room(cs.Network.path(2))

    def turn(c, k):
        return c.flood([np.ones(1)]) if k else c.exchange([np.ones(3)])

    assert all(isinstance(error, OutOfStep) for error in room.all(turn))


def test_an_epoch_that_ends_wakes_who_waits_and_the_next_one_begins_clean():
    room = Room(cs.Network.path(2))
    threading.Timer(0.2, lambda: room.mailboxes[0].end(Interrupted("enough"))).start()
    with pytest.raises(Interrupted, match="enough"):
        room.collectives[0].total([np.ones(1)])
    for box, rounds in zip(room.mailboxes, room.collectives, strict=True):
        box.begin(2)
        rounds.begin()
    for [found] in room.all(lambda c, k: c.total([np.full(1, k)])):
        assert found == 1


def test_a_wait_is_long_by_what_waits_were():
    box = Room(cs.Network.path(2)).mailboxes[0]
    assert box.patience == mailboxes.SHORTEST_PATIENCE
    for _ in range(200):
        box._settle(2.0)
    assert box.patience == pytest.approx(2.0 * mailboxes.PATIENCE, rel=0.01)  # a slow run is not a stuck one


def test_agents_that_wait_for_nobody_on_the_way_up_are_as_patient_as_others():
    room = Room(cs.Network.path(3))
    root = room.network.tree.root

    leaves = [box for k, box in enumerate(room.mailboxes) if k != root]

    def total(c, k):
        since = [None] * len(leaves)
        for _ in range(12):
            if k == root:  # is late, by the time at which the others have begun to wait
                while any(box._wanted is None or box._wanted[1] == old for box, old in zip(leaves, since, strict=True)):
                    time.sleep(0.001)
                since = [box._wanted[1] for box in leaves]
                time.sleep(0.1)
            c.total([np.ones(1)])

    room.all(total)
    for box in leaves:
        assert box.patience > 0.8 * mailboxes.PATIENCE * 0.1 * (1 - 0.9**12)


def test_infinite_numbers_on_all_agents_are_no_disagreement_and_no_warning():
    room = Room(cs.Network.path(3))
    for [found] in room.all(lambda c, k: c.total_at([np.full(2, np.inf), np.array([np.inf, 1e-8])])):
        np.testing.assert_array_equal(found, [np.inf, np.inf])


def test_what_else_was_said_of_a_round_is_forgotten_with_it():
    room = Room(cs.Network.path(2))
    box = room.mailboxes[0]
    form = Form.of("test", [np.ones(1)])
    for value in (1.0, 2.0):
        box.arrive(1, pack(header_of(RUN, 1, 1, form), form, [np.full(1, value)]))
    assert arrays_of(box.receive([1], 1, form)[0], form) == [1.0]
    assert box._kept[1] == []
