"""A mixture of two normals whose means are not known: section 4.1 of the paper, *Gaussian Mixture Model*.

θ₁ ~ N(0, 10), θ₂ ~ N(0, 1), and every x is of N(θ₁, 2) or of N(θ₁ + θ₂, 2), either with probability one half. 100
points from θ = (0, 1) are dealt to five agents. The likelihood is symmetric, (θ₁, θ₂) → (θ₁ + θ₂, -θ₂), and the prior
breaks that a little. 100 points do not always tell two normals from one: of 60 data sets 25 had a posterior with two
modes, the others one ridge. The data here are the first that have two, near (0, 1) and (1, -1).

With two parameters the posterior can be tabulated, and so is known: draws from the table are the reference. The
appendix has no settings for this experiment: steps, lengths and the network (a ring) are ours.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Batch, Params
from ..model import Posterior, pool, shard
from ..network import Network
from ..report import new_figure
from ..samplers import DMALA, NUTS, CentralizedHMC, Published
from .claims import Claim, Exact, Score, better, both, no_worse, similar
from .curves import colour
from .methods import Method, Runs, SplitData, Values, run_methods
from .record import OURS, PAPER, Options, Record
from .reproduction import Experiment, Findings

AGENTS = 5
POINTS = 100
DATA_SEED = 3
TRUTH = (0.0, 1.0)
PRIOR_VARIANCES = np.array([10.0, 1.0])
NOISE_VARIANCE = 2.0
STEP_SIZE = 0.3
EDGES = ((-2.5, 3.5), (-4.0, 4.0))  # of the grid; the mass outside is below 1e-6
CELLS = 401
REFERENCE_PAIRS = 20  # of exact samples: how far apart two of them are
COMPARED = 1000  # draws, for the distance to the reference
OUTLYING = 0.01  # share of the posterior's mass that is outlying: where its density is lowest
SHOWN = 500  # draws, in the figure

DISTANCE = Score("W₁", 0.05, False, 3)
OUTSIDE = Score("outlying", 0.0025, False, 2, percent=True)
MODE = Score("mass θ₂ > 0", 0.05, True, 1, percent=True)


def log_prior(params: Params) -> jax.Array:
    return -0.5 * jnp.sum(params["theta"] ** 2 / jnp.asarray(PRIOR_VARIANCES, params["theta"].dtype))


def log_likelihood(params: Params, batch: Batch) -> jax.Array:
    first, second = params["theta"]
    parts = jnp.stack([batch["x"] - first, batch["x"] - first - second])
    return jax.nn.logsumexp(-0.5 * parts**2 / NOISE_VARIANCE, axis=0)


def points() -> Batch:
    random = np.random.default_rng(DATA_SEED)
    means = TRUTH[0] + TRUTH[1] * random.integers(2, size=POINTS)
    return {"x": random.normal(means, NOISE_VARIANCE**0.5).astype(np.float32)}


class Tabulated(NamedTuple):
    """The posterior, tabulated on a grid.

    Attributes:
      axes: the grid's values of θ₁ and of θ₂.
      log_density: of the cells, (θ₁, θ₂), up to a constant.
      limit: log density below which OUTLYING of the mass is.
    """

    axes: tuple[np.ndarray, np.ndarray]
    log_density: np.ndarray
    limit: float

    def draws(self, random: np.random.Generator, count: int) -> np.ndarray:
        """Draw `count` independent points, (count, 2), spread evenly over their cells."""
        mass = np.exp(self.log_density - self.log_density.max()).ravel()
        cells = random.choice(len(mass), count, p=mass / mass.sum())
        places = np.column_stack(np.divmod(cells, CELLS)) + random.uniform(-0.5, 0.5, (count, 2))
        return np.column_stack(
            [axis[0] + (axis[1] - axis[0]) * place for axis, place in zip(self.axes, places.T, strict=True)]
        )

    @property
    def positive_mass(self) -> float:
        """Posterior mass of θ₂ > 0."""
        mass = np.exp(self.log_density - self.log_density.max()).sum(axis=0)
        return float(mass[self.axes[1] > 0].sum() / mass.sum())


def tabulated(data: Batch) -> Tabulated:
    axes = tuple(np.linspace(*ends, CELLS) for ends in EDGES)
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    log_density = log_density_at(grid, data).reshape(CELLS, CELLS)
    order = np.argsort(log_density, axis=None)
    mass = np.cumsum(np.exp(log_density.ravel()[order] - log_density.max()))
    limit = log_density.ravel()[order][np.searchsorted(mass, OUTLYING * mass[-1])]
    return Tabulated((axes[0], axes[1]), log_density, float(limit))


def log_density_at(theta: np.ndarray, data: Batch) -> np.ndarray:
    """Return the posterior's log density, up to a constant, at each of `theta` (count, 2)."""

    @jax.jit
    def of(one: jax.Array) -> jax.Array:
        return log_prior({"theta": one}) + log_likelihood({"theta": one}, data).sum()

    return np.asarray(jax.lax.map(of, jnp.asarray(theta, jnp.float32), batch_size=4096), dtype=float)


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """Return the Wasserstein distance W₁ of two samples of equal size: the mean distance of the best matching."""
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    apart = cdist(one, other)
    return float(apart[linear_sum_assignment(apart)].mean())


