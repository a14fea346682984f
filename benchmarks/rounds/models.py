"""Models whose rounds are counted: their posteriors, and the agents' data.

All of them are small enough that `nuts` can be run to the end beside the surrogate. Made-up data follow from a seed of
their own, so that no model depends on which others are run.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

import consilience as cs
from consilience.experiments import digits
from tests import posteriordb

DATA = Path(os.environ.get("CONSILIENCE_DATA") or Path(__file__).parents[3] / "shared" / "data")
FEW_CHAINS, MANY_CHAINS = 4, 64


class RoundsModel(NamedTuple):
    """A posterior over agents, as it is run here.

    Attributes:
      text: what it is, for the page.
      posterior: with `coordinates`, where its likelihood is nearly quadratic in something other than its parameters.
      shards: one for each agent.
      init: where chains start, before any warm-up.
      funnel: whether the posterior has places that only small steps get into: the long run is longer, with such steps.
      split: whether the surrogate is given many chains, since scored proposals are known to fail.
      draws: known draws of the posterior, (chain, draw, parameter); None: it takes a long run.
      size: how much work an iteration is, as a multiple of that of the small models.
    """

    text: str
    posterior: cs.Posterior
    shards: Sequence[Any]
    init: Any
    funnel: bool = False
    split: bool = False
    draws: np.ndarray | None = None
    size: float = 1.0

    @property
    def network(self) -> cs.Network:
        return cs.Network.ring(len(self.shards))

    @property
    def chains(self) -> int:
        """Number of chains by the surrogate; many share the sums of split trajectories."""
        return MANY_CHAINS if self.split else FEW_CHAINS


def zeros(dimension: int) -> np.ndarray:
    return np.zeros(dimension, np.float32)


def normal_prior(sd: float) -> Callable[[jax.Array], jax.Array]:
    return lambda w: -0.5 * jnp.vdot(w, w) / sd**2


def half_normal(log_scale: jax.Array) -> jax.Array:
    """Of the exponential of each of these, of scale one, with the Jacobian."""
    return jnp.sum(log_scale - 0.5 * jnp.exp(2 * log_scale))


def half_cauchy(log_scale: jax.Array, width: float) -> jax.Array:
    return jnp.sum(log_scale - jnp.log1p(jnp.exp(2 * log_scale) / width**2))


def bernoulli(logits: jax.Array, y: jax.Array) -> jax.Array:
    return y * logits - jnp.logaddexp(0.0, logits)


def by_group(data: dict[str, np.ndarray], agents: int) -> list[Any]:
    """Whole groups for every agent, as equal in number as they can be."""
    owner = data["group"] * agents // (data["group"].max() + 1)
    return cs.shard(as_single(data), agents, by=[np.flatnonzero(owner == agent) for agent in range(agents)])


def dealt(data: dict[str, np.ndarray], agents: int) -> list[Any]:
    return cs.shard(as_single(data), agents, by="iid")


def as_single(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    kinds = {"f": np.float32, "i": np.int32, "b": np.float32}
    return {name: np.asarray(column).astype(kinds[np.asarray(column).dtype.kind]) for name, column in data.items()}


# --- regressions -----------------------------------------------------------------------------------


def logistic(text: str, shards: Sequence[Any], dimension: int, prior_sd: float, **more: Any) -> RoundsModel:
    posterior = cs.Posterior(normal_prior(prior_sd), lambda w, batch: bernoulli(batch["x"] @ w, batch["y"]))
    return RoundsModel(text, posterior, shards, zeros(dimension), **more)


def breast_cancer(columns: int) -> RoundsModel:
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    x = np.c_[((x - x.mean(axis=0)) / x.std(axis=0))[:, :columns], np.ones(len(x))]
    what = "nearly separable" if columns == 30 else "569 rows"
    text = f"logistic regression on the first {columns} columns of scikit-learn's breast cancer data, {what}"
    return logistic(text, dealt({"x": x, "y": y.astype(float)}, 4), columns + 1, 2.5, split=columns == 30)


def large_logistic() -> RoundsModel:
    random = np.random.default_rng(0)
    x = np.c_[random.normal(size=(20_000, 50)), np.ones(20_000)]
    y = random.uniform(size=20_000) < 1 / (1 + np.exp(-x @ (0.3 * random.normal(size=51))))
    return logistic("logistic regression, 20,000 rows", dealt({"x": x, "y": y}, 5), 51, 1.0, size=20.0)


def poisson() -> RoundsModel:
    random = np.random.default_rng(0)
    x = np.c_[random.normal(size=(300, 8)), np.ones(300)]
    y = random.poisson(np.exp(x @ np.r_[0.3 * random.normal(size=8), 0.5]))

    def log_likelihood(w: jax.Array, batch: Any) -> jax.Array:
        return batch["y"] * (batch["x"] @ w) - jnp.exp(batch["x"] @ w)

    posterior = cs.Posterior(normal_prior(2.5), log_likelihood)
    return RoundsModel("Poisson regression, 300 rows", posterior, dealt({"x": x, "y": y.astype(float)}, 5), zeros(9))


def ordinal() -> RoundsModel:
    random = np.random.default_rng(1)
    x = random.normal(size=(200, 3))
    y = np.digitize(x @ [1.0, -0.7, 0.3] + random.logistic(size=200), [-1.0, 0.3, 1.5])

    def cuts(w: jax.Array) -> jax.Array:
        return jnp.concatenate([w[3:4], w[3] + jnp.cumsum(jnp.exp(w[4:6]))])

    def log_likelihood(w: jax.Array, batch: Any) -> jax.Array:
        ends = jnp.concatenate([jnp.array([-40.0]), cuts(w), jnp.array([40.0])])
        upper, lower = (ends[batch["y"] + above] - batch["x"] @ w[:3] for above in (1, 0))
        # log(σ(u) - σ(l)), which does not cancel in the tails
        return jax.nn.log_sigmoid(upper) + jax.nn.log_sigmoid(-lower) + jnp.log1p(-jnp.exp(lower - upper))

    def log_prior(w: jax.Array) -> jax.Array:
        return -0.5 * (jnp.vdot(w[:3], w[:3]) / 6.25 + w[3] ** 2 / 9 + jnp.vdot(w[4:], w[4:]))

    posterior = cs.Posterior(log_prior, log_likelihood, coordinates=lambda w: (w[:3], cuts(w)))
    text = "ordinal regression, four grades, 200 rows; φ = slopes and cut points"
    return RoundsModel(text, posterior, dealt({"x": x, "y": y}, 4), zeros(6))


def negative_binomial() -> RoundsModel:
    random = np.random.default_rng(2)
    x = np.c_[np.ones(200), random.normal(size=(200, 4))]
    y = random.poisson(np.exp(x @ np.r_[1.0, 0.4 * random.normal(size=4)]) * random.gamma(2.0, 0.5, 200))

    def log_likelihood(w: jax.Array, batch: Any) -> jax.Array:
        y, mean, r = batch["y"], batch["x"] @ w[:5], jnp.exp(w[5])
        return gammaln(y + r) - gammaln(r) + r * w[5] + y * mean - (y + r) * jnp.logaddexp(w[5], mean)

    def log_prior(w: jax.Array) -> jax.Array:
        return -0.5 * (jnp.vdot(w[:5], w[:5]) / 6.25 + w[5] ** 2)

    text = "negative binomial regression, 200 rows"
    return RoundsModel(
        text, cs.Posterior(log_prior, log_likelihood), dealt({"x": x, "y": y.astype(float)}, 4), zeros(6)
    )


def weibull() -> RoundsModel:
    random = np.random.default_rng(3)
    x = np.c_[np.ones(150), random.normal(size=(150, 3))]
    time, end = np.exp(x @ [1.0, 0.5, -0.3, 0.2]) * random.weibull(1.5, 150), random.exponential(4, 150)

    def log_likelihood(w: jax.Array, batch: Any) -> jax.Array:
        hazard = jnp.exp(w[4]) * (batch["log_time"] - batch["x"] @ w[:4])
        return batch["died"] * (w[4] + hazard) - jnp.exp(hazard)

    def log_prior(w: jax.Array) -> jax.Array:
        return -0.5 * (jnp.vdot(w[:4], w[:4]) / 6.25 + w[4] ** 2)

    def coordinates(w: jax.Array) -> Any:
        return jnp.exp(w[4]) * w[:4], jnp.exp(w[4])

    data = {"x": x, "log_time": np.log(np.minimum(time, end)), "died": time < end}
    text = "Weibull survival with censoring, 150 rows; φ = (kβ, k)"
    posterior = cs.Posterior(log_prior, log_likelihood, coordinates=coordinates)
    return RoundsModel(text, posterior, dealt(data, 5), zeros(5))


def in_units_of_noise(beta: jax.Array, log_sigma: jax.Array) -> Any:
    """(β/σ, 1/σ), in which a normal likelihood is quadratic but for log σ."""
    return beta * jnp.exp(-log_sigma), jnp.exp(-log_sigma)


def linear() -> RoundsModel:
    random = np.random.default_rng(4)
    x = np.c_[np.ones(60), random.normal(size=(60, 4))]
    y = x @ random.normal(size=5) + 0.7 * random.normal(size=60)

    def log_prior(w: jax.Array) -> jax.Array:
        return -0.5 * jnp.vdot(w[:5], w[:5]) / 6.25 + w[5] - jnp.exp(w[5])

    def log_likelihood(w: jax.Array, batch: Any) -> jax.Array:
        return -0.5 * ((batch["y"] - batch["x"] @ w[:5]) * jnp.exp(-w[5])) ** 2 - w[5]

    posterior = cs.Posterior(log_prior, log_likelihood, coordinates=lambda w: in_units_of_noise(w[:5], w[5]))
    text = "linear regression, 60 rows, σ unknown; φ = (β/σ, 1/σ)"
    return RoundsModel(text, posterior, dealt({"x": x, "y": y}, 5), zeros(6))


def softmax_digits(precision: float) -> RoundsModel:
    from consilience.experiments.logistic import logits

    train, _ = digits.bundled_digits()
    posterior = cs.Posterior.classifier(logits, prior_precision=precision)
    text = f"softmax regression on 1438 digits of 8 × 8 pixels, two classes an agent, prior precision {precision:g}"
    return RoundsModel(text, posterior, cs.shard(train, 5, by="label"), digits.INIT, split=precision < 10, size=60.0)


# --- hierarchies -----------------------------------------------------------------------------------


def mixed_logistic(groups: int, rows: int, agents: int) -> RoundsModel:
    random = np.random.default_rng(0)
    group, x = random.integers(0, groups, rows), random.normal(size=(rows, 3))
    effects = random.normal(size=(groups, 2)) * [0.8, 0.4]
    logits = x @ [1.0, -0.5, 0.3] + effects[group, 0] + effects[group, 1] * x[:, 0]
    y = random.uniform(size=rows) < 1 / (1 + np.exp(-logits))

    def effects_of(w: jax.Array) -> jax.Array:
        return w[6:].reshape(groups, 2) * jnp.exp(w[4:6])

    def log_prior(w: jax.Array) -> jax.Array:
        return -0.5 * (jnp.vdot(w[:4], w[:4]) / 6.25 + jnp.vdot(w[6:], w[6:])) + half_normal(w[4:6])

    def log_likelihood(w: jax.Array, batch: Any) -> jax.Array:
        effect = effects_of(w)[batch["group"]]
        return bernoulli(w[3] + batch["x"] @ w[:3] + effect[:, 0] + effect[:, 1] * batch["x"][:, 0], batch["y"])

    posterior = cs.Posterior(log_prior, log_likelihood, coordinates=lambda w: (w[:4], effects_of(w)))
    text = f"mixed logistic regression, {groups} sites with intercept and slope, {rows} rows; φ = effects"
    shards = by_group({"x": x, "y": y, "group": group}, agents)
    return RoundsModel(text, posterior, shards, zeros(6 + 2 * groups), split=groups > 8, size=2.0)


def small_sites() -> RoundsModel:
    random = np.random.default_rng(5)
    group = np.repeat(np.arange(12), random.integers(5, 60, 12))
    x, effects = random.normal(size=(len(group), 2)), 0.9 * random.normal(size=12)
    y = random.uniform(size=len(group)) < 1 / (1 + np.exp(2.2 - x @ [0.8, -0.4] - effects[group]))

    def log_prior(w: jax.Array) -> jax.Array:
        return -0.5 * (jnp.vdot(w[:3], w[:3]) / 6.25 + jnp.vdot(w[4:], w[4:])) + half_normal(w[3])

    def log_likelihood(w: jax.Array, batch: Any) -> jax.Array:
        effect = jnp.exp(w[3]) * w[4:][batch["group"]]
        return bernoulli(w[0] + batch["x"] @ w[1:3] + effect, batch["y"])

    posterior = cs.Posterior(log_prior, log_likelihood, coordinates=lambda w: (w[:3], jnp.exp(w[3]) * w[4:]))
    text = "mixed logistic regression, 12 small sites, rare outcome; φ = effects"
    return RoundsModel(text, posterior, by_group({"x": x, "y": y, "group": group}, 6), zeros(16))


def horseshoe() -> RoundsModel:
    random = np.random.default_rng(6)
    x = random.normal(size=(100, 30))
    y = x @ np.r_[2.0, -2.0, 1.5, 1.0, np.zeros(26)] + random.normal(size=100)

    def slopes(w: jax.Array) -> jax.Array:
        return w[:30] * jnp.exp(w[30:60] + w[60])

    def log_prior(w: jax.Array) -> jax.Array:
        return -0.5 * jnp.vdot(w[:30], w[:30]) + half_cauchy(w[30:60], 1.0) + half_cauchy(w[60], 0.1)

    def log_likelihood(w: jax.Array, batch: Any) -> jax.Array:
        return -0.5 * (batch["y"] - batch["x"] @ slopes(w)) ** 2

    posterior = cs.Posterior(log_prior, log_likelihood, coordinates=slopes)
    text = "horseshoe, 30 coefficients, 100 rows, standardised form; φ = coefficients"
    return RoundsModel(text, posterior, dealt({"x": x, "y": y}, 5), zeros(61), funnel=True)


def centred() -> RoundsModel:
    random = np.random.default_rng(7)
    group = np.repeat(np.arange(20), random.integers(3, 30, 20))
    y = 1 + 0.5 * random.normal(size=20)[group] + random.normal(size=len(group))

    def log_prior(w: jax.Array) -> jax.Array:  # μ, log τ, log σ, then the groups' means
        groups = jnp.sum(-0.5 * ((w[3:] - w[0]) * jnp.exp(-w[1])) ** 2 - w[1])
        return -0.5 * w[0] ** 2 / 6.25 + half_normal(w[1:3]) + groups

    def log_likelihood(w: jax.Array, batch: Any) -> jax.Array:
        return -0.5 * ((batch["y"] - w[3:][batch["group"]]) * jnp.exp(-w[2])) ** 2 - w[2]

    posterior = cs.Posterior(log_prior, log_likelihood, coordinates=lambda w: in_units_of_noise(w[3:], w[2]))
    text = "centred normal hierarchy, 20 groups; φ = (means/σ, 1/σ)"
    return RoundsModel(text, posterior, by_group({"y": y, "group": group}, 5), zeros(23))


# --- real data -------------------------------------------------------------------------------------


def read_table(file: Path) -> dict[str, np.ndarray]:
    """Return the columns of a file as numbers, missing ones as NaN."""
    with file.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    return {name: np.array([float(row[name] or "nan") for row in rows]) for name in rows[0]}


def standardised(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Return a table of columns, and one of ones; what takes more than two values on the scale of its sd."""
    scaled = [(c - c.mean()) / c.std() if len(np.unique(c)) > 2 else c for c in columns]
    return np.stack([*scaled, np.ones(len(columns[0]))], axis=1)


