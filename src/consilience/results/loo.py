"""Leave-one-out cross-validation of a run, `run.loo()`: how well the model predicts rows that it has not seen."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._refused import Refused
from .._types import Batch
from .loo_rows import k_limit, loo_rows
from .loo_sums import LooSums, added_up, sums_of
from .pointwise import is_by_row

if TYPE_CHECKING:
    from .run import Run

WIDTH = 98  # characters


@dataclass(frozen=True)
class LooBasis:
    """Basis of leave-one-out figures: whose observations they are of, and whose draws.

    Attributes:
      owners: the owners whose rows are in.
      missing: owners of the run whose rows are not.
      is_by_row: whether an observation is a row; else it is an owner's whole site.
      own_draws: whether each owner took draws of its own chain, as gossip samplers give them.
      variables: the observed variables, whose log-likelihoods are added row by row.
    """

    owners: tuple[str, ...]
    missing: tuple[str, ...] = ()
    is_by_row: bool = True
    own_draws: bool = False
    variables: tuple[str, ...] = ()

    @property
    def counted_owners(self) -> str:
        """Number of owners in words."""
        return f"{len(self.owners)} owner{'s' * (len(self.owners) != 1)}"

    def counted(self, observations: int) -> str:
        """Return a number of observations in words."""
        what = "row" if self.is_by_row else "site"
        return f"{observations:,} {what}{'s' * (observations != 1)}"

    def notes(self) -> list[str]:
        """Return what must be known of figures on this basis."""
        found = []
        if self.missing:
            found.append(f"These are rows of {', '.join(self.owners)} alone: without {', '.join(self.missing)}.")
        if not self.is_by_row:
            found.append("The likelihood is of a whole site: each owner is one observation, left out as a whole.")
        if self.own_draws:
            found.append("Every owner took the draws of its own chain, as this sampler gives them.")
        if len(self.variables) > 1:
            found.append(f"Log-likelihoods of {', '.join(self.variables)} are added row by row.")
        return found


@dataclass(frozen=True)
class Loo:
    """Leave-one-out cross-validation of a run (PSIS-LOO), summed over all owners' rows. `print` it.

    Attributes:
      elpd: expected log pointwise predictive density: larger is better, among models of the same rows.
      se: its standard error.
      p_loo: effective number of parameters.
      rows: number of observations.
      high_k: how many of them have a k-hat above `k_limit`, so that their elpd cannot be trusted.
      k_limit: 0.7, or less with fewer than 2,200 draws.
      draws: number of draws, of all chains.
      basis: whose rows and draws it is of.
    """

    elpd: float
    se: float
    p_loo: float
    rows: int
    high_k: int
    k_limit: float
    draws: int
    basis: LooBasis

    def __str__(self) -> str:
        lines = [
            f"leave-one-out over {self.basis.counted(self.rows)} of {self.basis.counted_owners}, {self.draws:,} draws",
            "",
            f"{'':<14}{'estimate':>12}{'se':>10}",
            f"{'elpd':<14}{self.elpd:>12.2f}{self.se:>10.2f}",
            f"{'p_loo':<14}{self.p_loo:>12.2f}",
            f"{f'k-hat > {self.k_limit:.2f}':<14}{self.high_k:>12,} of {self.basis.counted(self.rows)}",
        ]
        notes = [*self.basis.notes(), *high_k_note({"": self.high_k}, self.basis)]
        wrapped = [line for note in notes for line in textwrap.wrap(note, WIDTH)]
        return "\n".join([*lines, *([""] if notes else []), *wrapped])


def loo(run: Run, var_name: str | None = None) -> Loo:
    """Compute leave-one-out cross-validation of the rows that a run has at hand, owner by owner."""
    limit = k_limit(run)
    rows = [loo_rows(run, owner, shard, agent, var_name) for owner, shard, agent in owners_of(run)]
    basis = basis_of(run, [*rows[0].values])
    return loo_of(added_up([sums_of([part], [limit]) for part in rows]), basis, run.num_draws * run.num_chains, limit)


def loo_of(sums: LooSums, basis: LooBasis, draws: int, limit: float, model: int = 0) -> Loo:
    """Return one model's figures from the sums of all owners."""
    return Loo(
        elpd=float(sums.elpd[model]),
        se=float(sums.se[model]),
        p_loo=float(sums.p_loo[model]),
        rows=sums.observations,
        high_k=int(sums.high_k[model]),
        k_limit=limit,
        draws=draws,
        basis=basis,
    )


def owners_of(run: Run) -> list[tuple[str, Batch, int]]:
    """Return every owner whose data a run has at hand: its name, its data, and the number of its draws' agent."""
    if run.shards is None:
        fix = "Write cs.load(path, posterior=..., shards=...), of an owner's own folder with shards=[mine]."
        raise Refused("", "this run has no data at hand", fix)
    if run.owner is not None:
        return [(run.owner.name, run.shards[0], 0)]
    return [(run.agent_names[agent], shard, agent) for agent, shard in enumerate(run.shards)]


def basis_of(run: Run, variables: Sequence[str]) -> LooBasis:
    """Return the basis of figures of the rows that a run has at hand."""
    owners = tuple(name for name, _, _ in owners_of(run))
    names = run.owner.names if run.owner is not None else owners
    return LooBasis(
        owners=owners,
        missing=tuple(name for name in names if name not in owners),
        is_by_row=is_by_row(run),
        own_draws=run.copies > 1 or (run.owner is not None and not run.sampler.replicated),
        variables=tuple(variables),
    )


def high_k_note(counts: dict[str, int], basis: LooBasis) -> list[str]:
    """Return a warning in words for models with a high k-hat, by name; nothing where there is none."""
    high = {name: count for name, count in counts.items() if count}
    if not high:
        return []
    each = "; ".join(f"{name}: {basis.counted(count)}".removeprefix(": ") for name, count in high.items())
    return [
        f"warning: a high k-hat ({each}). The posterior hangs so much on such a {'row' if basis.is_by_row else 'site'} "
        "that its part of elpd cannot be computed from these draws; it is likely to be too high. A model with heavier "
        "tails may help, or K-fold cross-validation."
    ]
