"""The paper's data sets: where their files are looked for, and what is said when they are not there."""

import gzip
import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest

from consilience._refused import Refused
from consilience.experiments import data
from consilience.experiments.data import boston, fashion_mnist, found, mnist

from ..real_data import FOLDER, needs_data
from .test_download import serving, unused_address

OFFICIAL_MD5 = {
    "mnist/train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "mnist/train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "mnist/t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "mnist/t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    "fashion-mnist/t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "fashion-mnist/t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}
OFFICIAL_FASHION_TIME = 1504176627  # in the official files' headers: 31 August 2017


def idx(values):
    values = np.asarray(values, np.uint8)
    return bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def images(count):
    return np.arange(count * 784).reshape(count, 28, 28) % 256


TINY = {
    "mnist/train-images-idx3-ubyte.gz": gzip.compress(idx(images(3))),
    "mnist/train-labels-idx1-ubyte.gz": gzip.compress(idx([5, 0, 4])),
    "mnist/t10k-images-idx3-ubyte.gz": gzip.compress(idx(images(2))),
    "mnist/t10k-labels-idx1-ubyte.gz": gzip.compress(idx([7, 2])),
    "fashion-mnist/t10k-images-idx3-ubyte.gz": gzip.compress(idx(images(1))),
    "fashion-mnist/t10k-labels-idx1-ubyte.gz": gzip.compress(idx([9])),
    "boston/boston_house_prices.csv": b'2,3,,\n"CRIM","ZN","INDUS","MEDV"\n0.5,18,2.25,24\n0.125,0,7.5,21.5\n',
}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache; checksums are those of TINY; there is no network."""
    monkeypatch.delenv("CONSILIENCE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    nowhere = unused_address()
    for file, raw in TINY.items():
        whole = gzip.decompress(raw) if file.endswith(".gz") else raw
        monkeypatch.setitem(data.CHECKSUMS, file, hashlib.sha256(whole).hexdigest())
    for name in data.MIRRORS:
        monkeypatch.setitem(data.MIRRORS, name, (f"{nowhere}/{name}/",))
    return tmp_path / "cache" / "consilience"


@pytest.fixture
def folder(cache, tmp_path, monkeypatch):
    """An empty folder that CONSILIENCE_DATA names."""
    folder = tmp_path / "own"
    folder.mkdir()
    monkeypatch.setenv("CONSILIENCE_DATA", str(folder))
    return folder


@pytest.fixture
def mirror(cache, monkeypatch):
    with serving() as mirror:
        mirror.files |= {f"/{file}": raw for file, raw in TINY.items()}
        for name in data.MIRRORS:
            monkeypatch.setitem(data.MIRRORS, name, (f"{mirror.address}/{name}/",))
        yield mirror


def put(folder, *names):
    for file, raw in TINY.items():
        if file.split("/")[0] in names:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(raw)


def assert_loads():
    train, test = mnist()
    assert train["x"].dtype == np.float32
    assert train["y"].dtype == np.int32
    np.testing.assert_array_equal(train["x"], images(3).reshape(3, 784).astype(np.float32) / np.float32(255))
    assert train["y"].tolist() == [5, 0, 4]
    assert test["x"].shape == (2, 784)
    assert test["y"].tolist() == [7, 2]
    assert fashion_mnist()["x"].shape == (1, 784)
    assert fashion_mnist()["y"].tolist() == [9]
    houses = boston()
    assert houses["x"].tolist() == [[0.5, 18, 2.25], [0.125, 0, 7.5]]
    assert houses["y"].tolist() == [24, 21.5]
    assert houses["x"].dtype == houses["y"].dtype == np.float32


def test_files_are_read_from_the_named_folder(folder):
    put(folder, *data.MIRRORS)
    assert_loads()


def test_files_are_read_from_the_cache(cache):
    put(cache, *data.MIRRORS)
    assert_loads()


def test_files_are_downloaded_into_the_cache_once(cache, mirror):
    assert_loads()
    assert sorted(path for path, _ in mirror.requests) == sorted(f"/{file}" for file in TINY)
    assert all((cache / file).read_bytes() == raw for file, raw in TINY.items())
    assert_loads()
    assert len(mirror.requests) == len(TINY)


def test_the_named_folder_comes_before_the_cache(cache, folder):
    put(folder, "boston")
    (cache / "boston").mkdir(parents=True)
    (cache / "boston" / "boston_house_prices.csv").write_text("damaged")
    assert len(boston()["y"]) == 2


def test_what_the_named_folder_lacks_comes_from_the_cache_or_a_mirror(cache, folder, mirror):
    put(folder, "boston")
    put(cache, "fashion-mnist")
    assert_loads()
    assert {path.split("/")[1] for path, _ in mirror.requests} == {"mnist"}
    assert [path.name for path in folder.iterdir()] == ["boston"]


def test_the_next_mirror_is_asked(mirror, monkeypatch):
    monkeypatch.setitem(data.MIRRORS, "mnist", (f"{mirror.address}/gone/", f"{mirror.address}/mnist/"))
    assert len(mnist()[0]["y"]) == 3


@pytest.mark.parametrize("named", [None, "", "relative/folder"])
def test_the_cache_is_below_home_unless_named(cache, tmp_path, monkeypatch, named):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME") if named is None else monkeypatch.setenv("XDG_CACHE_HOME", named)
    put(tmp_path / ".cache" / "consilience", "boston")
    assert len(boston()["y"]) == 2


def test_the_named_folder_may_begin_with_a_tilde(folder, monkeypatch):
    put(folder, "boston")
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.setenv("CONSILIENCE_DATA", "~/own")
    assert len(boston()["y"]) == 2


@pytest.mark.parametrize("use", [boston, lambda: found("boston")], ids=["load", "found"])
def test_a_named_folder_that_is_none_is_refused(mirror, monkeypatch, tmp_path, use):
    monkeypatch.setenv("CONSILIENCE_DATA", str(tmp_path / "no"))
    with pytest.raises(Refused, match=r"CONSILIENCE_DATA=.*/no: that is not a folder\. Name the one that has mnist/"):
        use()
    assert mirror.requests == []


def test_an_empty_variable_names_no_folder(cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "boston").mkdir()
    (tmp_path / "boston" / "boston_house_prices.csv").write_text("not to be read")
    monkeypatch.setenv("CONSILIENCE_DATA", "")
    put(cache, "boston")
    assert len(boston()["y"]) == 2


def test_found_neither_downloads_nor_looks_into_files(cache, mirror, folder, monkeypatch):
    monkeypatch.setattr(data, "content", None)
    put(cache, "fashion-mnist")
    put(folder, "boston")
    assert [found(name) for name in ("mnist", "fashion-mnist", "boston")] == [False, True, True]
    assert mirror.requests == []


def test_found_wants_every_file_wherever_it_is(cache, folder):
    put(cache, "mnist")
    (cache / "mnist" / "t10k-labels-idx1-ubyte.gz").rename(cache / "mnist" / "t10k-labels-idx1-ubyte.gz.part")
    assert not found("mnist")
    put(folder, "mnist")
    (folder / "mnist" / "train-images-idx3-ubyte.gz").unlink()
    assert found("mnist")
    assert len(mnist()[0]["y"]) == 3


def test_found_names_the_sets_there_are():
    with pytest.raises(Refused, match=r"'cifar': .*\. Write one of 'mnist', 'fashion-mnist', 'boston'\."):
        found("cifar")


def test_offline_every_missing_file_is_listed_with_where_to_put_it(cache):
    put(cache, "mnist")
    for file in ("train-labels-idx1-ubyte.gz", "t10k-labels-idx1-ubyte.gz"):
        (cache / "mnist" / file).unlink()
    with pytest.raises(Refused) as failed:
        mnist()
    place = data.MIRRORS["mnist"][0].split("/")[2]
    assert str(failed.value) == (
        f"mnist: it is not on this machine, and downloading failed ({place}: Connection refused). Put these files, "
        f"from http://{place}/mnist/, into a folder, and name it: export CONSILIENCE_DATA=...\n"
        "  mnist/train-labels-idx1-ubyte.gz\n"
        "  mnist/t10k-labels-idx1-ubyte.gz"
    )


def test_offline_a_named_folder_is_where_to_put_it(folder):
    with pytest.raises(Refused, match=r"files, .*, into .*/own \(CONSILIENCE_DATA\)\n  boston/boston_house_"):
        boston()


def test_a_cache_that_cannot_be_written_is_named(cache):
    cache.parent.write_text("a file where the cache should be")
    with pytest.raises(Refused, match=r"downloading failed \(.*/cache'\)\. Put these files, .* into a folder"):
        boston()


@pytest.mark.parametrize("file", ["mnist/t10k-labels-idx1-ubyte.gz", "boston/boston_house_prices.csv"])
@pytest.mark.parametrize("where", ["cache", "own"])
def test_a_damaged_file_is_named(cache, folder, mirror, file, where):
    place = {"cache": cache, "own": folder}[where]
    name = file.split("/")[0]
    put(place, name)
    (place / file).write_bytes(TINY[file][:-9])
    with pytest.raises(Refused, match="is damaged: its checksum is not that of the original") as failed:
        {"mnist": mnist, "boston": boston}[name]()
    assert str(failed.value).startswith(str(place / file))
    advice = {"cache": "Delete it, it is fetched again.", "own": "Delete it, or put a whole one there."}[where]
    assert str(failed.value).endswith(advice)
    assert mirror.requests == []
    (place / file).unlink()
    {"mnist": mnist, "boston": boston}[name]()
    assert [path for path, _ in mirror.requests] == [f"/{file}"]


@pytest.fixture
def real(monkeypatch):
    monkeypatch.setenv("CONSILIENCE_DATA", str(FOLDER))


@needs_data
def test_mnist_is_mnist(real):
    train, test = mnist()
    assert train["x"].shape == (60000, 784)
    assert test["x"].shape == (10000, 784)
    assert (train["x"].min(), train["x"].max()) == (0, 1)
    assert train["x"].mean(dtype=float) == pytest.approx(0.1307, abs=1e-4)
    assert np.bincount(train["y"]).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert test["y"][:5].tolist() == [7, 2, 1, 0, 4]


@needs_data
def test_fashion_mnist_is_fashion_mnist(real):
    clothes = fashion_mnist()
    assert clothes["x"].shape == (10000, 784)
    assert np.bincount(clothes["y"]).tolist() == [1000] * 10
    assert clothes["x"].max() == 1


@needs_data
def test_boston_is_boston(real):
    houses = boston()
    assert houses["x"].shape == (506, 13)
    assert houses["x"][0].tolist() == pytest.approx(
        [0.00632, 18, 2.31, 0, 0.538, 6.575, 65.2, 4.09, 1, 296, 15.3, 396.9, 4.98]
    )
    assert houses["y"].shape == (506,)
    assert houses["y"].mean() == pytest.approx(22.5328, abs=1e-4)


@needs_data
@pytest.mark.parametrize("file", OFFICIAL_MD5)
def test_the_checksums_are_those_of_the_official_files(file):
    """A repackaged file has lost the name and the time in gzip's header: with these it is the official one."""
    raw = (FOLDER / file).read_bytes()
    if hashlib.md5(raw).hexdigest() != OFFICIAL_MD5[file]:
        header = b"\x1f\x8b\x08\x08" + struct.pack("<I", OFFICIAL_FASHION_TIME) + b"\x00\x03"
        raw = header + Path(file).stem.encode() + b"\x00" + raw[10:]
    assert hashlib.md5(raw).hexdigest() == OFFICIAL_MD5[file]
    assert data.content(raw, data.CHECKSUMS[file]) is not None
