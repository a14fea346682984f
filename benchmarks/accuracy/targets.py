"""The posteriors, split over agents, and their true moments."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import consilience as cs
from consilience.experiments import digits
from consilience.model import Layout
from tests import targets

TARGETS = {
    "linear regression": "y ~ N(xw, 1), w ~ N(0, I), 3 parameters: the posterior is Gaussian, its moments are known.",
    "digits": "Softmax regression on 1438 digits of 8 × 8 pixels, 650 parameters. Data are split by class: two classes "
    "for each of 5 agents, one for each of 10; 30 agents get equal parts of the digits sorted by class. The truth is a "
    "long run of NUTS on the pooled data.",
    "skewed": "exp(w) ~ Gamma(3, b), one parameter (`log_gamma`), its moments known.",
    "mixture": "The means of a mixture of two Gaussians, a bent ridge in two parameters (`gaussian_mixture`), its "
    "moments known from a fine grid.",
}
KNOWN = {
    "linear regression": targets.linear_regression,
    "skewed": targets.log_gamma,
    "mixture": targets.gaussian_mixture,
}


class Truth(NamedTuple):
    """A posterior's moments, and how well they are known: zeros where exactly."""

    mean: np.ndarray
    variance: np.ndarray
    largest_variance: float  # of any direction
    mean_error: np.ndarray  # standard errors
    ratio_error: float  # of the mean over parameters of variance over true variance


class Problem(NamedTuple):
    posterior: cs.Posterior
    shards: list[Any]
    layout: Layout
    truth: Truth | None  # None: it takes a reference run


def problem(target: str, agents: int) -> Problem:
    """A target over so many agents."""
    if target == "digits":
        train, _ = digits.bundled_digits()
        return Problem(digits.POSTERIOR, split_by_class(train, agents), Layout.of(digits.INIT), None)
    known = KNOWN[target](agents)
    zeros = np.zeros(known.dimension)
    largest = float(np.linalg.eigvalsh(known.covariance)[-1])
    truth = Truth(known.mean, np.diag(known.covariance), largest, zeros, 0.0)
    return Problem(known.posterior, known.shards, Layout.of(zeros.astype(np.float32)), truth)


def split_by_class(data: dict[str, np.ndarray], agents: int) -> list[Any]:
    """Whole classes where there are enough of them; else equal parts of the rows sorted by class, one or two each."""
    if agents <= digits.CLASSES:
        return cs.shard(data, agents, by="label")
    return cs.shard(data, agents, by=np.array_split(np.argsort(data["y"], kind="stable"), agents))
