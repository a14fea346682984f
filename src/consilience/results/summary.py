"""Summary of a run: what was found, how sure it is, what it cost, and what is wrong with it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import whole_number
from ..neighbors import Traffic
from ..report import worst_places
from .diagnostics import acceptance, chain_diagnostics, health, mean_and_sd
from .verdict import Finding, findings

if TYPE_CHECKING:
    from .run import Run

SHOWN_ROWS = 20
WIDTH = 100


@dataclass(frozen=True)
class Summary:
    """Summary of a run: one row per parameter, and the facts of the run. `print` it, or read `columns`.

    Attributes:
      findings: what the figures say, one by one; `verdict` has them as a text.
      names: names of the parameters, such as `w[3, 1]`.
      columns: mean, sd, mcse_mean, ess_bulk, ess_tail, r_hat: one array each, in the order of `names`.
      consensus_error: distance of an agent from the network mean, in posterior sd.
      acceptance: fraction of proposals taken, None without a Metropolis step.
      divergences: iterations that diverged, None where the sampler has none.
      redone: iterations that were redone to keep the agents in step, None where each has a chain of its own.
      e_bfmi: the energy's fraction of missing information, one number a chain, None where the sampler has no energy.
      iterations: number of iterations behind the kept draws, of all chains.
      warnings: what must be known before these numbers are used.
    """

    title: str
    findings: tuple[Finding, ...]
    names: tuple[str, ...]
    columns: dict[str, np.ndarray]
    consensus_error: float
    acceptance: float | None
    divergences: int | None
    redone: int | None
    e_bfmi: np.ndarray | None
    iterations: int
    traffic: Traffic
    warnings: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """Findings in words, the gravest first."""
        return " ".join(finding.sentence for finding in self.findings)

    def __str__(self) -> str:
        shown = self._rows()
        width = max([len("parameter"), *(len(self.names[k]) for k in shown)])
        lines = [self.title, *textwrap.wrap(self.verdict, WIDTH), ""]
        lines.append(f"{'parameter':<{width}}" + "".join(f"{name:>11}" for name in self.columns))
        for k in shown:
            cells = (
                f"{values[k]:>11.0f}" if "ess" in name else f"{values[k]:>11.4g}"
                for name, values in self.columns.items()
            )
            lines.append(f"{self.names[k]:<{width}}" + "".join(cells))
        if len(shown) < len(self.names):
            lines.append(
                f"... the {len(shown)} of {len(self.names)} parameters with the largest R-hat; all are in .columns"
            )
        acceptance = "none (no Metropolis step)" if self.acceptance is None else f"{self.acceptance:.3f}"
        lines += [
            "",
            "consensus error  unknown"
            if np.isnan(self.consensus_error)
            else f"consensus error  {self.consensus_error:.3g} posterior sd between an agent and the network mean",
            f"acceptance       {acceptance}",
            *self._counted("divergences", self.divergences),
            *self._counted("redone", self.redone),
            *([] if self.e_bfmi is None else [f"E-BFMI           {self.e_bfmi.min():.2f} in the worst chain"]),
            f"sent             {self.traffic.rounds:,} rounds, {self.traffic.messages:,} messages, "
            f"{self.traffic.bytes / 1e6:,.1f} MB",
        ]
        more = (text for text in self.warnings if text not in self.verdict)
        return "\n".join([*lines, *(f"warning: {text}" for text in more)])

    def _counted(self, name: str, count: int | None) -> list[str]:
        return [] if count is None else [f"{name:<17}{count:,} of {self.iterations:,} iterations"]

    def _rows(self) -> list[int]:
        if len(self.names) <= SHOWN_ROWS:
            return list(range(len(self.names)))
        return worst_places(self.columns["r_hat"], SHOWN_ROWS)


def summarize(run: Run, agent: int | None = None, diagnosed: int | None = None) -> Summary:
    """Return the summary of all agents, or of one."""
    if agent is not None:
        whole_number("agent", agent, 0, run.agents - 1)
    copies = list(range(run.copies)) if agent is None or run.copies == 1 else [agent]
    names = parameter_names(run)
    with np.errstate(all="ignore"):  # of a diverged run the figures are NaN, and a warning says why
        mean, sd = mean_and_sd(run)
        columns = {"mean": mean[copies].mean(axis=0), "sd": sd[copies].mean(axis=0)}
        columns |= chain_diagnostics(run, copies, diagnosed)
        state = health(run, copies)
    found = tuple(findings(run, columns, names, state))
    return Summary(
        title=f"{run!r}" + ("" if agent is None else f", {run.agent_names[agent]}"),
        findings=found,
        names=names,
        columns=columns,
        consensus_error=run.consensus_error,
        acceptance=acceptance(run, agent),
        divergences=run.divergences,
        redone=run.redone,
        e_bfmi=state.energy,
        iterations=run.num_draws * run.distinct_chains * run.thin,
        traffic=run.traffic,
        warnings=_warnings(run, found, columns),
    )


def parameter_names(run: Run) -> tuple[str, ...]:
    """Return one name per number: `b` for a scalar, `w[3, 1]` for an element, `w[age]` where the axis has labels."""

    def labels(name: str, shape: tuple[int, ...]) -> list[Sequence[Any]]:
        dims = run.dims.get(name, ("",) * len(shape))
        return [run.coords.get(dim, range(length)) for dim, length in zip(dims, shape, strict=True)]

    return tuple(
        name + (f"[{', '.join(map(str, place))}]" if place else "")
        for name, shape in zip(run.layout.names, run.layout.shapes, strict=True)
        for place in product(*labels(name, shape))
    )


def _warnings(run: Run, found: tuple[Finding, ...], columns: dict[str, np.ndarray]) -> tuple[str, ...]:
    """Return what must be known before the numbers are used, the bias first."""
    bias = () if run.sampler.bias is None else (f"biased by design: {run.sampler.bias}",)
    grave = tuple(finding.sentence for finding in found if finding.is_grave)
    diagnosed, dimension = int((~np.isnan(columns["ess_bulk"])).sum()), len(columns["ess_bulk"])
    partly = (f"ESS and R-hat were computed for {diagnosed} of {dimension} parameters.",)
    return bias + grave + (partly if 0 < diagnosed < dimension else ())
