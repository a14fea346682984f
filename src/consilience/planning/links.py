"""Latency and bandwidth of a network's links: the same for all of them, or a file with a line for each."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .._refused import Refused
from ..network import Network

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6}  # the sign of micro has two codes
BITS = {"bit": 1.0, "b": 8.0}  # a byte is written B
PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
COLUMNS = ("from", "to", "latency", "bandwidth")
NUMBER = r"\s*(\d+(?:\.\d*)?|\.\d+)\s*"


def seconds(what: str, text: str) -> float:
    """Return the seconds of a time such as "20ms", "0.5 s" or "300us".

    Args:
      what: name of the value, such as "--latency", for error messages.
    """
    found = re.fullmatch(rf"{NUMBER}({'|'.join(SECONDS)})?\s*", text)
    if found is None:
        raise _refused(what, text, "that is no time", "20ms", "; s, ms and us are known")
    number, unit = float(found[1]), found[2]
    if unit is None and number > 0:
        raise _refused(what, text, "there is no unit", f"{text.strip()}ms")
    return number * SECONDS[unit or "s"]


def bits_per_second(what: str, text: str) -> float:
    """Return the bits per second of "50Mbit/s", "1 Gbit/s" or, in bytes, "10MB/s"; `what` is as in `seconds`."""
    found = re.fullmatch(rf"{NUMBER}(?:([kKMG]?)(bit|B)(?:/s|ps)?)?\s*", text)
    if found is None:
        known = "; kbit, Mbit and Gbit are known, and kB, MB and GB for bytes"
        raise _refused(what, text, "that is no bandwidth", "50Mbit/s", known)
    if found[3] is None:
        raise _refused(what, text, "there is no unit", f"{text.strip()}Mbit/s")
    rate = float(found[1]) * PREFIXES[found[2].lower()] * BITS[found[3].lower()]
    if rate <= 0:
        raise _refused(what, text, "over such a link nothing arrives", "50Mbit/s")
    return rate


def _refused(what: str, text: str, reason: str, example: str, known: str = "") -> Refused:
    option = f"{what} " if what.startswith("--") else ""
    return Refused(f'{what} "{text}"', reason, f"Write {option}{example}{known}.")


@dataclass(frozen=True)
class LinkSpeeds:
    """Latency and bandwidth of the links of a network, in the order of `network.edges`; both directions alike.

    Attributes:
      latency: seconds from one end to the other, one way.
      bandwidth: bits per second that a link lets through each way. Links do not share it: an agent can use all of its
        links at once.
    """

    latency: np.ndarray
    bandwidth: np.ndarray

    @classmethod
    def alike(cls, network: Network, latency: float, bandwidth: float) -> LinkSpeeds:
        edges = len(network.edges)
        return cls(np.full(edges, latency), np.full(edges, bandwidth))

    @property
    def slowest(self) -> tuple[float, float]:
        """Longest latency and least bandwidth of any link."""
        if not self.latency.size:  # one agent
            return 0.0, np.inf
        return float(self.latency.max()), float(self.bandwidth.min())

    @property
    def are_alike(self) -> bool:
        return bool((self.latency == self.latency[:1]).all() and (self.bandwidth == self.bandwidth[:1]).all())

    def __str__(self) -> str:
        latency, bandwidth = self.slowest
        if not self.latency.size:
            return "no links"
        text = f"{1e3 * latency:g} ms and {bandwidth / 1e6:g} Mbit/s"
        return text if self.are_alike else f"{text} at worst"


def read_links(path: Path, network: Network, latency: float | None, bandwidth: float | None) -> LinkSpeeds:
    """Read a CSV table with the columns from, to, latency, bandwidth: agents by their numbers, a line for each link.

    Args:
      latency, bandwidth: values for links and cells that the table leaves out; None: it may leave out none.
    """
    found: dict[tuple[int, int], tuple[float, float]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        table = csv.DictReader(file, skipinitialspace=True)
        if tuple(table.fieldnames or ()) != COLUMNS:
            fix = "Then a line for each link: 0,1,20ms,50Mbit/s"
            raise Refused(str(path), f"the first line must be {','.join(COLUMNS)}", fix)
        edges = set(network.edges)
        for row in table:
            place = f"{path}, line {table.line_num}"
            if None in row or None in row.values():
                fix = "One that is left empty is ,,"
                raise Refused(place, f"there are four cells, {','.join(COLUMNS)}", fix)
            edge = _edge(place, row, network, edges)
            if edge in found:
                raise Refused(place, f"the link between {edge[0]} and {edge[1]} is there twice", "Delete one line.")
            found[edge] = (
                _cell(place, row, "latency", latency, seconds),
                _cell(place, row, "bandwidth", bandwidth, bits_per_second),
            )
    for i, j in network.edges:
        if (i, j) not in found and (latency is None or bandwidth is None):
            fix = f"Write {i},{j},20ms,50Mbit/s there, or give --latency and --bandwidth for all that are not in it."
            raise Refused(str(path), f"there is no line for the link between {i} and {j}", fix)
    pairs = np.array([found.get(edge, (latency, bandwidth)) for edge in network.edges], dtype=float).reshape(-1, 2)
    return LinkSpeeds(pairs[:, 0], pairs[:, 1])


def _edge(place: str, row: dict[str, str], network: Network, edges: set[tuple[int, int]]) -> tuple[int, int]:
    try:
        i, j = sorted(int(row[end]) for end in ("from", "to"))
    except ValueError:
        reason = f"from and to are the agents' numbers, 0 to {network.size - 1}"
        raise Refused(place, reason, "Write a line such as 0,1,20ms,50Mbit/s.") from None
    if (i, j) not in edges:
        raise Refused(place, f"{network.name} has no link between {i} and {j}", "Delete the line.")
    return i, j


def _cell(
    place: str, row: dict[str, str], column: str, default: float | None, read: Callable[[str, str], float]
) -> float:
    text = row[column].strip()
    if not text and default is None:
        raise Refused(place, f"{column} is missing", f"Write it there, or give --{column} for all that lack it.")
    return default if not text and default is not None else read(f"{place}: {column}", text)
