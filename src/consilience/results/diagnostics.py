"""Statistics of a run's draws, and diagnostics of how well it has sampled: draws on disk are never all in memory.

Means and sds are computed block by block. What needs whole series, quantiles, ESS and R-hat, is computed for a group
of parameters at a time: MOST_VALUES values, or those of one parameter if that is more. Each group reads all draws once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._compat import array_stats
from .._intervals import central, mean_quantiles
from .selection import Selection

if TYPE_CHECKING:
    from .run import Run

TAIL = (0.05, 0.95)
FEWEST_DRAWS = 4  # arviz-stats has no diagnostics of shorter chains
MOST_VALUES = 4_000_000  # held at once
MOST_GROUPS = 8  # for intervals of all parameters: beyond it, only those that are diagnosed have one
COLUMNS = ("mcse_mean", "ess_bulk", "ess_tail", "r_hat")


def mean_and_sd(run: Run, selection: Selection | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and sd over draws and chains, (copy, number) each, of all numbers or of a selection.

    Blocks merge by Chan's formula.
    """
    count = 0
    shape = (run.copies, run.layout.dimension if selection is None else selection.size)
    mean, squares = np.zeros(shape), np.zeros(shape)
    for whole in run.blocks():
        block = whole if selection is None else selection.values(whole)
        number = block.shape[0] * block.shape[1]
        block_mean = block.mean(axis=(0, 1), dtype=float)
        apart = block_mean - mean
        squares += np.square(block - block_mean).sum(axis=(0, 1), dtype=float)
        squares += np.square(apart) * (count * number / (count + number))
        mean += apart * (number / (count + number))
        count += number
    return mean, np.sqrt(squares / max(1, count))


class Health(NamedTuple):
    """Basic checks of a run's draws: finite values, stuck chains, energy."""

    draws_finite: bool  # all that was kept
    stats_finite: bool  # all of the sampler's own figures
    stuck: int  # number of chains whose draws are all alike, of `chains`
    chains: int
    energy: np.ndarray | None  # E-BFMI of every chain; None where it cannot be computed


def health(run: Run, copies: list[int]) -> Health:
    """Check all draws and figures of a run for finite values, and the chains of some `copies` for stuck ones."""
    return Health(
        draws_finite=all(bool(np.isfinite(block).all()) for block in run.blocks()),
        stats_finite=all(bool(np.isfinite(values).all()) for values in run.raw_stats.values()),
        stuck=int(never_moved(run)[:, copies].sum()) if run.num_draws and run.layout.names else 0,
        chains=run.num_chains * len(copies),
        energy=energy_fractions(run),
    )


def consensus_error(run: Run) -> float:
    """Return an agent's root mean square distance from the network mean, over draws and numbers, in posterior sd.

    The sd is that of the agents' own draws, and numbers that never vary are left out. NaN where no draws tell, or only
    one agent's are here.
    """
    if run.agents < run.network.size:
        return np.nan  # the others' draws are not here
    if run.copies == 1:
        return 0.0
    with np.errstate(all="ignore"):  # of a diverged run this is NaN or infinite
        variance = np.square(mean_and_sd(run)[1]).mean(axis=0)
        apart = np.zeros(run.layout.dimension)
        for block in run.blocks():
            apart += np.square(block - block.mean(axis=2, keepdims=True, dtype=float)).mean(axis=2).sum(axis=(0, 1))
        apart /= run.num_draws * run.num_chains
        ratio = apart[variance != 0] / variance[variance != 0]
        return float(np.sqrt(ratio.mean())) if ratio.size else np.nan


def acceptance(run: Run, agent: int | None = None) -> float | None:
    """Return the acceptance rate (NUTS: mean probability) of all agents or of one; None without a Metropolis step."""
    accepted = run.raw_stats.get("is_accepted", run.raw_stats.get("acceptance_rate"))
    if accepted is None or not accepted.size:
        return None
    return float((accepted if agent is None or accepted.shape[2] == 1 else accepted[:, :, agent]).mean())


def never_moved(run: Run) -> np.ndarray:
    """Tell which chains, (chain, copy), have draws that are all alike."""
    first = run.kept[:1]
    moved = np.zeros(run.kept.shape[1:3], bool)
    for block in run.blocks():
        moved |= (block != first).any(axis=(0, 3))
    return ~moved


