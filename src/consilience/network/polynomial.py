"""Averaging polynomials, which come closer to the network mean than as many rounds of plain gossip.

With flow(x) = W x - x, every polynomial p with p(1) = 1 and real roots μ_k < 1 is a product of relaxed rounds,

    p(W) x = Π_k (W - μ_k I)/(1 - μ_k) x ,      x ← x + c_k flow(x) ,      c_k = 1/(1 - μ_k) ,

and the functions here return the `factors` c_k. Plain gossip has c_k = 1 (all roots at zero). A round sends what a
round of gossip sends, keeps the network mean, and leaves alone what all agents agree on.

The order matters for rounding only, and there a lot: roots come in Leja order, each the farthest from those before by
the product of the distances, so that the next round damps what the rounds so far have amplified most.

Measured error in Leja order, relative to the disagreement at the start (float32, float64):

    finite-time    ring of 100: 1e-6, 1e-14      path of 100: 7e-6, 3e-14      4-regular of 1000: 1e-9, 2e-17
                   star of 100: 6e-5, 2e-14      grid of 6 × 16: 1e-3, 8e-12   random tree of 60: 3e15, 8e6
    chebyshev      δ, down to a floor that rounding sets: ring of 100: 1e-6, 2e-15; ring of 1000: 3e-5, 2e-14;
                   no degree was found at which it is lost, up to 8000

so a finite-time polynomial is measured (`accuracy`) before it is used. What spoils it is not its degree but where the
eigenvalues are: on trees and around hubs most lie close to 1, and nearly all c_k are large.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import check, whole_number
from .._lazy import LazyModule
from .._refused import Refused

if TYPE_CHECKING:
    from .network import Network

sparse: Any = LazyModule("scipy.sparse")

SAME = 1e-9  # eigenvalues closer than this count as one that rounding has split
TIE = 1e-9  # logarithms of products closer than this count as equal, for the same order on every machine
ACCURATE = 1e-4  # a finite-time polynomial with a larger float32 error is not used
CONTRACTION = 0.1


@dataclass(frozen=True, eq=False)
class Averaging:
    """Averaging by gossip: x ← x + c flow(x) for each c of `factors`, one round each."""

    method: str
    """Name of the method: "finite-time", "chebyshev", or "none" (one agent alone)."""
    factors: np.ndarray
    contraction: float
    """Share of disagreement that is left: measured in float32 if finite-time, the bound δ if Chebyshev."""

    @property
    def rounds(self) -> int:
        """Number of rounds, each with one message to every neighbour."""
        return len(self.factors)


def finite_time(network: Network) -> np.ndarray | None:
    """Return the factors of the polynomial that gives the exact mean: Π_k (W - μ_k I)/(1 - μ_k) = (1/m) 1 1ᵀ.

    Its roots are the distinct eigenvalues of W other than 1, one round for each: ⌊m/2⌋ on a ring, 2 on a star, 1 on a
    complete graph, 0 for one agent, m - 1 on most random graphs, never fewer than the diameter. Returns None above 2048
    agents, too many for a dense spectrum.
    """
    if network.spectrum is None:
        return None
    others = network.spectrum[:-1]  # all but λ_1 = 1, which is simple because the network is connected
    groups = np.split(others, np.flatnonzero(np.diff(others) > SAME) + 1)
    return _factors(np.array([group.mean() for group in groups if group.size]))


def chebyshev(network: Network, rounds: int) -> np.ndarray:
    """Return the factors of cheb_s(W/β)/cheb_s(1/β), s = `rounds`: no polynomial of degree s is smaller on [-β, β].

    Its roots are β cos((2k - 1)π/(2s)), k = 1 ... s.
    """
    whole_number("rounds", rounds, 1)
    angles = (2 * np.arange(1, rounds + 1) - 1) * np.pi / (2 * rounds)
    return _factors(network.beta * np.cos(angles))


def chebyshev_contraction(beta: float, rounds: int) -> float:
    """Compute δ = 1/cheb_s(1/β) with s = `rounds`: the share of disagreement that is left, at worst."""
    whole_number("rounds", rounds, 0)
    if rounds == 0:
        return 1.0
    grown = rounds * _rate(beta)  # cheb_s(y) = cosh(s arccosh y), and cosh itself would overflow
    return 2 * math.exp(-grown) / (1 + math.exp(-2 * grown))


def chebyshev_rounds(beta: float, contraction: float = CONTRACTION) -> int:
    """Return the fewest rounds with δ = 1/cheb_s(1/β) ≤ `contraction`; 1 if β = 0, as one plain round is the mean."""
    check_share("contraction", contraction, str(CONTRACTION))
    # arccosh(1/δ) = arcsinh(√(1 - δ²)/δ), like _rate; the quotient is off by rounding, hence the step back.
    rounds = max(1, math.ceil(_rate(contraction) / _rate(beta)))
    while rounds > 1 and chebyshev_contraction(beta, rounds - 1) <= contraction:
        rounds -= 1
    while chebyshev_contraction(beta, rounds) > contraction:
        rounds += 1
    return rounds


def check_share(name: str, share: float, example: str) -> None:
    """Refuse a share of disagreement, which may be left, that is not strictly between 0 and 1."""
    if not 0 < share < 1:
        reason = "the share of disagreement that may be left lies strictly between 0 and 1"
        raise Refused(f"{name} = {share}", reason, f"Write {name}={example}.")


def accuracy(network: Network, factors: np.ndarray, dtype: Any = np.float32) -> float:
    """Measure in `dtype` the largest error of the agents' averages, relative to the largest disagreement at the start.

    The agents average four columns of fixed pseudo-random numbers and the unit vectors of the first, the middle and
    the last agent. Infinite where the rounds overflow.
    """
    if network.size == 1:
        return 0.0
    agents = np.unique([0, network.size // 2, network.size - 1])
    units = np.arange(network.size)[:, None] == agents
    random = np.random.default_rng(0).standard_normal((network.size, 4))
    x = np.concatenate([random, units], axis=1).astype(dtype)
    mean = x.astype(np.float64).mean(axis=0)
    apart = np.abs(x - mean).max(axis=0)
    difference, weights = _differences(network, dtype)
    back = sparse.csr_array(difference.T)
    with np.errstate(over="ignore", invalid="ignore"):
        for factor in np.asarray(factors, dtype):
            x = x + factor * (back @ (weights * (difference @ x)))
        error = float((np.abs(x - mean).max(axis=0) / apart).max())
    return error if math.isfinite(error) else math.inf


def averaging(network: Network, contraction: float = CONTRACTION) -> Averaging:
    """Choose the averaging for `rounds="auto"`: shortest Chebyshev with δ ≤ `contraction`, or finite-time if no longer.

    The finite-time polynomial is taken only where its measured float32 error is below 1e-4. It is measured where this
    is called: agents on several machines take the factors from one of them.
    """
    return averaging_with(network, chebyshev_rounds(network.beta, contraction))


def averaging_with(network: Network, rounds: int) -> Averaging:
    """Choose the best average in at most `rounds` rounds: the finite-time polynomial if accurate, or else Chebyshev."""
    whole_number("rounds", rounds, 1)
    if network.size == 1:
        return Averaging("none", np.ones(0), 0.0)
    if rounds >= network.diameter:  # fewer rounds do not reach the farthest agent: spare the spectrum
        factors = finite_time(network)
        if factors is not None and len(factors) <= rounds:
            error = accuracy(network, factors)
            if error < ACCURATE:
                return Averaging("finite-time", factors, error)
    return Averaging("chebyshev", chebyshev(network, rounds), chebyshev_contraction(network.beta, rounds))


def leja(roots: np.ndarray) -> np.ndarray:
    """Sort the roots in Leja order: lowest first, then always the largest product of distances from those before."""
    left, distances, ordered = np.sort(roots), np.zeros(len(roots)), []
    while left.size:
        chosen = int(np.argmax(distances >= distances.max() - TIE))  # the lowest of those that are as far
        ordered.append(left[chosen])
        left, distances = np.delete(left, chosen), np.delete(distances, chosen)
        with np.errstate(divide="ignore"):  # roots may repeat: those come last
            distances += np.log(np.abs(left - ordered[-1]))
    return np.array(ordered)


def _factors(roots: np.ndarray) -> np.ndarray:
    return 1 / (1 - leja(roots))


def _rate(beta: float) -> float:
    """Compute arccosh(1/β), which every round adds to -log δ, accurately even where β is too close to one for 1/β."""
    check("β", beta, 0 <= beta < 1, "a mixing rate of at least 0 and below 1, such as network.beta,")
    return math.inf if beta == 0 else math.asinh(math.sqrt((1 - beta) * (1 + beta)) / beta)


def _differences(network: Network, dtype: Any) -> tuple[Any, np.ndarray]:
    """Return D and -w with flow(x) = Dᵀ(-w · D x), as samplers do, and (D x)_e = x_i - x_j over the edge e = (i, j)."""
    edges = np.array(network.edges, dtype=int)
    rows = np.arange(len(edges))
    signs = np.repeat(np.array([1, -1], dtype), len(edges))
    difference = sparse.csr_array((signs, (np.tile(rows, 2), edges.T.ravel())), shape=(len(edges), network.size))
    return difference, -network.edge_weights.astype(dtype)[:, None]
