"""Readings: the numbers and draws of a run that the page needs, each asked for once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from .numbers import count, number, percent
from .style import MOST_SERIES

if TYPE_CHECKING:
    from ..results import Run, Summary

SHOWN_PARAMETERS = 6


@dataclass(frozen=True, eq=False)
class RunReading:
    """A run with its summary and some of its draws, under the name that the page gives it.

    Attributes:
      shown: names of the parameters that have figures of their own: those that have mixed worst.
      series: their draws, (draw, chain, copy), by name; also those that several runs are compared by.
    """

    name: str
    run: Run
    summary: Summary
    shown: tuple[str, ...]
    series: Mapping[str, np.ndarray]

    @property
    def agents(self) -> int:
        return self.run.agents

    @property
    def member_names(self) -> tuple[str, ...]:
        """Names of all agents of the network, also of those whose draws are not here."""
        run, size = self.run, self.run.network.size
        owners = () if run.owner is None else run.owner.names
        known = (names for names in (run.names, owners, run.agent_names) if len(names) == size)
        return next(known, tuple(f"agent {agent}" for agent in range(size)))

    @property
    def has_names(self) -> bool:
        """Whether agents were given names, and are not only numbered."""
        return self.member_names != tuple(f"agent {agent}" for agent in range(self.run.network.size))

    @property
    def has_one_chain_for_all(self) -> bool:
        return self.run.copies == 1 and self.agents > 1

    @property
    def grave(self) -> tuple[str, ...]:
        """Findings that must be known before the run is used, each in a few words."""
        return tuple(finding.short for finding in self.summary.findings if finding.is_grave)

    @property
    def acceptance(self) -> np.ndarray | None:
        """The acceptance of every draw, None where the sampler takes every proposal."""
        return self.run.stats.get("is_accepted", self.run.stats.get("acceptance_rate"))

    @cached_property
    def farthest_agent(self) -> int:
        """The agent whose draws are farthest from the network mean, or not all finite, in the parameters shown."""
        if self.run.copies == 1 or not self.shown:
            return 0
        draws = np.stack([self.series[name] for name in self.shown])
        finite = np.isfinite(draws).all(axis=(0, 1, 2))
        if not finite.all():
            return int(np.argmin(finite))
        apart = np.abs(draws - draws.mean(axis=3, keepdims=True)).mean(axis=(1, 2))
        spread = draws.std(axis=(1, 2, 3))
        return int(np.argmax((apart / np.where(spread > 0, spread, 1)[:, None]).sum(axis=0)))

    def chains(self, name: str) -> np.ndarray:
        """Return a parameter's draws on one agent, (chain, draw): the agent farthest from the others."""
        return self.series[name][:, :, self.farthest_agent].T

    def curves(self, name: str) -> dict[str, np.ndarray]:
        """Return the draws behind each marginal: of agents, or of chains where all agents hold the same."""
        series = self.series[name]
        if self.run.copies == 1:
            return {f"chain {chain}": series[:, chain, 0] for chain in some(self.run.num_chains)}
        return {self.run.agent_names[agent]: series[:, :, agent].ravel() for agent in some(self.agents)}

    @property
    def agreement(self) -> str:
        """Sentence on how far the shown parameters' means, in posterior sd, and sds differ between agents."""
        means, sds = [], []
        with np.errstate(all="ignore"):  # draws that are not finite, or never move, have none
            for name in self.shown:
                mean, sd = (f(self.series[name], axis=(0, 1)) for f in (np.mean, np.std))
                means.append(np.ptp(mean) / sd.mean())
                sds.append(np.ptp(sd) / sd.mean())
        if not np.isfinite([*means, *sds]).all():
            return "Draws that are not finite, and chains that never move, have no spread to compare."
        return (
            f"Between agents, means of these parameters differ by at most {number(max(means), 2)} posterior sd, and "
            f"sds by {percent(max(sds))}."
        )

    @property
    def how_chosen(self) -> str:
        """Sentence on how the shown parameters were chosen."""
        total = len(self.summary.names)
        if len(self.shown) == total:
            return f"{'It is the only parameter' if total == 1 else f'These are all {total} parameters'}."
        diagnosed = int(np.isfinite(self.summary.columns["r_hat"]).sum())
        if not diagnosed:
            return f"These are the first {len(self.shown)} of {total:,} parameters: none has an R-hat to choose by."
        if diagnosed < total:
            some_of = f"Of the {diagnosed:,} parameters (of {total:,}) that R-hat was computed for"
            return f"{some_of}, these {len(self.shown)} have the largest."
        return f"Of {total:,} parameters, these {len(self.shown)} have the largest R-hat."

    @property
    def whose_chains(self) -> str:
        """Sentence on whose chains traces and ranks show."""
        if self.agents == 1:
            owner = self.run.owner
            return "There is one agent." if owner is None else f"The chains are those of {owner.name}."
        if self.has_one_chain_for_all:
            return f"All {self.agents} agents hold the same chains."
        agent = self.farthest_agent
        is_finite = all(np.isfinite(self.series[name][:, :, agent]).all() for name in self.shown)
        why = f"farthest from the mean of the {self.agents} agents" if is_finite else "not all finite numbers"
        return f"The chains are those of {self.run.agent_names[agent]}, whose draws are {why}."

    @property
    def size(self) -> str:
        """Numbers of agents, chains, draws and parameters, in words."""
        return (
            f"{count(self.agents, 'agent')}, {count(self.run.num_chains, 'chain')} of "
            f"{count(self.run.num_draws, 'draw')}, {count(len(self.summary.names), 'parameter')}"
        )


