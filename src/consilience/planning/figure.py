"""Figure of time per draw over the number of agents, for all families of networks, and of what it goes into."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..report import GREY, INK, line_look, new_figure
from .cost import MEASURED, PARTS, Constants, Cost
from .demand import Demand
from .sizes import FAMILIES, SIZES, Size, predict_size

MARKS = dict(zip(PARTS, "osD^", strict=True))  # latency, bandwidth, compute, software
LABEL_GAP = 0.055  # of the panel's height: the least distance between two labels


def predict_families(
    demand: Demand,
    rounds: Callable[[Size], int] | None,
    latency: float,
    bandwidth: float,
    gradient_seconds: float,
    constants: Constants = MEASURED,
) -> dict[str, list[Cost]]:
    """Predict a draw's cost on every family of networks, in the order of `SIZES`.

    Args:
      demand: demand of an iteration.
      rounds: gives the rounds of every average on a network, where `demand` has one for each; None: same on all.
    """
    found: dict[str, list[Cost]] = {}
    for family, of_size in FAMILIES.items():
        found[family] = []
        for agents in SIZES:
            size = of_size(agents)
            asked = demand if rounds is None else demand.gossiping(rounds(size))
            found[family].append(predict_size(size, asked, latency, bandwidth, gradient_seconds, constants))
    return found


def plan_figure(costs: Mapping[str, Sequence[Cost]], title: str, path: Path, here: tuple[int, float] | None) -> None:
    """Write a figure of time per draw over the number of agents to `path`.

    Args:
      here: the agents and seconds per draw of the network that is planned, to be marked.
    """
    figure, ax = new_figure(8.5, 5.2)
    bottlenecks = set()
    for place, by_size in enumerate(costs.values()):
        look = line_look(place)
        seconds = [cost.seconds for cost in by_size]
        ax.plot(SIZES, seconds, linewidth=1.6, **look)
        for agents, cost in zip(SIZES, by_size, strict=True):
            bottleneck = PARTS[int(cost.parts.argmax())]
            bottlenecks.add(bottleneck)
            ax.plot(agents, cost.seconds, MARKS[bottleneck], color=look["color"], markersize=6, markeredgecolor="white")
    if here is not None:
        ax.plot(*here, "*", color=INK, markersize=13, markeredgecolor="white", zorder=5)
    ax.set(xscale="log", yscale="log", title=title, xlabel="agents", ylabel="seconds per draw")
    ax.set_xlim(right=SIZES[-1] * 8)
    _label(ax, {family: by_size[-1].seconds for family, by_size in costs.items()})
    for part in PARTS:
        if part in bottlenecks:
            ax.plot([], [], MARKS[part], color=GREY, markersize=6, label=f"mostly {part}")
    if here is not None:
        ax.plot([], [], "*", color=INK, markersize=11, label="this network", linestyle="none")
    ax.legend(loc="upper left", frameon=False, fontsize=9)
    ax.grid(alpha=0.25, which="major")
    figure.savefig(path, dpi=150)


def _label(ax: Any, ends: Mapping[str, float]) -> None:
    """Write every line's name at its right end, moved up where two would overlap."""
    to_axes = ax.transScale + ax.transLimits
    last = -1.0
    for family, seconds in sorted(ends.items(), key=lambda item: item[1]):
        x, y = to_axes.transform((SIZES[-1], seconds))
        last = max(y, last + LABEL_GAP)
        look = line_look(list(ends).index(family))
        ax.annotate(
            family,
            (x, y),
            (x + 0.03, last),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            fontsize=9,
            color=look["color"],
            arrowprops={"arrowstyle": "-", "color": look["color"], "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3},
        )
