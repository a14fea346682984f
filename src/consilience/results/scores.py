"""Scores of predictions: accuracy, proper scores, calibration, and the classes that hold a run's evaluation.

A predictive p(c | x_n) of the rows n = 1..N is an array (..., N, classes), with labels y_n; all logarithms are natural.
Nothing is clipped: where p(y_n | x_n) = 0, every draw ruled out what happened, and the NLL is infinite. Where a
predictive is NaN, so is every score of it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, get_type_hints

import numpy as np

from .._intervals import central
from .._lazy import LazyModule
from .._refused import Refused
from ..store import FORMAT, SCORES, check_format, refusal, write_whole

special: Any = LazyModule("scipy.special")
scipy_stats: Any = LazyModule("scipy.stats")

BINS = 15
LEVELS = (0.5, 0.8, 0.9, 0.95)
ECE_LEVEL, RESAMPLES = 0.9, 400  # of the interval around an ECE
RESAMPLED_AT_ONCE = 2_000_000  # numbers
SHOWN_AGENTS = 20


def correct(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return 1 where argmax_c p(c | x_n) = y_n, else 0: (..., N). Its mean is the accuracy."""
    hit = (probabilities.argmax(axis=-1) == labels).astype(float)
    return np.where(np.isnan(probabilities).any(axis=-1), np.nan, hit)


