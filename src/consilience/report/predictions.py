"""The report's section on predictions for held-out rows: how good they are, and how well calibrated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .figures import missing, write_powers
from .markup import Content, Markup, abreast, figure, panel, paragraph, table, tag
from .numbers import MISSING, count, fixed, number, percent
from .style import BAND, QUIET, SERIES
from .svg import drawn

if TYPE_CHECKING:
    from ..results import ClassificationScores, RegressionScores

Scores: TypeAlias = "ClassificationScores | RegressionScores"

CLASSIFICATION = {  # scores that are one number an agent: the name in tables, the attribute
    "accuracy": "accuracy",
    "AUC": "auc",
    "unseen accuracy": "unseen_accuracy",
    "NLL": "nll",
    "unseen NLL": "unseen_nll",
    "Brier": "brier",
    "ECE": "ece",
    "OOD AUROC": "ood_auroc",
}
REGRESSION = {"RMSE": "rmse", "NLL": "nll"}
DECIMALS = dict.fromkeys(CLASSIFICATION, 3) | {"RMSE": 4}
OF_UNSEEN = ("unseen accuracy", "unseen NLL")  # they differ between agents that predict the same
LEAST_SPAN = 0.05  # of the axis on which a score settles, so that small changes look small
LEAST_ROWS_SPANNED = 10


def figures_of(scores: Scores) -> dict[str, np.ndarray]:
    """Return the scores that are one number an agent, by the name that tables give them."""
    if scores.kind == "regression":
        return {name: getattr(scores, key) for name, key in REGRESSION.items()}
    found = {name: getattr(scores, key) for name, key in CLASSIFICATION.items()}
    return {name: values for name, values in found.items() if values is not None and not np.isnan(values).all()}


def section(scores: Scores, is_same_for_all: bool, agents: Sequence[str]) -> Content:
    """Make the section: scores over the network, calibration, and how scores settle with more draws.

    Args:
      is_same_for_all: whether all agents predict the same, as they hold the same draws.
      agents: names of the agents.
    """
    over: dict[str, Callable[[np.ndarray], Any]] = (
        {"value": np.nanmean} if is_same_for_all else {"mean": np.nanmean, "lowest": np.nanmin, "highest": np.nanmax}
    )
    base = scores.at_base_rates if scores.kind == "classification" else {}
    spread = [
        (
            name,
            *(fixed(float(f(values)), DECIMALS[name]) for f in over.values()),
            *([fixed(base[CLASSIFICATION[name]], 3) if CLASSIFICATION[name] in base else MISSING] if base else []),
        )
        for name, values in figures_of(scores).items()
    ]
    header = ["score", *over, *(["at base rates"] if base else [])]
    predicted = (
        f"Each agent predicts the same {count(scores.rows, 'held-out row')}, averaging over "
        f"{count(scores.draws, 'draw')} of each of its chains."
    )
    predicted += " All hold the same draws, so all predict the same." * (is_same_for_all and len(scores.nll) > 1)
    by_class = [_by_class(scores, agents, is_same_for_all)] if scores.kind == "classification" else []
    parts: list[Markup] = [
        paragraph(predicted),
        tag(
            "div",
            table("Scores" if is_same_for_all else "Scores over the agents", header, spread),
            tag("div", paragraph(_glossary(scores, is_same_for_all)), *by_class),
            class_="beside fitting",
        ),
    ]
    if scores.kind == "classification":
        drawing = panel("Reliability", _reliability(scores))
        caption = (
            "Of the rows predicted with some confidence, the share that was right; below the diagonal agents are too "
            "sure of themselves, and bars show how the rows are spread."
        )
        settle = {"Accuracy": scores.cumulative.accuracy, "NLL": scores.cumulative.nll}
    else:
        drawing = panel("Coverage", _coverage(scores))
        caption = (
            "The share of rows inside of predictive intervals of each level; below the diagonal agents are too sure of "
            "themselves."
        )
        settle = {"RMSE": scores.cumulative.rmse, "NLL": scores.cumulative.nll}
    settling = (
        figure(
            f"{name} when only the first draws are averaged: it levels off once there are enough.",
            [panel(f"{name} with more draws", _settling(name, scores.cumulative.draws, values, scores.rows))],
        )
        for name, values in settle.items()
    )
    if not is_same_for_all:
        parts.append(paragraph("Lines are means over agents, shading spans all agents."))
    parts.append(abreast([figure(caption, [drawing]), *settling]))
    return parts


def _glossary(scores: Scores, is_same_for_all: bool) -> str:
    if scores.kind == "regression":
        return "RMSE is the error of the predictive mean; NLL the negative log predictive density per row. Low is good."
    named, base = figures_of(scores), scores.at_base_rates
    text = (
        "NLL is the negative log probability of the right class per row; Brier the squared distance of the "
        "probabilities from what happened, added up over the classes: from 0, which is perfect, to 2; ECE the average "
        "gap between confidence and accuracy. Low is good for these three."
    )
    if scores.class_accuracy.shape[1] == 2:
        text += " (Of two classes, some halve the Brier score, which then is from 0 to 1.)"
    if base:
        text += (
            " At base rates: what always predicting the share of each class among these rows would score"
            f", a Brier score of {number(base['brier'])} for one."
        )
    text += _about_ece(scores, is_same_for_all)
    if "AUC" in named:
        text += (
            " AUC, the c-statistic, is the probability that a row of class 1 is given a larger probability of it than "
            "a row of class 0: high is good, 0.5 is chance."
        )
    if any(name in named for name in OF_UNSEEN):
        text += " Unseen accuracy and NLL count only rows of classes that the agent has no example of"
        text += ": the value is the mean over agents." if is_same_for_all else "."
    if "OOD AUROC" in named:
        text += (
            " OOD AUROC is the probability that a row from outside of the distribution is predicted less surely (with "
            "a larger entropy) than a held-out one: high is good, 0.5 is chance."
        )
    return text


def _about_ece(scores: ClassificationScores, is_same_for_all: bool) -> str:
    """Say between what an ECE lies, by the bootstrap; of unlike agents, of the best and of the worst."""
    if scores.ece_interval is None or not np.isfinite(scores.ece_interval).all():
        return ""
    sampled = "(90 % interval, by a bootstrap over these rows that takes off its upward bias)"
    (low, high), (_, highest) = (scores.ece_interval[k(scores.ece)] for k in (np.argmin, np.argmax))
    if is_same_for_all or len(scores.ece) == 1:
        return f" The ECE lies between {fixed(low, 3)} and {fixed(high, 3)} {sampled}."
    return f" Agents' ECE lie between {fixed(low, 3)} and {fixed(highest, 3)} {sampled}."


def _reliability(scores: ClassificationScores) -> Markup:
    bins = scores.reliability
    valid = (bins.count > 0) & np.isfinite(bins.confidence) & np.isfinite(bins.accuracy)
    rows = np.where(valid, bins.count, 0).sum(axis=0)
    filled = np.flatnonzero(rows)
    if not len(filled):
        return missing("No prediction is a number.")
    confidence, accuracy = (
        np.where(valid, values * bins.count, 0).sum(axis=0)[filled] / rows[filled]
        for values in (bins.confidence, bins.accuracy)
    )

    def draw(ax: Any) -> None:
        ax.stairs(0.25 * rows / rows.max(), bins.edges, fill=True, color=BAND)
        ax.plot([0, 1], [0, 1], color=QUIET, lw=0.8, ls="--")
        observed = np.where(valid, bins.accuracy, np.nan)[:, filled]
        lowest, highest = np.nanmin(observed, axis=0), np.nanmax(observed, axis=0)
        ax.fill_between(confidence, lowest, highest, color=SERIES[0], alpha=0.2, lw=0)
        ax.plot(confidence, accuracy, color=SERIES[0], lw=0.8)
        ax.scatter(confidence, accuracy, s=4 + 40 * rows[filled] / rows.max(), color=SERIES[0], zorder=3)
        ax.set(xlabel="confidence", ylabel="share that was right", xlim=(0, 1.02), ylim=(0, 1.02))

    gap = float(np.nanmean(scores.ece))
    lean = float(((confidence - accuracy) * rows[filled]).sum() / rows.sum())
    words = "surer than right" if lean > 0 else "less sure than right"
    alt = (
        f"Reliability diagram: ECE {number(gap)} on average; overall the agents are {words} by {number(abs(lean), 2)}."
    )
    return drawn(draw, alt)


def _coverage(scores: RegressionScores) -> Markup:
    levels, covered = scores.coverage.levels, scores.coverage.covered
    mean = covered.mean(axis=0)

    def draw(ax: Any) -> None:
        ax.plot([0, 1], [0, 1], color=QUIET, lw=0.8, ls="--")
        ax.fill_between(levels, covered.min(axis=0), covered.max(axis=0), color=SERIES[0], alpha=0.2, lw=0)
        ax.plot(levels, mean, color=SERIES[0], lw=1.3, marker="o", ms=3)
        ax.set(xlabel="nominal level", ylabel="share of rows inside", xlim=(0, 1.02), ylim=(0, 1.02))

    pairs = ", ".join(f"{percent(level)}: {percent(share)}" for level, share in zip(levels, mean, strict=True))
    return drawn(draw, f"Coverage of predictive intervals, nominal and observed: {pairs}.")


def _settling(name: str, draws: np.ndarray, values: np.ndarray, rows: int) -> Markup:
    if not np.isfinite(values).any():
        return missing("None of the scores is finite.")
    mean = values.mean(axis=1)

    def draw(ax: Any) -> None:
        ax.fill_between(draws, values.min(axis=1), values.max(axis=1), color=SERIES[0], alpha=0.2, lw=0)
        ax.plot(draws, mean, color=SERIES[0], lw=1.3, marker="o", ms=2.5)
        if draws.max() > 20 * draws.min():
            ax.set_xscale("log")
            write_powers(ax.xaxis)
        ax.set(xlabel="draws averaged", ylim=_wide_enough(name, values, rows))

    return drawn(
        draw, f"{name} with more draws: {number(mean[0])} with {draws[0]:,}, {number(mean[-1])} with {draws[-1]:,}."
    )


def _wide_enough(name: str, values: np.ndarray, rows: int) -> tuple[float, float]:
    """Return limits of an axis so wide that what a few rows change looks small."""
    finite = values[np.isfinite(values)]
    low, high = float(finite.min()), float(finite.max())
    least = max(LEAST_SPAN, LEAST_ROWS_SPANNED / rows) if name == "Accuracy" else LEAST_SPAN * max(abs(low), abs(high))
    span = max(1.1 * (high - low), least) or 1.0
    middle = (low + high) / 2
    if name == "Accuracy":
        span = min(span, 1.02)
        middle = min(max(middle, span / 2 - 0.01), 1.01 - span / 2)
    return middle - span / 2, middle + span / 2


def _by_class(scores: ClassificationScores, agents: Sequence[str], is_same_for_all: bool) -> Markup:
    """Make the table of each agent's accuracy on each class, shaded; classes that it has examples of are framed.

    Of agents that predict the same and have examples of the same classes it has one row.
    """
    seen = scores.seen or [()] * len(scores.accuracy)
    is_one = is_same_for_all and len(agents) > 1 and len(set(map(tuple, seen))) == 1
    seen = [()] * len(seen) if is_one else seen

    def shaded(_: object, place: tuple[int, int]) -> Markup:
        value, is_seen = float(scores.class_accuracy[place]), place[1] in seen[place[0]]
        written = fixed(value, 2)
        style = None if written == MISSING else f"--share:{value:.2f}"
        return tag(
            "td", tag("strong", written) if is_seen else written, class_="seen" if is_seen else None, style=style
        )

    classes = range(scores.class_accuracy.shape[1])
    rows = [(name, *((agent, label) for label in classes)) for agent, name in enumerate(agents)]
    if is_one:
        rows = [(f"all {len(agents)} agents", *rows[0][1:])]
    framed = "; framed and bold where the agent has examples of the class" if scores.seen and not is_one else ""
    caption = f"Accuracy by class: the share of its rows that an agent gets right{framed}"
    return table(caption, ["", *classes], rows, "shaded", shaded)
