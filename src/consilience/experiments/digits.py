"""The experiment of `consilience demo`: digits, five agents on a ring, two classes each.

Every agent ends up classifying all ten digits, eight of which it never saw. How sure it is, depends on the sampler: the
spread of each one's draws is compared with that of a long exact run on the pooled data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from .._compat import array_stats
from .._types import Batch
from ..model import Posterior, pool, shard
from ..network import Network
from ..results import Run
from ..runs import sample
from ..samplers import DMALA, DULA, NUTS, CentralizedHMC, Published, Sampler
from .images import bundled_digits
from .logistic import CLASSES, logits

AGENTS = 5
PRIOR_PRECISION = 10.0
ESS_STRIDE = 25  # the ESS is computed for every 25th parameter


@dataclass(frozen=True)
class Scale:
    """Lengths of the runs: of samplers that make one step an iteration, of NUTS, and of the reference."""

    num_samples: int = 1000
    num_warmup: int = 5000
    thin: int = 25
    num_chains: int = 2
    nuts_samples: int = 500
    nuts_warmup: int = 400
    reference_samples: int = 1000
    reference_warmup: int = 200


@dataclass(frozen=True)
class Row:
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
class Outcome:
    network: Network
    classes: list[list[int]]  # of each agent
    rows: list[Row]
    runs: dict[str, Run]  # by the name of the sampler in its row
    reference: Run


POSTERIOR = Posterior.classifier(logits, prior_precision=PRIOR_PRECISION)
INIT = {"w": np.zeros((64, CLASSES), np.float32), "b": np.zeros(CLASSES, np.float32)}


def compare_on_digits(scale: Scale | None = None, seed: int = 0, progress: bool = True) -> Outcome:
    """Run the samplers and an exact reference, and compare them."""
    scale = scale or Scale()
    train, test = bundled_digits()
    network, alone = Network.ring(AGENTS), Network.complete(1)
    shards = shard(train, AGENTS, by="label")
    pooled = pool(shards)
    run = partial(
        sample,
        POSTERIOR,
        init=INIT,
        num_samples=scale.num_samples,
        num_warmup=scale.num_warmup,
        thin=scale.thin,
        num_chains=scale.num_chains,
        seed=seed,
    )

    def shown(label: str) -> str | bool:
        return progress and label

    reference = run(
        pooled,
        alone,
        CentralizedHMC(step_size=0.03, num_integration_steps=12),
        num_samples=scale.reference_samples,
        num_warmup=scale.reference_warmup,
        thin=1,
        num_chains=4,
        progress=shown("reference"),
    )
    baseline = CentralizedHMC(step_size=0.03)
    by_trajectories = partial(run, num_samples=scale.nuts_samples, num_warmup=scale.nuts_warmup, thin=1)
    cases: dict[str, tuple[list[Batch], Network, Sampler]] = {
        "nuts": (shards, network, NUTS()),
        "dmala": (shards, network, DMALA()),
        "published": (shards, network, Published(step_size=0.02, metropolis_after=scale.num_warmup // 4)),
        "dula": (shards, network, DULA(step_size=0.003)),
        "centralized HMC": (pooled, alone, baseline),
        "agent 0 alone": (shards[:1], alone, baseline),
    }
    runs = {
        name: (by_trajectories if name == "nuts" else run)(*case, progress=shown(name)) for name, case in cases.items()
    }
    rows = [_row(name, one, reference, test) for name, one in runs.items()]
    return Outcome(network, [np.unique(s["y"]).tolist() for s in shards], rows, runs, reference)


def variances(run: Run) -> np.ndarray:
    """Return the variance of every parameter over chains and draws, averaged over agents."""
    return run.positions.var(axis=(0, 1), dtype=float).mean(axis=0)


def typical_ess(run: Run) -> float:
    """Return the median bulk ESS of every ESS_STRIDE-th parameter on agent 0."""
    some = run.positions[:, :, 0, ::ESS_STRIDE]
    stats = array_stats()
    return float(np.median(stats.ess(some, chain_axis=1, draw_axis=0, method="bulk")))


def _row(name: str, run: Run, reference: Run, test: Batch) -> Row:
    scores = run.evaluate(test)
    return Row(
        sampler=name,
        accuracy=float(scores.accuracy.mean()),
        worst_accuracy=float(scores.accuracy.min()),
        nll=float(scores.nll.mean()),
        variance_ratio=float((variances(run) / variances(reference)).mean()),
        ess=typical_ess(run),
        acceptance=run.acceptance,
        rounds=run.traffic.rounds,
        megabytes=run.traffic.bytes / 1e6,
        bias=run.sampler.bias,
        seconds=run.seconds,
    )
