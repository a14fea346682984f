"""Sums of leave-one-out figures over an owner's rows: all of them that leaves the owner.

Of K models compared on the same rows j, an owner with n observations tells, and owners' sums make up those of all rows:

    Σ_j elpd_jk ,  Σ_j p_loo_jk ,  the number of rows with a high k-hat ,  and the squares around the owner's own means,
    S_kk = Σ_j (elpd_jk - mean_k)² ,   S_kl = Σ_j (elpd_jk - elpd_jl - mean_k + mean_l)² .

Squares of differences are there because models are compared on the same rows: the standard error of a difference is
smaller than those of the two models would tell. Around the own means, they can be added without losing digits:
S = Σ_i [S_i + n_i (mean_i - mean)²] (Chan, Golub and LeVeque 1983).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._compat import elpd_ddof
from .loo_rows import LooRows


@dataclass(frozen=True, eq=False)
class LooSums:
    """Sums over the observations of some owners, of K models on the same observations.

    Attributes:
      owners: whose rows they are of.
      rows: how many rows of data are behind them; a site that is one observation may have many.
      observations: how many observations.
      elpd: of each model, (K,).
      p_loo: of each model, (K,).
      high_k: how many observations have a k-hat above the limit, of each model, (K,).
      squares: around the means: on the diagonal of each model's elpd, elsewhere of the differences, (K, K).
    """

    owners: tuple[str, ...]
    rows: int
    observations: int
    elpd: np.ndarray
    p_loo: np.ndarray
    high_k: np.ndarray
    squares: np.ndarray

    @property
    def se(self) -> np.ndarray:
        """Standard error of each model's elpd, sqrt(n S_kk / (n - ddof)), with the ddof of the installed ArviZ."""
        divisor = max(1, self.observations - elpd_ddof())  # one observation has S_kk = 0, and ArviZ's error is 0, too
        return np.sqrt(np.diag(self.squares) * (self.observations / divisor))

    @property
    def dse(self) -> np.ndarray:
        """Standard errors of the differences between models' elpd, sqrt(S_kl), with n for a divisor as ArviZ has it."""
        found = np.sqrt(self.squares)
        np.fill_diagonal(found, 0.0)
        return found

    @property
    def means(self) -> np.ndarray:
        """Means of what `squares` are of, (K, K)."""
        return _differences(self.elpd / max(1, self.observations))


def sums_of(models: Sequence[LooRows], limits: Sequence[float]) -> LooSums:
    """Sum the figures of several models over one owner's observations; `limits` are those of k-hat."""
    elpd = np.stack([model.elpd for model in models])  # (models, observations)
    series, observations = _differences(elpd), elpd.shape[1]
    means = series.sum(axis=-1, keepdims=True) / max(1, observations)
    return LooSums(
        owners=(models[0].owner,),
        rows=int(models[0].counted.sum()),
        observations=observations,
        elpd=elpd.sum(axis=1),
        p_loo=np.array([model.p_loo.sum() for model in models]),
        high_k=np.array([int((~(model.k <= limit)).sum()) for model, limit in zip(models, limits, strict=True)]),
        squares=np.square(series - means).sum(axis=-1),
    )


def added_up(parts: Sequence[LooSums]) -> LooSums:
    """Add the sums of several owners up."""
    observations = sum(part.observations for part in parts)
    elpd = np.sum([part.elpd for part in parts], axis=0)
    means = _differences(elpd / max(1, observations))
    return LooSums(
        owners=tuple(owner for part in parts for owner in part.owners),
        rows=sum(part.rows for part in parts),
        observations=observations,
        elpd=elpd,
        p_loo=np.sum([part.p_loo for part in parts], axis=0),
        high_k=np.sum([part.high_k for part in parts], axis=0),
        squares=np.sum([part.squares + part.observations * (part.means - means) ** 2 for part in parts], axis=0),
    )


def _differences(values: np.ndarray) -> np.ndarray:
    """Return a matrix of differences x_k - x_l, with x_k itself on the diagonal, from (K, ...): (K, K, ...)."""
    found = values[:, None] - values[None, :]
    for k, own in enumerate(values):
        found[k, k] = own
    return found
