"""Atomic, durable writing of files: what is written appears all at once, and stays after a power cut."""

from __future__ import annotations

import io
import os
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from .._compat import zarr_store_written_by
from .._refused import Refused

LOCK = ".lock"


def check_folder(folder: Path, fix: str) -> None:
    """Refuse a folder that is not there and cannot be made, or that takes no files; leave nothing there.

    Args:
      fix: what to write to name another one, such as "--out DIR", for the message.
    """
    try:
        there = next(place for place in (folder, *folder.parents) if place.exists())
        if not there.is_dir():
            raise Refused("", f"{there} is a file, and a folder is needed", f"Name another: {fix}.")
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        reason = f"nothing can be written to {folder}: {error.strerror}"
        raise Refused("", reason, f"Name another: {fix}.") from None


def write_whole(path: Path, content: Any) -> None:
    """Write a file atomically: whoever reads it sees what was there before, or all of `content`."""
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Make a folder, with all that are above it, so that it stays after a power cut."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Flush a folder to disk: the name of a new file, too, has to get there."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def shown(path: Path) -> Path:
    """Return a path as people write it: relative to the current folder, if it lies below."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def refusal(path: Path, reason: str, fix: str = "") -> Refused:
    """Return a refusal that is about a file or a folder."""
    return Refused(str(shown(path)), reason, fix)


def remove_partial(folder: Path) -> None:
    """Delete the files that a killed process has left half written."""
    for partial in folder.rglob(".*.partial"):
        partial.unlink(missing_ok=True)


def locked(folder: Path) -> IO[bytes]:
    """Lock `folder` for this process until the result is closed, or the process ends, however it does."""
    try:
        make_folder(folder)
        file = (folder / LOCK).open("ab")
    except (FileExistsError, NotADirectoryError):
        raise refusal(folder, "it is a file, or lies in one", "Name a folder.") from None
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows has no such lock
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise refusal(folder, "another process is writing to it", "Wait for it, or name another folder.") from None
    except OSError:  # nor have some network file systems
        return file
    return file


def npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the content of an npz file."""
    file = io.BytesIO()
    np.savez(file, **dict(arrays))  # type: ignore[arg-type]
    return file.getvalue()


def durable_zarr(folder: Path) -> Any:
    """Return a zarr store in `folder` whose files are written atomically, by `write_whole`."""
    return zarr_store_written_by(_write_with_folder)(folder)


def _write_with_folder(path: Path, content: Any) -> None:
    make_folder(path.parent)
    write_whole(path, content)
