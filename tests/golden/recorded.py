"""The recorded draws: how they are written, read, and compared with what is drawn now."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from .cells import CELLS, Found

FOLDER = Path(__file__).parent
DIGITS = 6
RELATIVE, ABSOLUTE = 1e-5, 1e-6  # six digits, and what processors and versions of jax round otherwise
PACKAGES = ("jax", "blackjax")
WHAT_TO_DO = """
If this change was not meant to move the draws, or to send anything else: it does, find out where.
If it was: record this cell anew and say why in the commit's message,

    python -m tests.golden.record {cell}
"""


def place_of(cell: str) -> tuple[Path, str]:
    """Return the file that a cell is in, and its name there."""
    runtime, _, name = cell.partition("/")
    return FOLDER / f"{runtime}.json", name


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write(found: dict[str, Found]) -> None:
    """Put cells into their files; those that are not named stay as they are, those that are no more go."""
    for path in {place_of(cell)[0] for cell in CELLS}:
        old, new = read(path), {}
        for cell in CELLS:
            file, name = place_of(cell)
            if file == path and (cell in found or name in old):
                new[name] = _as_text(found[cell]) if cell in found else old[name]
        path.write_text(json.dumps(new, indent=1) + "\n", encoding="utf-8")


def recorded(cell: str) -> dict[str, Any]:
    path, name = place_of(cell)
    return read(path)[name]


def versions() -> str:
    return ", ".join(f"{package} {version(package)}" for package in PACKAGES)


def _as_text(found: Found) -> dict[str, Any]:
    """Return one line for every draw: chain by chain, agent by agent, number by number."""
    draws = np.array([[[[_rounded(x) for x in agent] for agent in chain] for chain in draw] for draw in found.draws])
    if (draws == draws[:, :, :1]).all():
        draws = draws[:, :, :1]  # all agents hold the same
    _, chains, agents, numbers = draws.shape
    return {
        "recorded with": versions(),
        "traffic": found.traffic,
        "of": {"chains": chains, "agents": agents, "numbers": numbers},
        "draws": [" ".join(draw.ravel()) for draw in draws],
    }


def _rounded(x: float) -> str:
    return f"{x:.{DIGITS}g}"


def difference(cell: str, found: Found) -> str:
    """Say how a cell differs from its record, and what to do; nothing, if it does not."""
    known = recorded(cell)
    of = known["of"]
    shape = (of["chains"], of["agents"], of["numbers"])
    right = np.array([[float(x) for x in line.split()] for line in known["draws"]]).reshape(-1, *shape)
    lines = [*_draws_apart(found.draws, right), *_traffic_apart(found.traffic, known["traffic"])]
    if not lines:
        return ""
    where = f"Recorded with {known['recorded with']}; this is {versions()}."
    return "\n".join([f"{cell} is not what it was.", *lines, where, WHAT_TO_DO.format(cell=cell)])


def _draws_apart(found: np.ndarray, right: np.ndarray) -> list[str]:
    draws, chains, agents, numbers = found.shape
    if right.shape not in [(draws, chains, copies, numbers) for copies in (1, agents)]:
        return [f"Draws, chains, agents and numbers are {found.shape}; recorded are {right.shape}."]
    right = np.broadcast_to(right, found.shape)
    apart = ~np.isclose(found, right, rtol=RELATIVE, atol=ABSOLUTE)
    if not apart.any():
        return []
    draw, chain, agent, number = first = tuple(map(int, np.argwhere(apart)[0]))
    count, most = apart.any(axis=(1, 2, 3)).sum(), np.abs(found - right).max()
    return [
        f"Draw {draw} is the first that differs: chain {chain}, agent {agent}, number {number} is {found[first]:.8g}, "
        f"recorded is {right[first]:g}, {abs(found[first] - right[first]):.2g} apart.",
        f"{count} of {draws} draws differ, by up to {most:.2g}.",
    ]


def _traffic_apart(found: dict[str, int], right: dict[str, int]) -> list[str]:
    return [
        f"It sent {found[name]} {name}; recorded are {right[name]}." for name in right if found[name] != right[name]
    ]