def trauma() -> RoundsModel:
    table = read_table(DATA / "trauma" / "trauma.csv")
    x = standardised([table[name] for name in ("sex", "age", "ISS", "GCS")])
    parts = [
        half
        for site in np.unique(table["hospital"])
        for half in np.array_split(np.flatnonzero(table["hospital"] == site), 2)
    ]
    shards = cs.shard(as_single({"x": x, "y": table["mortality"]}), 6, by=parts)
    return logistic("death after trauma, 371 patients of three hospitals, two wards each", shards, 5, 2.5)


def heart() -> RoundsModel:
    sites = [read_table(DATA / "heart" / f"{name}.csv") for name in ("cleveland", "hungarian", "switzerland", "va")]
    whole = {name: np.concatenate([site[name] for site in sites]) for name in sites[0]}
    site = np.repeat(np.arange(4), [len(one["age"]) for one in sites])
    columns = [whole[name] for name in ("age", "trestbps", "thalach", "oldpeak", "sex", "exang")]
    columns += [(whole["cp"] == kind).astype(float) for kind in (2, 3, 4)]
    known = np.isfinite(np.stack(columns)).all(axis=0)
    x, y = standardised([column[known] for column in columns]), whole["num"][known] > 0
    shards = cs.shard(as_single({"x": x, "y": y}), 4, by=[np.flatnonzero(site[known] == one) for one in range(4)])
    return logistic(f"heart disease, {known.sum()} patients of four hospitals", shards, 10, 2.0)


