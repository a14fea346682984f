"""The experiments of `consilience reproduce`, by name."""

from __future__ import annotations

from . import bnn, boston, gmm, mnist_partial, mnist_ring, theorems
from .reproduction import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    one.EXPERIMENT.name: one.EXPERIMENT for one in (gmm, boston, mnist_partial, mnist_ring, bnn, theorems)
}
