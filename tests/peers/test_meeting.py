"""What agents make of each other's cards."""

import pytest

from consilience.peers import (
    Card,
    common_base,
    digest_of,
    given_up_by_most,
    is_here,
    is_ready,
    next_epoch,
    phase_before,
)


def card(name, **says):
    return Card(name, 1, **{"identity": {"agent.without": "[]"}, **says})


def test_the_highest_epoch_is_the_one_to_meet_in():
    own = card("a", epoch=1, phase="ready")
    assert next_epoch(own, [card("b", epoch=1, phase="ready"), card("c", epoch=3, phase="joining")], 1, True) == 3
    assert next_epoch(own, [card("b", epoch=1)], 2, True) == 2


def test_one_that_comes_back_asks_for_an_epoch_that_has_not_begun():
    running = [card("b", epoch=5, phase="running"), card("c", epoch=5, phase="done")]
    assert next_epoch(card("a"), running, 1, has_met=False) == 6
    assert next_epoch(card("a", epoch=6, phase="ready"), running, 1, has_met=False) == 6
    # They began because this one was ready, and it only had not seen it yet.
    assert next_epoch(card("a", epoch=5, phase="ready"), running, 1, has_met=False) == 5


@pytest.mark.parametrize("phase", ["joining", "stopped", "failed"])
def test_nobody_starts_before_all_are_ready_for_the_same(phase):
    ready = [card("a", epoch=2, phase="ready"), card("b", epoch=2, phase="running")]
    assert is_ready(ready, 2)
    assert not is_ready([*ready, card("c", epoch=2, phase=phase)], 2)
    assert not is_ready([*ready, card("c", epoch=1, phase="ready")], 2)


def test_agents_go_back_to_what_all_have():
    assert common_base([card("a", bases=(0, 8, 40)), card("b", bases=(0, 8)), card("c", bases=(0, 8, 40, 90))]) == 8
    assert common_base([card("a", bases=(40, 90)), card("b", bases=(40,))]) == 40
    assert common_base([card("a", bases=(40, 90)), card("b", bases=(0,))]) is None  # b has lost its folder
    assert common_base([card("a", bases=()), card("b", bases=(0,))]) is None


def test_more_than_half_have_to_give_one_up():
    def cards(**gives_up):
        return {name: card(name, without=tuple(names)) for name, names in gives_up.items()}

    assert given_up_by_most(cards(a="d", b="d", c="", d=""), 4) == set()
    assert given_up_by_most(cards(a="d", b="d", c="d", d="abc"), 4) == {"d"}
    # One that woke up and takes all others for lost decides nothing; nor does half of a network that is cut in two.
    assert given_up_by_most(cards(a="bcd", b="", c="", d=""), 4) == set()
    assert given_up_by_most(cards(a="cd", b="cd", c="ab", d="ab"), 4) == set()
    # Those who are left out have no say any more.
    assert given_up_by_most(cards(a="d", b="dc", c="d", d="c"), 4, known=["d"]) == {"d"}
    assert given_up_by_most({"a": card("a", without=("b",) * 9)}, 3) == set()


def test_who_has_left_out_others_is_not_here_yet():
    assert is_here(card("a"), "[]", mask=False)
    assert not is_here(card("a", identity={}), "[]", mask=False)
    assert not is_here(card("a", identity={"agent.without": "['d']"}), "[]", mask=False)
    assert not is_here(card("a", phase="stopped"), "[]", mask=False)
    assert not is_here(card("a"), "[]", mask=True)
    assert is_here(card("a", key="00" * 32), "[]", mask=True)


def test_a_meeting_of_others_has_another_digest():
    crew = [card("a", bases=(0,)), card("b", bases=(0,))]
    others = [Card("b", 2, bases=(0,)), card("b", bases=(0, 8)), card("b", bases=(0,), key="00" * 32)]
    digests = {digest_of("run", crew), digest_of("other", crew), *(digest_of("run", [crew[0], b]) for b in others)}
    assert len(digests) == 5


def test_an_agent_started_again_is_ready_only_when_it_knows_what_the_others_are_at():
    """Ready for epoch 1 before their cards had come, it would take those who run epoch 1 for newcomers like itself."""
    others = {name: card(name, epoch=1, phase="running") for name in "bc"}
    for known in ({}, {"b": others["b"]}):
        assert phase_before(True, {"a": card("a"), **known}, "abc") == "joining"
    assert phase_before(True, {"a": card("a"), **others}, "abc") == "ready"
    assert phase_before(False, {"a": card("a"), **others}, "abc") == "joining"
    assert next_epoch(card("a", phase="joining"), [*others.values()], 1, has_met=False) == 2
