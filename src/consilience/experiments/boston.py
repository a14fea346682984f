"""Linear regression over four agents with three or four features each: section 4.2 of the paper, *Linear Regression*.

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
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._extras import require
from .._types import Batch, Params
from ..model import Posterior, shard
from ..network import Network
from ..report import new_figure
from ..samplers import DMALA, DULA, NUTS, CentralizedHMC, Published
from . import data
from .claims import MSE, Claim, Exact, better, both, similar
from .curves import draw_curves
from .methods import Method, Runs, SplitData, Values, run_methods
from .record import OURS, PAPER, Options, Record
from .reproduction import Experiment, Findings
from .running import final_scores, own_name, own_scores, variance_ratios

AGENTS = 4
PRIOR_PRECISION, LIKELIHOOD_PRECISION = 1.0, 10.0
TRAINING_SHARE = 0.7
WHOLE, BLOCKS = "whole rows", "feature blocks"
RUNNING = "running_mse"
OWN_MSE = MSE._replace(name="own MSE")


def predicted(params: Params, x: jax.Array) -> jax.Array:
    return x @ params["w"] + params["b"]


def table(is_small: bool) -> tuple[Batch, Batch, str]:
    """Return standardised training and test rows, and a description of the data."""
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


def exact(shards: Sequence[Batch]) -> tuple[np.ndarray, np.ndarray]:
    """Return exact mean and variances of what agents with these shards sample: (1 + features,) each, constant first."""
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
    parts = SplitData(BLOCKS, shards, Network.complete(AGENTS))
    whole = SplitData(WHOLE, [train], Network.complete(1))
    posterior = Posterior.regressor(predicted, noise_sd=LIKELIHOOD_PRECISION**-0.5, prior_precision=PRIOR_PRECISION)
    y = jnp.asarray(test["y"])
    seen = jnp.stack([test["x"], *(one["x"] for one in shard(test, AGENTS, by="features", blocks=blocks))])

    def prices(params: Params) -> jax.Array:
        """Predict prices from whole rows, and from what each agent sees of them."""
        return jax.vmap(predicted, in_axes=(None, 0))(params, seen)

    def watch(mean: jax.Array) -> dict[str, jax.Array]:
        errors = jnp.mean((mean - y) ** 2, axis=1)
        return {RUNNING: errors[0], **{own_name(RUNNING, agent): errors[1 + agent] for agent in range(AGENTS)}}

    iterations = options.at_scale(20_000, 100_000)
    rounds = {0: 1, 1000: 5, 2000: 10}
    by_paper = partial(Method, source=options.paper, num_samples=iterations // 10, thin=10)
    methods = (
        by_paper("centralized HMC", CentralizedHMC(4e-4), whole),
        by_paper("published", Published(4e-4, rounds=rounds, metropolis_after=1000), parts),
        by_paper("D-ULA", DULA(3e-7, consensus_step_size=0.48), parts),
        Method("dmala", DMALA(), parts, OURS, num_samples=iterations // 10, num_warmup=2000),
        Method("nuts", NUTS(), parts, OURS, num_samples=1000, num_warmup=500),
        Method("whole nuts", NUTS(), whole, OURS, num_samples=1000, num_warmup=500),
    )
    known = {target.name: exact(target.shards) for target in (parts, whole)}

    def measure(method: Method, runs: Runs) -> tuple[Values, Values]:
        run = runs[method.name]
        run.evaluate(test)
        cumulative = {MSE.name: run.stats[RUNNING], OWN_MSE.name: own_scores(run, RUNNING)}
        scores = {name: final_scores(values) for name, values in cumulative.items()}
        return {**scores, "var/ref": variance_ratios(run, known[method.target.name][1])}, cumulative

    init = {"w": np.zeros(features, np.float32), "b": np.float32(0)}
    measured = run_methods(posterior, methods, options, seeds, init, measure, moments=prices, watch=watch)
    errors = {
        f"exact, {name}": float(np.mean((test["x"] @ mean[1:] + mean[0] - test["y"]) ** 2))
        for name, (mean, _) in known.items()
    }
    return Findings(
        source,
        *measured,
        exact=[Exact(name, {MSE.name: [error]}) for name, error in errors.items()],
        notes=[
            "Two targets: agents with a block of features each sample the product of four likelihoods; the centralized "
            "runs sample the posterior of whole rows. The exact posterior mean has an MSE of "
            + " and of ".join(f"{error:.4f} ({name.removeprefix('exact, ')})" for name, error in errors.items())
            + " from whole rows. All numbers are standardised: always saying the mean has an MSE of about 1.",
            "MSE: of predictions from whole test rows; own MSE: each agent predicts from its own features, the others "
            "set to zero. The paper does not say which it shows.",
            *_warning(errors),
            "var/ref: the variance of the second half of a seed's draws over the exact one of its target, averaged "
            "over parameters. 1 is right, less is overconfident; a chain that has not mixed may show either.",
        ],
        drawn={"exact": errors},
    )


def _warning(errors: dict[str, float]) -> list[str]:
    """Return a note where the agents' target is bad to predict from: then a low error is no merit of a sampler."""
    block_error = errors[f"exact, {BLOCKS}"]
    if block_error < 1:
        return []
    return [
        f"From whole rows the agents' own posterior predicts worse ({block_error:.2f}) than always saying the mean "
        "would: each block explains the target as if alone, and their sum says it several times over. There a sampler "
        f"with a lower MSE is one that has not arrived at what it samples."
    ]


CLAIMS = (
    Claim(
        "DecentralizedMALA outperforms the decentralized baseline (agents predict from whole rows).",
        PAPER,
        better(MSE, "published", "D-ULA"),
    ),
    Claim(
        "DecentralizedMALA outperforms the decentralized baseline (each predicts from its own features).",
        PAPER,
        better(OWN_MSE, "published", "D-ULA"),
    ),
    Claim(
        "The centralized approach, with access to all features, achieves the best performance (either way).",
        PAPER,
        both(*(better(score, "centralized HMC", "published", "D-ULA") for score in (MSE, OWN_MSE))),
    ),
    Claim(
        "Exact sampling over the network predicts as the agents' exact posterior does.",
        OURS,
        similar(MSE, "nuts", "exact, feature blocks"),
    ),
)


def figure(record: Record) -> Any:
    """Draw the cumulative test MSE; dotted lines across are that of the exact posteriors."""
    drawing, (whole, own_features) = new_figure(11.2, 4.4, columns=2)
    draw_curves(whole, record, MSE.name, "test MSE")
    low, high = whole.get_ylim()
    for name, error in record.drawn["exact"].items():
        whole.axhline(error, color="black", lw=0.9, ls=(0, (1, 2)))
        whole.text(0.99, error, name, transform=whole.get_yaxis_transform(), ha="right", va="bottom", fontsize=8)
        low, high = min(low, error - 0.05 * (high - low)), max(high, error + 0.08 * (high - low))
    whole.set_ylim(low, high)
    whole.set_title("Predictions from whole rows", fontsize=10)
    draw_curves(own_features, record, OWN_MSE.name, "test MSE")
    low, high = own_features.get_ylim()
    own_features.set_ylim(low, high + 0.45 * (high - low))  # room for the legend
    own_features.set_title("Each agent predicts from its own features", fontsize=10)
    return drawing


EXPERIMENT = Experiment(
    "boston",
    "Linear regression, four agents with a block of features each",
    "section 4.2, Linear Regression",
    conduct,
    figure,
    seeds={"small": 3, "paper": 9},
    data=("boston",),
    columns={MSE.name: 4, OWN_MSE.name: 4, "var/ref": 3},
    claims=CLAIMS,
)
