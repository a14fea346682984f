"""Downloads over connections that break, from servers that misbehave."""

import contextlib
import gzip
import hashlib
import io
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import urlopen

import numpy as np
import pytest

from consilience.experiments import download as module
from consilience.experiments.download import content, download
from consilience.store import locked

from ..patience import PATIENCE
from ..peers.crew import free_ports

RAW = np.random.default_rng(0).integers(0, 256, 300_000, dtype=np.uint8).tobytes()
SHA256 = hashlib.sha256(RAW).hexdigest()


class Mirror(ThreadingHTTPServer):
    """Serves `files` by path on this machine.

    Attributes:
      cuts: after how many bytes to close the connection, answer by answer; whole answers after these.
      stalls: whether to wait for `released` instead of closing it there; `stalled` counts how often that began.
      opened: before that is set, no answer goes beyond its head.
      requests: path and range of each request so far.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {}
        self.cuts = []
        self.stalls = False
        self.stalled = threading.Semaphore(0)
        self.released = threading.Event()
        self.opened = threading.Event()
        self.opened.set()
        self.knows_ranges = True
        self.tells_length = True
        self.requests = []

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def ranges(self):
        return [asked for _, asked in self.requests]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        mirror, asked = self.server, self.headers["Range"]
        mirror.requests.append((self.path, asked))
        raw = mirror.files.get(self.path)
        if raw is None:
            self.send_error(404)
            return
        start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1]) if asked and mirror.knows_ranges else 0
        if start >= len(raw):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(raw) - 1}/{len(raw)}")
        if mirror.tells_length:
            self.send_header("Content-Length", str(len(raw) - start))
        self.end_headers()
        mirror.opened.wait(PATIENCE)
        until = start + mirror.cuts.pop(0) if mirror.cuts else len(raw)
        with contextlib.suppress(ConnectionError):  # a client may have given up
            self.wfile.write(raw[start:until])
        if mirror.stalls:
            mirror.stalled.release()
            mirror.released.wait(PATIENCE)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving():
    with Mirror() as mirror:
        thread = threading.Thread(target=mirror.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield mirror
        finally:
            mirror.released.set()
            mirror.opened.set()
            mirror.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def mirror():
    with serving() as mirror:
        mirror.files["/a.bin"] = RAW
        yield mirror


@pytest.fixture
def second():
    with serving() as mirror:
        mirror.files["/a.bin"] = RAW
        yield mirror


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache" / "set" / "a.bin"


def fetch(path, *mirrors):
    download(path, [f"{mirror.address}/a.bin" for mirror in mirrors], SHA256)
    assert path.read_bytes() == RAW
    assert sorted(p.name for p in path.parent.iterdir()) == [".lock", "a.bin"]


def part_of(path, raw):
    path.parent.mkdir(parents=True)
    part = path.with_name("a.bin.part")
    part.write_bytes(raw)
    return part


def unused_address():
    return f"http://127.0.0.1:{free_ports(1)[0]}"


def test_a_file_is_fetched_once(path, mirror):
    fetch(path, mirror)
    fetch(path, mirror)
    assert mirror.ranges == [None]


def test_a_broken_connection_is_taken_up_where_it_broke(path, mirror):
    mirror.cuts = [100_000, 50_000]
    fetch(path, mirror)
    assert mirror.ranges == [None, "bytes=100000-", "bytes=150000-"]


def test_what_arrived_is_kept_for_the_next_call(path, mirror):
    mirror.cuts = [100_000, 0]
    with pytest.raises(ConnectionError, match="the connection broke after 100,000 of 300,000 bytes"):
        download(path, [f"{mirror.address}/a.bin"], SHA256)
    assert not path.exists()
    assert path.with_name("a.bin.part").read_bytes() == RAW[:100_000]
    fetch(path, mirror)
    assert mirror.ranges[-1] == "bytes=100000-"


def test_another_mirror_goes_on_where_the_first_stopped(path, mirror, second):
    mirror.cuts = [100_000, 0]
    fetch(path, mirror, second)
    assert second.ranges == ["bytes=100000-"]


def test_a_server_without_ranges_starts_over(path, mirror):
    mirror.knows_ranges = False
    mirror.cuts = [100_000]
    fetch(path, mirror)
    assert mirror.ranges == [None, "bytes=100000-"]


def test_a_server_without_ranges_that_always_breaks_is_given_up(path, mirror, second):
    mirror.knows_ranges = False
    mirror.cuts = [100_000] * 100
    fetch(path, mirror, second)
    assert len(mirror.requests) == 2


def test_a_server_may_leave_out_the_length(path, mirror):
    mirror.tells_length = False
    fetch(path, mirror)


def test_a_whole_part_is_not_fetched_again(path, mirror):
    part_of(path, RAW)
    fetch(path, mirror)
    assert mirror.ranges == ["bytes=300000-"]


@pytest.mark.parametrize("wrong", [RAW + b"more", b"x" * 1000, b"x" * len(RAW)], ids=["longer", "start", "all"])
def test_a_wrong_part_is_thrown_away(path, mirror, wrong):
    part_of(path, wrong)
    fetch(path, mirror)
    assert mirror.ranges == [f"bytes={len(wrong)}-", None]


def test_wrong_bytes_are_thrown_away_and_the_next_mirror_asked(path, mirror, second):
    mirror.files["/a.bin"] = b"<html>Log in to the airport's network</html>"
    fetch(path, mirror, second)
    assert mirror.ranges == second.ranges == [None]


def test_wrong_bytes_over_a_breaking_connection_are_not_asked_for_forever(path, mirror):
    part_of(path, RAW[:10])
    mirror.files["/a.bin"] = b"x" * 1000
    mirror.cuts = [500, 100, 500, 100]
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:\d+: sent other bytes than the checksum's"):
        download(path, [f"{mirror.address}/a.bin"], SHA256)
    assert [p.name for p in path.parent.iterdir()] == [".lock"]


@pytest.fixture
def hurry(monkeypatch):
    """Call with a mirror: as soon as it has stalled, and not before, a client waits for a fifth of a second only."""

    def arm(silent):
        def opened(request, timeout):
            assert timeout == module.TIMEOUT
            response = urlopen(request, timeout=PATIENCE)
            if request.full_url.startswith(silent.address):
                assert silent.stalled.acquire(timeout=PATIENCE)
                response.fp.raw._sock.settimeout(timeout)
            return response

        monkeypatch.setattr(module, "TIMEOUT", 0.2)
        monkeypatch.setattr(module, "urlopen", opened)

    return arm


def test_a_silent_server_is_left_for_the_next(path, mirror, second, hurry):
    hurry(mirror)
    mirror.cuts, mirror.stalls = [100_000, 0], True
    fetch(path, mirror, second)
    assert second.ranges == ["bytes=100000-"]


def test_every_mirror_s_reason_is_named(path, mirror, second, hurry):
    hurry(second)
    second.cuts, second.stalls = [0], True
    mirror.files.clear()
    with pytest.raises(ConnectionError) as failed:
        download(path, [f"{url}/a.bin" for url in (mirror.address, second.address, unused_address())], SHA256)
    pattern = r"127.0.0.1:\d+: HTTP Error 404: Not Found; 127.0.0.1:\d+: timed out; 127.0.0.1:\d+: Connection refused"
    assert re.fullmatch(pattern, str(failed.value))


@pytest.fixture
def waited(monkeypatch):
    """Set as soon as a download has found another one under way."""
    waited = threading.Event()

    def lock(folder):
        try:
            return locked(folder)
        except ValueError:
            waited.set()
            raise

    monkeypatch.setattr(module, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr(module, "locked", lock)
    return waited


def test_of_two_at_once_one_downloads_and_both_have_it(path, mirror, waited, monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT", PATIENCE)
    mirror.opened = waited
    with ThreadPoolExecutor(2) as pool:
        for one in [pool.submit(fetch, path, mirror) for _ in range(2)]:
            one.result()
    assert waited.is_set()
    assert mirror.ranges == [None]


def test_whoever_waited_takes_what_the_other_has_fetched(path, mirror, waited):
    with ThreadPoolExecutor(1) as pool:
        with locked(path.parent):
            waiting = pool.submit(fetch, path, mirror)
            assert waited.wait(PATIENCE)
            path.write_bytes(RAW)
        waiting.result(PATIENCE)
    assert mirror.requests == []


def test_only_what_was_checked_appears(path, mirror, monkeypatch):
    """Should there be no lock, and another process change the .part file after the check."""
    check = content

    def changed(raw, sha256):
        path.with_name("a.bin.part").write_bytes(b"x")
        return check(raw, sha256)

    monkeypatch.setattr(module, "content", changed)
    fetch(path, mirror)


def test_a_terminal_shows_a_bar_that_goes_on_where_it_was(path, mirror, monkeypatch):
    pytest.importorskip("rich")
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "120")
    part_of(path, RAW[:100_000])
    fetch(path, mirror)
    shown = terminal.getvalue()
    assert "a.bin" in shown
    assert "300.0/300.0 kB" in shown
    assert "downloading" not in shown


@pytest.mark.parametrize("terminal", [True, False])
def test_without_rich_or_a_terminal_there_is_a_line(path, mirror, monkeypatch, capsys, terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    if terminal:
        monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    fetch(path, mirror)
    assert capsys.readouterr().err == f"downloading {mirror.address}/a.bin\n"


def test_the_checksum_is_of_what_is_compressed():
    for raw in (RAW, gzip.compress(RAW, 1), gzip.compress(RAW, 9, mtime=0)):
        assert content(raw, SHA256) == RAW


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        RAW[:-1],
        gzip.compress(RAW)[:-20],
        gzip.compress(RAW)[:5],
        gzip.compress(RAW) + b"x",
        gzip.compress(RAW[:-1]),
        gzip.compress(RAW)[:10] + b"\xff" * 20,
    ],
    ids=["empty", "short", "cut", "header", "trailing", "other", "garbled"],
)
def test_damage_of_every_kind_is_seen(raw):
    assert content(raw, SHA256) is None
