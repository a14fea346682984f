"""Downloads from the first mirror that has a file: resumed where they broke off, checked, and written all at once."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import IO
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from ..runs import Report
from ..store import locked, make_folder, write_whole

TIMEOUT = 30.0  # seconds without a byte
WAIT_SECONDS = 0.2  # before looking again whether another process is done
CHUNK = 1 << 16  # bytes
GZIP_MAGIC = b"\x1f\x8b"


def content(raw: bytes, sha256: str) -> bytes | None:
    """Return a file's content, decompressed if it is gzip; None if its checksum is not `sha256`.

    The checksum is that of the decompressed bytes: compressing again makes another file of the same data.
    """
    if raw.startswith(GZIP_MAGIC):
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError, zlib.error):
            return None
    return raw if hashlib.sha256(raw).hexdigest() == sha256 else None


def download(path: Path, urls: Sequence[str], sha256: str) -> None:
    """Fetch `path` from the first of `urls` that has it; an OSError says, mirror by mirror, why none did.

    What arrived before a connection broke is kept in a .part file, for this call or a later one to go on from.
    """
    with _alone_in(path.parent):
        if path.exists():
            return  # another process has fetched it meanwhile
        part = path.with_name(path.name + ".part")
        reasons = []
        for url in urls:
            try:
                raw = _fetch(url, part, sha256)
            except (OSError, HTTPException) as failure:
                reasons.append(f"{urlsplit(url).netloc}: {_short(failure)}")
            else:
                write_whole(path, raw)  # not a rename of part: these are the very bytes that were checked
                part.unlink(missing_ok=True)
                return
    raise ConnectionError("; ".join(reasons))


def _alone_in(folder: Path) -> IO[bytes]:
    """Lock the folder, after waiting for any other process that downloads into it."""
    make_folder(folder)  # so that a ValueError of `locked` can only mean another process
    while True:
        try:
            return locked(folder)
        except ValueError:
            time.sleep(WAIT_SECONDS)


def _fetch(url: str, part: Path, sha256: str) -> bytes:
    """Return the checked bytes of `url`, resuming in `part` as long as each answer gets further than the one before."""
    resumed = part.exists()
    while True:
        before = _size(part)
        try:
            _append(url, part)
        except (OSError, HTTPException):
            if _size(part) > before:
                continue
            raise
        raw = part.read_bytes()
        if content(raw, sha256) is not None:
            return raw
        part.unlink()
        if not resumed:
            raise ConnectionError("sent other bytes than the checksum's")
        resumed = False  # the part from before may have been wrong: download all of it once more


def _append(url: str, part: Path) -> None:
    """Download what `part` lacks, or the whole file where the server does not support ranges."""
    have = _size(part)
    try:
        response = urlopen(Request(url, headers={"Range": f"bytes={have}-"} if have else {}), timeout=TIMEOUT)
    except HTTPError as refusal:
        refusal.close()
        if refusal.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and have:
            return  # nothing follows what is there: the part is complete, or too long
        raise
    with response:
        if response.status != HTTPStatus.PARTIAL_CONTENT:
            have = 0
        total = None if response.length is None else have + response.length
        with part.open("ab" if have else "wb") as file, _bar(url, total, have) as report:
            while some := response.read1(CHUNK):
                file.write(some)
                report(len(some))
    if total is not None and _size(part) < total:  # http.client takes a broken connection for the end
        raise ConnectionError(f"the connection broke after {_size(part):,} of {total:,} bytes")


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _short(failure: Exception) -> str:
    """Return a failure's reason, without urllib's wrapping."""
    reason = failure if isinstance(failure, HTTPError) else getattr(failure, "reason", failure)
    return getattr(reason, "strerror", None) or str(reason)


@contextmanager
def _bar(url: str, total: int | None, done: int) -> Iterator[Report]:
    """Show how many of `total` bytes are there, `done` of them before; print one line where there is no terminal."""
    if not sys.stderr.isatty() or importlib.util.find_spec("rich") is None:
        print(f"downloading {url}", file=sys.stderr, flush=True)
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = ("{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(url.rpartition("/")[2], total=total, completed=done)
        yield lambda count: bar.advance(task, count)
