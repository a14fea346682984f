"""Comparison of models by leave-one-out cross-validation, `cs.compare`: which predicts best, and how sure that is."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import check_one_of, refuse_unknown_keywords
from .._extras import require
from .._refused import Refused
from .loo import WIDTH, LooBasis, basis_of, high_k_note, owners_of
from .loo_rows import LooRows, k_limit, loo_rows
from .loo_sums import LooSums, added_up, sums_of
from .stacking import WEIGHTS, owner_score, pseudo_bma, stacking

if TYPE_CHECKING:
    from .run import Run

CLEAR = 2.0  # standard errors
SMALL = 4.0  # of elpd: models this close predict alike, and the standard error of their difference is no guide


@dataclass(frozen=True)
class ComparedModel:
    """One model of a comparison.

    Attributes:
      rank: 0 for the best.
      elpd: expected log pointwise predictive density of all rows, with its standard error `se`.
      elpd_diff: how much better the best model is, with the standard error of that difference, `dse`.
      weight: of the model in a mixture of them, or among them; `Comparison.weights` says which.
      p_loo: effective number of parameters.
      high_k: observations with a k-hat above `k_limit`.
    """

    name: str
    rank: int
    elpd: float
    se: float
    elpd_diff: float
    dse: float
    weight: float
    p_loo: float
    high_k: int
    k_limit: float


@dataclass(frozen=True)
class Comparison:
    """Models compared by leave-one-out cross-validation on the same rows, the best first. `print` it.

    Attributes:
      models: the models, the best first.
      rows: number of observations.
      weights: what the weights are, "stacking" or "pseudo-BMA".
      basis: whose rows and draws it is of.
    """

    models: tuple[ComparedModel, ...]
    rows: int
    weights: str
    basis: LooBasis

    def __getitem__(self, name: str) -> ComparedModel:
        return {model.name: model for model in self.models}[name]

    def to_dataframe(self) -> Any:
        """Return a pandas DataFrame with one row per model, the best first."""
        return require("pandas", "report").DataFrame([asdict(model) for model in self.models]).set_index("name")

    def __str__(self) -> str:
        width = max(len("model"), *(len(model.name) for model in self.models))
        header = ("elpd", "se", "elpd_diff", "dse", "weight", "p_loo", "high k-hat")
        lines = [
            f"leave-one-out over {self.basis.counted(self.rows)} of {self.basis.counted_owners}, weights by "
            f"{self.weights}",
            "",
            f"{'model':<{width}}" + "".join(f"{name:>11}" for name in header),
        ]
        for one in self.models:
            figures = (one.elpd, one.se, one.elpd_diff, one.dse, one.weight, one.p_loo)
            shown = "".join(f"{figure:>11.2f}" for figure in figures)
            lines.append(f"{one.name:<{width}}{shown}{one.high_k:>11,}")
        notes = [self.verdict, *self.basis.notes()]
        notes += high_k_note({model.name: model.high_k for model in self.models}, self.basis)
        return "\n".join([*lines, "", *(line for note in notes for line in textwrap.wrap(note, WIDTH))])

    @property
    def verdict(self) -> str:
        """Sentence on how sure it is that the best model is better than the next."""
        best, second = self.models[:2]
        ahead = f"{best.name} is ahead of {second.name} by {second.elpd_diff:.1f} ± {second.dse:.1f} (standard error)"
        if second.elpd_diff < SMALL:
            return f"{ahead}: too little to tell them apart; take the simpler one, or both."
        if second.elpd_diff < CLEAR * second.dse:
            return f"{ahead}: less than {CLEAR:.0f} standard errors, so that it may be chance."
        return f"{ahead}: it predicts better."


@refuse_unknown_keywords("cs.compare")
def compare(runs: Mapping[str, Run], *, var_name: str | None = None, weights: str = "stacking") -> Comparison:
    """Compare models of the same rows by leave-one-out cross-validation (PSIS-LOO), without pooling the rows.

    Every owner computes the figures of its own rows; sums over rows are all that is put together. The result is that of
    `arviz_stats.compare` on pooled rows. A run that was loaded needs its posterior and its data, `cs.load(path,
    posterior=..., shards=...)`. Owners who hold runs on their own machines use `consilience compare`.

    Args:
      runs: the runs by name, {"linear": run_a, "quadratic": run_b}: of the same rows, of the same owners.
      var_name: the observed variable, where models observe several; None: log-likelihoods are added over all of them.
      weights: "stacking", for which owners answer weights with sums until these are best, or "pseudo-BMA".
    """
    check_one_of("weights", weights, WEIGHTS)
    check_runs(runs)
    limits = [k_limit(run) for run in runs.values()]
    of_owners = [rows_of_models(runs, owner, var_name) for owner in range(len(owners_of(next(iter(runs.values())))))]
    sums = added_up([sums_of(models, limits) for models in of_owners])
    order = ranking(sums)
    found = pseudo_bma(sums.elpd)
    if weights == "stacking":
        scores = [owner_score(np.stack([models[k].elpd for k in order])) for models in of_owners]
        found[order] = stacking(scores, len(order))
    basis = basis_of(next(iter(runs.values())), [*of_owners[0][0].values])
    return comparison_of([*runs], sums, found, limits, weights, basis)


def comparison_of(
    names: Sequence[str], sums: LooSums, weights: np.ndarray, limits: Sequence[float], method: str, basis: LooBasis
) -> Comparison:
    """Return the comparison of several models from the sums of all owners."""
    order = ranking(sums)
    best = order[0]
    models = tuple(
        ComparedModel(
            name=names[k],
            rank=rank,
            elpd=float(sums.elpd[k]),
            se=float(sums.se[k]),
            elpd_diff=float(sums.elpd[best] - sums.elpd[k]),
            dse=float(sums.dse[best, k]),
            weight=float(weights[k]),
            p_loo=float(sums.p_loo[k]),
            high_k=int(sums.high_k[k]),
            k_limit=limits[k],
        )
        for rank, k in enumerate(order)
    )
    return Comparison(models, sums.observations, method, basis)


def ranking(sums: LooSums) -> list[int]:
    """Return the models' numbers, the best first."""
    return [int(k) for k in np.argsort(-sums.elpd, kind="stable")]


