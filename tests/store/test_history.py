"""A folder that can go back: to every checkpoint that somebody may still need, and to no other."""

import numpy as np
import pytest

import consilience as cs
from consilience.model import Layout
from consilience.store import HistoryStore, Progress
from consilience.store.identity import FORMAT


def opened(folder):
    identity = {"format": FORMAT, "created": "today", "run": {"thin": 2}}
    nothing_kept = Layout(None, (), (), ())  # states are what this is about, and not draws
    return HistoryStore(folder, identity, cs.Network.ring(3), nothing_kept, planned=100, resume=True)


@pytest.fixture
def store(tmp_path):
    """After saves at iterations 10, 20 and 30."""
    found = opened(tmp_path / "run")
    for drawn in (5, 10, 15):
        found.save(Progress(drawn=drawn), {"position": np.full(3, drawn)})
    yield found
    found.finish("interrupted")


def test_every_checkpoint_can_be_gone_back_to_until_it_is_forgotten(store):
    assert store.bases == (0, 10, 20, 30)
    store.forget(20)  # all agents have that one: it may still be needed
    assert store.bases == (20, 30)


def test_what_came_after_the_checkpoint_that_all_have_is_dropped(store):
    store.back_to(20)
    assert store.progress.drawn == 10 and store.saved == 20
    np.testing.assert_array_equal(store.snapshot["position"], np.full(3, 10))
    assert store.bases == (0, 10, 20)
    store.back_to(0)
    assert store.progress == Progress() and store.snapshot is None
    assert store.bases == (0,)


def test_a_process_that_comes_back_finds_them_all(store):
    store.forget(20)
    store.finish("interrupted")
    again = opened(store.folder)
    assert again.bases == (20, 30) and again.progress.drawn == 15
    again.finish("interrupted")


def test_what_has_been_forgotten_is_gone(store):
    store.forget(30)
    assert store.bases == (30,)
    with pytest.raises(FileNotFoundError):
        store.back_to(10)
