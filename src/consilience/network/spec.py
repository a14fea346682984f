"""Networks written as short text, as in command lines and configuration files: `ring:5`, `grid:3x4`."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches

from .network import Network
from .weights import RULES

EXAMPLES = {
    "complete": "complete:5",
    "path": "path:5",
    "star": "star:5",
    "ring": "ring:5",
    "grid": "grid:3x4",
    "torus": "torus:3x4",
    "hypercube": "hypercube:3",
    "exponential": "exponential:8",
    "random_regular": "random_regular:30x4",
    "erdos_renyi": "erdos_renyi:20x0.3",
}
RANDOM = ("random_regular", "erdos_renyi")


def network_from_spec(text: str, weights: str = "metropolis", seed: int = 0) -> Network:
    """Build the network that `text` names: a builder of `Network`, a colon, and its numbers with an x between them.

    complete:5 path:5 star:5 ring:5 grid:3x4 torus:3x4 hypercube:3 exponential:8 random_regular:30x4 (agents,
    neighbours) erdos_renyi:20x0.3 (agents, probability). The last two are random, drawn with `seed`.
    """
    kind, _, numbers = text.strip().partition(":")
    if kind not in EXAMPLES:
        raise ValueError(_unknown(text, kind, numbers))
    if weights not in RULES:
        nearest = _nearest(weights, RULES) or RULES[0]
        raise ValueError(f"weights {weights!r} is not one of {', '.join(RULES)}. Write {nearest}.")
    parsed = _numbers(kind, numbers)
    if parsed is None:
        repaired = re.sub(r"[\s,;×*X]+", "x", numbers.strip())
        right = f"{kind}:{repaired}" if _numbers(kind, repaired) else EXAMPLES[kind]
        raise ValueError(f"{text!r}: {kind} takes {_takes(kind)}. Write {right}.")
    build: Callable[..., Network] = getattr(Network, kind)
    options = {"seed": seed} if kind in RANDOM else {}
    try:
        return build(*parsed, weights=weights, **options)
    except ValueError as refusal:
        works = "" if "weights" in str(refusal) else f" {EXAMPLES[kind]} works."  # errors about weights name a fix
        raise ValueError(f"{text!r}: {refusal}{works}") from None


def _numbers(kind: str, text: str) -> list[int | float] | None:
    """Read the numbers in `text`, as many and of the same types as in the example; return None otherwise."""
    wanted = EXAMPLES[kind].partition(":")[2].split("x")
    given = text.split("x")
    if len(given) != len(wanted):
        return None
    try:
        return [float(number) if "." in like else int(number) for number, like in zip(given, wanted, strict=True)]
    except ValueError:
        return None


def _takes(kind: str) -> str:
    if kind == "erdos_renyi":
        return "a whole number and a probability, with an x between them"
    return "two whole numbers with an x between them" if "x" in EXAMPLES[kind].partition(":")[2] else "one whole number"


def _unknown(text: str, kind: str, numbers: str) -> str:
    nearest = _nearest(kind.strip().lower().replace("-", "_"), tuple(EXAMPLES))
    if nearest is None:
        return f"{text!r} names no network. Write one of {' '.join(EXAMPLES.values())}."
    right = f"{nearest}:{numbers}" if _numbers(nearest, numbers) else EXAMPLES[nearest]
    return f"{text!r}: there is no network {kind!r}. Write {right}."


def _nearest(word: str, known: tuple[str, ...]) -> str | None:
    return next(iter(get_close_matches(word, known, n=1)), None)
