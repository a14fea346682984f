"""Seconds per leapfrog step of `cs.nuts` on five agents over BlackJAX's NUTS on the pooled data.

Digits, 650 parameters, float32, one chain, the same step size and mass. A ratio of 1 means that being decentralized
costs nothing but the messages: the gradients of five agents and their sum take as long as one gradient of all data, and
the bookkeeping of the trajectory is done once, not five times.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

import consilience as cs
from consilience.experiments.digits import AGENTS, INIT, POSTERIOR, bundled_digits
from consilience.model import Layout, LocalLogDensity, stack_shards
from consilience.runs import simulation

DRAWS = 40
PAIRS = 9
STEP_SIZE = 0.04
MOST = 1.2


def decentralized(shards: list, layout: Layout, start: jax.Array) -> Callable[[], float]:
    """Seconds per leapfrog step of another `DRAWS` draws."""
    ring = cs.Network.ring(AGENTS)
    sampler = cs.nuts(STEP_SIZE, inverse_mass_matrix=1.0).resolve(ring, layout.dimension)
    run = simulation(
        POSTERIOR, layout, stack_shards(shards, AGENTS), ring, sampler, start[None], jax.random.key(0)
    ).started()

    def measure() -> float:
        began = time.perf_counter()
        chunk = run.advance(DRAWS, 1)
        return (time.perf_counter() - began) / chunk.stats["num_integration_steps"].sum()

    return measure


def centralized(shards: list, layout: Layout, start: jax.Array) -> Callable[[], float]:
    """The same of BlackJAX alone, in one compiled loop."""
    pooled = jax.tree.map(lambda leaf: leaf[0], stack_shards(cs.pool(shards), 1))
    kernel_of = lambda shard: blackjax.nuts(  # noqa: E731
        LocalLogDensity(POSTERIOR, layout, shard, 1), STEP_SIZE, jnp.ones(layout.dimension)
    )

    @jax.jit
    def draws(shard: object, state: object, key: jax.Array) -> tuple[object, jax.Array]:
        def one(state: object, key: jax.Array) -> tuple[object, tuple]:
            state, info = kernel_of(shard).step(key, state)
            return state, (state.position, info.num_integration_steps)

        state, (_, steps) = jax.lax.scan(one, state, jax.random.split(key, DRAWS))
        return state, steps.sum()

    state, key = kernel_of(pooled).init(start), jax.random.key(1)

    def measure() -> float:
        nonlocal state, key
        key, now = jax.random.split(key)
        began = time.perf_counter()
        state, steps = draws(pooled, state, now)
        steps = int(steps)
        return (time.perf_counter() - began) / steps

    return measure


def main() -> None:
    train, _ = bundled_digits()
    shards, layout = cs.shard(train, AGENTS, by="label"), Layout.of(INIT)
    ours, theirs = (make(shards, layout, jnp.zeros(layout.dimension)) for make in (decentralized, centralized))
    for _ in range(3):  # into the typical set, and all compiled
        ours(), theirs()
    times = np.array([(ours(), theirs()) for _ in range(PAIRS)])
    ratio = np.median(times[:, 0] / times[:, 1])
    print(f"digits, {AGENTS} agents, d = {layout.dimension}, float32, median of {PAIRS} interleaved pairs")
    print(f"{'':<28}{'µs per leapfrog step':>22}")
    for name, column in zip(("cs.nuts, ring of 5", "BlackJAX NUTS, pooled data"), times.T, strict=True):
        print(f"{name:<28}{1e6 * np.median(column):>22.0f}")
    print(f"ratio {ratio:.2f} (at most {MOST} is the aim)")


if __name__ == "__main__":
    main()
