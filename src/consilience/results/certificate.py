"""Certificate of a run by a surrogate: what its exactness rests on, item by item, each with its limit.

Scored proposals are exact whatever the surrogate is, but of use only where their weights are even; and nothing that is
computed from draws can show what no chain has seen. So all that can be checked is checked and printed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._compat import array_stats
from ..samplers import FORGETTING_LIMIT, SECOND_MODE_LIMIT, SHARE_LIMIT, are_flat, pareto_k_limit
from .diagnostics import FEWEST_DRAWS, TAIL

if TYPE_CHECKING:
    from .run import Run

LEAST_ESS = 400
R_HAT_LIMIT = 1.01
MOST_SERIES = 60  # parameters, evenly spaced, whose squares are looked at


class Check(NamedTuple):
    """One item of a certificate."""

    name: str
    found: str
    holds: bool


class Certificate(NamedTuple):
    """All items, and how the draws were made."""

    method: str
    checks: tuple[Check, ...]
    splits: bool  # whether trajectories were split: there is nothing to fall back on

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)

    @property
    def failed(self) -> str:
        """Items that do not hold, in words."""
        return "; ".join(f"{check.name}: {check.found}" for check in self.checks if not check.holds)

    def lines(self) -> list[str]:
        """Return the certificate as text, a line each."""
        width = max(len(check.name) for check in self.checks)
        rows = (f"  {check.name:<{width}}  {check.found}{'' if check.holds else '  FAILS'}" for check in self.checks)
        return [f"surrogate        {self.method}", *rows]


def certificate(run: Run) -> Certificate | None:
    """Return the certificate of a run whose sampler has a surrogate; None where it has none, or no draws."""
    if "surrogate_split" not in run.raw_stats or run.num_draws < FEWEST_DRAWS:
        return None
    said = {
        name.removeprefix("surrogate_"): float(run.raw_stats[name][-1, 0, 0])
        for name in run.raw_stats
        if name.startswith("surrogate_")
    }
    splits = said["split"] > 0
    way = "split trajectories, one sum a step" if splits else "scored proposals"
    method = f"fitted by {said['sums']:.0f} sums; drawn by {way}"
    return Certificate(method, (*_fit(run, said, splits), *([] if splits else _final(run)), *_draws(run)), splits)


def _fit(run: Run, said: dict[str, float], splits: bool) -> list[Check]:
    """Return what is known of the surrogate from its fit; a failed trial is no fault where it led to trajectories."""
    mode = said["second_mode"]
    found = "none reached" if mode == 0 else f"one with {mode:.2g} of the mass"
    checks = [Check("other modes", f"{found} (modes that no start reaches are invisible)", mode < SECOND_MODE_LIMIT)]
    if said["forgotten"] > 0:
        checks.append(
            Check(
                "local chains",
                f"correlation {said['forgotten']:.2f} of ends with starts (at most {FORGETTING_LIMIT} beyond chance)",
                splits or said["forgotten"] <= FORGETTING_LIMIT + 3 / np.sqrt(1000),
            )
        )
    trial = (
        f"acceptance {said['acceptance']:.2f}, k̂ {said['pareto_k']:.2f}, "
        f"largest weight {said['largest_share']:.2%} of all"
    )
    return [*checks, Check("trial pass", trial + (", so the network corrects the force" if splits else ""), True)]


def _final(run: Run) -> list[Check]:
    """Return what the weights of the proposals say that the draws are made of.

    Where draws are thinned their figures are means over iterations, whose tail says nothing: there it is the worst of
    the blocks in which proposals were scored that counts.
    """
    if run.thin > 1:
        k, share, number = (
            float(run.raw_stats[f"block_{name}"].max()) for name in ("pareto_k", "largest_share", "proposals")
        )
        share *= min(1.0, number / (run.num_chains * run.num_draws * run.thin))  # of a block's, made that of all
        return _of_weights(k, share, round(number), " in the worst block")
    log_weights = np.asarray(run.raw_stats["log_weight"], float)[:, :, 0].ravel()
    weights = np.exp(log_weights - log_weights.max())
    # psislw takes negated log weights: it would look at the lower tail of these.
    k = 0.0 if are_flat(log_weights) else float(np.ravel(array_stats().psislw(-log_weights[None], axis=-1)[1])[0])
    return _of_weights(k, float(weights.max() / weights.sum()), len(weights))


def _of_weights(k: float, share: float, number: int, where: str = "") -> list[Check]:
    limit = pareto_k_limit(number)
    return [
        Check("k̂ of weights", f"{k:.2f} of {number:,} proposals{where} (at most {limit:.2f})", k <= limit),
        Check("largest weight", f"{share:.2%} of all (at most {SHARE_LIMIT:.0%})", share <= SHARE_LIMIT),
    ]


def _draws(run: Run) -> list[Check]:
    """Return how many effective draws there are, of means, tails and squares, and how chains agree."""
    stats, dimension = array_stats(), run.layout.dimension
    if not dimension:
        return []
    some = np.unique(np.linspace(0, dimension - 1, min(dimension, MOST_SERIES)).astype(int))
    series = np.moveaxis(run.series(some)[:, :, 0], (2, 1, 0), (0, 1, 2)).astype(float)
    squares = np.square(series - series.mean(axis=(1, 2), keepdims=True))
    axes = {"chain_axis": 1, "draw_axis": 2}
    with np.errstate(all="ignore"):
        least = min(
            stats.ess(series, method="bulk", **axes).min(),
            stats.ess(series, method="tail", prob=TAIL, **axes).min(),
            stats.ess(squares, method="bulk", **axes).min(),
        )
        r_hat = stats.rhat(series, method="rank", **axes).max() if run.num_chains > 1 else np.nan
    if (series == series[:, :, :1]).all(axis=2).any():  # a chain that never moved has no effective draws
        least = 0.0
    checks = [
        Check("effective draws", f"{least:,.0f} at least, of squares too ({LEAST_ESS} needed)", least >= LEAST_ESS)
    ]
    if run.num_chains > 1:
        checks.append(Check("R-hat", f"{r_hat:.3f} at most ({R_HAT_LIMIT} allowed)", bool(r_hat <= R_HAT_LIMIT)))
    return checks
