"""A run's folder, whoever writes to it: one process, several hosts, or a peer, who may have to go back."""

import shutil
import tomllib

import numpy as np
import pytest

import consilience as cs
from consilience._refused import Refused
from consilience.engine import Chunk, Hosts
from consilience.model import Layout
from consilience.neighbors import Traffic
from consilience.store import Part, Progress, RunFolder, differences, read_checkpoint
from consilience.store import folder as folder_module

RING = cs.Network.ring(5)
KEPT = Layout.of({"w": np.zeros(3)}, "w")
ALONE = Part(range(5), 5)
PEER = Part(range(1), 1, goes_back=True)
FIRST, SECOND = Part(range(3), 5, 1), Part(range(3, 5), 5, 1)  # of two hosts


class Two(Hosts):
    """One of two hosts that never wait for each other."""

    def gather(self, value):
        return [value, value]


def identity(**settings):
    return {
        "format": 2,
        "created": "today",
        "run": {"thin": 2, "num_samples": 100, **settings},
        "sampler": {"replicated": False},
        "network": {"agents": 5},
    }


def opened(folder, part=ALONE, hosts=None, resume=True, **settings):
    own = identity(**settings)
    if part.goes_back:
        own["agent"] = {"name": "a"}
    return RunFolder(folder, own, RING, KEPT, part, hosts or Hosts(), resume=resume)


def fill(store, drawn, first=0):
    """Append draws up to `drawn`, all of their number, and save after them."""
    copies = store._part.copies
    values = np.broadcast_to(np.arange(first, drawn)[:, None, None, None], (drawn - first, 2, len(copies), 3))
    store.append(Chunk(values.astype(float), {}, 2 * (drawn - first), Traffic(), copies[0]), first)
    state = np.array(copies)[None, :, None] * np.ones((2, 1, 3))
    return store.save(Progress(drawn=drawn), {"position": state, "clock": np.array(drawn)})


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def peer(tmp_path):
    """A peer's folder after saves at iterations 10, 20 and 30."""
    found = opened(tmp_path / "run", PEER)
    for drawn in (5, 10, 15):
        fill(found, drawn, drawn - 5)
    yield found
    found.finish("interrupted")


class TestGoingBack:
    """To every checkpoint that somebody may still need, and to no other."""

    def test_every_checkpoint_can_be_gone_back_to_until_it_is_forgotten(self, peer):
        assert peer.checkpoints == (0, 10, 20, 30)
        peer.forget(20)  # all agents have that one: it may still be needed
        assert peer.checkpoints == (20, 30)

    def test_what_came_after_the_checkpoint_that_all_have_is_dropped(self, peer):
        peer.back_to(20)
        assert peer.progress.drawn == 10 and peer.saved == 20
        assert peer.snapshot["clock"] == 10
        assert peer.checkpoints == (0, 10, 20)
        peer.back_to(0)
        assert peer.progress == Progress() and peer.snapshot is None
        assert peer.checkpoints == (0,)

    def test_a_process_that_comes_back_finds_them_all(self, peer):
        peer.forget(20)
        peer.finish("interrupted")
        again = opened(peer.folder, PEER)
        assert again.checkpoints == (20, 30) and again.progress.drawn == 15
        again.finish("interrupted")

    def test_what_has_been_forgotten_is_gone(self, peer):
        peer.forget(30)
        assert peer.checkpoints == (30,)
        for iteration in (0, 10):
            with pytest.raises(Refused, match=f"it has no checkpoint of iteration {iteration}, but of 30"):
                peer.back_to(iteration)

    def test_others_keep_the_last_two(self, tmp_path):
        store = opened(tmp_path / "run")
        assert store.checkpoints == (0,)
        for drawn, kept in ((5, (0, 10)), (10, (10, 20)), (15, (20, 30))):
            fill(store, drawn, drawn - 5)
            assert store.checkpoints == kept
        store.finish("complete")


WRITERS = {"process": (ALONE, Hosts()), "hosts": (FIRST, Two(2, 0)), "peer": (PEER, Hosts())}


@pytest.mark.parametrize(("part", "hosts"), WRITERS.values(), ids=WRITERS)
class TestWhatIsThere:
    def test_nothing_of_another_run_is_touched(self, part, hosts, tmp_path):
        """Not even where its checkpoints are lost, so that no draw of it would count."""
        folder = tmp_path / "run"
        store = opened(folder, part, hosts)
        fill(store, 10)
        store.finish("complete")
        for is_lost in (False, True):
            if is_lost:
                shutil.rmtree(folder / "checkpoints")
            before = content(folder)
            with pytest.raises(Refused, match=r"it holds another run; .*\n  seed: nothing there, 1 here\nWrite the"):
                opened(folder, part, hosts, seed=1)
            assert content(folder) == before
        with pytest.raises(Refused, match="it has lost its checkpoints, which say how many of its draws count"):
            opened(folder, part, hosts)
        assert content(folder) == before

    def test_a_run_of_consilience_0_1_is_known_and_left_alone(self, part, hosts, tmp_path):
        (tmp_path / "run.toml").write_text("format = 1\n")
        (tmp_path / "checkpoint.npz").write_bytes(b"state")
        before = content(tmp_path)
        for read in (lambda: opened(tmp_path, part, hosts), lambda: cs.load(tmp_path)):
            with pytest.raises(Refused, match=r"by consilience 0\.1 \(format 1\), and .* 'consilience<0\.2'"):
                read()
        assert content(tmp_path).items() >= before.items()

    def test_another_format_is_refused(self, part, hosts, tmp_path):
        (tmp_path / "run.toml").write_text("format = 3\n")
        with pytest.raises(Refused, match=r"run\.toml: it has format 3, and this version of consilience reads 2\. Use"):
            opened(tmp_path, part, hosts)

    def test_one_that_nothing_was_saved_in_goes_on_from_the_start(self, part, hosts, tmp_path):
        store = opened(tmp_path / "run", part, hosts)
        store.append(Chunk(np.zeros((5, 2, len(part.copies), 3)), {}, 10, Traffic(), 0), 0)
        store.finish("interrupted")
        again = opened(tmp_path / "run", part, hosts)
        assert again.progress == Progress() and again.snapshot is None
        again.finish("interrupted")


