"""What a host does when another sees the folder otherwise, or it was begun for one host."""

import pytest

import consilience as cs
from consilience.engine import Hosts
from consilience.model import Layout
from consilience.store import Part, Progress, RunFolder
from consilience.store import folder as folder_module
from consilience.store.arrays import DrawsFolder
from consilience.store.checkpoints import Checkpoints

from .problem import sample

IDENTITY = {"format": 2, "created": "today", "run": {"thin": 1, "num_samples": 100}}


class Pair(Hosts):
    """This host and another one, which has opened the folder and seen the checkpoint of iteration 20."""

    def gather(self, value):
        return [20 if isinstance(value, int) else value, value]

    def of_first(self, value):
        return int(value)


def opened(folder):
    (folder / "run.toml").write_text('format = 2\ncreated = "today"\n[run]\n[sampler]\n[network]\n')
    parts = Part(range(3, 5), 5)
    return RunFolder(folder, IDENTITY, cs.Network.ring(5), Layout(None, (), (), ()), parts, Pair(2, 1), resume=True)


def test_a_host_that_sees_an_older_checkpoint_looks_again(tmp_path, monkeypatch):
    looks = iter([None, (Progress(drawn=10), {"state": 0}), (Progress(drawn=20), {"state": 1})])
    monkeypatch.setattr(Checkpoints, "newest", lambda self: next(looks))
    monkeypatch.setattr(folder_module.time, "sleep", lambda seconds: None)
    store = opened(tmp_path)
    assert store.progress.drawn == 20 and store.snapshot == {"state": 1} and not [*looks]


def test_it_does_not_look_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_module, "PATIENCE", -1)
    Checkpoints(tmp_path, 5).write(10, range(5), Progress(drawn=10), {})
    with pytest.raises(ValueError, match=r"the hosts see different checkpoints .* this one that of iteration 10"):
        opened(tmp_path)


def test_files_that_hold_all_agents_draws_are_for_one_host(tmp_path):
    sample("dmala", cs.Network.ring(5), 5, out=tmp_path / "lanes")
    sample("dmala", cs.Network.ring(5), 5, cs.Devices(2), out=tmp_path / "mesh")
    part = Part(range(3), 5, copies_per_file=1)
    DrawsFolder(tmp_path / "mesh", part, Hosts(2, 0), 5).check_files()
    with pytest.raises(ValueError, match="was begun without"):
        DrawsFolder(tmp_path / "lanes", part, Hosts(2, 0), 5).check_files()
