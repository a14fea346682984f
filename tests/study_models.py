"""Ten models as studies of several sites write them, with data for four hospitals of unequal size."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.contrib.hsgp.approximation import hsgp_squared_exponential

import consilience as cs

SITES, ROWS = 6, 96
CUTS = (0, 12, 36, 60, ROWS)  # of the hospitals' rows


def rows(batch):
    return numpyro.plate("rows", len(next(iter(batch.values()))))


def mixed_logistic(batch):
    """Six sites with an intercept and a slope each, correlated by nothing but their scales."""
    base = numpyro.sample("base", dist.Normal(0, 1.5))
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    sd = numpyro.sample("sd", dist.HalfNormal(1.0).expand([2]).to_event(1))
    with numpyro.plate("sites", SITES):
        offset = numpyro.sample("offset", dist.Normal(0, 1).expand([2]).to_event(1))
    effect = numpyro.deterministic("effect", sd * offset)[batch["site"]]
    logits = base + effect[:, 0] + (slope + effect[:, 1]) * batch["x"][:, 0]
    with rows(batch):
        numpyro.sample("ill", dist.Bernoulli(logits=logits), obs=batch["ill"])


def horseshoe(batch):
    tau = numpyro.sample("tau", dist.HalfCauchy(0.3))
    scale = numpyro.sample("scale", dist.HalfCauchy(1.0).expand([4]).to_event(1))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([4]).to_event(1))
    beta = numpyro.deterministic("beta", tau * scale * z)
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    with rows(batch):
        numpyro.sample("y", dist.Normal(batch["x"] @ beta, sigma), obs=batch["y"])


def ordinal(batch):
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([4]).to_event(1))
    cuts = numpyro.sample("cuts", dist.ImproperUniform(dist.constraints.ordered_vector, (), (3,)))
    numpyro.factor("cuts_prior", dist.Normal(0, 2).log_prob(cuts).sum())
    with rows(batch):
        numpyro.sample("grade", dist.OrderedLogistic(batch["x"] @ beta, cuts), obs=batch["grade"])


def zero_inflated(batch):
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([4]).to_event(1))
    base = numpyro.sample("base", dist.Normal(0, 1))
    gate = numpyro.sample("gate", dist.Beta(1, 3))
    with rows(batch):
        counts = dist.ZeroInflatedPoisson(gate, rate=jnp.exp(base + batch["x"] @ beta))
        numpyro.sample("visits", counts, obs=batch["visits"])


def negative_binomial(batch):
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([4]).to_event(1))
    base = numpyro.sample("base", dist.Normal(0, 1))
    concentration = numpyro.sample("concentration", dist.Gamma(2.0, 0.5))
    with rows(batch):
        counts = dist.NegativeBinomial2(jnp.exp(base + batch["x"] @ beta), concentration)
        numpyro.sample("visits", counts, obs=batch["visits"])


def robust(batch):
    """A regression with outliers: Student's t, its degrees of freedom unknown."""
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([4]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    nu = numpyro.sample("nu", dist.Gamma(2.0, 0.1))
    with rows(batch):
        numpyro.sample("y", dist.StudentT(nu, batch["x"] @ beta, sigma), obs=batch["y"])


def correlated_effects(batch):
    """Intercept and slope of a site are correlated: LKJ's prior."""
    sd = numpyro.sample("sd", dist.HalfNormal(1.0).expand([2]).to_event(1))
    root = numpyro.sample("root", dist.LKJCholesky(2, 2.0))
    with numpyro.plate("sites", SITES):
        z = numpyro.sample("z", dist.Normal(0, 1).expand([2]).to_event(1))
    effect = (z @ (sd[:, None] * root).T)[batch["site"]]
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    with rows(batch):
        mean = effect[:, 0] + effect[:, 1] * batch["x"][:, 0]
        numpyro.sample("y", dist.Normal(mean, sigma), obs=batch["y"])


def multinomial(batch):
    """Three kinds of events, counted for every row."""
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([4, 2]).to_event(2))
    logits = jnp.concatenate([batch["x"] @ weights, jnp.zeros((len(batch["x"]), 1))], axis=1)
    with rows(batch):
        numpyro.sample("events", dist.Multinomial(logits=logits, total_count=5), obs=batch["events"])


def smooth(batch):
    """A Gaussian process of one covariate, in ten basis functions."""
    length = numpyro.sample("length", dist.LogNormal(0.0, 0.5))
    alpha = numpyro.sample("alpha", dist.HalfNormal(1.0))
    curve = hsgp_squared_exponential(batch["x"][:, :1], alpha, length, ell=4.0, m=10)
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    with rows(batch):
        numpyro.sample("y", dist.Normal(curve, sigma), obs=batch["y"])


def censored_survival(batch):
    """Weibull times, of which some are known only to be longer than the follow-up."""
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([4]).to_event(1))
    shape = numpyro.sample("shape", dist.LogNormal(0.0, 0.5))
    times = dist.Weibull(jnp.exp(batch["x"] @ beta), shape)
    survival = -((batch["time"] / times.scale) ** times.concentration)
    with rows(batch):
        numpyro.factor("time", jnp.where(batch["died"], times.log_prob(batch["time"]), survival))


MODELS = {
    "mixed_logistic": (mixed_logistic, ("x", "site", "ill")),
    "horseshoe": (horseshoe, ("x", "y")),
    "ordinal": (ordinal, ("x", "grade")),
    "zero_inflated": (zero_inflated, ("x", "visits")),
    "negative_binomial": (negative_binomial, ("x", "visits")),
    "robust": (robust, ("x", "y")),
    "correlated_effects": (correlated_effects, ("x", "site", "y")),
    "multinomial": (multinomial, ("x", "events")),
    "smooth": (smooth, ("x", "y")),
    "censored_survival": (censored_survival, ("x", "time", "died")),
}


def study_data():
    random = np.random.default_rng(5)
    x = random.standard_normal((ROWS, 4))
    signal = x @ [0.8, -0.5, 0.0, 0.3]
    time, follow_up = np.exp(signal) * random.weibull(1.5, ROWS), random.exponential(3, ROWS)
    return {
        "x": x,
        "site": np.arange(ROWS) % SITES,
        "y": signal + 0.5 * random.standard_t(4, ROWS),
        "ill": (random.random(ROWS) < jax.nn.sigmoid(signal)).astype(int),
        "grade": np.digitize(signal + random.logistic(size=ROWS), [-1.0, 0.5, 1.5]),
        "visits": random.poisson(np.exp(0.5 + signal)) * (random.random(ROWS) < 0.8),
        "events": np.stack([random.multinomial(5, [0.5, 0.3, 0.2]) for _ in range(ROWS)]),
        "time": np.minimum(time, follow_up),
        "died": time < follow_up,
    }


def study_shards(columns):
    """Return four hospitals' rows of some columns, each hospital with a number of its own."""
    data = study_data()
    parts = [range(first, last) for first, last in pairwise(CUTS)]
    return cs.shard({name: data[name] for name in columns}, 4, by=parts)