def test_a_peer_that_was_refused_before_the_first_draw_may_begin_another_run(tmp_path):
    """As all do once they have agreed on their settings."""
    store = opened(tmp_path / "run", PEER, seed=1)
    store.append(Chunk(np.zeros((5, 2, 1, 3)), {}, 10, Traffic(), 0), 0)  # which was not saved
    store.finish("interrupted")
    again = opened(tmp_path / "run", PEER, seed=2)
    assert tomllib.loads((tmp_path / "run" / "run.toml").read_text())["run"]["seed"] == 2
    assert not (tmp_path / "run" / "draws.zarr").exists()
    again.finish("interrupted")


def test_one_process_goes_on_with_what_two_hosts_have_saved_and_they_with_that(tmp_path):
    folder = tmp_path / "run"
    first = opened(folder, FIRST, Two(2, 0))
    second = opened(folder, SECOND, Two(2, 1))
    fill(first, 10)
    fill(second, 10)
    fill(second, 20, 10)  # the first is killed before it has saved its part
    first.finish("interrupted")
    assert sorted(path.name for path in (folder / "checkpoints" / "20").iterdir()) == ["0-2.npz", "3-4.npz"]

    alone = opened(folder)
    assert alone.progress.drawn == 10 and alone.checkpoints == (0, 20)
    assert not (folder / "checkpoints" / "40").exists()
    np.testing.assert_array_equal(alone.snapshot["position"][0, :, 0], range(5))
    assert alone.snapshot["clock"] == 10
    fill(alone, 20, 10)
    alone.finish("interrupted")
    assert [path.name for path in (folder / "checkpoints" / "40").iterdir()] == ["0-4.npz"]

    for part, index in ((FIRST, 0), (SECOND, 1)):
        again = opened(folder, part, Two(2, index))
        assert again.progress.drawn == 20 and again.own_draws().shape == (20, 2, 5, 3)
        np.testing.assert_array_equal(again.own_draws()[:, 0, :, 0], np.tile(np.arange(20)[:, None], 5))
        again.finish("interrupted")


def test_a_checkpoint_is_not_safe_while_parts_are_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_module, "PARTS_PATIENCE", 0.2)
    first = opened(tmp_path / "run", FIRST, Two(2, 0))
    second = opened(tmp_path / "run", SECOND, Two(2, 1))
    assert not fill(first, 10)
    assert fill(second, 10)
    assert fill(first, 10)
    first.finish("interrupted")


def test_one_copy_that_all_agents_share_is_written_by_the_first_host(tmp_path):
    one = {"sampler": {"replicated": True}}
    folders = [
        RunFolder(
            tmp_path / "run", {**identity(), **one}, RING, KEPT, Part(range(1), 1, 1, k == 0), Two(2, k), resume=True
        )
        for k in range(2)
    ]
    for store in reversed(folders):
        assert fill(store, 10)
    assert [path.name for path in (tmp_path / "run" / "checkpoints" / "20").iterdir()] == ["0-0.npz"]
    assert read_checkpoint(tmp_path / "run", {**identity(), **one})[0].drawn == 10
    folders[0].finish("complete")


def test_it_is_not_due_while_a_state_waits_to_be_saved(tmp_path, monkeypatch):
    store = opened(tmp_path / "run")
    assert store.is_due
    store.is_saving = True
    assert not store.is_due
    store.is_saving = False
    store._cost, store._saved_at = 1.0, 0.0
    for now, is_due in ((8.9, False), (9.1, True)):
        monkeypatch.setattr(folder_module.time, "perf_counter", lambda now=now: now)
        assert store.is_due == is_due
    monkeypatch.undo()
    store.finish("interrupted")


class TestDifferences:
    def test_of_two(self):
        there, here = {"run": {"seed": 1, "thin": 1}}, {"run": {"seed": 2, "thin": 1}, "sampler": {"name": "nuts"}}
        lines = differences({"there": there, "here": here})
        assert lines == ["seed: 1 there, 2 here", "sampler.name: nothing there, 'nuts' here"]
        assert differences({"there": there, "here": here}, free=["run.seed", "sampler."]) == []

    def test_of_many(self):
        tables = {name: {"run": {"seed": 5}, "model": {"code": "1" * 64}} for name in "abc"}
        assert differences(tables) == []
        tables["b"] = {"run": {"seed": 6}, "model": {"code": "2" * 64}}
        assert differences(tables) == ["seed: b: 6; a, c: 5"]  # the code follows from it
        tables["b"]["run"] = {"seed": 5}
        assert differences(tables) == ["model.code: b: 22222222...; a, c: 11111111..."]

    def test_of_values_that_are_long_and_differ_at_their_end(self):
        (line,) = differences({"there": {"x": "z" * 99 + "b"}, "here": {"x": "z" * 99 + "c"}})
        assert line == f"x: '{'z' * 59}... there, '{'z' * 59}... here"
