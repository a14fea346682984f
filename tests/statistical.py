"""How a sampler is shown to be right, or wrong.

Every coordinate's mean and variance, on every agent, is compared with the truth by a z-test whose standard error comes
from the effective sample size. The level is that of the whole family of comparisons (Bonferroni).

A right sampler fails a test of level 1e-3 once in a thousand seeds. Then, and only then, it is tried again with a fresh
seed at the stricter level 1e-2; a right sampler fails both once in 1e5, a wrong one has no second chance worth having.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from arviz_stats.base import array_stats
from scipy.stats import norm

from .targets import Target

LEVEL, RETRY_LEVEL = 1e-3, 1e-2


@dataclass(frozen=True)
class Verdict:
    p_value: float  # of the whole family
    worst: str

    def rejects(self, level: float = LEVEL) -> bool:
        return self.p_value < level


def moment_test(draws: np.ndarray, target: Target) -> Verdict:
    """Test draws (agent, chain, draw, dimension). One draw per chain: chains are taken as independent."""
    draws = np.asarray(draws, dtype=float)
    variance = np.diag(target.covariance)
    z, names = [], []
    for name, values, truth in (
        ("mean", draws, target.mean),
        ("variance", (draws - target.mean) ** 2, variance),
    ):
        spread = values.std(axis=(1, 2))
        spread = np.where(spread > 0, spread, np.finfo(float).tiny)
        error = (values.mean(axis=(1, 2)) - truth) / (spread / np.sqrt(_effective(values)))
        for (agent, k), score in np.ndenumerate(error):
            z.append(score)
            names.append(f"{name} of coordinate {k} on agent {agent}: z = {score:.1f}")
    z = np.abs(z)
    p_value = min(1.0, len(z) * 2 * norm.sf(np.max(z)))
    return Verdict(float(p_value), names[int(np.argmax(z))])


def _effective(values: np.ndarray) -> np.ndarray:
    agents, chains, draws, dimension = values.shape
    if draws == 1:
        return np.full((agents, dimension), float(chains))
    return array_stats.ess(values, chain_axis=1, draw_axis=2, method="mean")


def assert_right(draws_of_seed: Callable[[int], np.ndarray], target: Target) -> None:
    """The sampler behind `draws_of_seed` is not told from an exact one."""
    verdict = moment_test(draws_of_seed(0), target)
    if verdict.rejects(LEVEL):
        verdict = moment_test(draws_of_seed(1), target)
        assert not verdict.rejects(RETRY_LEVEL), f"rejected twice, the second time for the {verdict.worst}"


def assert_caught(draws_of_seed: Callable[[int], np.ndarray], target: Target) -> Verdict:
    """The sampler behind `draws_of_seed` is told from an exact one: the test has power against it."""
    verdict = moment_test(draws_of_seed(0), target)
    assert verdict.rejects(LEVEL), f"a biased sampler passed: p = {verdict.p_value:.3g} ({verdict.worst})"
    return verdict
