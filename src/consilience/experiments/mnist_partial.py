"""Classifying digits, four agents with a quarter of every image each: section 4.3 of the paper, *Partial Observation*.

Every agent has all labels, and all pixels but its own set to zero. So the agents sample Π_i lik(Y | X_i) · prior, which
is not the posterior of whole images: that of the centralized baseline. Both targets are sampled exactly as well.

Settings are those of appendix C; the rounds are those of the authors' script, and on a complete graph with equal
weights one round averages exactly and more change nothing.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ..model import pool, shard
from ..network import Network
from ..samplers import DMALA, DULA, NUTS, CentralizedHMC, Published
from . import logistic
from .claims import ACCURACY, NLL, Claim, better, both, similar
from .curves import accuracy_and_nll
from .images import images
from .methods import Method, SplitData
from .record import OURS, PAPER, Options
from .reproduction import Experiment, Findings

AGENTS = 4
WHOLE, QUARTERS = "whole images", "quarters"
OWN_ACCURACY, OWN_NLL = (score._replace(name=f"own {score.name}") for score in (ACCURACY, NLL))
COLUMNS = {"accuracy": 4, "NLL": 4, "own accuracy": 4, "own NLL": 4, "var/ref": 3}


def quarters(side: int) -> list[np.ndarray]:
    """Return the indices of the pixels in each quarter of an image."""
    rows, columns = np.divmod(np.arange(side**2), side)
    half = side // 2
    return [
        np.flatnonzero(((rows >= half) == low) & ((columns >= half) == right))
        for low in (False, True)
        for right in (False, True)
    ]


def conduct(options: Options, seeds: int) -> Findings:
    found = images(options.is_small)
    shards = shard(found.train, AGENTS, by="features", blocks=quarters(found.side))
    parts = SplitData(QUARTERS, shards, Network.complete(AGENTS))
    whole = SplitData(WHOLE, pool([found.train]), Network.complete(1))

    iterations = options.at_scale(2_000, 8_000)
    rounds = {0: 1, iterations // 4: 2, iterations * 3 // 8: 3}
    by_paper = partial(Method, source=options.paper, num_samples=iterations // 10, thin=10)
    num_samples, num_warmup = options.at_scale((60, 60), (100, 200))
    few_seeds = min(seeds, options.at_scale(2, 4))
    exact = partial(Method, source=OURS, num_samples=num_samples, num_warmup=num_warmup, seeds=few_seeds)
    methods = (
        by_paper("centralized HMC", CentralizedHMC(found.step(1e-3)), whole),
        by_paper("published", Published(found.step(5e-4), rounds=rounds, metropolis_after=iterations // 4), parts),
        by_paper("D-ULA", DULA(found.squared_step(1e-5), consensus_step_size=0.48), parts),
        Method("dmala", DMALA(), parts, OURS, num_samples=iterations // 10, thin=10, num_warmup=iterations // 2),
        exact("nuts", NUTS(), parts),
        exact("whole nuts", NUTS(), whole),
    )
    views = shard(found.test, AGENTS, by="features", blocks=quarters(found.side))
    measured = logistic.run_logistic(found, methods, {QUARTERS: "nuts", WHOLE: "whole nuts"}, options, seeds, views)
    return Findings(
        found.source,
        *measured,
        notes=[
            "Two targets: agents with a quarter each sample the product of four likelihoods, in which every label "
            "counts four times; the centralized runs sample the posterior of whole images.",
            "Accuracy and NLL: of predictions from whole test images; own: each agent predicts from its own quarter, "
            "the rest set to zero. The paper does not say which it shows.",
            logistic.SEEDS_NOTE,
            logistic.SPREAD_NOTE,
            "Pixels are between 0 and 1. The paper does not say how it scales them.",
        ],
    )


CLAIMS = (
    Claim(
        "The two decentralized algorithms perform similarly (agents predict from whole images).",
        PAPER,
        both(similar(ACCURACY, "published", "D-ULA"), similar(NLL, "published", "D-ULA")),
    ),
    Claim(
        "The two decentralized algorithms perform similarly (each predicts from its own quarter).",
        PAPER,
        both(similar(OWN_ACCURACY, "published", "D-ULA"), similar(OWN_NLL, "published", "D-ULA")),
    ),
    Claim(
        "Each obtains an overall worse estimate than the centralized baseline (agents predict from whole images).",
        PAPER,
        both(*(better(score, "centralized HMC", "published", "D-ULA") for score in (ACCURACY, NLL))),
    ),
    Claim(
        "Each obtains an overall worse estimate than the centralized baseline (each predicts from its own quarter).",
        PAPER,
        both(*(better(score, "centralized HMC", "published", "D-ULA") for score in (OWN_ACCURACY, OWN_NLL))),
    ),
    Claim(
        "Exact sampling of the quarters does worse than exact sampling of whole images: the target differs, not only "
        "the sampler (agents predict from whole images).",
        OURS,
        both(better(ACCURACY, "whole nuts", "nuts"), better(NLL, "whole nuts", "nuts")),
    ),
)


EXPERIMENT = Experiment(
    "mnist-partial",
    "Digits, four agents with a quarter of every image each",
    "section 4.3, Partial Observation",
    conduct,
    accuracy_and_nll,
    seeds={"small": 3, "paper": 9},
    data=("mnist",),
    columns=COLUMNS,
    claims=CLAIMS,
)
