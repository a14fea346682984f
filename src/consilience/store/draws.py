"""Arrays of draws, in memory or on disk, that are read block by block."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from ..model import Layout

BLOCK_BYTES = 4 << 20
MOST_ROWS = 16384


class Draws(Protocol):
    """Array of draws, (draw, chain, copy, number), that can be sliced along its first axis. A numpy array is one."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype: ...

    def __getitem__(self, rows: slice) -> np.ndarray: ...


class DiskDraws:
    """Draws on disk: arrays (draw, chain, copy, ...), seen side by side as one array of vectors.

    Args:
      arrays: one for each of the layout's leaves, read when sliced; empty where nothing has been kept.
      length: number of draws that have been drawn.
      lanes: numbers of chains and copies, for where there is no array to tell.
    """

    def __init__(self, arrays: Sequence[Any], length: int, lanes: tuple[int, int], layout: Layout) -> None:
        self.arrays, self.layout, self.dtype = arrays, layout, layout.dtype
        chains, copies = arrays[0].shape[1:3] if arrays else lanes
        self.shape = (length, int(chains), int(copies), layout.dimension)

    def __getitem__(self, rows: slice) -> np.ndarray:
        first, last, step = rows.indices(self.shape[0])
        values = np.empty((max(0, last - first), *self.shape[1:]), self.dtype)
        if not values.size:
            return values
        for array, (_, leaf) in zip(self.arrays, self.layout.leaves(values), strict=True):
            leaf[...] = array[first:last]
        return values[::step]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype or self.dtype, copy=False)


def rows_at_once(shape: Sequence[int], dtype: np.dtype) -> int:
    """Return how many draws make a block; also how many lie in one file."""
    return max(1, min(MOST_ROWS, BLOCK_BYTES // max(1, math.prod(shape[1:]) * dtype.itemsize)))


def blocks(draws: Draws, count: int | None = None) -> Iterator[np.ndarray]:
    """Yield all draws in order, in blocks of at most `count` draws, a few megabytes of them in memory at a time."""
    at_once = rows_at_once(draws.shape, draws.dtype)
    for first in range(0, draws.shape[0], at_once):
        block = draws[first : first + at_once]
        for start in range(0, len(block), count or len(block)):
            yield block[start : start + (count or len(block))]
