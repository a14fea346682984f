"""Summary of a run: what was found, how sure it is, what it cost, and what is wrong with it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import check, check_flag, real_number
from .._extras import require
from ..neighbors import Traffic
from ..report import worst_places
from .certificate import Certificate, certificate
from .diagnostics import acceptance, health, interval_ends, statistics
from .function_space import PredictionMixing, prediction_mixing
from .more_chains import more_chains
from .own import OwnMixing, own_findings, own_line, own_mixing
from .selection import Transform, agent_number, select
from .starting import StartReport, start_report
from .summary_table import table_lines
from .verdict import Finding, findings

if TYPE_CHECKING:
    from .run import Run

SHOWN_ROWS = 20  # where all parameters are summarized
MOST_ROWS = 200  # where some were asked for by name
WIDTH = 100


@dataclass(frozen=True)
class Summary:
    """Summary of a run: one row per parameter, and the facts of the run. `print` it, or read `columns`.

    Attributes:
      findings: what the figures say, one by one; `verdict` has them as a text.
      names: names of the parameters, such as `w[3, 1]`, `w[age]` where a column has a name, or `exp(w[age])`.
      columns: mean, sd, the ends of the interval ("3%" and "97%"), mcse_mean, ess_bulk, ess_tail, r_hat: one array
        each, in the order of `names`.
      prob: probability of the intervals, which are equal-tailed: their ends are quantiles.
      predictions: how well predictions have mixed, where parameters have not and that was looked at.
      consensus_error: distance of an agent from the network mean, in posterior sd.
      acceptance: fraction of proposals taken, None without a Metropolis step.
      divergences: iterations that diverged, None where the sampler has none.
      redone: iterations that were redone to keep the agents in step, None where each has a chain of its own.
      e_bfmi: the energy's fraction of missing information, one number a chain, None where the sampler has no energy.
      iterations: number of iterations behind the kept draws, of all chains.
      warnings: what must be known before these numbers are used.
      more_chains: what 64 chains would take and give in their place, None where that is not worth saying.
      certificate: what the draws of `cs.surrogate` rest on, item by item; None of other samplers.
      own: of every agent here, how many variables of its own it has, and whether it says that they have converged.
      start: what came of start="surrogate"; None where it was not asked for.
    """

    title: str
    findings: tuple[Finding, ...]
    names: tuple[str, ...]
    columns: dict[str, np.ndarray]
    prob: float
    predictions: PredictionMixing | None
    consensus_error: float
    acceptance: float | None
    divergences: int | None
    redone: int | None
    e_bfmi: np.ndarray | None
    iterations: int
    traffic: Traffic
    warnings: tuple[str, ...]
    more_chains: str | None = None
    most_rows: int = SHOWN_ROWS
    certificate: Certificate | None = None
    own: tuple[OwnMixing, ...] = ()
    start: StartReport | None = None

    @property
    def of_own(self) -> str | None:
        """What owners say of variables that stay with them, in a line; None where the model has none."""
        return own_line(self.own) if self.own else None

    @property
    def verdict(self) -> str:
        """Findings in words, the gravest first."""
        return " ".join(finding.sentence for finding in self.findings)

    def to_dataframe(self) -> Any:
        """Return the table as a pandas DataFrame: one row per parameter, all of them, under its name."""
        pandas = require("pandas", "report")
        return pandas.DataFrame(self.columns, index=pandas.Index(self.names, name="parameter"))

    def __str__(self) -> str:
        shown = self._rows()
        lines = [self.title, *_wrapped(self.verdict), ""]
        lines += table_lines([self.names[k] for k in shown], {name: c[shown] for name, c in self.columns.items()})
        if len(shown) < len(self.names):
            some = re.sub(r"\[.*|\)$|^\w+\(", "", self.names[0])
            lines.append(f"... the {len(shown)} of {len(self.names):,} parameters with the largest R-hat.")
            lines.append(f'Others: summary(var_names="{some}"), where * stands for anything; all: to_dataframe().')
        acceptance = "none (no Metropolis step)" if self.acceptance is None else f"{self.acceptance:.3f}"
        lines += [
            "",
            "consensus error  unknown"
            if np.isnan(self.consensus_error)
            else f"consensus error  {self.consensus_error:.3g} posterior sd between an agent and the network mean",
            f"acceptance       {acceptance}",
            *([] if self.of_own is None else [f"own variables    {self.of_own}"]),
            *self._counted("divergences", self.divergences),
            *self._counted("redone", self.redone),
            *([] if self.e_bfmi is None else [f"E-BFMI           {self.e_bfmi.min():.2f} in the worst chain"]),
            f"sent             {self.traffic.rounds:,} rounds, {self.traffic.messages:,} messages, "
            f"{self.traffic.bytes / 1e6:,.1f} MB",
            *([] if self.more_chains is None else [f"more chains      {self.more_chains}"]),
            *([] if self.start is None else [f"started          {self.start.text}"]),
            *([] if self.certificate is None else self.certificate.lines()),
        ]
        more = (text for text in self.warnings if text not in self.verdict)
        return "\n".join([*lines, *(line for text in more for line in _wrapped(f"warning: {text}", "  "))])

    def _counted(self, name: str, count: int | None) -> list[str]:
        return [] if count is None else [f"{name:<17}{count:,} of {self.iterations:,} iterations"]

    def _rows(self) -> list[int]:
        if len(self.names) <= self.most_rows:
            return list(range(len(self.names)))
        return worst_places(self.columns["r_hat"], self.most_rows)


def _wrapped(text: str, indent: str = "") -> list[str]:
    """Break a text into lines, but no word of it, such as the path of a folder."""
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def summarize(
    run: Run,
    agent: int | str | None,
    diagnosed: int | None,
    var_names: str | Sequence[str] | None,
    prob: float,
    transform: Transform | None,
    predictions: bool,
) -> Summary:
    """Return the summary of all agents, or of one; see `Run.summary`."""
    check("prob", prob, 0 < real_number(prob) < 1, "a probability between 0 and 1, such as prob=0.94,")
    check_flag("predictions", predictions)
    number = None if agent is None else agent_number(run, agent)
    copies = list(range(run.copies)) if number is None or run.copies == 1 else [number]
    every, chosen = select(run), select(run, var_names, transform)
    asked: list[PredictionMixing | None] = []

    def mixing() -> PredictionMixing | None:
        asked.append(prediction_mixing(run, copies) if predictions else None)
        return asked[0]

    with np.errstate(all="ignore"):  # of a diverged run the figures are NaN, and a warning says why
        whole = statistics(run, copies, every, diagnosed, prob)
        is_whole = var_names is None and transform is None
        columns = whole if is_whole else statistics(run, copies, chosen, diagnosed, prob)
        state = health(run, copies)
        certified = certificate(run)
        start, own = start_report(run), own_mixing(run, diagnosed)
        found = (*findings(run, whole, every.names, state, mixing, certified, start), *own_findings(own))
    return Summary(
        title=f"{run!r}" + ("" if number is None else f", {run.agent_names[number]}"),
        findings=found,
        names=chosen.names,
        columns=columns,
        prob=prob,
        predictions=asked[0] if asked else None,
        consensus_error=run.consensus_error,
        acceptance=acceptance(run, number),
        divergences=run.divergences,
        redone=run.redone,
        e_bfmi=state.energy,
        iterations=run.num_draws * run.distinct_chains * run.thin,
        traffic=run.traffic,
        more_chains=more_chains(run),
        warnings=_warnings(run, found, columns, [*interval_ends(prob)]),
        most_rows=SHOWN_ROWS if var_names is None else MOST_ROWS,
        certificate=certified,
        own=own,
        start=start,
    )


def _warnings(
    run: Run, found: tuple[Finding, ...], columns: dict[str, np.ndarray], ends: Sequence[str]
) -> tuple[str, ...]:
    """Return what must be known before the numbers are used, the bias first."""
    bias = () if run.sampler.bias is None else (f"biased by design: {run.sampler.bias}",)
    grave = tuple(finding.sentence for finding in found if finding.is_grave)
    what = {"ESS and R-hat": "ess_bulk", "Intervals": next(iter(ends))}
    partly = []
    for name, column in what.items():
        known, size = int((~np.isnan(columns[column])).sum()), len(columns[column])
        if 0 < known < size:
            partly.append(f"{name} were computed for {known} of {size} parameters.")
    return bias + grave + tuple(partly)
