"""What a mailbox keeps, and what it refuses, message by message: nobody else is needed for that."""

import numpy as np

from consilience.neighbors import Form, header_of, pack
from consilience.neighbors.wire import arrays_of
from consilience.peers import Mailbox

RUN = bytes(8)
VALUES = [np.arange(3.0)]
FORM = Form.of("test", VALUES)
A, B = range(2)


def of_a(epoch):
    """The mailbox of a, whose neighbour b sends nothing but what arrives."""
    box = Mailbox(RUN, "ab", [B], lambda *_: None, lambda _: None)
    box.begin(epoch)
    return box


def message(epoch, number, value=0.0):
    return pack(header_of(RUN, epoch, number, FORM), FORM, [VALUES[0] + value])


def test_a_message_that_comes_again_is_refused_and_not_kept():
    box = of_a(epoch=1)
    box.arrive(B, message(1, 1))
    box.arrive(B, message(1, 1))  # before it is used
    assert box.refused == {B: 1} and len(box._kept[B]) == 1
    np.testing.assert_array_equal(arrays_of(box.receive([B], 1, FORM)[0], FORM), VALUES)
    box.arrive(B, message(1, 1))  # after, and with other numbers
    box.arrive(B, message(1, 1, 9.0))
    assert box.refused == {B: 3} and box._kept[B] == []


def test_what_an_old_epoch_has_left_is_neither_kept_nor_refused():
    box = of_a(epoch=1)
    box.arrive(B, message(1, 1))
    box.begin(2)
    assert box._kept[B] == []
    box.arrive(B, message(1, 1))
    box.arrive(B, message(3, 1))  # of one that is ahead
    assert [kept.round for kept in box._kept[B]] == [(3, 1)] and box.refused == {}


def test_an_epoch_s_first_header_is_its_own():
    """Also where the epoch before has ended in its first round, too."""
    sent = []
    box = Mailbox(RUN, "ab", [B], lambda _, raw: sent.append(raw), lambda _: None)
    for epoch in (1, 2):
        box.begin(epoch)
        box.send([B], 1, FORM, VALUES)
    assert sent == [message(1, 1), message(2, 1)]
