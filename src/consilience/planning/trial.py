"""Facts from a past run to plan others by: the model's size, the sampler, gradients, effective draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._refused import Refused
from ..results import Run
from ..store import read_run

STEPS = "num_integration_steps"
FIT_SUMS, SPLIT = ("surrogate_sums", "start_sums"), "surrogate_split"


@dataclass(frozen=True)
class Trial:
    """Facts of a past run that plans use.

    Attributes:
      sampler: name and settings of the sampler, as a run's file has them.
      evaluations: gradients per draw of its longest chain, on average; None where the sampler does not say.
      are_averages: whether those are averages over iterations of each chain, so that the longest chain of one had more.
      fit_sums: sums in which a surrogate was fitted; None of other samplers.
      is_scored: whether draws are a surrogate's scored proposals.
      has_failed: whether the certificate of a surrogate's draws did not hold.
      ess_per_draw: effective draws of the slowest parameter, in the bulk, per iteration of one chain; None where too
        few draws are there to tell.
    """

    dimension: int
    chains: int
    sampler: dict[str, Any]
    evaluations: float | None
    are_averages: bool
    fit_sums: int | None
    is_scored: bool
    has_failed: bool
    ess_per_draw: float | None


def trial_of(run: Run) -> Trial:
    """Return the facts that plans use, of a run that was loaded from its folder."""
    assert run.parameters is not None
    steps = np.asarray(run.raw_stats[STEPS]) if STEPS in run.raw_stats else None
    sums = next((run.raw_stats[name] for name in FIT_SUMS if name in run.raw_stats), None)
    summary = run.summary(predictions=False)
    effective = summary.columns["ess_bulk"]
    known = effective[np.isfinite(effective)]
    return Trial(
        dimension=run.parameters.dimension,
        chains=run.num_chains,
        sampler={"name": run.sampler.name, **_settings(run)},
        evaluations=None if steps is None else float(steps.max(axis=(1, 2)).mean()),
        are_averages=run.thin > 1 and run.num_chains > 1,
        fit_sums=None if sums is None else int(np.max(sums)),
        is_scored=SPLIT in run.raw_stats and not np.asarray(run.raw_stats[SPLIT]).any(),
        has_failed=summary.certificate is not None and not summary.certificate.holds,
        ess_per_draw=float(known.min()) / (run.num_draws * run.thin * run.num_chains) if known.size else None,
    )


def _settings(run: Run) -> dict[str, Any]:
    """Return the settings of a run's sampler that a file can have. Arrays change no message, and are left out."""
    assert run.folder is not None
    settings = read_run(run.folder)["sampler"]["settings"]
    for name, value in settings.items():
        if isinstance(value, dict) and "function" in value:
            raise Refused(
                "the run",
                f"it has a setting that is not recorded, {name} = {value['function']}",
                "Say what is to be planned, without --run: --sampler, --set and --dimension.",
            )
    return {name: _tuples(value) for name, value in settings.items() if not isinstance(value, dict)}


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
