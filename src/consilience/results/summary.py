"""The summary of a run: what was found, how sure it is, what it cost, and what is wrong with it."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._checks import whole_number
from ..runtimes.traffic import Traffic
from .diagnostics import FEWEST_DRAWS, all_finite, chain_diagnostics, energy_fractions, mean_and_sd, never_moved
from .verdict import R_HAT_LIMIT, sentences

if TYPE_CHECKING:
    from .run import Run

SHOWN_ROWS = 20
WIDTH = 100


@dataclass(frozen=True)
class Summary:
    """One row per parameter, and the facts of the run. `print` it, or read `columns`.

    Attributes:
      verdict: what the figures say, in words.
      names: of the parameters, `w[3, 1]`.
      columns: mean, sd, mcse_mean, ess_bulk, ess_tail, r_hat: one array each, in the order of `names`.
      consensus_error: distance of an agent from the network mean, in posterior sd.
      acceptance: fraction of proposals taken, None without a Metropolis step.
      divergences: iterations that diverged, None where the sampler has none.
      redone: iterations that were redone to keep the agents in step, None where each has a chain of its own.
      e_bfmi: the energy's fraction of missing information, one number a chain, None where the sampler has no energy.
      iterations: behind the kept draws, of all chains.
      warnings: what must be known before these numbers are used.
    """

    title: str
    verdict: str
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
            f"consensus error  {self.consensus_error:.3g} posterior sd between an agent and the network mean",
            f"acceptance       {acceptance}",
            *self._counted("divergences", self.divergences),
            *self._counted("redone", self.redone),
            *([] if self.e_bfmi is None else [f"E-BFMI           {self.e_bfmi.min():.2f} in the worst chain"]),
            f"sent             {self.traffic.rounds:,} rounds, {self.traffic.messages:,} messages, "
            f"{self.traffic.bytes / 1e6:,.1f} MB",
        ]
        return "\n".join(lines + [f"warning: {text}" for text in self.warnings])

    def _counted(self, name: str, count: int | None) -> list[str]:
        return [] if count is None else [f"{name:<17}{count:,} of {self.iterations:,} iterations"]

    def _rows(self) -> list[int]:
        if len(self.names) <= SHOWN_ROWS:
            return list(range(len(self.names)))
        worst = np.argsort(-np.nan_to_num(self.columns["r_hat"], nan=-np.inf), kind="stable")
        return sorted(int(k) for k in worst[:SHOWN_ROWS])


def summarize(run: Run, agent: int | None = None, diagnosed: int | None = None) -> Summary:
    """The summary of all agents, or of one."""
    if agent is not None:
        whole_number("agent", agent, 0, run.network.size - 1)
    copies = list(range(run.copies)) if agent is None or run.copies == 1 else [agent]
    names = parameter_names(run)
    with np.errstate(all="ignore"):  # of a diverged run the figures are NaN, and a warning says why
        mean, sd = mean_and_sd(run)
        columns = {"mean": mean[copies].mean(axis=0), "sd": sd[copies].mean(axis=0)}
        columns |= chain_diagnostics(run, copies, diagnosed)
        energy = energy_fractions(run)
    accepted = run.raw_stats.get("is_accepted", run.raw_stats.get("acceptance_rate"))
    chosen = slice(None) if agent is None or accepted is None or accepted.shape[2] == 1 else [agent]
    is_finite = all_finite(run)
    stuck = int(never_moved(run)[:, copies].sum()) if run.num_draws >= FEWEST_DRAWS and names else 0
    return Summary(
        title=f"{run!r}" + ("" if agent is None else f", agent {agent}"),
        verdict=" ".join(sentences(run, columns, names, energy, is_finite, stuck)),
        names=names,
        columns=columns,
        consensus_error=run.consensus_error,
        acceptance=None if accepted is None or not accepted.size else float(accepted[:, :, chosen].mean()),
        divergences=run.divergences,
        redone=run.redone,
        e_bfmi=energy,
        iterations=run.num_draws * run.distinct_chains * run.thin,
        traffic=run.traffic,
        warnings=_warnings(run, len(copies), columns, is_finite, stuck),
    )


def parameter_names(run: Run) -> tuple[str, ...]:
    """One name per number: `b` for a scalar, `w[3, 1]` for an element."""
    return tuple(
        name + (f"[{', '.join(map(str, place))}]" if place else "")
        for name, shape in zip(run.layout.names, run.layout.shapes, strict=True)
        for place in np.ndindex(shape)
    )


def _warnings(run: Run, copies: int, columns: dict[str, np.ndarray], is_finite: bool, stuck: int) -> tuple[str, ...]:
    """What the numbers do not say by themselves, the gravest first."""
    found = []
    if run.sampler.bias is not None:
        found.append(f"biased by design: {run.sampler.bias}")
    if not is_finite:
        found.append("not all is finite: the sampler diverged. Use smaller steps.")
    if run.divergences:
        found.append(
            f"{run.divergences} iterations diverged: the posterior has places that these steps are too large for, and "
            f"draws near them are missing. Raise target_acceptance, or reparametrise."
        )
    if run.num_draws < FEWEST_DRAWS:
        found.append(f"fewer than {FEWEST_DRAWS} draws a chain: neither ESS nor R-hat can be had.")
    else:
        if stuck:
            of = run.num_chains * copies
            found.append(f"{stuck} of {of} chains never moved: no proposal was taken. Use smaller steps.")
        if run.num_chains == 1:
            found.append("one chain: R-hat, which compares chains, says nothing. Use num_chains=4.")
    diagnosed = int((~np.isnan(columns["ess_bulk"])).sum())
    high = int((columns["r_hat"] > R_HAT_LIMIT).sum())
    if high:
        found.append(
            f"{high} of {diagnosed} parameters have R-hat above {R_HAT_LIMIT}: the chains have not mixed. Run longer."
        )
    if 0 < diagnosed < len(columns["ess_bulk"]):
        found.append(f"ESS and R-hat were computed for {diagnosed} of {len(columns['ess_bulk'])} parameters.")
    return tuple(found)
