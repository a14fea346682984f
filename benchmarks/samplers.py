"""Iterations per second of each sampler over its floor, on the digits ring (5 agents, 650 parameters, float32).

The floor is the derivatives alone: the gradient of every agent's log density (for `published`, with a Hessian-vector
product; for `centralized_hmc`, with the value and on the pooled data), written by hand with nothing around them but a
loop. (`dmala`, here with one round, computes values too; its floor does not.) It is written twice, because XLA's CPU
code for it depends on it: as one `vmap` over agents, which is what the targets are for, and with the axis of one chain
that the runtime has too, which XLA compiles better. A ratio of 0.8 means that a fifth of the time goes into noise,
mixing, accepting and keeping draws; above 1 means that the floor itself was compiled worse than the sampler.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import consilience as cs
from consilience.experiments.digits import AGENTS, INIT, POSTERIOR, PRIOR_PRECISION, bundled_digits
from consilience.model import Layout, Shard, stack_shards
from consilience.runs import simulation

from .timing import interleaved

ITERATIONS = 1000
PAIRS = 9
TINY = 1e-9  # moves the point, so that no iteration can be left out
TARGETS = {"dula": 0.75, "published": 0.7, "dmala": 0.7}


def log_density(w: jax.Array, shard: Shard) -> jax.Array:
    """Softmax regression on a flat parameter vector, nothing of the library's in it."""
    bias, weights = w[:10], w[10:].reshape(-1, 10)
    log_probabilities = jax.nn.log_softmax(shard.batch["x"] @ weights + bias)
    of_label = jnp.take_along_axis(log_probabilities, shard.batch["y"][:, None], axis=1)[:, 0]
    own = of_label.sum() if shard.mask is None else jnp.where(shard.mask, of_label, 0).sum()
    share = 1 if shard.mask is None else 1 / AGENTS  # of the prior: pooled data, or one agent's
    return own - 0.5 * PRIOR_PRECISION * share * jnp.vdot(w, w)


def gradient(w: jax.Array, shard: Shard) -> jax.Array:
    return w + TINY * jax.grad(log_density)(w, shard)


def gradient_and_product(w: jax.Array, shard: Shard) -> jax.Array:
    # A direction that changes: XLA moves the work for a constant one out of the loop, and shares it for w itself.
    slope, product = jax.jvp(lambda v: jax.grad(log_density)(v, shard), (w,), (w[::-1],))
    return w + TINY * slope + TINY**2 * product


def value_and_gradient(w: jax.Array, shard: Shard) -> jax.Array:
    value, slope = jax.value_and_grad(log_density)(w, shard)
    return w + TINY * slope + TINY**2 * value


def floor(
    update: Callable, shards: Shard, chain_axis: bool, dimension: int = 650, iterations: int = ITERATIONS
) -> Callable[[], object]:
    """So many updates of all agents in one compiled loop."""
    step = jax.vmap(update)
    start = jnp.zeros((len(jax.tree.leaves(shards)[0]), dimension))
    if chain_axis:
        step, start = jax.vmap(step, in_axes=(0, None)), start[None]

    @jax.jit
    def loop(w: jax.Array, shards: Shard, count: int) -> jax.Array:
        return jax.lax.fori_loop(0, count, lambda _, v: step(v, shards), w)

    return lambda: loop(start, shards, iterations).block_until_ready()


def main() -> None:
    train, _ = bundled_digits()
    ring, alone = cs.Network.ring(AGENTS), cs.Network.complete(1)
    split = cs.shard(train, AGENTS, by="label")
    shards, pooled = stack_shards(split, AGENTS), stack_shards(cs.pool(split), 1)
    layout = Layout.of(INIT)
    start = jnp.zeros((1, layout.dimension))
    cases = {
        "dula": (cs.dula(1e-4), ring, shards, gradient),
        "published": (cs.published(3e-3), ring, shards, gradient_and_product),
        "dmala": (cs.dmala(3e-3, inverse_mass_matrix=1.0, rounds=1), ring, shards, gradient),
        "centralized_hmc": (cs.centralized_hmc(3e-3), alone, pooled, value_and_gradient),
    }
    print(f"digits ring, 5 agents, d = {layout.dimension}, float32, median of {PAIRS} interleaved pairs")
    print(f"{'sampler':<16}{'it/s':>8}{'floor it/s':>12}{'ratio':>8}{'target':>8}{'with chain axis':>18}{'ratio':>8}")
    for name, (sampler, network, data, update) in cases.items():
        with warnings.catch_warnings(action="ignore"):  # one round of dmala is for its speed, not its law
            resolved = sampler.resolve(network, layout.dimension)
        run = simulation(POSTERIOR, layout, data, network, resolved, start, jax.random.key(0)).started()
        plain, with_axis = (
            interleaved(partial(run.advance, ITERATIONS, 1), floor(update, data, chain_axis), PAIRS)
            for chain_axis in (False, True)
        )
        rates = ITERATIONS / np.median(plain, axis=0)
        target = TARGETS.get(name, "-")
        print(
            f"{name:<16}{rates[0]:>8,.0f}{rates[1]:>12,.0f}{ratio(plain):>8.2f}{target:>8}"
            f"{ITERATIONS / np.median(with_axis[:, 1]):>18,.0f}{ratio(with_axis):>8.2f}"
        )


def ratio(times: np.ndarray) -> float:
    """The sampler's rate over the floor's."""
    return float(np.median(times[:, 1] / times[:, 0]))


if __name__ == "__main__":
    main()
