"""Classifying digits, five agents on a ring, two digits each: section 4.3 of the paper, *Ring Network*.

Settings are those of its appendix C. Its W = (I + A)/5 has row sums 3/5; (I + A)/3 is meant. One round an iteration.
"""

from __future__ import annotations

from functools import partial

from ..model import pool, shard
from ..network import Network
from ..samplers import DMALA, DULA, NUTS, CentralizedHMC, Published
from . import logistic
from .claims import ACCURACY, NLL, Claim, better, both, judge, no_worse, similar
from .curves import curves_figure
from .images import images
from .methods import Method, Target
from .record import OURS, PAPER
from .reproduction import PAPER_SCALE, Experiment, Findings, Options

AGENTS = 5
PIXELS_NOTE = (
    "Pixels are between 0 and 1. The paper does not say how it scales them; if they had mean 0 and sd 1, its steps of "
    "DecentralizedMALA and DecentralizedULA would be beyond the limit of stability here."
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


def conduct(options: Options, seeds: int) -> Findings:
    found = images(options.is_small)
    shards = shard(found.train, AGENTS, by="label")
    ring = Target("posterior", shards, Network.ring(AGENTS))
    pooled = Target("posterior", pool(shards), Network.complete(1))

    iterations = 3_000 if options.is_small else 10_000
    free = iterations // 10  # without a Metropolis step
    by_paper = partial(Method, source=options.paper, num_samples=iterations // 10, thin=10)
    exact = partial(
        Method,
        source=OURS,
        num_samples=100 if options.is_small else 200,
        num_warmup=100 if options.is_small else 200,
        seeds=min(seeds, 2 if options.is_small else 4),
    )
    methods = (
        by_paper("centralized HMC", CentralizedHMC(found.step(1e-3)), pooled),
        by_paper("published", Published(found.step(3e-3), metropolis_after=free), ring),
        by_paper("D-ULA", DULA(found.squared_step(1e-4), consensus_step_size=0.48), ring),
        Method("dmala", DMALA(), ring, OURS, num_samples=iterations // 10, thin=10, num_warmup=iterations // 2),
        exact("nuts", NUTS(), ring),
        exact("pooled nuts", NUTS(), pooled),
    )
    rows, runs = logistic.run_logistic(found, methods, {"posterior": "pooled nuts"}, options, seeds)
    return Findings(
        data=found.source,
        rows=rows,
        claims=judge(CLAIMS, rows, options),
        columns=logistic.COLUMNS,
        notes=[logistic.SEEDS_NOTE, logistic.SPREAD_NOTE, PIXELS_NOTE],
        runs=runs,
    )


EXPERIMENT = Experiment(
    name="mnist-ring",
    title="Digits, five agents on a ring, two classes each",
    reference="section 4.3, Ring Network",
    seeds={"small": 3, "paper": 9},
    data=("mnist",),
    conduct=conduct,
    figure=partial(curves_figure, scores={"accuracy": "accuracy", "NLL": "NLL"}),
)
