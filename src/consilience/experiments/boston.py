"""Four agents with three or four features each: section 4.2 of the paper, *Linear Regression*.

Every agent has all prices and its own features, the others set to zero. So the agents sample Π_i lik(Y | X_i) · prior,
not the posterior of whole rows. Both are normal, and known exactly: precision λI + τ Σ_i X_iᵀX_i, mean that times
τ Σ_i X_iᵀY, with prior precision λ = 1 and likelihood precision τ = 10.

Settings are those of appendix C. From the authors' script: features and price standardised by the training rows, 70 %
of all; start at zero; rounds 1 up to iteration 1000, 5 up to 2000, then 10, which on a complete graph with equal
weights change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from .._extras import require
from .._types import Batch, Params
from ..network import Network
from ..posterior import Posterior, shard
from ..samplers import DMALA, DULA, NUTS, CentralizedHMC, Published
from . import data
from .claims import MSE, Claim, Exact, better, both, judge, similar
from .curves import canvas, draw_curves, save
from .reproduction import (
    OURS,
    PAPER,
    Experiment,
    Findings,
    Method,
    Options,
    Record,
    Target,
    curve_of,
    row_of,
    run_all,
)
from .running import variance_ratios

AGENTS = 4
PRIOR_PRECISION, LIKELIHOOD_PRECISION = 1.0, 10.0
TRAINING_SHARE = 0.7
WHOLE, BLOCKS = "whole rows", "feature blocks"
RUNNING = "running_mse"
CLAIMS = (
    Claim("DecentralizedMALA outperforms the decentralized baseline.", PAPER, better(MSE, "published", "D-ULA")),
    Claim(
        "The centralized approach, with access to all features, achieves the best performance.",
        PAPER,
        both(*(better(MSE, "centralized HMC", name) for name in ("published", "D-ULA"))),
    ),
    Claim(
        "Exact sampling over the network predicts as the agents' exact posterior does.",
        OURS,
        similar(MSE, "nuts", "exact, feature blocks", 0.002),
    ),
)


def table(is_small: bool) -> tuple[Batch, Batch, str]:
    """Training and test rows, standardised, and what they are."""
    if is_small and not data.found("boston"):
        x, y = require("sklearn.datasets", "demo").load_diabetes(return_X_y=True, scaled=False)
        whole, source = {"x": x, "y": y}, "scikit-learn's diabetes data"
    else:
        whole, source = data.boston(), "Boston housing"
    order = np.random.default_rng(0).permutation(len(whole["y"]))
    cut = int(TRAINING_SHARE * len(order))
    train, test = ({name: values[part] for name, values in whole.items()} for part in (order[:cut], order[cut:]))
    mean = {name: values.mean(axis=0, dtype=float) for name, values in train.items()}
    sd = {name: values.std(axis=0, dtype=float) for name, values in train.items()}

    def standardised(part: Batch) -> Batch:
        return {name: ((values - mean[name]) / sd[name]).astype(np.float32) for name, values in part.items()}

    features = whole["x"].shape[1]
    source += f", {cut} training and {len(order) - cut} test rows of {features} features"
    return standardised(train), standardised(test), source


def predicted(params: Params, x: jax.Array) -> jax.Array:
    return x @ params["w"] + params["b"]


def exact(shards: Sequence[Batch]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variances of what the shards' owners sample: (1 + features,) each, the constant first."""
    rows = [np.column_stack([np.ones(len(one["y"])), one["x"]]).astype(float) for one in shards]
    precision = PRIOR_PRECISION * np.eye(rows[0].shape[1])
    precision += LIKELIHOOD_PRECISION * sum(x.T @ x for x in rows)
    covariance = np.linalg.inv(precision)
    towards = LIKELIHOOD_PRECISION * sum(x.T @ one["y"].astype(float) for x, one in zip(rows, shards, strict=True))
    return covariance @ towards, covariance.diagonal()


