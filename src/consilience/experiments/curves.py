"""The figure of most experiments: cumulative scores, of all draws so far, with bands of one sd over the seeds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._extras import require
from ..report import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION
from .record import OURS, Record, Row

COLOURS = {
    "centralized HMC": GREY,
    "published": VERMILION,
    "D-ULA": ORANGE,
    "dmala": BLUE,
    "nuts": GREEN,
    "hmc": GREEN,
}
SHORT = 0.25
SHOWN_FROM = 0.02  # share of the longest run that is not shown: curves are still near the start there


def canvas(panels: int, width: float = 5.2, height: float = 4.2) -> tuple[Any, Any]:
    """Make a figure with `panels` panels side by side; return it and its axes."""
    matplotlib = require("matplotlib", "report")
    matplotlib.use("Agg")  # a file is written, no window opened
    plt = require("matplotlib.pyplot", "report")
    figure, axes = plt.subplots(1, panels, figsize=(width * panels, height), layout="constrained", squeeze=False)
    for ax in axes[0]:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes[0]


def save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=130)
    require("matplotlib.pyplot", "report").close(figure)


def colour(name: str) -> str:
    return COLOURS.get(name, PURPLE)


def curves_figure(record: Record, path: Path, scores: Mapping[str, str]) -> None:
    """Draw cumulative scores to `path`: one panel for each of `scores`, which maps scores to names of axes.

    Methods with the paper's settings are solid lines, ours dashed. Those with less than SHORT of the longest run's
    iterations, such as trajectories with many gradients in each, are dotted lines across, at their final score.
    """
    figure, axes = canvas(len(scores))
    for ax, (score, label) in zip(axes, scores.items(), strict=True):
        draw_curves(ax, record, score)
        ax.set(xlabel="iterations", ylabel=f"{label} of all draws so far")
        ax.legend(frameon=False, fontsize=8)
    save(figure, path)


def draw_curves(ax: Any, record: Record, score: str) -> None:
    longest = max(row.curves[score].iterations[-1] for row in record.rows if score in row.curves)
    shown: list[Any] = []
    for row in record.rows:
        if score not in row.curves:
            continue
        look = {"color": colour(row.name), "lw": 1.7, "ls": "--" if row.source == OURS else "-"}
        if row.curves[score].iterations[-1] < SHORT * longest:
            dots = ":" if row.name in COLOURS else (0, (1, 3))  # two may lie on each other
            ax.axhline(row.mean(score), label=label_of(row, score), **{**look, "ls": dots, "lw": 2.2})
            shown.append([row.mean(score)])
        else:
            shown.append(_draw_curve(ax, row, score, look, SHOWN_FROM * longest))
    values = np.concatenate(shown)
    margin = 0.06 * (values.max() - values.min()) or 1e-3
    ax.set(xlim=(SHOWN_FROM * longest, longest), ylim=(values.min() - margin, values.max() + margin))


def _draw_curve(ax: Any, row: Row, score: str, look: dict[str, Any], start: float) -> np.ndarray:
    """Draw a method's curve and its band; return the means from iteration `start` on."""
    curve = row.curves[score]
    at, mean, sd = (np.array(values, dtype=float) for values in (curve.iterations, curve.mean, curve.sd))
    ax.plot(at, mean, label=label_of(row, score), **look)
    ax.fill_between(at, mean - sd, mean + sd, color=look["color"], alpha=0.18, lw=0)
    return mean[at >= start]


def label_of(row: Row, score: str | None = None) -> str:
    """Return the legend's text: the method, the source of its settings, and its mean score if asked for."""
    return f"{row.name} ({row.source})" + ("" if score is None else f": {row.mean(score):.3f}")
