"""The figure of `consilience demo`: which digits each agent has, and how sure each sampler is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..report import GREY, PALETTE, new_figure
from .digits import DemoOutcome, variances
from .reproduction import RESOLUTION

CURVE_POINTS = 300
LABEL_DISTANCE = 1.5  # from the centre; agents are at distance one


def plot_digits(outcome: DemoOutcome, path: Path) -> None:
    """Write the figure to `path`: the network, one weight's marginals, the variance of all parameters."""
    figure, (left, middle, right) = new_figure(13, 4.4, columns=3, width_ratios=(0.8, 1, 1.1))
    _network(left, outcome)
    # Agent 0 alone samples another posterior, that of its two classes: it has no place in these two panels.
    shown = {name: run for name, run in outcome.runs.items() if "alone" not in name}
    colours = dict(zip(shown, PALETTE, strict=False))
    _marginals(middle, outcome, shown, colours)
    _variances(right, outcome, shown, colours)
    figure.savefig(path, dpi=RESOLUTION)


def _network(ax: Any, outcome: DemoOutcome) -> None:
    outcome.network.plot(ax)
    labels = {agent: f"agent {agent}\nhas {', '.join(map(str, own))}" for agent, own in enumerate(outcome.classes)}
    for text in list(ax.texts):
        agent = int(text.get_text())
        x, y = text.get_position()
        away = LABEL_DISTANCE / np.hypot(x, y)
        ax.annotate(labels[agent], (x, y), (away * x, away * y), ha="center", va="center", fontsize=9)
    ax.margins(0.32)
    ax.set_title("Two digits each, talking to neighbours only", fontsize=10)


def _marginals(ax: Any, outcome: DemoOutcome, shown: dict[str, Any], colours: dict[str, str]) -> None:
    spread = variances(outcome.reference)
    place = int(np.argsort(spread)[len(spread) // 2])  # the parameter of median variance
    draws = outcome.reference.positions[..., place].ravel()
    grid = np.linspace(draws.mean() - 4.5 * draws.std(), draws.mean() + 4.5 * draws.std(), CURVE_POINTS)
    ax.fill_between(grid, _density(draws, grid), color="#d1d5db", label="reference (exact, pooled data)")
    for name, run in shown.items():
        ax.plot(grid, _density(run.positions[..., 0, place].ravel(), grid), color=colours[name], label=name, lw=1.8)
    ax.set(yticks=[], xlabel="value of one weight, as agent 0 sees it", ylim=(0, None))
    ax.set_title("Too narrow is overconfident", fontsize=10)
    ax.spines["left"].set_visible(False)
    ax.legend(fontsize=7.5, frameon=False, loc="upper left")
    ax.set_ylim(0, ax.get_ylim()[1] * 1.35)  # room for the legend


def _variances(ax: Any, outcome: DemoOutcome, shown: dict[str, Any], colours: dict[str, str]) -> None:
    reference = variances(outcome.reference)
    ratios = [variances(run) / reference for run in shown.values()]
    places = np.arange(len(shown), 0, -1)
    parts = ax.violinplot(ratios, places, orientation="horizontal", showextrema=False, widths=0.8)
    for body, name in zip(parts["bodies"], shown, strict=True):
        body.set(facecolor=colours[name], alpha=0.75)
    for ratio, place in zip(ratios, places, strict=True):
        ax.plot(ratio.mean(), place, "o", color="black", ms=4)
        ax.text(1.02, place, f"{ratio.mean():.2f}", transform=ax.get_yaxis_transform(), va="center", fontsize=10)
    ax.axvline(1, color=GREY, lw=1, ls="--")
    ax.set_yticks(places, list(shown), fontsize=9)
    ax.set(xlabel="variance of the draws / variance of the posterior", xlim=(0, None))
    ax.set_ylim(0.4, len(shown) + 0.6)
    ax.set_title(f"Each of the {len(reference)} parameters (dot and number: their mean)", fontsize=10)


def _density(draws: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Estimate the density of `draws` on `grid`, by Gaussian kernels with Silverman's bandwidth."""
    width = max(1.06 * draws.std() * len(draws) ** -0.2, 1e-12)
    return np.exp(-0.5 * ((grid[:, None] - draws) / width) ** 2).mean(axis=1) / (width * np.sqrt(2 * np.pi))