def conduct(options: Options, seeds: int) -> Findings:
    train, test, source = table(options.is_small)
    features = train["x"].shape[1]
    blocks = [len(part) for part in np.array_split(np.arange(features), AGENTS)][::-1]  # the last has the most
    shards = shard(train, AGENTS, by="features", blocks=blocks)
    parts = Target(BLOCKS, shards, Network.complete(AGENTS))
    whole = Target(WHOLE, [train], Network.complete(1))
    posterior = Posterior.regressor(predicted, noise_sd=LIKELIHOOD_PRECISION**-0.5, prior_precision=PRIOR_PRECISION)
    x, y = jnp.asarray(test["x"]), jnp.asarray(test["y"])

    def prices(params: Params) -> jax.Array:
        return predicted(params, x)

    def watch(mean: jax.Array) -> dict[str, jax.Array]:
        return {RUNNING: jnp.mean((mean - y) ** 2)}

    iterations = 20_000 if options.is_small else 100_000
    rounds = {0: 1, 1000: 5, 2000: 10}
    by_paper = partial(Method, source=PAPER, num_samples=iterations // 10, thin=10)
    methods = (
        by_paper("centralized HMC", CentralizedHMC(4e-4), whole),
        by_paper("published", Published(4e-4, rounds=rounds, metropolis_after=1000), parts),
        by_paper("D-ULA", DULA(3e-7, consensus_step_size=0.48), parts),
        Method("dmala", DMALA(), parts, OURS, num_samples=iterations // 10, num_warmup=2000),
        Method("nuts", NUTS(), parts, OURS, num_samples=1000, num_warmup=500),
        Method("whole nuts", NUTS(), whole, OURS, num_samples=1000, num_warmup=500),
    )
    init = {"w": np.zeros(features, np.float32), "b": np.float32(0)}
    runs = run_all(posterior, methods, options, seeds, init, moments=prices, watch=watch)
    known = {target.name: exact(target.shards) for target in (parts, whole)}
    rows = []
    for method in methods:
        run = runs[method.name]
        run.evaluate(test)
        running = run.stats[RUNNING]  # (agent, chain, draw)
        measured = {
            "MSE": running[:, :, -1].mean(axis=0, dtype=float),
            "var/ref": variance_ratios(run, known[method.target.name][1]),
        }
        rows.append(row_of(method, run, measured, {"MSE": curve_of(run, running)}))

    def exact_error(target: Target) -> float:
        mean = known[target.name][0]
        return float(np.mean((test["x"] @ mean[1:] + mean[0] - test["y"]) ** 2))

    errors = {f"exact, {target.name}": exact_error(target) for target in (parts, whole)}
    return Findings(
        data=source,
        rows=rows,
        claims=judge(
            CLAIMS, [*rows, *(Exact(name, {"MSE": [error]}) for name, error in errors.items())], options.scale
        ),
        columns={"MSE": 4, "var/ref": 3},
        notes=[
            "Two targets: agents with a block of features each sample the product of four likelihoods; the centralized "
            "runs sample the posterior of whole rows. The exact posterior mean has an MSE of "
            + " and of ".join(f"{error:.4f} ({name.removeprefix('exact, ')})" for name, error in errors.items())
            + ". All predict from whole test rows, and prices are standardised.",
            "var/ref: the variance of the second half of a seed's draws over the exact one of its target, averaged "
            "over parameters. 1 is right, less is overconfident; a chain that has not mixed may show either.",
        ],
        drawn={"exact": errors},
        runs=runs,
    )


def figure(record: Record, path: Path) -> None:
    """Cumulative test MSE; dotted across, what exact posteriors would give."""
    drawing, (ax,) = canvas(1, 7.5, 4.6)
    draw_curves(ax, record, "MSE")
    low, high = ax.get_ylim()
    for name, error in record.drawn["exact"].items():
        ax.axhline(error, color="black", lw=0.9, ls=(0, (1, 2)))
        ax.text(0.99, error, name, transform=ax.get_yaxis_transform(), ha="right", va="bottom", fontsize=8)
        low, high = min(low, error - 0.05 * (high - low)), max(high, error + 0.08 * (high - low))
    ax.set(xlabel="iterations", ylabel="test MSE of all draws so far", ylim=(low, high))
    ax.legend(frameon=False, fontsize=8.5)
    save(drawing, path)


EXPERIMENT = Experiment(
    name="boston",
    title="Boston housing, four agents with three or four features each",
    reference="section 4.2, Linear Regression",
    seeds={"small": 3, "paper": 9},
    data=("boston",),
    conduct=conduct,
    figure=figure,
)
