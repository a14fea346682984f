"""Five NumPyro models over four agents on a ring, against NumPyro's own NUTS on the pooled data."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from arviz_stats.base import array_stats
from numpyro.infer import MCMC, NUTS

import consilience as cs

ROWS, GROUPS, CHAINS = 120, 6, 4
SETTINGS = {"num_warmup": 500, "num_samples": 1000, "num_chains": CHAINS}
AXES = {"chain_axis": 0, "draw_axis": 1}
MOST_ERRORS, RETRY_ERRORS = 4, 3.3  # combined standard errors: of the suite's 70 comparisons one fails in 230 runs


def linear(batch):
    w = numpyro.sample("w", dist.Normal(0, 2).expand([3]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    with numpyro.plate("data", len(batch["y"])):
        numpyro.sample("y", dist.Normal(batch["x"] @ w, sigma), obs=batch["y"])


def logistic(batch):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))
    intercept = numpyro.sample("intercept", dist.StudentT(4, 0, 1))
    with numpyro.plate("data", len(batch["label"])):
        numpyro.sample("label", dist.Bernoulli(logits=batch["x"] @ w + intercept), obs=batch["label"])


def hierarchical(batch):
    """Groups that lie with several agents; one scale for all of them, positive."""
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    tau = numpyro.sample("tau", dist.HalfCauchy(1.0))
    with numpyro.plate("groups", GROUPS):
        offset = numpyro.sample("offset", dist.Normal(0, 1))
        theta = numpyro.deterministic("theta", mu + tau * offset)
    with numpyro.plate("data", len(batch["y"])):
        numpyro.sample("y", dist.Normal(theta[batch["group"]], 1.0), obs=batch["y"])


def poisson(batch):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))
    base = numpyro.sample("base", dist.Gamma(2.0, 1.0))
    with numpyro.plate("data", len(batch["count"])):
        numpyro.sample("count", dist.Poisson(base * jnp.exp(batch["x"] @ w)), obs=batch["count"])


def mixture(batch):
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.full(2, 4.0)))
    means = numpyro.sample("means", dist.ImproperUniform(dist.constraints.ordered_vector, (), (2,)))
    numpyro.factor("means_prior", dist.Normal(0, 3).log_prob(means).sum())
    sd = numpyro.sample("sd", dist.LogNormal(0.0, 0.5))
    components = dist.MixtureSameFamily(dist.Categorical(weights), dist.Normal(means, sd))
    with numpyro.plate("data", len(batch["z"])):
        numpyro.sample("z", components, obs=batch["z"])


def data():
    random = np.random.default_rng(0)
    x = random.standard_normal((ROWS, 3)).astype(np.float32)
    group = np.arange(ROWS, dtype=np.int32) % GROUPS
    predictor = x @ np.array([0.5, -0.3, 0.2], np.float32)
    component = np.where(random.random(ROWS) < 0.35, -2.0, 1.5)
    return {
        "x": x,
        "group": group,
        "y": (predictor + np.linspace(-1, 1, GROUPS)[group] + random.standard_normal(ROWS)).astype(np.float32),
        "label": (random.random(ROWS) < 1 / (1 + np.exp(-predictor))).astype(np.int32),
        "count": random.poisson(2 * np.exp(predictor)).astype(np.int32),
        "z": (component + 0.8 * random.standard_normal(ROWS)).astype(np.float32),
    }


DATA = data()
# Unequal shards, all of one agent's groups shared with others.
SHARDS = cs.shard(DATA, 4, by=[range(20), range(20, 50), range(50, 85), range(85, ROWS)])
MODELS = [linear, logistic, hierarchical, poisson, mixture]
LONG = (linear, logistic, mixture)


def over_the_network(model, seed):
    run = cs.sample(
        cs.Posterior.from_numpyro(model),
        SHARDS,
        cs.Network.ring(4),
        cs.nuts(),
        seed=seed,
        progress=False,
        **SETTINGS,
    )
    return {name: np.asarray(leaf[0]) for name, leaf in run.draws.items()}


def pooled(model, seed):
    chains = MCMC(NUTS(model), **SETTINGS, chain_method="vectorized", progress_bar=False)
    chains.run(jax.random.key(seed), DATA)
    return {name: np.asarray(leaf) for name, leaf in chains.get_samples(group_by_chain=True).items()}


def worst_z(one, other):
    """The largest difference of a mean, in combined Monte Carlo standard errors."""
    errors = [array_stats.mcse(draws, method="mean", **AXES) for draws in (one, other)]
    return np.abs((one.mean(axis=(0, 1)) - other.mean(axis=(0, 1))) / np.hypot(*errors)).max()


@pytest.mark.parametrize(
    "model",
    [pytest.param(model, marks=[pytest.mark.soak] * (model in LONG), id=model.__name__) for model in MODELS],
)
def test_nuts_over_four_agents_is_numpyro_s_nuts_on_pooled_data(model):
    def worst(seed):
        found, reference = over_the_network(model, seed), pooled(model, seed)
        assert found.keys() == reference.keys()
        assert all(array_stats.rhat(draws, method="rank", **AXES).max() < 1.02 for draws in found.values())
        scores = []
        for name in found:
            assert found[name].shape == reference[name].shape
            scores += [worst_z(found[name] ** power, reference[name] ** power) for power in (1, 2)]
        return max(scores)

    assert worst(0) < MOST_ERRORS or worst(1) < RETRY_ERRORS
