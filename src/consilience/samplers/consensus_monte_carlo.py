"""`consensus_monte_carlo`: every agent samples alone, and the draws are combined once."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np

from .._checks import check_one_of
from .._refused import Refused
from .._types import Key, LogDensity, Vector
from ..neighbors import Alone, Neighbors
from .base import Kernel, SecondStage, own_key
from .hamiltonian import NUTS
from .settings import register_settings, static

LARGEST_R_HAT = 1.5  # of an agent's own draws; far above what noise alone gives short chains


@register_settings
@dataclass(frozen=True, eq=False)
class ConsensusMonteCarlo(NUTS):
    """One-shot consensus Monte Carlo (Scott, Blocker, Bonassi, Chipman, George and McCulloch 2016).

        ω_i ~ exp ℓ_i by NUTS, each agent alone ;      V_i = the sample covariance of agent i's draws
        ω = (Σ_i V_i⁻¹)⁻¹ Σ_i V_i⁻¹ ω_i ,              draw by draw, chain by chain

    exp ℓ_i is agent i's subposterior: the likelihood of its data times the m-th root of the prior. V_i is of all chains
    together. Nothing is sent before the last draw. All agents end with the same draws; the sampler's statistics, such
    as acceptance rates, stay those of each agent's own chain.

    **Known bias.** Exact where all subposteriors are Gaussian, and nowhere else: skewness and curvature that the
    subposteriors have more of than the posterior end up in the weighted mean. Every subposterior must be proper, which
    with a flat prior and few examples it may not be: draws without a finite, regular covariance are refused (a singular
    one only warns where weights are diagonal), and an agent's draws that do not agree with each other warn.

    It costs two exact sums over the tree, of V_i⁻¹ (the square of the number of parameters, or once that number with
    diagonal weights) and of all draws, in double precision.

    Args:
      step_size, inverse_mass_matrix, target_acceptance, dense_mass, max_num_doublings: as for `cs.nuts`; every agent
        tunes its own.
      weights: "dense", or "diagonal", which leaves correlations out of V_i and needs no more draws than parameters.
    """

    start: str | None = field(
        default=None, init=False, repr=False, metadata={"static": True}
    )  # nobody to share one with
    weights: str = static("dense")

    name = "consensus_monte_carlo"
    bias = "its weighted mean of the agents' own draws is a posterior draw only where all subposteriors are Gaussian."
    replicated = False
    moves_own = False
    common_noise = False
    communicates = False  # before the last draw

    @property
    def second_stage(self) -> SecondStage:
        return self

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of(f"{self.name}: weights", self.weights, ("dense", "diagonal"))

    def build(self, logdensity: LogDensity, neighbors: Neighbors, like: Vector) -> Kernel:
        def noise(key: Key) -> Key:
            return own_key(key, neighbors)

        return super().build(logdensity, Alone(), like)._replace(noise=noise)

    def combine(self, draws: np.ndarray) -> np.ndarray:
        """Turn all agents' draws (draw, chain, agent, dimension) into one copy for all: (draw, chain, 1, dimension)."""
        length, chains, agents, dimension = draws.shape
        if agents == 1:
            return draws
        precision: np.ndarray = np.zeros((dimension, dimension) if self.weights == "dense" else dimension)
        weighted = np.zeros((length * chains, dimension))
        for agent in range(agents):
            own = draws[:, :, agent].astype(float)
            self._check(agent, own, float(np.finfo(draws.dtype).eps))
            own = own.reshape(-1, dimension)
            part = np.linalg.inv(_covariance(own)) if self.weights == "dense" else 1 / own.var(axis=0, ddof=1)
            precision += part
            weighted += own @ part if self.weights == "dense" else own * part
        combined = np.linalg.solve(precision, weighted.T).T if self.weights == "dense" else weighted / precision
        return combined.astype(draws.dtype).reshape(length, chains, 1, dimension)

    def combine_bytes(self, draws: np.ndarray) -> tuple[int, ...]:
        length, chains, _, dimension = draws.shape
        weights = dimension**2 if self.weights == "dense" else dimension
        return np.dtype(float).itemsize * weights, np.dtype(float).itemsize * length * chains * dimension

    def _check(self, agent: int, draws: np.ndarray, rounding: float) -> None:
        """Refuse an agent's draws (draw, chain, dimension) that give no weights; warn of signs of an improper law."""
        dimension = draws.shape[-1]
        own = draws.reshape(-1, dimension)
        cause = (
            "Its subposterior, of its data and the m-th part of the prior, may be improper: give the model a proper "
            "prior, or use cs.nuts(), which samples the whole posterior."
        )
        with np.errstate(all="ignore"):
            variance = own.var(axis=0, ddof=1) if len(own) > 1 else np.zeros(dimension)
        if not np.isfinite(variance).all():
            raise Refused(self.name, f"agent {agent}'s draws have no finite covariance", cause)
        if (variance == 0).any():
            alike = f"agent {agent}'s draws of parameter {np.argmin(variance)} are all alike, so they have no weight"
            raise Refused(self.name, alike, "Draw more, or use a smaller step_size.")
        enough = len(own) > dimension
        singular = f"the covariance of agent {agent}'s {len(own)} draws of {dimension} parameters is singular"
        is_singular = not enough or _least_correlated(own / np.sqrt(variance)) <= dimension * rounding
        if is_singular and self.weights == "dense":
            fix = cause if enough else 'Draw more than there are parameters, or use weights="diagonal".'
            raise Refused(self.name, singular, fix)
        r_hat = _split_r_hat(draws)
        unsettled = f"agent {agent}'s own draws have not settled, R-hat = {r_hat.max():.1f}"
        for sign, is_seen in ((singular, is_singular and enough), (unsettled, r_hat.max() > LARGEST_R_HAT)):
            if is_seen:
                warnings.warn(f"{self.name}: {sign}. {cause}", stacklevel=4)


def _covariance(draws: np.ndarray) -> np.ndarray:
    centred = draws - draws.mean(axis=0)
    return centred.T @ centred / (len(draws) - 1)


def _least_correlated(draws: np.ndarray) -> float:
    """Return the least eigenvalue of the covariance of draws whose variances are one."""
    return float(np.linalg.eigvalsh(_covariance(draws))[0])


def _split_r_hat(draws: np.ndarray) -> np.ndarray:
    """Compute R-hat of draws (draw, chain, dimension), every chain cut in two; ones where there are too few to tell."""
    half = len(draws) // 2
    if half < 2:
        return np.ones(draws.shape[-1])
    halves = np.concatenate([draws[:half], draws[-half:]], axis=1)
    within = halves.var(axis=0, ddof=1).mean(axis=0)
    between = halves.mean(axis=0).var(axis=0, ddof=1)
    with np.errstate(divide="ignore"):  # chains that stay where they are, in different places: infinite
        return np.asarray(np.sqrt((half - 1) / half + between / within))
