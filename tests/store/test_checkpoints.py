"""Checkpoints in parts: whole ones are found, whoever writes and removes at the same time."""

import threading

import numpy as np
import pytest

from consilience._refused import Refused
from consilience.store import Progress
from consilience.store import checkpoints as module
from consilience.store.checkpoints import Checkpoints


def write(found, drawn, first, last):
    state = {"position": np.full((2, last - first + 1, 3), drawn)}
    found.write(drawn, range(first, last + 1), Progress(drawn=drawn), state)


def whole(found, drawn):
    """A checkpoint of as many hosts as agents."""
    for agent in range(found.size):
        write(found, drawn, agent, agent)


def drop_older(found):
    last = found.whole()[-1]
    found.drop(lambda iteration: iteration < last)


def test_a_checkpoint_counts_when_all_parts_are_there(tmp_path):
    found = Checkpoints(tmp_path, 5)
    assert found.whole() == () and found.newest() is None
    write(found, 10, 0, 2)
    assert found.whole() == ()
    write(found, 10, 3, 4)
    assert found.whole() == (10,)
    write(found, 20, 3, 4)  # the other host is not as far
    assert found.whole() == (10,)
    write(found, 20, 0, 2)
    assert found.whole() == (10, 20)
    drop_older(found)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["20"]
    progress, state = found.newest()
    assert progress.drawn == 20 and state["position"].shape == (2, 5, 3)


def test_parts_of_other_hosts_do_not_make_a_whole(tmp_path):
    found = Checkpoints(tmp_path, 5)
    write(found, 10, 0, 2)
    write(found, 10, 2, 4)  # another division
    write(found, 20, 0, 0)
    write(found, 20, 2, 4)  # one is missing
    write(found, 30, 0, 3)  # the last is
    assert found.whole() == ()


def test_a_damaged_part_is_named_with_what_is_there_besides(tmp_path):
    found = Checkpoints(tmp_path, 5)
    write(found, 10, 0, 4)
    write(found, 20, 0, 2)
    write(found, 20, 3, 4)
    path = tmp_path / "checkpoints" / "20" / "3-4.npz"
    path.write_bytes(path.read_bytes()[:-30])
    said = r"20/3-4\.npz: it is damaged: .*\. Delete the folder .*20 to go on from iteration 10\. All draws are in"
    with pytest.raises(Refused, match=said):
        found.newest()


@pytest.mark.parametrize("where", ["_names", "_read_part"])
def test_a_newer_one_takes_its_place_while_somebody_looks(tmp_path, monkeypatch, where):
    """Before a look into its folder, or at one of its parts."""
    found = Checkpoints(tmp_path, 6)
    whole(found, 10)
    look, passed = getattr(module, where), []

    def meanwhile(path, *rest):
        if "10" in path.parts and not passed:
            passed.append(path)
            whole(found, 20)
            drop_older(found)
        return look(path, *rest)

    monkeypatch.setattr(module, where, meanwhile)
    progress, state = found.newest()
    assert passed and progress.drawn == 20
    np.testing.assert_array_equal(state["position"], np.full((2, 6, 3), 20))


def test_who_reads_while_hosts_write_finds_all_agents_of_one_checkpoint(tmp_path):
    """From the first whole one on there is always one, and ever later ones."""
    found, failures, ended = Checkpoints(tmp_path, 6), [], threading.Event()

    def write_on():
        for drawn in range(2, 100):
            whole(found, drawn)
            drop_older(found)
        ended.set()

    def read_on():
        last = 1
        try:
            while not ended.is_set():
                progress, state = found.newest()
                assert last <= progress.drawn
                np.testing.assert_array_equal(state["position"], np.full((2, 6, 3), progress.drawn))
                last = progress.drawn
        except BaseException as failure:
            failures.append(failure)
            raise

    whole(found, 1)
    threads = [threading.Thread(target=each) for each in (write_on, read_on, read_on)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert found.whole() == (99,)
