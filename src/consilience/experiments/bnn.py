"""A Bayesian neural network, two agents with five digits each: section 4.4 of the paper, *Bayesian Neural Networks*.

The network is 784-100-10 with SELU between the layers. The settings of `published` are those of appendix C (ε = 7e-5,
prior precision 10, no Metropolis step for 2000 iterations, 5·10⁵ iterations, one round each, start at zero); all others
are ours, and start near a maximum of the posterior, found with Adam on the sum of the agents' gradients (computed here
on the pooled rows, which gives the same sum).

Predictions for the test images and for images of something else are averaged on the device: the draws stay there.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Batch, Params
from ..model import Posterior, pool, shard
from ..network import Network
from ..report import new_figure
from ..samplers import DMALA, DULA, HMC, CentralizedHMC, Published
from .claims import Claim, Score, at_least, both
from .curves import colour, draw_curves, label_of
from .floor import Floor, derivative_milliseconds, gradient_and_product
from .images import images, normalised, ood_images
from .methods import Method, Runs, SplitData, Values, run_methods
from .record import OURS, PAPER, PAPER_SCALE, SMALL, MethodRow, Options, Record
from .reproduction import Experiment, Findings
from .running import RunningClasses

AGENTS, CLASSES = 2, 10
PRIOR_PRECISION = 10.0
MNIST_NUMBERS = 60_000 * 784  # pixels in MNIST; also Σ|x|², when pixels have mean 0 and sd 1
ADAM_STEPS, ADAM_STEP_SIZE = 1000, 3e-3
LEAPFROG_STEPS = {SMALL: 30, PAPER_SCALE: 200}  # of the method hmc, by scale
UNSEEN = Score("unseen accuracy", 0.005, True, 2, percent=True)
WORST = Score("worst agent's accuracy", 0.005, True, 2, percent=True)
WORST_NLL = Score("worst agent's NLL", 0.02, False, 3)
COLUMNS = {"accuracy": 4, "NLL": 4, "unseen accuracy": 4, "ECE": 4, "OOD AUROC": 4}


def logits(params: Params, x: jax.Array) -> jax.Array:
    hidden = jax.nn.selu(x @ params["w1"] + params["b1"])
    return hidden @ params["w2"] + params["b2"]


def zeros(inputs: int, hidden: int) -> Params:
    return {
        "w1": np.zeros((inputs, hidden), np.float32),
        "b1": np.zeros(hidden, np.float32),
        "w2": np.zeros((hidden, CLASSES), np.float32),
        "b2": np.zeros(CLASSES, np.float32),
    }


def near_maximum(posterior: Posterior, data: Batch, like: Params, steps: int = ADAM_STEPS) -> Params:
    """Find parameters near a maximum of the posterior: Adam with a decaying step, from small random weights."""
    import optax  # type: ignore[import-untyped]  # a dependency of BlackJAX

    rows = len(data["y"])
    optimiser = optax.adam(optax.cosine_decay_schedule(ADAM_STEP_SIZE, steps))
    keys = jax.random.split(jax.random.key(0), len(like))
    start = {
        name: jax.random.normal(key, leaf.shape) / max(1, len(leaf)) ** 0.5 if leaf.ndim == 2 else jnp.asarray(leaf)
        for key, (name, leaf) in zip(keys, like.items(), strict=True)
    }

    @jax.jit
    def descend(params: Params, data: Batch) -> Params:
        def loss(params: Params) -> jax.Array:
            return -(posterior.log_prior(params) + posterior.log_likelihood(params, data).sum()) / rows

        def step(_: jax.Array, carry: Any) -> Any:
            params, state = carry
            updates, state = optimiser.update(jax.grad(loss)(params), state)
            return optax.apply_updates(params, updates), state

        return jax.lax.fori_loop(0, steps, step, (params, optimiser.init(params)))[0]

    return jax.tree.map(np.asarray, descend(start, data))


def width_ratio(train: Batch) -> float:
    """Return by how much the posterior of these normalised images is wider than MNIST's, computed as in `images`."""
    return float(MNIST_NUMBERS / train["x"].size) ** 0.5


