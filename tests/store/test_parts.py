"""Checkpoints in parts: whole ones are found, whoever writes and removes at the same time."""

import importlib
import io
import json
import threading
from dataclasses import asdict

import numpy as np
import pytest

from consilience.store import Progress, read_checkpoint
from consilience.store.parts import drop_older, drop_unfinished, newest, write_part


def write(folder, drawn, first, last, size=5):
    write_part(folder, Progress(drawn=drawn), range(first, last + 1), size, b"state")


def test_a_checkpoint_counts_when_all_parts_are_there(tmp_path):
    assert newest(tmp_path) is None
    write(tmp_path, 10, 0, 2)
    assert newest(tmp_path) is None
    write(tmp_path, 10, 3, 4)
    assert newest(tmp_path).done == 10
    write(tmp_path, 20, 3, 4)  # the other host is not as far
    assert newest(tmp_path).done == 10
    drop_older(tmp_path)
    assert newest(tmp_path).done == 10
    write(tmp_path, 20, 0, 2)
    drop_older(tmp_path)
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["20"]


def test_parts_of_other_hosts_do_not_make_a_whole(tmp_path):
    write(tmp_path, 10, 0, 2)
    write(tmp_path, 10, 2, 4)  # another division
    assert newest(tmp_path) is None
    drop_unfinished(tmp_path)
    assert not [*(tmp_path / "parts").iterdir()]


def whole(folder, drawn, agents=6):
    """A checkpoint of as many hosts as agents."""
    for agent in range(agents):
        facts = np.frombuffer(json.dumps(asdict(Progress(drawn=drawn))).encode(), np.uint8)
        content = io.BytesIO()
        np.savez(content, progress=facts, position=np.full((2, 1, 3), drawn))
        write_part(folder, Progress(drawn=drawn), range(agent, agent + 1), agents, content.getvalue())


@pytest.mark.parametrize("where", ["parts._names", "folder._read_state"])
def test_a_newer_one_takes_its_place_while_somebody_looks(tmp_path, monkeypatch, where):
    """Before a look into its folder, or at one of its parts."""
    whole(tmp_path, 10)
    module = importlib.import_module(f"consilience.store.{where.partition('.')[0]}")
    name = where.partition(".")[2]
    look, passed = getattr(module, name), []

    def meanwhile(path):
        if "10" in path.parts and not passed:
            passed.append(path)
            whole(tmp_path, 20)
            drop_older(tmp_path)
        return look(path)

    monkeypatch.setattr(module, name, meanwhile)
    progress, state = read_checkpoint(tmp_path)
    assert passed and progress.drawn == 20
    np.testing.assert_array_equal(state["position"], np.full((2, 6, 3), 20))


def test_who_reads_while_hosts_write_finds_all_agents_of_one_checkpoint(tmp_path):
    """From the first whole one on there is always one, and ever later ones."""
    failures, ended = [], threading.Event()

    def write_on():
        for drawn in range(2, 100):
            whole(tmp_path, drawn)
            drop_older(tmp_path)
        ended.set()

    def read_on():
        last = 1
        try:
            while not ended.is_set():
                progress, state = read_checkpoint(tmp_path)
                assert state is not None and last <= progress.drawn
                np.testing.assert_array_equal(state["position"], np.full((2, 6, 3), progress.drawn))
                last = progress.drawn
        except BaseException as failure:
            failures.append(failure)
            raise

    whole(tmp_path, 1)
    threads = [threading.Thread(target=each) for each in (write_on, read_on, read_on)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert newest(tmp_path).done == 99
