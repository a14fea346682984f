"""Images of digits for three of the experiments: MNIST in full, or a small stand-in.

The small one is a part of MNIST as thumbnails where MNIST is at hand, else scikit-learn's bundled digits. There the
paper's steps would be far too small: the posterior of fewer and smaller images is wider. For softmax regression its
width goes as 1/√κ with κ = Σ_n |x_n|², the trace of the curvature up to a factor. So a step of the paper's is
multiplied by √(κ₀/κ), κ₀ being that of MNIST, and a precision by κ/κ₀: a posterior of the same shape, and a chain that
moves through it as fast.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._extras import require
from .._types import Batch
from . import data

MNIST_CURVATURE = 5_268_601.0  # κ₀ of the 60,000 training images, pixels from 0 to 1
MNIST_SIDE = 28
SMALL_ROWS, SMALL_TEST_ROWS = 1000, 500
TEST_FRACTION = 0.2


@dataclass(frozen=True)
class Images:
    """Training and test images with labels, in pixels from 0 to 1.

    Attributes:
      side: width and height of an image in pixels.
      source: description of the images, in words.
      curvature: κ/κ₀, as in the module's docstring.
    """

    train: Batch
    test: Batch
    side: int
    source: str
    curvature: float

    def step(self, of_paper: float) -> float:
        """Scale one of the paper's step sizes to these images."""
        return of_paper / self.curvature**0.5

    def squared_step(self, of_paper: float) -> float:
        """Scale one of the paper's step sizes of a drift, which is a step squared, to these images."""
        return of_paper / self.curvature

    def precision(self, of_paper: float) -> float:
        """Scale one of the paper's prior precisions to these images."""
        return of_paper * self.curvature


def images(is_small: bool) -> Images:
    """Load MNIST, or the small stand-in for it that is at hand."""
    if not is_small:
        train, test = data.mnist()
        source = f"MNIST, {len(train['y']):,} training and {len(test['y']):,} test images of 28 × 28 pixels"
        return Images(train, test, MNIST_SIDE, source, curvature=1.0)
    train, test, side, source = _thumbnails() if data.found("mnist") else _bundled()
    return Images(train, test, side, source, curvature=square_sum(train["x"]) / MNIST_CURVATURE)


def square_sum(x: np.ndarray) -> float:
    """Compute κ = Σ_n |x_n|²."""
    return float(np.square(x, dtype=float).sum())


def ood_images(found: Images, is_small: bool) -> tuple[np.ndarray, str]:
    """Return images of something other than digits, and a description of them."""
    if not is_small:
        return data.fashion_mnist()["x"], "Fashion-MNIST, 10,000 images"
    if found.side == MNIST_SIDE // 2 and data.found("fashion-mnist"):
        return _halved(data.fashion_mnist()["x"][:SMALL_TEST_ROWS]), "Fashion-MNIST, as thumbnails"
    # The same pixels in another order, one for all images: as bright as digits, but no digits.
    order = np.random.default_rng(1).permutation(found.side**2)
    return found.test["x"][:, order], "the test images with their pixels in another order"


def normalised(like: np.ndarray, *arrays: np.ndarray) -> list[np.ndarray]:
    """Scale pixels so that those of `like` have mean 0 and sd 1: for MNIST, (x - 0.1307) / 0.3081."""
    mean, sd = like.mean(dtype=float), like.std(dtype=float)
    return [((x - mean) / sd).astype(np.float32) for x in arrays]


def _thumbnails() -> tuple[Batch, Batch, int, str]:
    random = np.random.default_rng(0)

    def some(part: Batch, count: int) -> Batch:
        chosen = random.choice(len(part["y"]), count, replace=False)
        return {"x": _halved(part["x"][chosen]), "y": part["y"][chosen]}

    train, test = data.mnist()
    source = f"{SMALL_ROWS:,} of MNIST's images and {SMALL_TEST_ROWS:,} of its test images, as thumbnails of 14 × 14"
    return some(train, SMALL_ROWS), some(test, SMALL_TEST_ROWS), MNIST_SIDE // 2, source


def _halved(x: np.ndarray) -> np.ndarray:
    """Halve the sides of images by averaging 2 × 2 pixels."""
    half = MNIST_SIDE // 2
    return x.reshape(-1, half, 2, half, 2).mean(axis=(2, 4), dtype=np.float32).reshape(len(x), half * half)


def bundled_digits() -> tuple[Batch, Batch]:
    """Load scikit-learn's 1797 digits of 8 × 8 pixels in [0, 1]: training and test part, split at random."""
    pixels, labels = require("sklearn.datasets", "demo").load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    whole = {"x": (pixels / 16).astype(np.float32)[order], "y": labels.astype(np.int32)[order]}
    held_out = int(TEST_FRACTION * len(labels))
    return {k: v[held_out:] for k, v in whole.items()}, {k: v[:held_out] for k, v in whole.items()}


def _bundled() -> tuple[Batch, Batch, int, str]:
    train, test = bundled_digits()
    source = f"scikit-learn's digits, {len(train['y']):,} training and {len(test['y']):,} test images of 8 × 8 pixels"
    return train, test, 8, source