def from_posteriordb(name: str) -> RoundsModel:
    """Return one of posteriordb's, with its own reference draws, in the parameters that are sampled."""
    known = posteriordb.load(name)
    quantities, posterior = known.reference_draws, known.posterior
    if "schools" in name:
        effects, mu, tau = quantities[..., :8], quantities[..., 8], quantities[..., 9]
        parts = [np.log(tau)[..., None], mu[..., None], (effects - mu[..., None]) / tau[..., None]]

        def coordinates(params: Any) -> Any:
            return params["mu"] + jnp.exp(params["log_tau"]) * params["standardized_effects"]

        text = "eight schools, standardised form; φ = schools' effects"
    else:
        parts = [quantities[..., :-1], np.log(quantities[..., -1:])]

        def coordinates(params: Any) -> Any:
            return in_units_of_noise(params["beta"], params["log_sigma"])

        text = "linear regression, σ unknown; φ = (β/σ, 1/σ)"
    posterior = cs.Posterior(posterior.log_prior, posterior.log_likelihood, coordinates=coordinates)
    shards = [as_single(shard) for shard in known.shards]
    init = jax.tree.map(np.float32, known.init)
    return RoundsModel(text, posterior, shards, init, draws=np.concatenate(parts, axis=-1))


MODELS: dict[str, Callable[[], RoundsModel]] = {
    "logistic": partial(breast_cancer, 8),
    "logistic, 20,000 rows": large_logistic,
    "logistic, nearly separable": partial(breast_cancer, 30),
    "Poisson": poisson,
    "ordinal": ordinal,
    "negative binomial": negative_binomial,
    "Weibull": weibull,
    "linear": linear,
    "mixed logistic, 8 sites": partial(mixed_logistic, 8, 1600, 4),
    "mixed logistic, 60 sites": partial(mixed_logistic, 60, 2400, 6),
    "small sites": small_sites,
    "horseshoe": horseshoe,
    "centred hierarchy": centred,
    "digits, precision 1": partial(softmax_digits, 1.0),
    "digits, precision 100": partial(softmax_digits, 100.0),
    **{name: partial(from_posteriordb, name) for name in posteriordb.NAMES},
    "trauma": trauma,
    "heart": heart,
}
