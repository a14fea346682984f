"""The exponents of Theorems 3.1 to 3.3: section 3 of the paper.

`theory` measures them; this is its place among the experiments.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from ..network import Network
from .reproduction import Experiment, Findings, Judged, Options, Record
from .theory import CLAIMS, Curve, Outcome, Scale, power, theory
from .theory_figure import theory_figure

SMALL_SCALE = Scale(groups=8, pool=512, ratio_draws=200, coupled_runs=200, consensus_runs=6)
HOLDS = {"holds": True, "fails": False, "undecided": None}


def conduct(options: Options, seeds: int) -> Findings:
    outcome = theory(SMALL_SCALE if options.is_small or options.quick else Scale())
    return Findings(
        data=f"logistic regression on made-up rows, {outcome.network.size} agents on a ring, in double precision",
        rows=[],
        claims=[_judged(curve) for curve in outcome.curves.values()],
        notes=["Slopes are those of least squares on logarithms, with 95 % intervals from independent groups of runs."],
        drawn={
            "scale": asdict(outcome.scale),
            "curves": {name: [curve.at.tolist(), curve.groups.tolist()] for name, curve in outcome.curves.items()},
            "course": {name: values.tolist() for name, values in outcome.course.items()},
        },
    )


def _judged(curve: Curve) -> Judged:
    claim, slope = curve.claim, curve.slope
    said = "bounded as t grows" if claim.kind == "growth" else f"of order {power(claim.exponent)}"
    measured = f"slope {slope.value:z.2f}, {slope.low:z.2f} to {slope.high:z.2f}"
    return Judged(f"Theorem {claim.theorem}: {claim.quantity} is {said}.", claim.source, measured, HOLDS[curve.verdict])


def figure(record: Record, path: Path) -> None:
    """Errors against the step size, a panel or two for each theorem."""
    drawn = record.drawn
    curves = {
        claim.name: Curve(claim, *(np.array(values) for values in drawn["curves"][claim.name])) for claim in CLAIMS
    }
    course = {name: np.array(values) for name, values in drawn["course"].items()}
    agents = Network.ring(len(next(iter(curves.values())).groups[0]))  # of the figure no part
    theory_figure(Outcome(Scale(**drawn["scale"]), 0, agents, curves, {}, course, np.empty(0)), path)


EXPERIMENT = Experiment(
    name="theory",
    title="The theorems' exponents",
    reference="section 3, Theorems 3.1 to 3.3",
    seeds={"small": 1, "paper": 1},
    data=(),
    conduct=conduct,
    figure=figure,
)
