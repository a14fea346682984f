"""The data sets behind the paper's experiments: MNIST, Fashion-MNIST and Boston housing.

Files are looked for in the folder that the environment variable CONSILIENCE_DATA names, then in the cache
($XDG_CACHE_HOME/consilience or ~/.cache/consilience), and else downloaded into the cache. In both folders, files have
the paths that are in CHECKSUMS.
"""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path

import numpy as np

from .._cache import cache_folder
from .._refused import Refused
from .download import content, download

FOLDER_VARIABLE = "CONSILIENCE_DATA"
MIRRORS = {
    "mnist": (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    "fashion-mnist": ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
    "boston": ("https://raw.githubusercontent.com/scikit-learn/scikit-learn/1.1.3/sklearn/datasets/data/",),
}
CHECKSUMS = {  # sha256 of the decompressed content
    "mnist/train-images-idx3-ubyte.gz": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "mnist/train-labels-idx1-ubyte.gz": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "mnist/t10k-images-idx3-ubyte.gz": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "mnist/t10k-labels-idx1-ubyte.gz": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    "fashion-mnist/t10k-images-idx3-ubyte.gz": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "fashion-mnist/t10k-labels-idx1-ubyte.gz": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    "boston/boston_house_prices.csv": "d98212636026544fc9b9c0f372e5f819872e6fa6fa757ab025efdda22180f2d6",
}


def mnist() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Load MNIST's 60 000 training and 10 000 test digits: "x", (n, 784) pixels in [0, 1], and "y", the digit."""
    files = _contents("mnist")
    return _images(files, "mnist/train"), _images(files, "mnist/t10k")


def fashion_mnist() -> dict[str, np.ndarray]:
    """Load Fashion-MNIST's 10 000 test images, in MNIST's form: a classifier of digits should not be sure of them."""
    return _images(_contents("fashion-mnist"), "fashion-mnist/t10k")


def boston() -> dict[str, np.ndarray]:
    """Load Boston housing, 506 districts: "x", (506, 13) raw features, and "y", median price in 1000 dollars (MEDV)."""
    (table,) = _contents("boston").values()
    rows = np.loadtxt(BytesIO(table), dtype=np.float32, delimiter=",", skiprows=2)  # a line of counts, and the header
    return {"x": rows[:, :-1], "y": rows[:, -1]}


def found(name: str) -> bool:
    """Tell whether "mnist", "fashion-mnist" or "boston" can be loaded without downloading. Files are not opened."""
    return not _missing(name)


def fetch(*names: str) -> None:
    """Download the missing files of data sets, so that they can be loaded later; refuse at once all that cannot be."""
    refusals = []
    for name in names:
        try:
            for file in _missing(name):
                download(_path(file), [mirror + Path(file).name for mirror in MIRRORS[name]], CHECKSUMS[file])
        except OSError as failure:
            reason = f"it is not on this machine, and downloading failed ({failure})"
            refusals.append(Refused(name, reason, _where_to_put(name)))
    if refusals:
        each = "\n".join(map(str, refusals))
        several = Refused(f"{len(refusals)} data sets", f"they cannot be had\n{each}")
        raise (refusals[0] if len(refusals) == 1 else several) from None


def _missing(name: str) -> list[str]:
    if name not in MIRRORS:
        known = ", ".join(map(repr, MIRRORS))
        raise Refused(f"data set {name!r}", "there is none of that name", f"Write one of {known}.")
    return [file for file in CHECKSUMS if file.startswith(f"{name}/") and not _path(file).is_file()]


def _path(file: str) -> Path:
    """Return the path where a file is, or is to be downloaded to."""
    folder = _folder()
    return folder / file if folder is not None and (folder / file).is_file() else cache_folder() / file


def _folder() -> Path | None:
    named = os.environ.get(FOLDER_VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        fix = "Name the one that has mnist/, fashion-mnist/ and boston/, or unset it: files are downloaded then."
        raise Refused(f"{FOLDER_VARIABLE}={named}", "that is not a folder", fix)
    return folder


def _contents(name: str) -> dict[str, bytes]:
    """Return the decompressed content of each file of a data set, after downloading what is missing."""
    fetch(name)
    return {file: _read(file) for file in CHECKSUMS if file.startswith(f"{name}/")}


def _where_to_put(name: str) -> str:
    folder = _folder()
    own = f"a folder, and name it: export {FOLDER_VARIABLE}=..." if folder is None else f"{folder} ({FOLDER_VARIABLE})"
    files = "".join(f"\n  {file}" for file in _missing(name))
    return f"Put these files, from {MIRRORS[name][0]}, into {own}{files}"


def _read(file: str) -> bytes:
    path = _path(file)
    whole = content(path.read_bytes(), CHECKSUMS[file])
    if whole is None:
        then = "it is fetched again" if path.is_relative_to(cache_folder()) else "or put a whole one there"
        raise Refused(str(path), "it is damaged: its checksum is not that of the original", f"Delete it, {then}.")
    return whole


def _images(files: dict[str, bytes], part: str) -> dict[str, np.ndarray]:
    images, labels = _idx(files[f"{part}-images-idx3-ubyte.gz"]), _idx(files[f"{part}-labels-idx1-ubyte.gz"])
    pixels = images.reshape(len(images), -1)
    return {"x": np.divide(pixels, 255, dtype=np.float32), "y": labels.astype(np.int32)}


def _idx(raw: bytes) -> np.ndarray:
    """Read an IDX file of bytes: two zeros, the type, the number of axes, their lengths in 4 bytes each, and values."""
    axes = raw[3]
    shape = np.frombuffer(raw, ">u4", axes, offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(shape)
