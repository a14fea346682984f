"""Diagnostics of how well a run has sampled, computed block by block: draws on disk are never all in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._compat import array_stats

if TYPE_CHECKING:
    from .run import Run

TAIL = (0.05, 0.95)
FEWEST_DRAWS = 4  # arviz-stats has no diagnostics of shorter chains
MOST_VALUES = 4_000_000  # held at once for diagnostics
COLUMNS = ("mcse_mean", "ess_bulk", "ess_tail", "r_hat")


def mean_and_sd(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and sd of every number over draws and chains, (copy, number) each; blocks merge by Chan's formula."""
    count = 0
    mean, squares = np.zeros(run.kept.shape[2:]), np.zeros(run.kept.shape[2:])
    for block in run.blocks():
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


def chain_diagnostics(run: Run, copies: list[int], most: int | None) -> dict[str, np.ndarray]:
    """Return the worst over agents of MCSE of the mean, bulk and tail ESS and rank-normalised R-hat, by arviz-stats.

    Where `most` is given, only for so many series, of numbers evenly spaced, and for no more than MOST_VALUES values.
    NaN elsewhere, and where a chain never moved: arviz would call constant draws perfect.
    """
    stats = array_stats()
    length, chains, _, dimension = run.kept.shape
    columns = {name: np.full(dimension, np.nan) for name in COLUMNS}
    if length < FEWEST_DRAWS or dimension == 0:
        return columns
    fits = MOST_VALUES // (length * chains * len(copies))
    wanted = dimension if most is None else min(fits, most // len(copies))
    some = np.unique(np.linspace(0, dimension - 1, min(dimension, max(1, wanted))).astype(int))
    series = np.moveaxis(run.series(some)[:, :, copies], (2, 1, 0), (0, 1, 2)).astype(float)  # agent, chain, draw
    axes = {"chain_axis": 1, "draw_axis": 2}
    stuck = (np.ptp(series, axis=2) == 0).any(axis=(0, 1))
    worst = {
        "mcse_mean": stats.mcse(series, method="mean", **axes).max(axis=0),
        "ess_bulk": stats.ess(series, method="bulk", **axes).min(axis=0),
        "ess_tail": stats.ess(series, method="tail", prob=TAIL, **axes).min(axis=0),
        "r_hat": stats.rhat(series, method="rank", **axes).max(axis=0),
    }
    for name, values in worst.items():
        columns[name][some] = np.where(stuck, np.nan, values)
    return columns


def energy_fractions(run: Run) -> np.ndarray | None:
    """Return every chain's E-BFMI, Σ(ΔE)² / Σ(E - mean E)²: how much of the energy's spread one momentum can bring.

    None where the sampler has no energy, where thinning has averaged it, or with fewer than FEWEST_DRAWS draws.
    """
    if "energy" not in run.raw_stats or run.thin > 1 or run.num_draws < FEWEST_DRAWS:
        return None
    energy = run.raw_stats["energy"][:, :, 0]  # samplers with an energy hold one chain on all agents
    bfmi = array_stats().bfmi
    return np.asarray(bfmi(energy.T.astype(float), chain_axis=0, draw_axis=1))
