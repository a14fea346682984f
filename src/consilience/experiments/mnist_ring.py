"""Classifying digits, five agents on a ring, two digits each: section 4.3 of the paper, *Ring Network*.

Settings are those of its appendix C. Its W = (I + A)/5 has row sums 3/5; (I + A)/3 is meant. One round an iteration.
"""

from __future__ import annotations

from functools import partial

from ..model import pool, shard
from ..network import Network
from ..samplers import DMALA, DULA, NUTS, CentralizedHMC, Published
from . import logistic
from .claims import ACCURACY, NLL, Claim, better, both, no_worse, similar
from .curves import accuracy_and_nll
from .images import images
from .methods import Method, SplitData
from .record import OURS, PAPER, PAPER_SCALE, Options
from .reproduction import Experiment, Findings

AGENTS = 5
PIXELS_NOTE = (
    "Pixels are between 0 and 1. The paper does not say how it scales them; if they had mean 0 and sd 1, its steps of "
    "DecentralizedMALA and DecentralizedULA would be beyond the limit of stability here."
)


def conduct(options: Options, seeds: int) -> Findings:
    found = images(options.is_small)
    shards = shard(found.train, AGENTS, by="label")
    ring = SplitData("posterior", shards, Network.ring(AGENTS))
    pooled = SplitData("posterior", pool(shards), Network.complete(1))

    iterations = options.at_scale(3_000, 10_000)
    free = iterations // 10  # without a Metropolis step
    by_paper = partial(Method, source=options.paper, num_samples=iterations // 10, thin=10)
    num_samples, num_warmup = options.at_scale((100, 100), (200, 200))
    few_seeds = min(seeds, options.at_scale(2, 4))
    exact = partial(Method, source=OURS, num_samples=num_samples, num_warmup=num_warmup, seeds=few_seeds)
    methods = (
        by_paper("centralized HMC", CentralizedHMC(found.step(1e-3)), pooled),
        by_paper("published", Published(found.step(3e-3), metropolis_after=free), ring),
        by_paper("D-ULA", DULA(found.squared_step(1e-4), consensus_step_size=0.48), ring),
        Method("dmala", DMALA(), ring, OURS, num_samples=iterations // 10, thin=10, num_warmup=iterations // 2),
        exact("nuts", NUTS(), ring),
        exact("pooled nuts", NUTS(), pooled),
    )
    measured = logistic.run_logistic(found, methods, {"posterior": "pooled nuts"}, options, seeds)
    return Findings(
        found.source,
        *measured,
        notes=[logistic.SEEDS_NOTE, logistic.SPREAD_NOTE, PIXELS_NOTE],
    )


CLAIMS = (
    Claim(
        "DecentralizedMALA performs just as well as its centralized counterpart.",
        PAPER,
        both(no_worse(ACCURACY, "published", "centralized HMC"), no_worse(NLL, "published", "centralized HMC")),
    ),
    Claim(
        "DecentralizedMALA outperforms DecentralizedULA.",
        PAPER,
        both(better(ACCURACY, "published", "D-ULA"), better(NLL, "published", "D-ULA")),
    ),
    Claim(
        "CentralizedHMC outperforms DecentralizedULA.",
        PAPER,
        both(better(ACCURACY, "centralized HMC", "D-ULA"), better(NLL, "centralized HMC", "D-ULA")),
    ),
    Claim(
        "Exact sampling on the ring predicts as exact sampling of the pooled data does.",
        OURS,
        both(similar(ACCURACY, "nuts", "pooled nuts", 0.002), similar(NLL, "nuts", "pooled nuts", 0.01)),
    ),
    Claim(
        "So does dmala, which only gossips.",
        OURS,
        both(similar(ACCURACY, "dmala", "pooled nuts", 0.002), similar(NLL, "dmala", "pooled nuts", 0.01)),
        scales=(PAPER_SCALE,),
    ),
)


EXPERIMENT = Experiment(
    "mnist-ring",
    "Digits, five agents on a ring, two classes each",
    "section 4.3, Ring Network",
    conduct,
    accuracy_and_nll,
    seeds={"small": 3, "paper": 9},
    data=("mnist",),
    columns=logistic.COLUMNS,
    claims=CLAIMS,
)
