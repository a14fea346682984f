"""Five posteriors with reference draws from posteriordb, their rows split unevenly over four agents.

Positive parameters are sampled as their logarithm, with the logarithm's Jacobian in `log_prior`.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import jax.numpy as jnp
import numpy as np
import pytest

import consilience as cs

from .real_data import FOLDER

AGENTS = 4
PARTS = (1, 2, 3, 4)  # of the rows, agent by agent
NAMES = (
    "sblri-blr",
    "kidiq-kidscore_momhsiq",
    "earnings-logearn_height",
    "nes1992-nes",
    "eight_schools-eight_schools_noncentered",
)


@dataclass(frozen=True)
class Reference:
    """A posterior, and what is known of it."""

    name: str
    posterior: cs.Posterior
    shards: list
    init: Any  # double precision, unless it is switched off
    names: tuple[str, ...]  # of the quantities: "beta[1]", "sigma", ...
    quantities: Callable[[Any], np.ndarray]  # draws of the params, (..., shape), to (..., name)
    reference_draws: np.ndarray  # (chain, draw, name)


def folder() -> Path:
    """Where the files should be."""
    return FOLDER / "posteriordb"


needs_posteriordb = pytest.mark.skipif(
    not folder().is_dir(), reason=f"{folder()} is missing: name the folder of posteriordb/ in CONSILIENCE_DATA"
)


def read(kind: str, name: str) -> Any:
    """The content of `data` or `draws`."""
    with ZipFile(folder() / kind / f"{name}.json.zip") as archive:
        return json.loads(archive.read(f"{name}.json"))


@cache
def load(name: str) -> Reference:
    """One of NAMES."""
    chains = read("draws", name)
    data_name, model = name.split("-")
    data = {key: np.asarray(value) for key, value in read("data", data_name).items()}
    names = tuple(chains[0])
    reference_draws = np.stack([np.stack([chain[one] for one in names], axis=-1) for chain in chains])
    if model == "eight_schools_noncentered":
        return Reference(name, *_eight_schools(data), names, _schools_quantities, reference_draws)
    return Reference(name, *_REGRESSIONS[name](data), names, _regression_quantities, reference_draws)


def _regression(x, y, log_prior):
    """y ~ N(xβ, σ)."""
    order = np.random.default_rng(0).permutation(len(y))
    ends = len(y) * np.cumsum(PARTS) // np.sum(PARTS)
    shards = cs.shard({"x": x.astype(float), "y": y.astype(float)}, AGENTS, by=np.split(order, ends[:-1]))
    init = {"beta": np.zeros(x.shape[1]), "log_sigma": np.log(y.std())}
    return cs.Posterior(log_prior, _regression_likelihood), shards, init


def _regression_likelihood(params, batch):
    residual = (batch["y"] - batch["x"] @ params["beta"]) / jnp.exp(params["log_sigma"])
    return -0.5 * residual**2 - params["log_sigma"]


def _regression_quantities(params):
    return np.concatenate([params["beta"], np.exp(params["log_sigma"])[..., None]], axis=-1)


def _flat(params):
    """Flat for σ itself: what is left is the Jacobian of σ = exp(log_sigma)."""
    return params["log_sigma"]


def _normal(params):
    """β ~ N(0, 10), σ ~ half-N(0, 10)."""
    square = jnp.sum(params["beta"] ** 2) + jnp.exp(2 * params["log_sigma"])
    return -0.5 * square / 10**2 + params["log_sigma"]


def _half_cauchy(log_scale, width):
    """Of the exponential of `log_scale`, with its Jacobian."""
    return -jnp.log1p(jnp.exp(2 * log_scale) / width**2) + log_scale


def _table(data, *names):
    """With a column of ones."""
    return np.stack([np.ones(data["N"]), *(data[name] for name in names)], axis=1)


def _nes(data):
    ages = {f"age {group}": data["age_discrete"] == group for group in (2, 3, 4)}
    x = _table({**data, **ages}, "real_ideo", "race_adj", *ages, "educ1", "gender", "income")
    return _regression(x, data["partyid7"], _flat)


_REGRESSIONS = {
    "sblri-blr": lambda data: _regression(data["X"], data["y"], _normal),
    "kidiq-kidscore_momhsiq": lambda data: _regression(
        _table(data, "mom_hs", "mom_iq"), data["kid_score"], lambda params: _half_cauchy(params["log_sigma"], 2.5)
    ),
    "earnings-logearn_height": lambda data: _regression(_table(data, "height"), np.log(data["earn"]), _flat),
    "nes1992-nes": _nes,
}


def _eight_schools(data):
    """Two schools an agent. All agents share the schools' effects: a row says which one is its own."""
    rows = {"y": data["y"].astype(float), "sigma": data["sigma"].astype(float), "school": np.arange(8, dtype=np.int32)}
    shards = cs.shard(rows, AGENTS, by=np.split(np.random.default_rng(0).permutation(8), AGENTS))
    init = {"mu": np.zeros(()), "log_tau": np.zeros(()), "standardized_effects": np.zeros(8)}
    return cs.Posterior(_schools_prior, _schools_likelihood), shards, init


def _schools_prior(params):
    """μ ~ N(0, 5), τ ~ half-Cauchy(0, 5), θ' ~ N(0, 1)."""
    normals = -0.5 * (params["mu"] / 5) ** 2 - 0.5 * jnp.sum(params["standardized_effects"] ** 2)
    return normals + _half_cauchy(params["log_tau"], 5)


def _schools_likelihood(params, batch):
    effect = params["mu"] + jnp.exp(params["log_tau"]) * params["standardized_effects"][batch["school"]]
    return -0.5 * ((batch["y"] - effect) / batch["sigma"]) ** 2


def _schools_quantities(params):
    mu, tau = np.asarray(params["mu"])[..., None], np.exp(params["log_tau"])[..., None]
    return np.concatenate([mu + tau * params["standardized_effects"], mu, tau], axis=-1)
