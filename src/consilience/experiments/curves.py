"""Figures of cumulative scores, of all draws so far, with bands of one sd over the seeds."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..report import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION, new_figure
from .record import OURS, MethodRow, Record

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


def colour(name: str) -> str:
    return COLOURS.get(name, PURPLE)


def accuracy_and_nll(record: Record) -> Any:
    """Draw cumulative accuracy and NLL, side by side."""
    figure, axes = new_figure(10.4, 4.2, columns=2)
    for ax, score in zip(axes, ("accuracy", "NLL"), strict=True):
        draw_curves(ax, record, score, score)
    return figure


def draw_curves(ax: Any, record: Record, score: str, label: str) -> None:
    """Draw a cumulative score of every method that has one.

    Methods with the paper's settings are solid lines, ours dashed. Those with less than SHORT of the longest run's
    iterations, such as trajectories with many gradients in each, are dotted lines across, at their final score.
    """
    rows = [row for row in record.rows if score in row.curves]
    longest = max(row.curves[score].iterations[-1] for row in rows)
    shown: list[Any] = []
    for row in rows:
        at, mean, sd = (np.array(getattr(row.curves[score], name), float) for name in ("iterations", "mean", "sd"))
        look = {"color": colour(row.name), "label": label_of(row, score)}
        if at[-1] < SHORT * longest:
            dots = ":" if row.name in COLOURS else (0, (1, 3))  # two may lie on each other
            ax.axhline(row.mean(score), ls=dots, lw=2.2, **look)
            shown.append([row.mean(score)])
        else:
            ax.plot(at, mean, ls="--" if row.source == OURS else "-", lw=1.7, **look)
            ax.fill_between(at, mean - sd, mean + sd, color=look["color"], alpha=0.18, lw=0)
            shown.append(mean[at >= SHOWN_FROM * longest])
    values = np.concatenate(shown)
    margin = 0.06 * (values.max() - values.min()) or 1e-3
    ax.set(xlim=(SHOWN_FROM * longest, longest), ylim=(values.min() - margin, values.max() + margin))
    ax.set(xlabel="iterations", ylabel=f"{label} of all draws so far")
    ax.legend(frameon=False, fontsize=8)


def label_of(row: MethodRow, score: str | None = None) -> str:
    """Return the legend's text: the method, the source of its settings, and its mean score if asked for."""
    return f"{row.name} ({row.source})" + ("" if score is None else f": {row.mean(score):.3f}")
