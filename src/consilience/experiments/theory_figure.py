"""The figure of the theory: errors against the step size, a panel or two for each theorem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..report import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION, new_figure
from .theory import ScalingCurve, TheorySizes, power

LABEL_ROOM = 0.95  # share of a panel's width in ε, added on its right for the labels
LABEL_GAP = 0.095  # share of its height: the least distance between two labels
SHOWN_STEP_SIZES = 3  # in the panel over time
PANELS: tuple[tuple[str, str, dict[str, tuple[str, str]]], ...] = (  # title, axis, and each curve's label and colour
    (
        "3.1: error of log ρ in one step",
        "rms error of log ρ",
        {
            "published": ("published", VERMILION),
            "leapfrog nothing": ("leapfrog, log ρ = 0", GREY),
            "corrected": ("corrected", BLUE),
            "trapezoid": ("trapezoid", GREEN),
        },
    ),
    (
        "3.1: stacked chain to centralized chain",
        r"$E\|\tilde\omega-\hat\omega\|^2$",
        {
            "stacked to centralized, squared": ("published, {steps}", PURPLE),
            "one step, published": ("published, 1 step", VERMILION),
            "one step, corrected": ("corrected, 1 step", BLUE),
        },
    ),
    (
        "3.2: disagreement of the agents",
        "rms distance from their mean",
        {
            "curvature": (r"$\aleph$, late", VERMILION),
            "first gradient": ("$g$, after one step", ORANGE),
            "position": (r"$\omega$, late", BLUE),
            "gradient": ("$g$, late", GREEN),
        },
    ),
    (
        "3.3: average to stacked chain, {steps}",
        "distance of positions",
        {
            "stacked to average, squared": (r"$\tilde\omega-\bar\omega$, rms", ORANGE),
            "centralized to average": (r"$\hat\omega-\bar\omega$, mean", PURPLE),
            "stacked to average": (r"$\tilde\omega-\bar\omega$, mean", BLUE),
            "stacked to average, free": (r"$\tilde\omega-\bar\omega$, no Metropolis", GREEN),
        },
    ),
    (
        "3.3: what is tracked, {steps}",
        "mean distance",
        {
            "stacked to average, curvature": (r"$\tilde\aleph-\bar\aleph$", VERMILION),
            "stacked to average, gradient": (r"$\tilde g-\bar g$", GREEN),
        },
    ),
)


def theory_figure(sizes: TheorySizes, curves: Mapping[str, ScalingCurve], course: Mapping[str, np.ndarray]) -> Any:
    """Draw the measurements. Thin dotted lines have the claimed exponent and meet their curve at its largest ε."""
    figure, ((ratio, distance, consensus), (time, average, tracked)) = new_figure(13, 8, rows=2, columns=3)
    figure.get_layout_engine().set(hspace=0.08, wspace=0.03)
    steps = f"{sizes.horizon} steps"
    for ax, (title, ylabel, shown) in zip((ratio, distance, consensus, average, tracked), PANELS, strict=True):
        labels = [(label.replace("{steps}", steps), colour) for label, colour in shown.values()]
        _curves(ax, [curves[name] for name in shown], title.replace("{steps}", steps), ylabel, labels)
    ratio.text(0.98, 0.03, "dotted: slope as claimed", transform=ratio.transAxes, ha="right", fontsize=9, color=GREY)
    _time(time, curves["position"].at, course)
    return figure


def _curves(ax: Any, curves: list[ScalingCurve], title: str, ylabel: str, labels: list[tuple[str, str]]) -> None:
    first, last = min(c.at[0] for c in curves), max(c.at[-1] for c in curves)
    ax.set(xscale="log", yscale="log", ylabel=ylabel)
    ax.set_xlabel("step size ε", loc="left")
    for curve, (_, colour) in zip(curves, labels, strict=True):
        ax.plot(curve.at, curve.values, "o-", color=colour, ms=3.5, lw=1.6)
        claimed = curve.values[-1] * (curve.at / curve.at[-1]) ** curve.claim.exponent
        ax.plot(curve.at, claimed, ":", color=colour, lw=0.9)
    low, high = np.log10(ax.get_ylim())
    high += LABEL_GAP * (high - low)
    ax.set_ylim(10**low, 10**high)
    ax.set_xlim(0.8 * first, last * (last / first) ** LABEL_ROOM)
    ends = [(np.log10(curve.values[-1]) - low) / (high - low) for curve in curves]
    for curve, (label, colour), place in zip(curves, labels, _apart(ends), strict=True):
        ax.annotate(
            f"{label}\n{_exponents(curve)}",
            (curve.at[-1], curve.values[-1]),
            (1.25 * curve.at[-1], 10 ** (low + place * (high - low))),
            color=colour,
            fontsize=9,
            va="center",
            linespacing=1.1,
            annotation_clip=False,
        )
    _tidy(ax, title, first, last)


def _exponents(curve: ScalingCurve) -> str:
    return f"slope {curve.slope.value:z.2f}, {curve.claim.source} {power(curve.claim.exponent)}"


def _time(ax: Any, step_sizes: np.ndarray, course: Mapping[str, np.ndarray]) -> None:
    times = np.arange(1, course["position"].shape[1] + 1)
    for place in np.linspace(len(step_sizes) - 1, 0, SHOWN_STEP_SIZES).astype(int):
        for name, colour in (("gradient", GREEN), ("position", BLUE)):
            ax.plot(times, course[name][place], color=colour, lw=1.3)
        end = course["position"][place, -1]
        ax.annotate(f"ε = {step_sizes[place]:g}", (1.15 * times[-1], end), fontsize=9, va="center", color=GREY)
    ax.set(xscale="log", yscale="log", ylabel="rms distance from their mean")
    ax.set_xlabel("iteration t", loc="left")
    ax.set_xlim(0.9, 6 * times[-1])
    start = course["gradient"][0, 0]
    ax.annotate("$g$, which starts at the agents' own gradients", (1, start), (1.4, start), fontsize=9, color=GREEN)
    ax.annotate(r"$\omega$", (1, course["position"][-1, 0]), (0, -12), textcoords="offset points", color=BLUE)
    _tidy(ax, "3.2: disagreement over time", times[0], times[-1])


def _apart(places: list[float]) -> np.ndarray:
    """Move places apart until neighbours are LABEL_GAP from each other, in the same order."""
    order = np.argsort(places)
    moved = np.array(places)[order]
    for _ in range(200):
        short = np.maximum(0, LABEL_GAP - np.diff(moved)) / 2
        moved[:-1] -= short
        moved[1:] += short
    result = np.empty_like(moved)
    result[order] = moved
    return result


def _tidy(ax: Any, title: str, first: float, last: float) -> None:
    """Set title and axes; that of ε or t ends where the data do, and what is right of it is for labels."""
    digits = (1, 2, 5) if last < 20 * first else (1, 3)
    ticks = [digit * 10.0**decade for decade in range(-6, 7) for digit in digits]
    ticks = [tick for tick in ticks if 0.99 * first <= tick <= 1.01 * last]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xticks([], minor=True)
    ax.set_title(title, fontsize=10)
    ax.spines["bottom"].set_bounds(first, last)
    ax.tick_params(labelsize=8)
