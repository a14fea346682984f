"""Hierarchical models with uneven groups, and the same in one vector that somebody with all data would have."""

import jax
import jax.numpy as jnp
import numpy as np

import consilience as cs
from consilience.model import Layout, OwnVariables, numbered_groups, stack_on_host
from consilience.runs import simulation as lanes

GROUPS = (3, 1, 4, 2, 2)  # of each agent
SHARED, OF_GROUP = 3, 3  # numbers


def log_prior(params):  # τ is nearly known: where a funnel is steep, rounding grows from draw to draw
    return -0.5 * (params["mu"] @ params["mu"] + 20 * params["log_tau"] ** 2)


def own_log_prior(own, params):
    apart = (own["level"] - params["mu"]) * jnp.exp(-params["log_tau"])
    return -0.5 * (apart @ apart) - 2 * params["log_tau"] - 0.5 * own["slope"] ** 2


def log_likelihood(params, own, batch):
    mean = own["level"][:, 0] + own["slope"] * batch["x"] + own["level"][:, 1] * batch["x"] ** 2
    return -0.5 * (batch["y"] - mean) ** 2


SETTINGS = {
    "own_init": {"level": np.array([0.5, -0.5]), "slope": 0.1},
    "group": "ward",
    "init": {"mu": np.array([0.1, -0.2]), "log_tau": 0.0},
}
POSTERIOR = cs.Posterior(log_prior, log_likelihood, own_log_prior=own_log_prior, **SETTINGS)


def shards_of(groups=GROUPS, seed=0):
    """Rows of wards, which have texts for labels; agent i has 4 rows of each ward, and i more."""
    random = np.random.default_rng(seed)
    shards = []
    for agent, count in enumerate(groups):
        ward = np.array([f"ward {k}" for k in range(count)])
        ward = random.permutation(np.concatenate([np.repeat(ward, 4), ward[:1].repeat(agent)]))
        x = random.normal(size=len(ward))
        shards.append({"x": x, "y": 1 + 0.5 * x + random.normal(size=len(ward)), "ward": ward})
    return shards


def simulation(sampler, network, groups=GROUPS, posterior=POSTERIOR, chains=1, seed=0, num_warmup=0, room=None):
    """Chains of the model at their start, with room for more groups than any agent has if that is asked for."""
    shards, _ = numbered_groups("ward", shards_of(groups), [f"agent {k}" for k in range(len(groups))])
    own = OwnVariables.of(posterior, shards)
    if room is not None:
        own = OwnVariables(own.one, room, own.column)
    layout = Layout.of(posterior.init)
    sampler = sampler.resolve(network, layout.dimension + own.one.dimension, num_warmup)
    start = np.concatenate([layout.ravel_on_host(posterior.init), own.start(posterior)])
    positions = jnp.tile(jnp.asarray(start), (chains, 1))
    stacked = stack_on_host(shards)
    return lanes(posterior, layout, stacked, network, sampler, positions, jax.random.key(seed), own=own).started()


def advanced(run, draws):
    """Draws of θ, (draw, chain, number), and of all agents' groups, (draw, chain, agent, group, number)."""
    chunk = run.advance(draws, 1)
    own = chunk.own.reshape(*chunk.own.shape[:3], -1, OF_GROUP)
    return chunk.positions[:, :, 0], own


def in_one(shared, own, groups=GROUPS):
    """Put draws of θ and of all groups into vectors, those of agent 0's groups first."""
    parts = [own[:, :, agent, :count].reshape(*own.shape[:2], -1) for agent, count in enumerate(groups)]
    return np.concatenate([shared, *parts], axis=-1)


def joint_logdensity(groups=GROUPS):
    """log π of such a vector, written for one who has all rows."""
    shards = shards_of(groups)
    first = np.cumsum([0, *groups])
    place = np.concatenate(
        [first[k] + np.array([int(w.split()[1]) for w in shard["ward"]]) for k, shard in enumerate(shards)]
    )
    x, y = (jnp.asarray(np.concatenate([shard[name] for shard in shards])) for name in ("x", "y"))

    def logdensity(w):
        params = {"log_tau": w[0], "mu": w[1:3]}  # in jax's order
        z = w[SHARED:].reshape(-1, OF_GROUP)
        own = {"level": z[:, :2], "slope": z[:, 2]}
        priors = jax.vmap(own_log_prior, in_axes=(0, None))(own, params).sum()
        rows = jax.tree.map(lambda leaf: leaf[place], own)
        return log_prior(params) + priors + log_likelihood(params, rows, {"x": x, "y": y}).sum()

    return logdensity


def joint_momentum(key, inverse_mass, groups=GROUPS):
    """Momentum of such a vector: that of θ first, then each group's from a key of its own."""
    for_shared, for_own = jax.random.split(key)
    normals = [jax.random.normal(for_shared, (SHARED,))]
    for agent, count in enumerate(groups):
        of_agent = jax.random.fold_in(for_own, agent)
        normals += [jax.random.normal(jax.random.fold_in(of_agent, group), (OF_GROUP,)) for group in range(count)]
    return jnp.concatenate(normals) / jnp.sqrt(inverse_mass)
