"""How the chains of a run have started, where they were to start from a surrogate."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..samplers import SECOND_MODE_LIMIT, start_spread_limit

if TYPE_CHECKING:
    from .run import Run


class StartReport(NamedTuple):
    """What came of a start from a surrogate.

    Attributes:
      is_used: whether chains have start, mass matrix and step size from it.
      text: a clause that says so, and by what figures.
    """

    is_used: bool
    text: str


def start_report(run: Run) -> StartReport | None:
    """Return what came of a start from a surrogate; None where none was asked for, or there are no draws."""
    if "start_used" not in run.raw_stats or run.num_draws == 0:
        return None
    used, mode, spread, sums = (
        float(run.raw_stats[f"start_{name}"][-1, 0, 0]) for name in ("used", "second_mode", "spread", "sums")
    )
    fitted, limit = f"a surrogate, fitted by {sums:.0f} sums", start_spread_limit(run.layout.dimension)
    weights = f"log weights spread over {spread:.1f} nats, of {limit:.1f} allowed"
    if used:
        return StartReport(True, f"from {fitted} ({weights})")
    if mode > SECOND_MODE_LIMIT:
        why = f"it is made at one mode, and another one has {mode:.2g} of its mass"
    elif not np.isfinite(spread):
        why = "too many of its proposals are impossible"
    else:
        why = weights if spread > limit else "its moments are no finite numbers"
    return StartReport(False, f"without {fitted}: {why}")
