"""Notes beside the agents of a drawn network, placed where they cover neither agents nor each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .style import PAPER
from .svg import WIDTH

NETWORK_HEIGHT = 2.8  # inches
FONT = 7  # points, as all lengths below
LETTER, LINE = 0.62 * FONT, 1.25 * FONT  # DejaVu's, which is wider than the fonts of most pages
DISC = 10.5  # radius
GAP = 2
NEAREST = 3 * DISC  # least distance between centres of discs, at which links are still seen
PADDING = 3  # around the axes
DIRECTIONS = 24
LINK_POINTS = 30


def annotate(ax: Any, links: Sequence[tuple[int, int]], notes: Sequence[str]) -> bool:
    """Write each agent's note beside it, between links and discs; write none and return False without room for all."""
    places = np.empty((len(notes), 2))
    for text in ax.texts:
        places[int(text.get_text())] = text.get_position()
    sizes = np.array([(LETTER * max(map(len, lines)), LINE * len(lines)) for lines in map(str.splitlines, notes)])
    low, high = places.min(axis=0), places.max(axis=0)
    room = 72 * np.array([WIDTH, NETWORK_HEIGHT]) - 2 * PADDING
    free = room - 2 * (DISC + GAP + sizes.max(axis=0))
    scale = float(np.min(free / np.maximum(high - low, 1e-6)))
    scale = min(scale, float(free.min()))  # one agent, or two close ones, need not fill the picture
    if scale <= 0:
        return False
    middle = (low + high) / 2
    offsets = placed((places - middle) * scale, sizes, links)
    if offsets is None:
        return False
    for text in list(ax.texts):
        text.set_zorder(4)
    for agent, note in enumerate(notes):
        box = {"facecolor": PAPER, "edgecolor": "none", "boxstyle": "round,pad=0.1"}
        style = {"ha": "center", "va": "center", "fontsize": FONT, "bbox": box, "zorder": 1.5}
        ax.annotate(note, places[agent], offsets[agent], textcoords="offset points", **style)
    ax.set_xlim(middle[0] - room[0] / 2 / scale, middle[0] + room[0] / 2 / scale)
    ax.set_ylim(middle[1] - room[1] / 2 / scale, middle[1] + room[1] / 2 / scale)
    return True


def placed(discs: np.ndarray, sizes: np.ndarray, links: Sequence[tuple[int, int]]) -> np.ndarray | None:
    """Find offsets of notes from their discs, outwards and across few links if possible; None if there is no room."""
    between = np.hypot(*(discs[:, None] - discs).T)[np.triu_indices(len(discs), 1)]
    if between.min(initial=np.inf) < NEAREST:
        return None
    angles = 2 * np.pi * np.arange(DIRECTIONS) / DIRECTIONS
    ways = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    share = np.linspace(0, 1, LINK_POINTS)[:, None]
    lines = [discs[i] * (1 - share) + discs[j] * share for i, j in links]
    found = np.empty_like(discs)
    for agent, (disc, size) in enumerate(zip(discs, sizes, strict=True)):
        outwards = disc - discs.mean(axis=0)
        outwards = outwards / length if (length := float(np.hypot(*outwards))) > 1 else np.array([0.0, -1.0])
        best = np.inf
        for way in ways:
            half = size / 2
            note = disc + way * ((DISC + GAP + half) / np.maximum(np.abs(way), 1e-9)).min()  # just clear of its disc
            others = np.arange(len(discs)) != agent
            apart = np.hypot(*np.maximum(np.abs(discs[others] - note) - half, 0).T)
            earlier = np.abs(found[:agent] - note) < (sizes[:agent] + size) / 2 + GAP
            if (apart < DISC + GAP).any() or earlier.all(axis=1).any():
                continue
            crossed = sum(bool((np.abs(line - note) < half).all(axis=1).any()) for line in lines)
            cost = crossed + 0.5 * (1 - way @ outwards)
            if cost < best:
                best, found[agent] = cost, note
        if not np.isfinite(best):
            return None
    return found - discs
