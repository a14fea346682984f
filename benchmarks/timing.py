"""Timing on small, noisy machines: ratios of interleaved pairs, and their median."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def interleaved(first: Callable[[], object], second: Callable[[], object], pairs: int) -> np.ndarray:
    """Seconds of both, (pairs, 2), taken in turns after one run of each to warm up."""
    first(), second()
    return np.array([(seconds(first), seconds(second)) for _ in range(pairs)])
