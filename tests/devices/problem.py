"""A small posterior for runs on meshes: logistic regression over shards of unequal length."""

import jax.numpy as jnp
import numpy as np

import consilience as cs

from ..targets import ONE_CHAIN

DIMENSION = 3


def log_likelihood(w, batch):
    logits = batch["x"] @ w
    return batch["y"] * logits - jnp.logaddexp(0.0, logits)


POSTERIOR = cs.Posterior(lambda w: -0.5 * (w @ w), log_likelihood)


def shard_of(agent):
    """Ten rows and some, its own for every agent."""
    rng = np.random.default_rng(agent)
    x = rng.standard_normal((10 + agent, DIMENSION))
    return {"x": x, "y": (rng.random(len(x)) < 1 / (1 + np.exp(-x.sum(axis=1)))).astype(float)}


def given(name):
    """A sampler with nothing left to tune."""
    unit = jnp.ones(DIMENSION)
    return {
        "nuts": lambda: cs.nuts(step_size=0.3, inverse_mass_matrix=unit),
        "mala": lambda: cs.mala(step_size=0.1, inverse_mass_matrix=unit),
        "dmala": lambda: cs.dmala(step_size=0.05, inverse_mass_matrix=unit),
        "published": lambda: cs.published(step_size=1e-3),
        "extra": lambda: cs.extra(step_size=1e-3),
        "desghmc": lambda: cs.desghmc(step_size=1e-3, friction=1.0),
    }[name]()


def sample(name, network, draws=100, runtime=None, shards=shard_of, **options):
    options = {"num_chains": 2, "init": jnp.zeros(DIMENSION), "progress": False, **options}
    return cs.sample(
        POSTERIOR,
        shards,
        network,
        given(name),
        num_samples=draws,
        runtime=runtime,
        **(ONE_CHAIN | options),
    )
