"""Certificate of a run by a surrogate: what its exactness rests on, item by item, each with its limit.

Scored proposals are exact whatever the surrogate is, but of use only where their weights are even; and nothing that is
computed from draws can show what no chain has seen. So all that can be checked is checked and printed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from unicodedata import combining

import numpy as np

from .._compat import array_stats
from ..samplers import (
    CROWD,
    FORGETTING_LIMIT,
    LEAST_LOG_WEIGHT,
    R_HAT_LIMIT,
    SECOND_MODE_LIMIT,
    SHARE_LIMIT,
    are_flat,
    pareto_k_limit,
)
from .diagnostics import FEWEST_DRAWS, TAIL

if TYPE_CHECKING:
    from .run import Run

LEAST_ESS = 400
MOST_SERIES = 60  # parameters, evenly spaced, whose draws are looked at
FEWEST_FOR_TAIL = 25  # weights, of which a fifth are the tail that k̂ is fitted to
OTHER_MODES = "other modes"


class Check(NamedTuple):
    """One item of a certificate.

    Attributes:
      limit: what the figure must keep to; empty where it is only told.
    """

    name: str
    found: str
    limit: str
    holds: bool

    @property
    def verdict(self) -> str:
        """Whether it holds, in a word; none where there is nothing to hold."""
        return ("holds" if self.holds else "fails") if self.limit else ""


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

    @property
    def has_other_modes(self) -> bool:
        """Whether draws may be of one mode alone."""
        return any(check.name == OTHER_MODES and not check.holds for check in self.checks)

    @property
    def blindness(self) -> str:
        """What no item can see, as a sentence."""
        return "Modes that are not reached from these starts are invisible."

    def lines(self) -> list[str]:
        """Return the certificate as text, a line each."""
        columns = zip(*((check.name, check.found, check.limit) for check in self.checks), strict=True)
        names, found, limits = (max(map(_width, column)) for column in columns)
        rows = (
            f"  {_padded(check.name, names)}  {_padded(check.found, found)}  {_padded(check.limit, limits)}  "
            f"{check.verdict if check.holds else check.verdict.upper()}".rstrip()
            for check in self.checks
        )
        return [
            f"surrogate        {self.method}",
            f"certificate      {'holds' if self.holds else 'FAILS'}",
            *rows,
            f"  {self.blindness}",
        ]


def _width(text: str) -> int:
    """Return how many places a text takes: an accent such as that of k̂ takes none."""
    return sum(not combining(letter) for letter in text)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


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
    way = "split trajectories, in which the network corrects the force" if splits else "scored proposals"
    method = f"fitted by {said['sums']:.0f} sums; drawn by {way}"
    checks = [_modes(said), _trial(said), *([] if splits else [*_proposals(run, said), *_final(run)])]
    return Certificate(method, (*checks, *_draws(run)), splits)


def _modes(said: dict[str, float]) -> Check:
    mass, starts = said["second_mode"], f"from {said['starts']:.0f} starts"
    if not said["has_mode"]:
        found = "no mode was reached"
    else:
        found = "none" if mass == 0 else f"one with {mass:.2g} of the first's mass"
    is_alone = bool(said["has_mode"]) and mass < SECOND_MODE_LIMIT
    return Check(OTHER_MODES, f"{found}, {starts}", f"less than {SECOND_MODE_LIMIT:g}", is_alone)


def _trial(said: dict[str, float]) -> Check:
    """Return what the trial pass said: by it either way of drawing is chosen, and it is no fault of the draws."""
    figures = f"acceptance {said['acceptance']:.2f}, k̂ {said['pareto_k']:.2f}"
    return Check("trial pass", f"{figures}, largest weight {said['largest_share']:.2%}", "", True)


def _proposals(run: Run, said: dict[str, float]) -> list[Check]:
    """Return how independent proposals are: those by local chains as far as these have forgotten their start.

    Of N proposals whose chains start from a crowd of M, with a correlation ρ of ends with starts, N / (1 + ρ²N/M) are
    independent in effect: what is remembered is the same in all that start from one place.
    """
    number, memory, r_hat = run.num_chains * run.num_draws * run.thin, said["correlation"], said["local_r_hat"]
    if not said["local"]:
        return [Check("proposals", f"{number:,}, each drawn by itself", "", True)]
    pool = number / (1 + memory**2 * number / CROWD)
    apart, diverged = f"R-hat {r_hat:.3f} of ends with starts", f"{said['divergences']:.2g} of their trajectories"
    return [
        Check("local chains", apart, f"at most {R_HAT_LIMIT}", r_hat <= R_HAT_LIMIT),
        Check("their divergences", diverged, "none", said["divergences"] == 0),
        Check(
            "their memory",
            f"correlation {memory:.3f}, beyond chance",
            f"at most {FORGETTING_LIMIT}",
            memory <= FORGETTING_LIMIT,
        ),
        Check("proposals", f"{pool:,.0f} of {number:,} in effect", f"at least {number / 2:,.0f}", pool >= number / 2),
    ]


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
    possible = log_weights[log_weights > LEAST_LOG_WEIGHT]
    if not len(possible):
        return _of_weights(np.inf, 1.0, len(log_weights))
    weights = np.exp(log_weights - log_weights.max())
    if are_flat(possible):
        k = 0.0
    elif len(weights) < FEWEST_FOR_TAIL:
        k = np.inf
    else:  # psislw takes negated log weights: it would look at the lower tail of these
        k = float(np.ravel(array_stats().psislw(-log_weights[None], axis=-1)[1])[0])
    return _of_weights(k, float(weights.max() / weights.sum()), len(weights))


def _of_weights(k: float, share: float, number: int, where: str = "") -> list[Check]:
    limit = pareto_k_limit(number)
    return [
        Check("k̂ of weights", f"{k:.2f}, upper tail of {number:,}{where}", f"at most {limit:.2f}", k <= limit),
        Check("largest weight", f"{share:.2%} of all", f"at most {SHARE_LIMIT:.0%}", share <= SHARE_LIMIT),
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
        least = {
            "bulk": stats.ess(series, method="bulk", **axes).min(),
            "tail": stats.ess(series, method="tail", prob=TAIL, **axes).min(),
            "squares": stats.ess(squares, method="bulk", **axes).min(),
        }
        r_hat = stats.rhat(series, method="rank", **axes).max() if run.num_chains > 1 else np.nan
    if (series == series[:, :, :1]).all(axis=2).any():  # a chain that never moved has no effective draws
        least = dict.fromkeys(least, 0.0)
    found = ", ".join(f"{name} {number:,.0f}" for name, number in least.items())
    checks = [Check("effective draws", found, f"at least {LEAST_ESS}", min(least.values()) >= LEAST_ESS)]
    if run.num_chains > 1:
        checks.append(Check("R-hat", f"{r_hat:.3f}", f"at most {R_HAT_LIMIT}", bool(r_hat <= R_HAT_LIMIT)))
    return checks