def surprise(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return -log p(y_n | x_n): (..., N). Its mean is the negative log-likelihood."""
    with np.errstate(divide="ignore"):  # -log 0 is infinite, and meant
        return -np.log(probabilities[..., np.arange(len(labels)), labels])


def brier(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return Σ_c (p(c | x_n) - 1[c = y_n])²: (..., N), each from 0 to 2. Its mean is the Brier score."""
    return ((probabilities - np.eye(probabilities.shape[-1])[labels]) ** 2).sum(axis=-1)


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """Return the entropy -Σ_c p(c | x_n) log p(c | x_n): (..., N)."""
    return special.entr(probabilities).sum(axis=-1)


def auroc(inside: np.ndarray, outside: np.ndarray) -> float:
    """Return P(s' > s) + P(s' = s) / 2 for scores s of rows inside and s' of rows outside; by ranks: ties are exact."""
    ranks = scipy_stats.rankdata(np.concatenate([inside, outside]))[len(inside) :]
    below = ranks.sum() - len(outside) * (len(outside) + 1) / 2
    return float(below / (len(inside) * len(outside)))


def covered(pit: np.ndarray, levels: Sequence[float] = LEVELS) -> np.ndarray:
    """Return the fraction of rows inside the central interval of each level.

    Args:
      pit: F(y_n), the predictive's distribution function at what happened. It lies in the central interval of level q
        where |2 F(y_n) - 1| <= q.
    """
    inside = np.abs(2 * pit[:, None] - 1) <= np.asarray(levels)
    return np.where(np.isnan(pit).any(), np.nan, inside.mean(axis=0))


class Jsonable:
    """Frozen dataclass of arrays that converts to JSON-able lists and back: NaN to None, infinity to "inf"."""

    def to_dict(self) -> dict[str, Any]:
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Any:
        """Convert back; what is missing, as another version did not have it yet, is what the class has by default."""
        hints = get_type_hints(cls)
        there = [field.name for field in fields(cls) if field.name in plain or field.default is MISSING]  # type: ignore[arg-type]
        return cls(**{name: _revived(hints[name], plain[name]) for name in there})


@dataclass(frozen=True, eq=False)
class Reliability(Jsonable):
    """Reliability diagram: how often predictions made with some confidence are right.

    Bin b holds the rows with edges[b] < max_c p(c | x_n) <= edges[b + 1].
    """

    edges: np.ndarray  # borders of the bins, (bins + 1,)
    confidence: np.ndarray  # mean confidence of a bin's rows, (agent, bin); NaN in an empty bin
    accuracy: np.ndarray  # fraction of a bin's rows that is right, (agent, bin); NaN in an empty bin
    count: np.ndarray  # number of a bin's rows, (agent, bin)

    @classmethod
    def of(cls, predictives: Sequence[np.ndarray], labels: np.ndarray, bins: int = BINS) -> Reliability:
        """Compute the reliability of one predictive (N, classes) per agent."""
        edges = np.linspace(0, 1, bins + 1)
        rows = []
        for probabilities in predictives:
            confidence = probabilities.max(axis=-1)
            place = np.searchsorted(edges[1:-1], confidence, side="left")
            count, sure, right = (
                np.bincount(place, weights, bins) for weights in (None, confidence, correct(probabilities, labels))
            )
            with np.errstate(invalid="ignore"):  # 0 / 0 of an empty bin
                rows.append((sure / count, right / count, count))
        return cls(edges, *(np.stack(column) for column in zip(*rows, strict=True)))

    @property
    def ece(self) -> np.ndarray:
        """Expected calibration error Σ_b count_b / N |accuracy_b - confidence_b|, (agent,)."""
        gap = np.where(self.count > 0, self.count * np.abs(self.accuracy - self.confidence), 0.0)
        return gap.sum(axis=1) / self.count.sum(axis=1)


def ece_interval(probabilities: np.ndarray, labels: np.ndarray, bins: int = BINS) -> np.ndarray:
    """Return the ends of an interval of ECE_LEVEL around one predictive's ECE, by a bootstrap over the test rows.

    With e the ECE and q its quantiles over RESAMPLES sets of rows drawn with replacement, the interval is
    [2e - q_high, 2e - q_low], cut off at 0. An ECE is biased upwards, as gaps have no sign, and that of a bootstrap's
    rows once more; taken as an interval, the quantiles themselves would lie too high by both.
    """
    confidence = probabilities.max(axis=-1)
    if np.isnan(confidence).any():
        return np.full(2, np.nan)
    place = np.searchsorted(np.linspace(0, 1, bins + 1)[1:-1], confidence, side="left")
    gaps = np.eye(bins)[place] * (correct(probabilities, labels) - confidence)[:, None]  # (rows, bins)
    count, random = len(labels), np.random.default_rng(0)
    resampled: list[np.ndarray] = []
    at_once = max(1, RESAMPLED_AT_ONCE // count)
    for first in range(0, RESAMPLES, at_once):
        sets = random.multinomial(count, np.full(count, 1 / count), size=min(at_once, RESAMPLES - first))
        resampled.append(np.abs(sets @ gaps).sum(axis=1) / count)
    observed = np.abs(gaps.sum(axis=0)).sum() / count
    low, high = np.quantile(np.concatenate(resampled), central(ECE_LEVEL))
    return np.maximum(0.0, [2 * observed - high, 2 * observed - low])


@dataclass(frozen=True, eq=False)
class CumulativeAccuracy(Jsonable):
    """Accuracy and NLL of the predictive averaged over the first `draws` draws of all chains."""

    draws: np.ndarray  # (points,), the last one all
    accuracy: np.ndarray  # (points, agent)
    nll: np.ndarray  # (points, agent)


@dataclass(frozen=True, eq=False)
class CumulativeError(Jsonable):
    """Cumulative RMSE and NLL of a regression, (points, agent) each, as in `CumulativeAccuracy`."""

    draws: np.ndarray
    rmse: np.ndarray
    nll: np.ndarray


@dataclass(frozen=True, eq=False)
class Coverage(Jsonable):
    """Fraction of test targets inside central predictive intervals, `covered` (agent, k), by their `levels` (k,)."""

    levels: np.ndarray
    covered: np.ndarray


class Scores(Jsonable, ABC):
    """Scores of every agent, as `evaluate` returns them; prints as a table of the agents."""

    kind: ClassVar[str]
    draws: int
    rows: int
    agents: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the scores as a JSON-able dictionary; `scores_from_dict` takes it back."""
        return {"kind": self.kind, **super().to_dict()}

    @abstractmethod
    def _columns(self) -> list[tuple[str, np.ndarray, str]]:
        """Return the table's columns: a name, a number per agent, and what it is in a line."""

    def __str__(self) -> str:
        columns = self._columns()
        values = np.stack([column for _, column, _ in columns], axis=1)
        widths = [max(10, len(name) + 2) for name, _, _ in columns]
        names = self.agents or tuple(map(str, range(len(values))))
        if len(values) > 1 and all(np.array_equal(values[0], row, equal_nan=True) for row in values):
            # Agents that hold one chain predict alike, and a line for each would look as if it were of its own rows.
            names, values = (f"all {len(values)}",), values[:1]
        first = max(6, *(len(name) + 2 for name in names[:SHOWN_AGENTS]))

        def line(head: object, cells: Sequence[object]) -> str:
            return f"{head!s:<{first}}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))

        def shown(row: np.ndarray) -> list[str]:
            return ["-" if np.isnan(value) else f"{value:.4g}" for value in row]

        lines = [f"{self.kind}: {self.rows:,} test rows, {self.draws:,} draws a chain", ""]
        lines.append(line("agent", [name for name, _, _ in columns]))
        lines += [line(name, shown(row)) for name, row in zip(names, values[:SHOWN_AGENTS], strict=False)]
        if len(values) > SHOWN_AGENTS:
            lines.append(f"... {SHOWN_AGENTS} of {len(values)} agents; all are in the attributes")
        if len(values) > 1:
            there = ~np.isnan(values)  # an agent that has seen all classes has no score of the others
            with np.errstate(invalid="ignore"):
                lines.append(line("mean", shown(values.sum(axis=0, where=there) / there.sum(axis=0))))
        widest = max(len(name) for name, _, _ in columns)
        return "\n".join([*lines, "", *(f"{name:<{widest}}  {meaning}" for name, _, meaning in columns)])


@dataclass(frozen=True, eq=False)
class ClassificationScores(Scores):
    """Scores of every agent's predictions of classes.

    Attributes:
      accuracy, nll, brier, ece: scores on all test rows, (agent,).
      class_accuracy: accuracy on the test rows of each class, (agent, class); NaN where there are none.
      seen: the classes in each agent's data; None where that is not known.
      unseen_accuracy, unseen_nll: scores on the test rows of the other classes, (agent,); NaN where there are none.
      reliability: confidence against accuracy.
      cumulative: accuracy and nll as draws come in.
      ood_auroc: how well the predictive's entropy tells rows of another distribution from test rows, (agent,). Higher
        entropy says other; 0.5 is chance. None where no such rows were given.
      rows: of the test set.
      draws: per chain.
      auc: of two classes, the probability that a row of class 1 is given a larger p(1 | x) than one of class 0, ties
        counting half, (agent,): the c-statistic. None for more classes, NaN where the test rows are of one class.
      ece_interval: ends of a 90 % interval around the ECE, by a bootstrap over the test rows, (agent, 2).
      base_rates: share of each class among the test rows, (class,).
      agents: names of the agents; empty where they have none.
    """

    kind: ClassVar[Literal["classification"]] = "classification"

    accuracy: np.ndarray
    nll: np.ndarray
    brier: np.ndarray
    ece: np.ndarray
    class_accuracy: np.ndarray
    seen: tuple[tuple[int, ...], ...] | None
    unseen_accuracy: np.ndarray
    unseen_nll: np.ndarray
    reliability: Reliability
    cumulative: CumulativeAccuracy
    ood_auroc: np.ndarray | None
    rows: int
    draws: int
    auc: np.ndarray | None = None
    ece_interval: np.ndarray | None = None
    base_rates: np.ndarray | None = None
    agents: tuple[str, ...] = ()

    @property
    def at_base_rates(self) -> dict[str, float]:
        """Scores of always saying the base rates of the test rows, by attribute: what knows nothing of x attains."""
        if self.base_rates is None:
            return {}
        share = self.base_rates
        found = {"accuracy": share.max(), "nll": entropy(share), "brier": 1 - (share**2).sum(), "ece": 0, "auc": 0.5}
        return {name: float(value) for name, value in found.items()}

    def _columns(self) -> list[tuple[str, np.ndarray, str]]:
        columns = [
            ("accuracy", self.accuracy, "fraction of test rows whose most probable class is the true one"),
            ("NLL", self.nll, "mean of -log p(true class): lower is better, inf where a true class was ruled out"),
            ("Brier", self.brier, "mean of Σ (p - truth)² over classes, 0 to 2: lower is better" + self._base("brier")),
            (
                "ECE",
                self.ece,
                f"mean gap between confidence and accuracy over {BINS} bins: 0 is calibrated{self._sure()}",
            ),
        ]
        if self.auc is not None:
            columns.insert(1, ("AUC", self.auc, "c-statistic: how well p tells the two classes, 0.5 is chance"))
        if self.seen is not None and not np.isnan(self.unseen_accuracy).all():
            columns += [
                ("unseen acc", self.unseen_accuracy, "accuracy on classes that the agent has no data of"),
                ("unseen NLL", self.unseen_nll, "NLL on classes that the agent has no data of"),
            ]
        if self.ood_auroc is not None:
            meaning = "how well entropy tells rows of another distribution: 0.5 is chance, 1 perfect"
            columns.append(("OOD AUROC", self.ood_auroc, meaning))
        return columns

    def _sure(self) -> str:
        """Say within what the ECE lies; of several agents, from the lowest start of an interval to the highest end."""
        if self.ece_interval is None or not np.isfinite(self.ece_interval).all():
            return ""
        low, high = self.ece_interval.min(), self.ece_interval.max()
        bounds = f"{ECE_LEVEL:.0%} within {low:.3f} and {high:.3f}"
        return f"; {bounds} by a bootstrap over test rows, which takes off its upward bias"

    def _base(self, name: str) -> str:
        return f"; {value:.4g} at the base rates" if (value := self.at_base_rates.get(name)) is not None else ""


@dataclass(frozen=True, eq=False)
class RegressionScores(Scores):
    """Scores of every agent's predictions of numbers.

    Attributes:
      rmse, nll: scores on all test rows, (agent,).
      coverage: fractions of targets inside central predictive intervals.
      cumulative: rmse and nll as draws come in.
      rows: of the test set.
      draws: per chain.
      agents: names of the agents; empty where they have none.
    """

    kind: ClassVar[Literal["regression"]] = "regression"

    rmse: np.ndarray
    nll: np.ndarray
    coverage: Coverage
    cumulative: CumulativeError
    rows: int
    draws: int
    agents: tuple[str, ...] = ()

    def _columns(self) -> list[tuple[str, np.ndarray, str]]:
        return [
            ("RMSE", self.rmse, "root mean square distance of the predictive mean from the target"),
            ("NLL", self.nll, "mean of -log p(target), the predictive a mixture over draws: lower is better"),
            *(
                (f"in {level:.0%}", self.coverage.covered[:, k], f"fraction of targets inside the {level:.0%} interval")
                for k, level in enumerate(self.coverage.levels)
            ),
        ]


def scores_from_dict(plain: dict[str, Any]) -> ClassificationScores | RegressionScores:
    """Rebuild scores from what `to_dict` gave."""
    for kind in (ClassificationScores, RegressionScores):
        if plain.get("kind") == kind.kind:
            return kind.from_dict(plain)
    fix = "Evaluate the run again, by the version that reads it."
    raise Refused(f"kind = {plain.get('kind')!r}", "scores are of 'classification' or of 'regression'", fix)


def save_scores(folder: Path, scores: Any) -> None:
    write_whole(folder / SCORES, (json.dumps({"format": FORMAT, **scores.to_dict()}, indent=2) + "\n").encode())


def read_scores(folder: Path) -> Any:
    """Read the scores in a run's folder; None where none have been saved."""
    path = folder / SCORES
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise refusal(path, f"it is damaged: {error}", "Delete it: evaluate computes it anew.") from None
    check_format(path, found)
    del found["format"]
    return scores_from_dict(found)


def _plain(value: Any) -> Any:
    if isinstance(value, Jsonable):
        return value.to_dict()
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else str(value)
    return value


def _revived(hint: Any, value: Any) -> Any:
    if value is None or isinstance(value, int):
        return value
    if hint == tuple[str, ...]:
        return tuple(value)
    if is_dataclass(hint):
        return hint.from_dict(value)  # type: ignore[union-attr]
    if hint == tuple[tuple[int, ...], ...] | None:
        return tuple(map(tuple, value))
    array = np.asarray(value)
    return array if array.dtype.kind == "i" else np.array(value, dtype=float)
