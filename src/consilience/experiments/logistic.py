"""Softmax regression on images over a network, shared by the paper's two MNIST experiments."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from .._types import Batch, Params
from ..model import Posterior
from .images import Images
from .methods import Method, Runs, Values, run_methods
from .record import MethodRow, Options
from .running import CURVES, RunningClasses, final_scores, late_variances, own_scores, variance_ratios

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


def run_logistic(
    images: Images,
    methods: Sequence[Method],
    references: dict[str, str],
    options: Options,
    seeds: int,
    views: Sequence[Batch] = (),
) -> tuple[list[MethodRow], Runs]:
    """Run the methods on softmax regression from zero, where the paper starts, and measure them.

    Args:
      references: name of the method that samples a target exactly, by the target's name.
      views: what each agent sees of the test images, where that is not all.
    """
    posterior = Posterior.classifier(logits, prior_precision=images.precision(PRIOR_PRECISION))
    init = {"w": np.zeros((images.side**2, CLASSES), np.float32), "b": np.zeros(CLASSES, np.float32)}
    running = RunningClasses(posterior, images.test, views=views)

    def measure(method: Method, runs: Runs) -> tuple[Values, Values]:
        run = runs[method.name]
        exact = late_variances(runs[references[method.target.name]]).mean(axis=0)
        scores, cumulative = running.measured(run, ("accuracy", "NLL", "ECE"))
        scores["var/ref"] = variance_ratios(run, exact)
        if views:
            own = {f"own {name}": own_scores(run, stat) for name, stat in CURVES.items()}
            scores |= {name: final_scores(values) for name, values in own.items()}
            cumulative |= own
        return scores, cumulative

    return run_methods(posterior, methods, options, seeds, init, measure, **running.averaged)
