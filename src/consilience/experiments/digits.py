"""The experiment of `consilience demo`: digits, five agents on a ring, two classes each.

Every agent ends up classifying all ten digits, eight of which it never saw. How sure it is, depends on the sampler: the
spread of each one's draws is compared with that of a long exact run on the pooled data.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._compat import array_stats
from .._types import Batch
from ..model import Posterior, pool, shard
from ..network import Network
from ..report import GREY, PALETTE, new_figure
from ..results import Run
from ..runs import sample
from ..samplers import DMALA, DULA, NUTS, CentralizedHMC, Published, Sampler, Surrogate
from .images import bundled_digits
from .logistic import CLASSES, logits
from .reproduction import RESOLUTION

AGENTS = 5
PRIOR_PRECISION = 10.0
ESS_STRIDE = 25  # the ESS is computed for every 25th parameter
CURVE_POINTS = 300  # of a density in the figure
LABEL_DISTANCE = 1.5  # of an agent's label from the centre; agents are at distance one


@dataclass(frozen=True)
class DemoLengths:
    """Lengths of the runs: of samplers that make one step an iteration, of NUTS, of the reference, of the surrogate."""

    num_samples: int = 1000
    num_warmup: int = 5000
    thin: int = 25
    num_chains: int = 2
    nuts_samples: int = 500
    nuts_warmup: int = 400
    reference_samples: int = 1000
    reference_warmup: int = 200
    surrogate_warmup: int = 150


@dataclass(frozen=True)
class DemoRow:
    """One sampler's line in the table.

    Attributes:
      accuracy: on test images of all ten classes, averaged over agents.
      worst_accuracy: accuracy of the worst agent.
      nll: negative log-likelihood per test image, averaged over agents.
      variance_ratio: variance of the draws over the reference's, averaged over parameters and agents.
      ess: bulk effective sample size: the median over every ESS_STRIDE-th parameter on agent 0.
    """

    sampler: str
    accuracy: float
    worst_accuracy: float
    nll: float
    variance_ratio: float
    ess: float
    acceptance: float | None
    rounds: int
    megabytes: float
    bias: str | None
    seconds: float


@dataclass(frozen=True)
class DemoOutcome:
    network: Network
    classes: list[list[int]]  # of each agent
    rows: list[DemoRow]
    runs: dict[str, Run]  # by the name of the sampler in its row
    reference: Run


POSTERIOR = Posterior.classifier(logits, prior_precision=PRIOR_PRECISION)
INIT = {"w": np.zeros((64, CLASSES), np.float32), "b": np.zeros(CLASSES, np.float32)}


def compare_on_digits(lengths: DemoLengths | None = None, seed: int = 0, progress: bool = True) -> DemoOutcome:
    """Run the samplers and an exact reference, and compare them."""
    at = lengths or DemoLengths()
    train, test = bundled_digits()
    shards = shard(train, AGENTS, by="label")
    network, alone = Network.ring(AGENTS), Network.complete(1)
    ring, pooled, own = (shards, network), (pool(shards), alone), (shards[:1], alone)

    def run(name: str, data: tuple[list[Batch], Network], sampler: Sampler, *sizes: int) -> Run:
        num_samples, num_warmup, thin, num_chains = sizes or (at.num_samples, at.num_warmup, at.thin, at.num_chains)
        return sample(
            POSTERIOR,
            *data,
            sampler,
            init=INIT,
            num_samples=num_samples,
            num_warmup=num_warmup,
            thin=thin,
            num_chains=num_chains,
            seed=seed,
            progress=progress and name,
        )

    exact = CentralizedHMC(step_size=0.03, num_integration_steps=12)
    reference = run("reference", pooled, exact, at.reference_samples, at.reference_warmup, 1, 4)
    cases: dict[str, tuple[Any, ...]] = {
        "nuts": (ring, NUTS(), at.nuts_samples, at.nuts_warmup, 1, at.num_chains),
        "surrogate": (ring, Surrogate(), at.nuts_samples, at.surrogate_warmup, 1, at.num_chains),
        "dmala": (ring, DMALA()),
        "published": (ring, Published(step_size=0.02, metropolis_after=at.num_warmup // 4)),
        "dula": (ring, DULA(step_size=0.003)),
        "centralized HMC": (pooled, CentralizedHMC(step_size=0.03)),
        "agent 0 alone": (own, CentralizedHMC(step_size=0.03)),
    }
    runs = {name: run(name, *case) for name, case in cases.items()}
    rows = [_row(name, one, reference, test) for name, one in runs.items()]
    return DemoOutcome(network, [np.unique(s["y"]).tolist() for s in shards], rows, runs, reference)


def variances(run: Run) -> np.ndarray:
    """Return the variance of every parameter over chains and draws, averaged over agents."""
    return run.positions.var(axis=(0, 1), dtype=float).mean(axis=0)


def _row(name: str, run: Run, reference: Run, test: Batch) -> DemoRow:
    scores = run.evaluate(test)
    some = run.positions[:, :, 0, ::ESS_STRIDE]
    return DemoRow(
        sampler=name,
        accuracy=float(scores.accuracy.mean()),
        worst_accuracy=float(scores.accuracy.min()),
        nll=float(scores.nll.mean()),
        variance_ratio=float((variances(run) / variances(reference)).mean()),
        ess=float(np.median(array_stats().ess(some, chain_axis=1, draw_axis=0, method="bulk"))),
        acceptance=run.acceptance,
        rounds=run.traffic.rounds,
        megabytes=run.traffic.bytes / 1e6,
        bias=run.sampler.bias,
        seconds=run.seconds,
    )


def plot_digits(outcome: DemoOutcome, path: Path) -> None:
    """Write the figure to `path`: the network, one weight's marginals, the variance of all parameters."""
    figure, (left, middle, right) = new_figure(13, 4.4, columns=3, width_ratios=(0.8, 1, 1.1))
    _network(left, outcome)
    # Agent 0 alone samples another posterior, that of its two classes: it has no place in these two panels.
    shown = {name: run for name, run in outcome.runs.items() if "alone" not in name}
    colours = dict(zip(shown, (*PALETTE, GREY), strict=True))
    _marginals(middle, outcome, shown, colours)
    _variances(right, outcome, shown, colours)
    figure.savefig(path, dpi=RESOLUTION)


