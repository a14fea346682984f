"""The exponents of Theorems 3.1 to 3.3: section 3 of the paper.

`theory` measures them; this module makes them one of the experiments of `consilience reproduce`.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from .record import Judged, Record
from .reproduction import Experiment, Findings, Options
from .theory import CLAIMS, Curve, Scale, power, theory
from .theory_figure import Drawn, theory_figure

SMALL_SCALE = Scale(groups=8, pool=512, ratio_draws=200, coupled_runs=200, consensus_runs=6)
HOLDS = {"holds": True, "fails": False, "undecided": None}


def conduct(options: Options, seeds: int) -> Findings:
    outcome = theory(SMALL_SCALE if options.is_small or options.quick else Scale())
    return Findings(
        data=f"Logistic regression on made-up rows, {outcome.network.size} agents on a ring, in double precision",
        rows=[],
        claims=[_judged(curve) for curve in outcome.curves.values()],
        precision="float64",
        seeds=1,
        notes=["Slopes are those of least squares on logarithms, with 95 % intervals from independent groups of runs."],
        drawn={
            "scale": asdict(outcome.scale),
            "curves": {name: [curve.at.tolist(), curve.groups.tolist()] for name, curve in outcome.curves.items()},
            "course": {name: values.tolist() for name, values in outcome.course.items()},
        },
    )


def _judged(curve: Curve) -> Judged:
    claim, slope = curve.claim, curve.slope
    said = {
        "bound": f"vanishes at least as fast as {power(claim.exponent)}",
        "order": f"is of order {power(claim.exponent)}",
        "growth": "stays bounded",
    }[claim.kind]
    measured = f"slope {slope.value:z.2f}, {slope.low:z.2f} to {slope.high:z.2f}"
    return Judged(f"Theorem {claim.theorem}: {claim.quantity}: {said}.", claim.source, measured, HOLDS[curve.verdict])


def curves_of(record: Record) -> dict[str, Curve]:
    """Return the curves in a record, by the claim's name."""
    drawn = record.drawn["curves"]
    return {claim.name: Curve(claim, *(np.array(values) for values in drawn[claim.name])) for claim in CLAIMS}


def figure(record: Record, path: Path) -> None:
    """Draw errors against the step size to `path`, a panel or two for each theorem."""
    course = {name: np.array(values) for name, values in record.drawn["course"].items()}
    theory_figure(Drawn(Scale(**record.drawn["scale"]), curves_of(record), course), path)


EXPERIMENT = Experiment(
    name="theory",
    title="The theorems' exponents",
    reference="section 3, Theorems 3.1 to 3.3",
    seeds={"small": 1, "paper": 1},
    data=(),
    conduct=conduct,
    figure=figure,
)
