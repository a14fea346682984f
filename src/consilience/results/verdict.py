"""A run in words: what its figures say, and no more than they say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from .diagnostics import FEWEST_DRAWS

if TYPE_CHECKING:
    from .run import Run

R_HAT_LIMIT = 1.01
ESS_PER_CHAIN = 100  # below it, R-hat and ESS are themselves unreliable (Vehtari et al. 2021)
ENERGY_LIMIT = 0.3
CONSENSUS_LIMIT = 0.1  # posterior sd


def sentences(
    run: Run,
    columns: dict[str, np.ndarray],
    names: tuple[str, ...],
    energy: np.ndarray | None,
    is_finite: bool,
    stuck: int,
) -> Iterator[str]:
    """The verdict, the gravest first.

    Args:
      columns: of the summary.
      names: of the parameters, in the columns' order.
      energy: E-BFMI of every chain.
      is_finite: all draws and figures.
      stuck: chains that never moved.
    """
    if not run.is_complete:
        yield f"Unfinished: {run.num_draws:,} of {run.planned:,} draws are there."
    if not is_finite:
        yield "The sampler diverged: not all draws are finite numbers, and none should be used."
        return
    if not names:
        yield "No draws were kept, so nothing can be said of how well the chains have mixed."
        return
    if run.num_draws < FEWEST_DRAWS:
        yield f"{run.num_draws} draws a chain are too few to say anything."
        return
    if stuck:
        yield f"{_count(stuck, 'chain')} never moved: no proposal was taken."
    yield from _mixing(run, columns, names)
    if run.divergences:
        yield (
            f"{_count(run.divergences, 'iteration')} diverged: draws are missing where the posterior is too curved for "
            f"these steps."
        )
    if energy is not None and (energy < ENERGY_LIMIT).any():
        yield (
            f"E-BFMI is {energy.min():.2f} in the worst chain, below {ENERGY_LIMIT}: energies are explored slowly, "
            f"reparametrise."
        )
    yield from _agreement(run)
    if run.sampler.bias is not None:
        yield "The sampler does not sample the posterior exactly, which none of these figures can show."


def _mixing(run: Run, columns: dict[str, np.ndarray], names: tuple[str, ...]) -> Iterator[str]:
    r_hat, bulk, tail = (columns[name] for name in ("r_hat", "ess_bulk", "ess_tail"))
    looked_at = int(np.isfinite(bulk).sum())
    if looked_at == 0:
        return
    looked_at_all = looked_at == len(names)
    high = int((r_hat > R_HAT_LIMIT).sum())
    worst = int(np.argmax(np.nan_to_num(r_hat, nan=-np.inf)))  # of one chain there may be none
    if run.num_chains == 1:
        yield "One chain: whether it has found all of the posterior cannot be told from it."
    if high:
        chains = f"{run.num_chains} chains do not agree" if run.num_chains > 1 else "The chain has not settled"
        of = (
            f"{looked_at} parameters"
            if looked_at_all
            else f"the {looked_at} parameters looked at ({len(names)} in all)"
        )
        yield (
            f"{chains}: {high} of {of} {'has' if high == 1 else 'have'} R-hat above {R_HAT_LIMIT} (worst "
            f"{names[worst]}, {r_hat[worst]:.3g}): run longer or reparametrise."
        )
    elif run.num_chains > 1:
        on = (
            f"all {len(names)} parameters" if looked_at_all else f"the {looked_at} of {len(names)} parameters looked at"
        )
        on = "the parameter" if len(names) == 1 else on
        yield f"{run.num_chains} chains agree on {on}: R-hat at most {r_hat[worst]:.4g}."
    least = (float(np.nanmin(bulk)), float(np.nanmin(tail)))
    enough = ESS_PER_CHAIN * run.num_chains
    said = f"At least {least[0]:,.0f} effective draws in the bulk and {least[1]:,.0f} in the tails of each"
    if min(least) < enough:
        said += f"; with fewer than {enough}, means and intervals are rough, and so is R-hat: run longer"
    yield f"{said}."


def _agreement(run: Run) -> Iterator[str]:
    if run.network.size == 1:
        return
    if run.sampler.replicated:
        redone = "" if not run.redone else f" {_count(run.redone, 'iteration')} had to be redone for it."
        yield f"All agents hold the same chain.{redone}"
    elif run.copies == 1:
        yield "All agents hold the same draws."
    else:
        error = run.consensus_error
        far = " That is far: what one agent says is not what another does." if error > CONSENSUS_LIMIT else ""
        yield f"Agents differ by {error:.2g} posterior sd.{far}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