def _network(ax: Any, outcome: DemoOutcome) -> None:
    outcome.network.plot(ax)
    labels = {agent: f"agent {agent}\nhas {', '.join(map(str, own))}" for agent, own in enumerate(outcome.classes)}
    for text in list(ax.texts):
        agent = int(text.get_text())
        x, y = text.get_position()
        away = LABEL_DISTANCE / np.hypot(x, y)
        ax.annotate(labels[agent], (x, y), (away * x, away * y), ha="center", va="center", fontsize=9)
    ax.margins(0.32)
    ax.set_title("Two digits each, talking to neighbours only", fontsize=10)


def _marginals(ax: Any, outcome: DemoOutcome, shown: dict[str, Any], colours: dict[str, str]) -> None:
    spread = variances(outcome.reference)
    place = int(np.argsort(spread)[len(spread) // 2])  # the parameter of median variance
    draws = outcome.reference.positions[..., place].ravel()
    grid = np.linspace(draws.mean() - 4.5 * draws.std(), draws.mean() + 4.5 * draws.std(), CURVE_POINTS)
    ax.fill_between(grid, _density(draws, grid), color="#d1d5db", label="reference (exact, pooled data)")
    for name, run in shown.items():
        ax.plot(grid, _density(run.positions[..., 0, place].ravel(), grid), color=colours[name], label=name, lw=1.8)
    ax.set(yticks=[], xlabel="value of one weight, as agent 0 sees it", ylim=(0, None))
    ax.set_title("Too narrow is overconfident", fontsize=10)
    ax.spines["left"].set_visible(False)
    ax.legend(fontsize=7.5, frameon=False, loc="upper left")
    ax.set_ylim(0, ax.get_ylim()[1] * 1.35)  # room for the legend


def _variances(ax: Any, outcome: DemoOutcome, shown: dict[str, Any], colours: dict[str, str]) -> None:
    reference = variances(outcome.reference)
    ratios = [variances(run) / reference for run in shown.values()]
    places = np.arange(len(shown), 0, -1)
    parts = ax.violinplot(ratios, places, orientation="horizontal", showextrema=False, widths=0.8)
    for body, name in zip(parts["bodies"], shown, strict=True):
        body.set(facecolor=colours[name], alpha=0.75)
    for ratio, place in zip(ratios, places, strict=True):
        ax.plot(ratio.mean(), place, "o", color="black", ms=4)
        ax.text(1.02, place, f"{ratio.mean():.2f}", transform=ax.get_yaxis_transform(), va="center", fontsize=10)
    ax.axvline(1, color=GREY, lw=1, ls="--")
    ax.set_yticks(places, list(shown), fontsize=9)
    ax.set(xlabel="variance of the draws / variance of the posterior", xlim=(0, None))
    ax.set_ylim(0.4, len(shown) + 0.6)
    ax.set_title(f"Each of the {len(reference)} parameters (dot and number: their mean)", fontsize=10)


def _density(draws: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Estimate the density of `draws` on `grid`, by Gaussian kernels with Silverman's bandwidth."""
    width = max(1.06 * draws.std() * len(draws) ** -0.2, 1e-12)
    return np.exp(-0.5 * ((grid[:, None] - draws) / width) ** 2).mean(axis=1) / (width * np.sqrt(2 * np.pi))
