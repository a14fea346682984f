"""Files that stay after a power cut: none can be had in a test, but what protects from it can be watched."""

import os
from pathlib import Path

import numpy as np
import pytest
import zarr

from consilience.store import make_folder, write_whole
from consilience.store.files import durable_zarr


@pytest.fixture
def seen(monkeypatch):
    """What is synced, and what is given its name, in that order: ("synced" or "named", inode)."""
    events, fsync, replace = [], os.fsync, Path.replace

    def synced(handle):
        events.append(("synced", os.fstat(handle).st_ino))
        fsync(handle)

    def named(path, target):
        events.append(("named", path.stat().st_ino))
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", named)
    return events


def inode(path):
    return path.stat().st_ino


def test_bytes_are_on_the_disk_before_they_have_their_name_and_then_the_name_is(tmp_path, seen):
    write_whole(tmp_path / "file", b"content")
    file, folder = inode(tmp_path / "file"), inode(tmp_path)
    assert seen == [("synced", file), ("named", file), ("synced", folder)]
    assert (tmp_path / "file").read_bytes() == b"content"


def test_new_folders_are_on_the_disk(tmp_path, seen):
    make_folder(tmp_path / "one" / "two")
    assert seen == [("synced", inode(tmp_path)), ("synced", inode(tmp_path / "one"))]


def test_every_file_of_the_draws_is_on_the_disk(tmp_path, seen):
    group = zarr.open_group(durable_zarr(tmp_path / "draws.zarr"), mode="a")
    group.create_array("posterior/w", shape=(10, 2), chunks=(5, 2), dtype=float)[:] = np.ones((10, 2))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 4
    for path in files:
        assert seen.index(("synced", inode(path))) < seen.index(("named", inode(path)))


def test_a_file_that_could_not_be_written_leaves_the_old_one(tmp_path):
    write_whole(tmp_path / "file", b"old")
    with pytest.raises(TypeError):
        write_whole(tmp_path / "file", "not bytes")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"
