"""Softmax regression on images over a network, shared by the paper's two MNIST experiments."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from .._types import Batch, Params
from ..model import Classification, Posterior
from ..results import Run
from .images import Images
from .methods import Method, curve_of, row_of, run_all
from .record import Row
from .reproduction import Options
from .running import (
    RUNNING_ACCURACY,
    RUNNING_NLL,
    RunningClasses,
    in_the_end,
    late_variances,
    own_scores,
    some_parameters,
    variance_ratios,
)

CLASSES = 10
PRIOR_PRECISION = 100.0
COLUMNS = {"accuracy": 4, "NLL": 4, "ECE": 4, "var/ref": 3}
SPREAD_NOTE = (
    "var/ref: the variance of the second half of a seed's draws over that of exact sampling of the same target, "
    "averaged over 200 of the parameters. 1 is right, less is overconfident; a chain that has not mixed may show "
    "either."
)
SEEDS_NOTE = (
    "Scores are of one seed's draws, each agent's averaged over the agents; ± is one sd over the seeds, of which nuts "
    "has four at most."
)


def logits(params: Params, x: jax.Array) -> jax.Array:
    return x @ params["w"] + params["b"]


def softmax_regression(images: Images) -> Posterior:
    return Posterior.classifier(logits, prior_precision=images.precision(PRIOR_PRECISION))


def zeros(images: Images) -> Params:
    """Return parameters that are all zero, where the paper starts."""
    return {"w": np.zeros((images.side**2, CLASSES), np.float32), "b": np.zeros(CLASSES, np.float32)}


def run_logistic(
    images: Images,
    methods: Sequence[Method],
    references: dict[str, str],
    options: Options,
    seeds: int,
    views: Sequence[Batch] = (),
) -> tuple[list[Row], dict[str, Run]]:
    """Run the methods on softmax regression, and measure them.

    Args:
      references: name of the method that samples a target exactly, by the target's name.
      views: what each agent sees of the test images, where that is not all.
    """
    posterior = softmax_regression(images)
    assert isinstance(posterior.task, Classification)
    running = RunningClasses(posterior.task, images.test, views=views)
    averaged = {"keep": some_parameters, "moments": running.moments, "watch": running.watch}
    runs = run_all(posterior, methods, options, seeds, zeros(images), **averaged)
    exact = {target: late_variances(runs[name]).mean(axis=0) for target, name in references.items()}
    rows = []
    for method in methods:
        run = runs[method.name]
        scores = running.scores(run)
        measured: dict[str, Sequence[float] | np.ndarray] = {
            "accuracy": [s.accuracy.mean() for s in scores],
            "NLL": [s.nll.mean() for s in scores],
            "ECE": [s.ece.mean() for s in scores],
            "var/ref": variance_ratios(run, exact[method.target.name]),
        }
        curves = {"accuracy": curve_of(run, run.stats[RUNNING_ACCURACY]), "NLL": curve_of(run, run.stats[RUNNING_NLL])}
        if views:
            own = {"own accuracy": own_scores(run, RUNNING_ACCURACY), "own NLL": own_scores(run, RUNNING_NLL)}
            measured |= {name: in_the_end(values) for name, values in own.items()}
            curves |= {name: curve_of(run, values) for name, values in own.items()}
        rows.append(row_of(method, run, measured, curves))
    return rows, runs
