"""The exponents of Theorems 3.1 to 3.3: section 3 of the paper.

`theory` measures them; this module makes them one of the experiments of `consilience reproduce`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from .record import Judged, Options, Record
from .reproduction import Experiment, Findings
from .theory import CLAIMS, ScalingCurve, TheorySizes, power, theory
from .theory_figure import theory_figure

SMALL_SIZES = TheorySizes(groups=8, pool=512, ratio_draws=200, coupled_runs=200, consensus_runs=6)
HOLDS = {"holds": True, "fails": False, "undecided": None}


def conduct(options: Options, seeds: int) -> Findings:
    outcome = theory(SMALL_SIZES if options.is_small or options.quick else TheorySizes())
    return Findings(
        f"Logistic regression on made-up rows, {outcome.network.size} agents on a ring, in double precision",
        judged=[_judged(curve) for curve in outcome.curves.values()],
        precision="float64",
        seeds=1,
        notes=["Slopes are those of least squares on logarithms, with 95 % intervals from independent groups of runs."],
        drawn={
            "scale": asdict(outcome.sizes),
            "curves": {name: [curve.at.tolist(), curve.groups.tolist()] for name, curve in outcome.curves.items()},
            "course": {name: values.tolist() for name, values in outcome.course.items()},
        },
    )


def _judged(curve: ScalingCurve) -> Judged:
    claim, slope = curve.claim, curve.slope
    said = {
        "bound": f"vanishes at least as fast as {power(claim.exponent)}",
        "order": f"is of order {power(claim.exponent)}",
        "growth": "stays bounded",
    }[claim.kind]
    measured = f"slope {slope.value:z.2f}, {slope.low:z.2f} to {slope.high:z.2f}"
    return Judged(f"Theorem {claim.theorem}: {claim.quantity}: {said}.", claim.source, measured, HOLDS[curve.verdict])


def curves_of(record: Record) -> dict[str, ScalingCurve]:
    """Return the curves in a record, by the claim's name."""
    drawn = record.drawn["curves"]
    return {claim.name: ScalingCurve(claim, *(np.array(values) for values in drawn[claim.name])) for claim in CLAIMS}


def figure(record: Record) -> Any:
    """Draw errors against the step size, a panel or two for each theorem."""
    course = {name: np.array(values) for name, values in record.drawn["course"].items()}
    return theory_figure(TheorySizes(**record.drawn["scale"]), curves_of(record), course)


EXPERIMENT = Experiment(
    "theory",
    "The theorems' exponents",
    "section 3, Theorems 3.1 to 3.3",
    conduct,
    figure,
    seeds={"small": 1, "paper": 1},
)
