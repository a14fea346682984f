"""Networks written as short text, as in command lines and configuration files: `ring:5`, `grid:3x4`."""

from __future__ import annotations

import re
from collections.abc import Callable

from .._checks import nearest
from .._refused import Refused
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
        near = nearest(kind.strip().lower().replace("-", "_"), EXAMPLES)
        if near is None:
            raise Refused(repr(text), "it names no network", f"Write one of {' '.join(EXAMPLES.values())}.")
        raise Refused(repr(text), f"there is no network {kind!r}", f"Write {_with_numbers(near, numbers)}.")
    if weights not in RULES:
        fix = f"Write {nearest(weights, RULES) or RULES[0]}."
        raise Refused(f"weights = {weights!r}", f"not one of {', '.join(RULES)}", fix)
    parsed = _numbers(kind, numbers)
    if parsed is None:
        right = _with_numbers(kind, re.sub(r"[\s,;×*X]+", "x", numbers.strip()))
        raise Refused(repr(text), f"{kind} takes {_takes(kind)}", f"Write {right}.")
    build: Callable[..., Network] = getattr(Network, kind)
    options = {"seed": seed} if kind in RANDOM else {}
    try:
        return build(*parsed, weights=weights, **options)
    except Refused as refusal:
        reason = f"{refusal.subject}: {refusal.reason}"
        fix = f"{EXAMPLES[kind]} works." if " = " in refusal.subject else refusal.fix  # there are no arguments here
        fix = re.sub(r"Network\.(\w+)\((\d+)\)", r"\1:\2", fix)
        raise Refused(repr(text), reason, fix) from None


def _with_numbers(kind: str, numbers: str) -> str:
    """Return a network of this kind with these numbers where they will do, else the example."""
    return f"{kind}:{numbers}" if _numbers(kind, numbers) else EXAMPLES[kind]


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