def rows_of_models(runs: Mapping[str, Run], owner: int, var_name: str | None) -> list[LooRows]:
    """Compute the figures of one owner's rows under all models; refuse models of different rows.

    Args:
      owner: its place among the owners of the first run; others may have them in another order.
    """
    found = {}
    first, *others = runs
    wanted = owners_of(runs[first])[owner][0]
    for name, run in runs.items():
        [(whose, shard, agent)] = [one for one in owners_of(run) if one[0] == wanted]
        found[name] = loo_rows(run, whose, shard, agent, var_name)
    for other in others:
        _check_same_rows(first, found[first], other, found[other])
    return [*found.values()]


def check_runs(runs: Mapping[str, Run]) -> None:
    """Refuse runs that cannot be compared, as far as can be told before anything is computed."""
    if not isinstance(runs, Mapping) or len(runs) < 2:
        fix = 'Write cs.compare({"linear": run_a, "quadratic": run_b}); of one run alone, run.loo().'
        raise Refused("runs", "two or more are needed, by name", fix)
    first, *others = runs
    owners, basis = ([name for name, _, _ in owners_of(runs[first])], basis_of(runs[first], ()))
    for other in others:
        theirs, its = [name for name, _, _ in owners_of(runs[other])], basis_of(runs[other], ())
        if sorted(theirs) != sorted(owners):
            reason = f"{other} is of the rows of {', '.join(theirs)}, {first} of {', '.join(owners)}"
            fix = "Compare models of the same rows, split alike, and owned under the same names."
            raise Refused("", reason, fix)
        if sorted(its.missing) != sorted(basis.missing):
            reason = f"{other} was sampled with {', '.join((*theirs, *its.missing))}, {first} with "
            reason += ", ".join((*owners, *basis.missing))
            raise Refused("", reason, "Compare posteriors of the same owners' rows.")
        if its.is_by_row != basis.is_by_row:
            reason = f"one of {first} and {other} has a likelihood of rows, the other of whole sites"
            raise Refused("", reason, "Compare likelihoods of one kind: both with per_row=False, or neither.")


def _check_same_rows(first: str, one: LooRows, second: str, other: LooRows) -> None:
    """Refuse two models whose observations at an owner are not the same."""
    fix = "Compare models of the same rows, in the same order."
    counts = [int(found.counted.sum()) for found in (one, other)]
    if one.counted.shape != other.counted.shape or (one.counted != other.counted).any():
        reason = f"{first} has {counts[0]} observations of {len(one.counted)} rows, {second} {counts[1]} of "
        raise Refused(one.owner, f"{reason}{len(other.counted)}, or others of them", fix)
    if max(len(one.values), len(other.values)) > 1 and one.values.keys() != other.values.keys():
        reason = f"{first} observes {', '.join(one.values)}, {second} {', '.join(other.values)}"
        raise Refused(one.owner, reason, "Say which is compared, var_name=...")
    several = len(one.values) > 1
    for name, others_name in zip(one.values, one.values if several else other.values, strict=True):
        values, others = one.values[name], other.values[others_name]
        if values is not None and others is not None and not np.array_equal(values, others, equal_nan=True):
            reason = f"{name} of {first} and {others_name} of {second} are not the same values"
            raise Refused(one.owner, reason, fix)
