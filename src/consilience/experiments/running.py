"""Predictions that are averaged on the device while a run goes on, and scored as they settle.

The draws of an image model are gigabytes; its predictive for the test images is not. After draw s a seed's predictive
is the mean of the first s draws' probabilities, which is what the paper's curves score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Batch, Params
from ..model import Classification, Posterior
from ..results import (
    ClassificationScores,
    CumulativeAccuracy,
    Reliability,
    Run,
    classification_scores,
    save_scores,
    seen_classes,
    with_strange,
)

RUNNING_ACCURACY, RUNNING_NLL = "running_accuracy", "running_nll"
CURVES = {"accuracy": RUNNING_ACCURACY, "NLL": RUNNING_NLL}
KEPT_PARAMETERS = 200
SCORES: dict[str, Callable[[Any], float]] = {  # of all draws of a seed
    "accuracy": lambda found: found.accuracy.mean(),
    "NLL": lambda found: found.nll.mean(),
    "ECE": lambda found: found.ece.mean(),
    "unseen accuracy": lambda found: found.unseen_accuracy.min(),
    "OOD AUROC": lambda found: found.ood_auroc.mean(),
    "worst agent's accuracy": lambda found: found.accuracy.min(),
    "worst agent's NLL": lambda found: found.nll.max(),
}


class RunningClasses:
    """Class probabilities of test rows, averaged while a run goes on: `moments` and `watch` are for `cs.sample`.

    Args:
      posterior: that of a classifier.
      test: rows with labels.
      ood: inputs from another distribution, predicted as well.
      views: what each agent sees of the test rows, where that is not all.
    """

    def __init__(
        self, posterior: Posterior, test: Batch, ood: Batch | None = None, views: Sequence[Batch] = ()
    ) -> None:
        assert isinstance(posterior.task, Classification)
        self.task = task = posterior.task
        self.labels = np.asarray(task.outcomes(test))
        self.inputs = jax.device_put(with_strange(task.inputs(test), ood))
        self.views = [jax.device_put(task.inputs(view)) for view in views]

    @property
    def averaged(self) -> dict[str, Any]:
        """The arguments of `cs.sample` with which a run averages the predictions and keeps a few parameters."""
        return {"keep": some_parameters, "moments": self.moments, "watch": self.watch}

    def moments(self, params: Params) -> dict[str, Any]:
        return {
            "test": self.task.probabilities(params, self.inputs),
            "views": [self.task.probabilities(params, view) for view in self.views],
        }

    def watch(self, mean: dict[str, Any]) -> dict[str, jax.Array]:
        """Return accuracy and NLL of the predictive so far."""
        scores = self._scores(mean["test"][: len(self.labels)])
        for agent, view in enumerate(mean["views"]):
            scores |= {own_name(name, agent): value for name, value in self._scores(view).items()}
        return scores

    def _scores(self, known: jax.Array) -> dict[str, jax.Array]:
        """Return accuracy and NLL of probabilities; zero counts as the least normal number of their type."""
        of_label = jnp.take_along_axis(known, self.labels[:, None], axis=1)
        return {
            RUNNING_ACCURACY: (known.argmax(axis=1) == self.labels).mean(),
            RUNNING_NLL: -jnp.log(jnp.maximum(of_label, np.finfo(known.dtype).tiny)).mean(),
        }

    def measured(self, run: Run, names: Iterable[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return those of SCORES that are named, of every seed, and the cumulative scores."""
        found = self.scores(run)
        cumulative = {name: run.stats[stat] for name, stat in CURVES.items()}
        return {name: [SCORES[name](one) for one in found] for name in names}, cumulative

    def scores(self, run: Run) -> list[ClassificationScores]:
        """Return the scores of every seed; their mean becomes the run's evaluation, for its report."""
        assert run.moments is not None
        predictive = run.moments.mean["test"]  # (agent, chain, row, class)
        seen = seen_classes(run, self.task, None, predictive.shape[-1])
        stops = np.unique(np.geomspace(run.num_draws, 1, 30).round().astype(int))
        found = []
        for chain in range(run.num_chains):
            watched = (run.stats[name][:, chain, stops - 1].T.astype(float) for name in CURVES.values())
            cumulative = CumulativeAccuracy(stops, *watched)
            tables = [table.astype(float) for table in predictive[:, chain]]
            found.append(classification_scores(tables, self.labels, seen, cumulative, run.num_draws))
        mean = _mean_of(found)
        run.__dict__["evaluation"] = mean
        if run.folder is not None:
            save_scores(run.folder, mean)
        return found


def own_name(name: str, agent: int) -> str:
    """Return the name under which a score of predictions from what an agent sees of the test rows is recorded."""
    return f"{name}_{agent}"


def own_scores(run: Run, name: str) -> np.ndarray:
    """Return cumulative scores of predictions from what each agent sees: (agent, chain, draw). One alone sees all."""
    agents = range(run.network.size)
    return np.stack([run.stats[own_name(name, agent) if len(agents) > 1 else name][agent] for agent in agents])


def final_scores(scores: np.ndarray) -> np.ndarray:
    """Return the last of cumulative scores (agent, chain, draw), that of all draws, averaged over agents: (chain,)."""
    return scores[:, :, -1].mean(axis=0, dtype=float)


def some_parameters(params: Params) -> dict[str, jax.Array]:
    """Return some parameters, evenly spaced: enough to tell how far a chain has come, and how far it spreads."""
    whole = jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(params)])
    return {"some": whole[:: max(1, len(whole) // KEPT_PARAMETERS)]}


def late_variances(run: Run) -> np.ndarray:
    """Return the variances of kept numbers over the second half of the draws, averaged over agents: (chain, number).

    By then the start is forgotten.
    """
    late = run.positions[run.num_draws // 2 :]
    return late.var(axis=0, dtype=float).mean(axis=1)


def variance_ratios(run: Run, exact: np.ndarray) -> np.ndarray:
    """Return the variance of each seed's later draws over the `exact` one, averaged over parameters and agents."""
    with np.errstate(divide="ignore", invalid="ignore"):  # a reference that never moved
        return (late_variances(run) / exact).mean(axis=1)


def _mean_of(many: Sequence[Any]) -> Any:
    """Average scores of the same kind, array by array, over those that have a number there."""
    first = many[0]

    def mean_field(name: str) -> Any:
        values = [getattr(one, name) for one in many]
        if is_dataclass(values[0]):
            return _mean_of(values)
        if not isinstance(values[0], np.ndarray):
            return values[0]
        weights = np.where(np.isnan(values), 0.0, 1.0)
        if isinstance(first, Reliability) and name in ("confidence", "accuracy"):  # bins are weighted by their counts
            weights *= [one.count for one in many]
        with np.errstate(invalid="ignore"):  # 0 / 0 where none has one
            return np.where(weights > 0, np.multiply(values, weights), 0.0).sum(axis=0) / weights.sum(axis=0)

    return type(first)(**{field.name: mean_field(field.name) for field in fields(first)})