def statistics(
    run: Run, copies: list[int], selection: Selection, most: int | None, prob: float
) -> dict[str, np.ndarray]:
    """Return the columns of a summary of some `copies`, one array each with a number for every row of a selection.

    Mean, sd and the ends of the equal-tailed interval of probability `prob` are averages over the copies; then the
    worst of them: MCSE of the mean, bulk and tail ESS and rank-normalised R-hat, by arviz-stats. `most` says how many
    series these are computed for, of numbers evenly spaced that make one group; None is for all. Rows that have none
    are NaN, as are those of a chain that never moved: arviz would call constant draws perfect.
    """
    mean, sd = mean_and_sd(run, selection)
    ends = interval_ends(prob)
    columns = {"mean": mean[copies].mean(axis=0), "sd": sd[copies].mean(axis=0)}
    columns |= {name: np.full(selection.size, np.nan) for name in (*ends, *COLUMNS)}
    length, chains = run.kept.shape[:2]
    if length == 0 or selection.size == 0:
        return columns
    fits = max(1, MOST_VALUES // (length * chains * len(copies)))
    wanted = selection.size if most is None else min(selection.size, fits, max(1, most // len(copies)))
    diagnosed = np.unique(np.linspace(0, selection.size - 1, wanted).astype(int))
    others = np.setdiff1d(np.arange(selection.size), diagnosed)
    for places in _groups(diagnosed, fits):
        series = _series(run, copies, selection.part(places))
        found = _interval(series, ends) | (worst_diagnostics(series) if length >= FEWEST_DRAWS else {})
        for name, values in found.items():
            columns[name][places] = values
    for places in _groups(others, fits) if len(others) <= fits * MOST_GROUPS else ():
        for name, values in _interval(_series(run, copies, selection.part(places)), ends).items():
            columns[name][places] = values
    return columns


def interval_ends(prob: float) -> dict[str, float]:
    """Return the quantiles between which the equal-tailed interval of probability `prob` lies, by column: "3%"."""
    return {f"{100 * quantile:.6g}%": quantile for quantile in central(prob)}


def _groups(places: np.ndarray, size: int) -> list[np.ndarray]:
    return [places[first : first + size] for first in range(0, len(places), size)]


def _series(run: Run, copies: list[int], selection: Selection) -> np.ndarray:
    """Return all draws of a selection, (copy, chain, draw, number), in float64."""
    parts = [selection.values(block[:, :, copies]) for block in run.blocks()]
    return np.moveaxis(np.concatenate(parts), (2, 1, 0), (0, 1, 2)).astype(float)


def _interval(series: np.ndarray, ends: dict[str, float]) -> dict[str, np.ndarray]:
    """Return the mean over copies of their quantiles, by column."""
    return dict(zip(ends, mean_quantiles(series, [*ends.values()]), strict=True))


def worst_diagnostics(series: np.ndarray) -> dict[str, np.ndarray]:
    """Return the worst over copies of each diagnostic of series (copy, chain, draw, number)."""
    stats = array_stats()
    axes = {"chain_axis": 1, "draw_axis": 2}
    stuck = (np.ptp(series, axis=2) == 0).any(axis=(0, 1))
    worst = {
        "mcse_mean": stats.mcse(series, method="mean", **axes).max(axis=0),
        "ess_bulk": stats.ess(series, method="bulk", **axes).min(axis=0),
        "ess_tail": stats.ess(series, method="tail", prob=TAIL, **axes).min(axis=0),
        "r_hat": stats.rhat(series, method="rank", **axes).max(axis=0),
    }
    return {name: np.where(stuck, np.nan, values) for name, values in worst.items()}


def energy_fractions(run: Run) -> np.ndarray | None:
    """Return every chain's E-BFMI, Σ(ΔE)² / Σ(E - mean E)²: how much of the energy's spread one momentum can bring.

    None where the sampler has no energy, where thinning has averaged it, or with fewer than FEWEST_DRAWS draws.
    """
    if "energy" not in run.raw_stats or run.thin > 1 or run.num_draws < FEWEST_DRAWS:
        return None
    energy = run.raw_stats["energy"][:, :, 0]  # samplers with an energy hold one chain on all agents
    bfmi = array_stats().bfmi
    return np.asarray(bfmi(energy.T.astype(float), chain_axis=0, draw_axis=1))
