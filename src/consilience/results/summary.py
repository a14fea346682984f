"""The summary of a run: what was found, how sure it is, what it cost, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._checks import whole_number
from .._extras import require
from ..runtimes.traffic import Traffic

if TYPE_CHECKING:
    from .run import Run

R_HAT_LIMIT = 1.01
SHOWN_ROWS = 20
TAIL = (0.05, 0.95)
FEWEST_DRAWS = 4  # arviz-stats has no diagnostics of shorter chains


@dataclass(frozen=True)
class Summary:
    """One row per parameter, and the facts of the run. `print` it, or read `columns`.

    Attributes:
      names: of the parameters, `w[3, 1]`.
      columns: mean, sd, ess_bulk, ess_tail, r_hat: one array each, in the order of `names`.
      consensus_error: distance of an agent from the network mean, in posterior sd.
      acceptance: fraction of proposals taken, None without a Metropolis step.
      divergences: iterations that diverged, None where the sampler has none.
      redone: iterations that were redone to keep the agents in step, None where each has a chain of its own.
      iterations: behind the kept draws, of all chains.
      warnings: what must be known before these numbers are used.
    """

    title: str
    names: tuple[str, ...]
    columns: dict[str, np.ndarray]
    consensus_error: float
    acceptance: float | None
    divergences: int | None
    redone: int | None
    iterations: int
    traffic: Traffic
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        shown = self._rows()
        width = max(len("parameter"), *(len(self.names[k]) for k in shown))
        lines = [self.title, ""]
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
    last = run.network.size - 1
    everyone = [0] if run.sampler.replicated else list(range(last + 1))  # one chain, on all agents
    chosen = everyone if agent is None else [whole_number("agent", agent, 0, last)]
    draws = np.moveaxis(run.positions[:, :, chosen], (2, 1, 0), (0, 1, 2))  # (agent, chain, draw, parameter)
    with np.errstate(all="ignore"):  # of a diverged run the figures are NaN, and a warning says why
        columns = {
            "mean": draws.mean(axis=(1, 2), dtype=float).mean(axis=0),
            "sd": draws.std(axis=(1, 2), dtype=float).mean(axis=0),
        }
        columns |= _diagnostics(draws, diagnosed)
    accepted = run.stats.get("is_accepted", run.stats.get("acceptance_rate"))
    return Summary(
        title=f"{run!r}" + ("" if agent is None else f", agent {agent}"),
        names=parameter_names(run),
        columns=columns,
        consensus_error=run.consensus_error,
        acceptance=None if accepted is None else float(accepted[chosen].mean()),
        divergences=run.divergences,
        redone=run.redone,
        iterations=run.positions.shape[0] * run.distinct_chains * run.thin,
        traffic=run.traffic,
        warnings=_warnings(run, chosen, columns),
    )


def parameter_names(run: Run) -> tuple[str, ...]:
    """One name per number: `b` for a scalar, `w[3, 1]` for an element."""
    return tuple(
        name + (f"[{', '.join(map(str, place))}]" if place else "")
        for name, shape in zip(run.layout.names, run.layout.shapes, strict=True)
        for place in np.ndindex(shape)
    )


def _diagnostics(draws: np.ndarray, most: int | None) -> dict[str, np.ndarray]:
    """The worst over agents of bulk and tail ESS and of rank-normalised R-hat, by arviz-stats.

    Of at most `most` series, parameters evenly spaced; NaN elsewhere, and where a chain never moved: arviz would call
    constant draws perfect.
    """
    stats = require("arviz_stats.base", "report").array_stats
    agents, _, length, dimension = draws.shape
    some = np.unique(np.linspace(0, dimension - 1, min(dimension, max(1, (most or draws.size) // agents))).astype(int))
    series = draws[..., some].astype(float)
    axes = {"chain_axis": 1, "draw_axis": 2}
    stuck = (np.ptp(series, axis=2) == 0).any(axis=(0, 1))
    columns = {name: np.full(dimension, np.nan) for name in ("ess_bulk", "ess_tail", "r_hat")}
    if length >= FEWEST_DRAWS:
        worst = {
            "ess_bulk": stats.ess(series, method="bulk", **axes).min(axis=0),
            "ess_tail": stats.ess(series, method="tail", prob=TAIL, **axes).min(axis=0),
            "r_hat": stats.rhat(series, method="rank", **axes).max(axis=0),
        }
        for name, values in worst.items():
            columns[name][some] = np.where(stuck, np.nan, values)
    return columns


def _warnings(run: Run, agents: list[int], columns: dict[str, np.ndarray]) -> tuple[str, ...]:
    """What the numbers do not say by themselves, the gravest first."""
    found = []
    if run.sampler.bias is not None:
        found.append(f"biased by design: {run.sampler.bias}")
    positions = run.positions[:, :, agents]
    draws, chains = positions.shape[:2]
    if not all(np.isfinite(values).all() for values in (positions, *run.stats.values())):
        found.append("not all is finite: the sampler diverged. Use smaller steps.")
    if run.divergences:
        found.append(
            f"{run.divergences} iterations diverged: the posterior has places that these steps are too large for, and "
            f"draws near them are missing. Raise target_acceptance, or reparametrise."
        )
    if draws < FEWEST_DRAWS:
        found.append(f"fewer than {FEWEST_DRAWS} draws a chain: neither ESS nor R-hat can be had.")
    else:
        frozen = (np.ptp(positions, axis=0) == 0).all(axis=-1).sum()
        if frozen:
            found.append(
                f"{frozen} of {chains * len(agents)} chains never moved: no proposal was taken. Use smaller steps."
            )
        if chains == 1:
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