def some(total: int) -> list[int]:
    """Return all indices below `total`, or MOST_SERIES of them, evenly spaced."""
    return np.unique(np.linspace(0, total - 1, min(total, MOST_SERIES)).round().astype(int)).tolist()


def readings(runs: Mapping[str, Run]) -> tuple[list[RunReading], tuple[str, ...]]:
    """Read the runs, and name the parameters by which they are compared: of those they share, the worst mixed."""
    summaries = {name: run.summary() for name, run in runs.items()}
    shared = shared_names(list(summaries.values()))
    r_hats = [
        dict(zip(summary.names, summary.columns["r_hat"], strict=True))
        for summary in list(summaries.values())[:MOST_SERIES]
    ]
    largest = [np.fmax.reduce([of_run[k] for of_run in r_hats if k in of_run]) for k in shared]
    compared = tuple(shared[k] for k in worst_places(np.array(largest), SHOWN_PARAMETERS))
    found = []
    for name, run in runs.items():
        summary = summaries[name]
        shown = tuple(summary.names[k] for k in worst_places(summary.columns["r_hat"], SHOWN_PARAMETERS))
        place_of = {k: place for place, k in enumerate(summary.names)}
        places = [place_of[k] for k in dict.fromkeys([*shown, *compared]) if k in place_of]
        found.append(RunReading(name, run, summary, shown, _series(run, summary.names, places)))
    return found, compared


def shared_names(summaries: Sequence[Summary]) -> list[str]:
    """Return names that are in at least two of the runs drawn together, in the order of the models."""
    counted = Counter(name for summary in summaries[:MOST_SERIES] for name in summary.names)
    return [name for name, runs in counted.items() if runs > 1]


def worst_places(r_hat: np.ndarray, most: int) -> list[int]:
    """Return the indices of the `most` parameters with the largest R-hat, in the order of the model."""
    worst_first = np.argsort(-np.nan_to_num(r_hat, nan=-np.inf), kind="stable")
    return sorted(int(k) for k in worst_first[:most])


def _series(run: Run, names: Sequence[str], places: list[int]) -> dict[str, np.ndarray]:
    if not places or not run.num_draws:
        return {names[k]: np.empty((0, run.num_chains, run.copies)) for k in places}
    series = np.asarray(run.series(places), float)
    return {names[k]: series[..., n] for n, k in enumerate(places)}
