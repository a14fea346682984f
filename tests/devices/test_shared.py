"""What a host does when another sees the folder otherwise, or it was begun for one host."""

import pytest

import consilience as cs
from consilience.store import Progress, SharedStore, shared

from .problem import sample


class Pair:
    """This host and another one, which has seen the checkpoint after 20 draws."""

    count, index, is_first = 2, 0, True

    def gather(self, value):
        return [value, 20]

    def of_first(self, value):
        return int(value)

    def together(self, work):
        return work()


def opened(folder, **attributes):
    """A store as far as these methods know one."""
    store = SharedStore.__new__(SharedStore)
    vars(store).update(folder=folder, _hosts=Pair(), progress=Progress(drawn=10), snapshot=None, **attributes)
    return store


def test_a_host_that_sees_an_older_checkpoint_looks_again(tmp_path, monkeypatch):
    looks = iter([Progress(drawn=10), Progress(drawn=20)])
    monkeypatch.setattr(shared, "read_checkpoint", lambda folder: (next(looks), {"state": 1}))
    monkeypatch.setattr(shared.time, "sleep", lambda seconds: None)
    store = opened(tmp_path)
    store._agree_where_it_stands()
    assert store.progress.drawn == 20 and store.snapshot == {"state": 1} and not [*looks]


def test_it_does_not_look_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(shared, "PATIENCE", -1)
    with pytest.raises(ValueError, match=r"the hosts see different checkpoints .* this one that of 10"):
        opened(tmp_path)._agree_where_it_stands()


def test_files_that_hold_all_agents_draws_are_for_one_host(tmp_path):
    sample("dmala", cs.Network.ring(5), 5, out=tmp_path / "lanes")
    sample("dmala", cs.Network.ring(5), 5, cs.Devices(2), out=tmp_path / "mesh")
    opened(tmp_path / "mesh", _agents_per_file=1)._check_files()
    with pytest.raises(ValueError, match="was begun without"):
        opened(tmp_path / "lanes", _agents_per_file=1)._check_files()


def test_a_checkpoint_is_not_safe_while_parts_are_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(shared, "PARTS_PATIENCE", 0.2)
    here, there = (opened(tmp_path, _agents=agents, _size=5) for agents in (range(3), range(3, 5)))
    assert not here._write_checkpoint(Progress(drawn=10), b"state")
    assert there._write_checkpoint(Progress(drawn=10), b"state")