def conduct(options: Options, seeds: int) -> Findings:
    found = images(options.is_small)
    ood, ood_source = ood_images(found, options.is_small)
    pixels = normalised(found.train["x"], found.train["x"], found.test["x"], ood)
    train, test = {**found.train, "x": pixels[0]}, {**found.test, "x": pixels[1]}
    shards = shard(train, AGENTS, by="label")
    pair = SplitData("posterior", shards, Network.complete(AGENTS))
    pooled = SplitData("posterior", pool(shards), Network.complete(1))
    start = zeros(found.side**2, options.at_scale(20, 100))
    posterior = Posterior.classifier(logits, prior_precision=PRIOR_PRECISION)
    running = RunningClasses(posterior, test, pixels[2])

    scale = width_ratio(train)  # of step sizes; that of D-ULA is a step squared
    draws, thin = options.at_scale((300, 20), (5000, 100))
    warmup, thin_dmala = options.at_scale((3000, 20), (20_000, 80))
    maximum = near_maximum(posterior, pooled.shards[0], start)
    ours = partial(Method, source=OURS, num_samples=options.at_scale(300, 1000), thin=20, init=maximum)
    trajectories = HMC(num_integration_steps=LEAPFROG_STEPS[options.scale], inverse_mass_matrix=1.0)
    methods = (
        Method("published", Published(7e-5 * scale, metropolis_after=2000), pair, options.paper, draws, thin=thin),
        ours("centralized HMC", CentralizedHMC(5e-4 * scale), pooled),
        ours("D-ULA", DULA(2.5e-6 * scale**2), pair),
        ours("dmala", DMALA(), pair, num_warmup=warmup, thin=thin_dmala),
        ours("hmc", trajectories, pair, num_samples=options.at_scale(100, 300), num_warmup=300, thin=1),
    )

    def measure(method: Method, runs: Runs) -> tuple[Values, Values]:
        scores, cumulative = running.measured(runs[method.name], (*COLUMNS, WORST.name, WORST_NLL.name))
        return {name: values for name, values in scores.items() if not np.isnan(values).any()}, cumulative

    rows, runs = run_methods(posterior, methods, options, seeds, start, measure, **running.averaged)
    floors = () if options.is_small else _floors(posterior, pair, start, rows, seeds)
    return Findings(
        f"{found.source}; out of distribution: {ood_source}",
        rows,
        runs,
        notes=[
            "Unseen accuracy: on the five digits that an agent has no example of, of the agent that does worse. OOD "
            "AUROC: how well the predictive's entropy tells them from test images; 0.5 is chance. Pixels have "
            "mean 0 and sd 1.",
            *(floor.describe() for floor in floors),
        ],
        drawn={
            "reliability": {name: run.evaluation.reliability.to_dict() for name, run in runs.items()},
            "floors": [floor._asdict() for floor in floors],
        },
    )


def _floors(
    posterior: Posterior, pair: SplitData, start: Params, rows: list[MethodRow], seeds: int
) -> tuple[Floor, ...]:
    """Compare the times that `published` and `hmc` take with those of their bare derivatives."""
    took = {row.name: row.milliseconds for row in rows}
    product, gradient = (
        derivative_milliseconds(posterior, pair, start, derivative, seeds)
        for derivative in (gradient_and_product, jax.value_and_grad)
    )
    leapfrog = took["hmc"] / LEAPFROG_STEPS[PAPER_SCALE]
    return (
        Floor("An iteration of published", "Gradient and one Hessian-vector product.", product, took["published"]),
        Floor("A leapfrog step of hmc", "Value and gradient.", gradient, leapfrog),
    )


CLAIMS = (
    Claim(
        "Without passing data, each agent achieves good performance over classes it has never seen.",
        PAPER,
        at_least(UNSEEN, "published", 0.90),
        scales=(PAPER_SCALE,),
    ),
    Claim(
        "hmc: each agent classifies 98.0 % of the test images rightly, with an NLL of at most 0.06, and 97.5 % of "
        "those of the classes that it never saw.",
        OURS,
        both(at_least(WORST, "hmc", 0.98), at_least(WORST_NLL, "hmc", 0.06), at_least(UNSEEN, "hmc", 0.975)),
        scales=(PAPER_SCALE,),
    ),
    Claim(
        "dmala: 97.5 % of all, and 97.0 % of the classes that an agent never saw.",
        OURS,
        both(at_least(WORST, "dmala", 0.975), at_least(UNSEEN, "dmala", 0.97)),
        scales=(PAPER_SCALE,),
    ),
)


def figure(record: Record) -> Any:
    """Draw cumulative scores, and confidence against accuracy."""
    drawing, (accuracy, nll, reliability) = new_figure(14.7, 4.2, columns=3)
    draw_curves(accuracy, record, "accuracy", "accuracy")
    draw_curves(nll, record, "NLL", "NLL")
    reliability.plot([0, 1], [0, 1], color="#9ca3af", lw=0.9)
    for row in record.rows:
        bins = record.drawn["reliability"][row.name]
        sure, right, count = (np.array(bins[name], dtype=float) for name in ("confidence", "accuracy", "count"))
        with np.errstate(invalid="ignore"):  # a bin without rows
            sure, right = (np.nansum(part * count, axis=0) / count.sum(axis=0) for part in (sure, right))
        there = count.sum(axis=0) >= 20
        reliability.plot(sure[there], right[there], "o-", ms=3, lw=1.3, color=colour(row.name), label=label_of(row))
    reliability.legend(frameon=False, fontsize=8)
    reliability.set(xlabel="confidence", ylabel="accuracy", xlim=(0.2, 1.01), ylim=(0.2, 1.01))
    reliability.set_title("Calibration (bins of 20 images or more)", fontsize=9)
    return drawing


EXPERIMENT = Experiment(
    "bnn",
    "A Bayesian neural network, two agents with five digits each",
    "section 4.4, Bayesian Neural Networks",
    conduct,
    figure,
    seeds={"small": 1, "paper": 1},
    data=("mnist", "fashion-mnist"),
    columns=COLUMNS,
    claims=CLAIMS,
)