def conduct(options: Options, seeds: int) -> Findings:
    data = points()
    shards = shard(data, AGENTS)
    ring = SplitData("posterior", shards, Network.ring(AGENTS))
    pooled = SplitData("posterior", pool(shards), Network.complete(1))
    kept = options.at_scale(1000, 5000)
    short = partial(Method, source=OURS, num_samples=kept, thin=10, num_warmup=kept)
    methods = (
        short("centralized HMC", CentralizedHMC(STEP_SIZE / AGENTS**0.5), pooled),
        short("published", Published(STEP_SIZE), ring),
        short("published, no MH", Published(STEP_SIZE, metropolis_after=None), ring),
        short("dmala", DMALA(), ring),
        Method("nuts", NUTS(), ring, OURS, num_samples=2 * kept, num_warmup=500),
    )
    known, random = tabulated(data), np.random.default_rng(0)
    reference = known.draws(random, COMPARED)

    def measure(method: Method, runs: Runs) -> tuple[Values, Values]:
        by_seed = runs[method.name].draws["theta"][0].astype(float)  # on agent 0, (seed, draw, 2)
        some = np.linspace(0, by_seed.shape[1] - 1, COMPARED).astype(int)
        return {
            DISTANCE.name: [distance(draws[some], reference) for draws in by_seed],
            OUTSIDE.name: [(log_density_at(draws, data) < known.limit).mean() for draws in by_seed],
            MODE.name: [(draws[:, 1] > 0).mean() for draws in by_seed],
        }, {}

    posterior, init = Posterior(log_prior, log_likelihood), {"theta": np.zeros(2, np.float32)}
    rows, runs = run_methods(posterior, methods, options, seeds, init, measure)
    exact = {
        DISTANCE.name: [distance(known.draws(random, COMPARED), reference) for _ in range(REFERENCE_PAIRS)],
        OUTSIDE.name: [OUTLYING],
        MODE.name: [known.positive_mass],
    }
    apart = np.array(exact[DISTANCE.name])
    shown = {name: run.draws["theta"][0, 0] for name, run in runs.items()}
    step = max(1, CELLS // 100)
    return Findings(
        f"{POINTS} points of the mixture, {POINTS // AGENTS} for each of {AGENTS} agents",
        rows,
        runs,
        exact=[Exact("reference", exact)],
        notes=[
            f"W₁: Wasserstein distance of {COMPARED} draws to as many of the exact posterior; two such samples of the "
            f"exact posterior itself are {apart.mean():.3f} ± {apart.std(ddof=1):.3f} apart. Outlying: draws where the "
            f"density is lower than for all but {OUTLYING:.0%} of the posterior. Mass θ₂ > 0: "
            f"{known.positive_mass:.3f} in truth. All as agent 0 sees them.",
            "The appendix has no settings for this experiment: steps, lengths and the ring are ours. The data are the "
            "first of several draws of 100 points for which the posterior has two modes; for most it has one.",
        ],
        drawn={
            "draws": {
                name: draws[np.linspace(0, len(draws) - 1, SHOWN).astype(int)].astype(float).round(3).tolist()
                for name, draws in shown.items()
            },
            "axes": [axis[::step].round(4).tolist() for axis in known.axes],
            "log_density": (known.log_density - known.log_density.max())[::step, ::step].round(2).tolist(),
        },
    )


CLAIMS = (
    Claim(
        "The Metropolis adjustment keeps samples in the high probability region in a similar manner to the centralized "
        "approach.",
        PAPER,
        no_worse(OUTSIDE, "published", "centralized HMC"),
    ),
    Claim(
        "Without it, samples of low probability are never rejected: more of them are outlying.",
        PAPER,
        better(OUTSIDE, "published", "published, no MH"),
    ),
    Claim(
        "With it, samples are as often in the region of low probability as they should be.",
        OURS,
        similar(OUTSIDE, "published", "reference"),
    ),
    Claim(
        "Exact sampling over the network is at the reference, by distance and by modes.",
        OURS,
        both(no_worse(DISTANCE, "nuts", "reference"), similar(MODE, "nuts", "reference")),
    ),
)


def figure(record: Record) -> Any:
    """Plot some draws of every method over contours of the true log posterior."""
    drawing, axes = new_figure(3.1 * len(record.rows), 3.9, columns=len(record.rows))
    log_density = np.array(record.drawn["log_density"]).T
    levels, look = [-12, -8, -5, -3, -1.5, -0.5], {"colors": "#9ca3af", "linestyles": "solid", "linewidths": 0.8}
    for ax, row in zip(axes, record.rows, strict=True):
        ax.contour(*record.drawn["axes"], log_density, levels=levels, **look)
        ax.plot(*np.array(record.drawn["draws"][row.name]).T, ".", ms=2.2, alpha=0.6, color=colour(row.name))
        ax.set(xlim=(-1.6, 2.4), ylim=(-3.2, 3.2), xlabel="θ₁")
        scores = f"W₁ {row.mean(DISTANCE.name):.2f}, outlying {100 * row.mean(OUTSIDE.name):.1f} %"
        ax.set_title(f"{row.name}\n{scores}", fontsize=9)
    axes[0].set_ylabel("θ₂")
    return drawing


EXPERIMENT = Experiment(
    "gmm",
    "A mixture of two normals, five agents with twenty points each",
    "section 4.1, Gaussian Mixture Model",
    conduct,
    figure,
    seeds={"small": 3, "paper": 9},
    columns={DISTANCE.name: 3, OUTSIDE.name: 4, MODE.name: 3},
    claims=CLAIMS,
)
