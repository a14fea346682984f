"""Checkpoints in parts: whole ones are found, whoever writes and removes at the same time."""

import threading

from consilience.results.parts import drop_older, drop_unfinished, newest, write_part
from consilience.results.progress import Progress


def write(folder, drawn, first, last, size=5):
    write_part(folder, Progress(drawn=drawn), range(first, last + 1), size, b"state")


def test_a_checkpoint_counts_when_all_parts_are_there(tmp_path):
    assert newest(tmp_path) is None
    write(tmp_path, 10, 0, 2)
    assert newest(tmp_path) is None
    write(tmp_path, 10, 3, 4)
    assert newest(tmp_path).name == "10"
    write(tmp_path, 20, 3, 4)  # the other host is not as far
    assert newest(tmp_path).name == "10"
    drop_older(tmp_path)
    assert newest(tmp_path).name == "10"
    write(tmp_path, 20, 0, 2)
    drop_older(tmp_path)
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["20"]


def test_parts_of_other_hosts_do_not_make_a_whole(tmp_path):
    write(tmp_path, 10, 0, 2)
    write(tmp_path, 10, 2, 4)  # another division
    assert newest(tmp_path) is None
    drop_unfinished(tmp_path)
    assert not [*(tmp_path / "parts").iterdir()]


def test_two_hosts_at_once(tmp_path):
    """One writes and removes, the other writes and looks: neither stumbles over the other."""
    failures = []

    def host(first, last, drops):
        try:
            for drawn in range(1, 200):
                write(tmp_path, drawn, first, last)
                newest(tmp_path)
                if drops:
                    drop_older(tmp_path)
        except Exception as failure:
            failures.append(failure)

    hosts = [threading.Thread(target=host, args=args) for args in ((0, 2, True), (3, 4, False))]
    for thread in hosts:
        thread.start()
    for thread in hosts:
        thread.join()
    assert not failures
    assert newest(tmp_path).name == "199"
