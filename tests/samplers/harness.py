"""Runs of samplers on targets, as draws (agent, chain, draw, dimension) or step by step."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import consilience as cs
from consilience.engine import loop
from consilience.model import Layout, stack_shards
from consilience.neighbors import Alone
from consilience.runs import simulation as lanes

from ..targets import ONE_CHAIN


class Lanes(Alone):
    """Agents side by side under `vmap`, whose values may differ without anyone's knowing."""

    def follow_root(self, x, digest=()):
        return jax.tree.map(lambda leaf: lax.all_gather(leaf, "agents")[0], x), digest

    def total(self, x, at=None):
        return lax.psum(x, "agents")


def simulation(target, network, sampler, start=None, chains=1, seed=0, num_warmup=0, **options):
    """In double precision where it is switched on, as for comparisons with numpy."""
    start = np.asarray(np.zeros(target.dimension) if start is None else start, jax.dtypes.canonicalize_dtype(float))
    layout = Layout.of(jnp.asarray(start))
    shards = stack_shards(target.shards if network.size > 1 else cs.pool(target.shards), network.size)
    sampler = sampler.resolve(network, layout.dimension, num_warmup)
    positions = jnp.tile(start, (chains, 1))
    chains = lanes(target.posterior, layout, shards, network, sampler, positions, jax.random.key(seed), **options)
    return chains.started()


def restart(run, shards, start, seed):
    """Begin a simulation anew on other data of the same shape: nothing is compiled."""
    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(jax.random.key(seed), jnp.arange(run.chains))
    run.inputs = run.inputs._replace(shards=stack_shards(shards, run.network.size), chain_keys=keys)
    run.positions = jnp.tile(jnp.asarray(start), (run.chains, 1))
    run.begin()


def noise_of(run, iterations):
    """The noise of the first iterations, leaves (iteration, agent, ...), of the first chain."""
    noise = loop.noise_of(run.model, run.inputs, jnp.int32(0), iterations)
    return jax.tree.map(lambda leaf: np.asarray(leaf, float)[:iterations, 0], noise)


def draws(target, network, sampler, **options):
    """All draws of `cs.sample`, from a start at the posterior mean unless told otherwise."""
    options = {"init": target.mean.astype(np.float32), "progress": False, **options}
    shards = target.shards if network.size > 1 else cs.pool(target.shards)
    return cs.sample(target.posterior, shards, network, sampler, **(ONE_CHAIN | options)).draws


def draws_after(target, network, sampler, steps, seed, chains=4000):
    """Many chains that start at exact posterior draws, each after a few steps: they must still be such draws."""
    options = {"num_chains": chains, "num_warmup": 0, "num_samples": 1, "thin": steps}
    return draws(target, network, sampler, init=target.exact, seed=seed, **options)
