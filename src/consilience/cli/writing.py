"""Checks that commands can write their output: made before the first draw, and not after the last."""

from __future__ import annotations

import tempfile
from pathlib import Path


def check_folder(folder: Path, fix: str) -> None:
    """Refuse a folder that is not there and cannot be made, or that takes no files; leave nothing there.

    Args:
      fix: what to write to name another one, such as "--out DIR", for the message.
    """
    try:
        there = next(place for place in (folder, *folder.parents) if place.exists())
        if not there.is_dir():
            raise ValueError(f"{there} is a file, and a folder is needed. Name another: {fix}.")
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise ValueError(f"nothing can be written to {folder}: {error.strerror}. Name another: {fix}.") from None


def check_page(page: Path, fix: str) -> None:
    """Refuse a page that cannot be written."""
    if page.is_dir():
        raise ValueError(f"{page} is a folder, and a file is needed. Name another: {fix}.")
    check_folder(page.parent, fix)
