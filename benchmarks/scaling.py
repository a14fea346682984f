"""Many agents on one device: time per iteration and memory as their number grows, and the rate over the floor.

- Time per iteration for 16 to 1024 agents with as much data each (logistic regression), on random 4-regular graphs:
  gossip (`dula`, a round an iteration; `dmala`, seven in each average, as the largest of these networks needs) and
  exact sums (`mala`). The growth exponent in m is by least squares on the logarithms, and should not exceed 1.1. That
  of the bare gradients of all agents, in a loop with nothing else, is beside it. Of the three problems the data of the
  first fit into a CPU's cache for any number of agents, those of the last for none; between the two, those of a few
  agents fit and those of many do not, and the bare gradients grow faster than m by themselves.
- The memory that the compiled loop holds, from the compiler's own account, over that of state, data and kept draws: m
  copies of anything would show as a growth exponent of two.
- Two large runs: 1024 agents with 10^3 parameters and 64 with 10^5.
- Softmax regression like that of MNIST's digits, 256 agents with 1000 images each, 7850 parameters: iterations per
  second over those of the bare gradients of all agents, written by hand. (Too long on a CPU: on a GPU only.)
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import consilience as cs
from consilience.engine import Chains
from consilience.model import Layout, Shard, stack_shards
from consilience.runs import simulation

from .gossip import exponent
from .samplers import TINY, floor, gradient, ratio, value_and_gradient
from .timing import interleaved, seconds

SIZES = (16, 64, 256, 1024)
PROBLEMS = ((100, 20), (1000, 64), (1000, 640))  # parameters, and rows of each agent
LARGE_ROWS = 16
MOST_EXPONENT = 1.1
LARGE = {"1024 x 10^3": (1024, 1000), "64 x 10^5": (64, 100_000)}
REPEATS, STRETCH = 5, 0.3  # seconds
MNIST_AGENTS, IMAGES, PIXELS, CLASSES = 256, 1000, 784, 10
LEAST_RATIO = 0.7
PAIRS, ITERATIONS = 5, 500  # about as many as a run does between two looks at it


def log_likelihood(w: jax.Array, batch: dict[str, jax.Array]) -> jax.Array:
    logits = batch["x"] @ w
    return batch["y"] * logits - jnp.logaddexp(0.0, logits)


LOGISTIC = cs.Posterior(lambda w: -0.5 * (w @ w), log_likelihood)
SAMPLERS: dict[str, Callable] = {
    "dula": lambda: cs.dula(1e-5),
    "dmala": lambda: cs.dmala(1e-4, inverse_mass_matrix=1.0, rounds=7),
    "mala": lambda: cs.mala(1e-4, inverse_mass_matrix=1.0),
}


def chains_of(name: str, size: int, dimension: int, rows: int) -> Chains:
    """Logistic regression with the same amount of data for every agent."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((size, rows, dimension), np.float32) / np.float32(np.sqrt(dimension))
    y = (rng.random((size, rows)) < 0.5).astype(np.float32)
    network = cs.Network.random_regular(size, 4)
    layout = Layout.of(jnp.zeros(dimension))
    shards = stack_shards([{"x": a, "y": b} for a, b in zip(x, y, strict=True)], size)
    sampler = SAMPLERS[name]().resolve(network, dimension)
    return simulation(
        LOGISTIC, layout, shards, network, sampler, jnp.zeros((1, dimension)), jax.random.key(0)
    ).started()


def milliseconds(iterate: Callable[[int], object]) -> float:
    """Of one iteration, from stretches of about a third of a second."""
    iterate(4)
    count = max(4, int(4 * STRETCH / seconds(partial(iterate, 4))))
    return float(np.median([seconds(partial(iterate, count)) for _ in range(REPEATS)])) / count * 1e3


def bare_gradients(run: Chains, is_common: bool) -> Callable[[int], object]:
    """Those of all agents at their own points, or, where they have one in common, their sum."""

    def log_density(w: jax.Array, shard: Shard) -> jax.Array:
        return log_likelihood(w, shard.batch).sum() - 0.5 * w @ w

    def step(w: jax.Array, shards: Shard) -> jax.Array:
        of_all = jax.vmap(jax.grad(log_density), in_axes=(None if is_common else 0, 0))(w, shards)
        return w + TINY * (of_all.sum(axis=0) if is_common else of_all)

    @jax.jit
    def loop(w: jax.Array, shards: Shard, count: int) -> jax.Array:
        return jax.lax.fori_loop(0, count, lambda _, v: step(v, shards), w)

    shape = (run.model.layout.dimension,) if is_common else (run.network.size, run.model.layout.dimension)
    start = jnp.zeros(shape)
    return lambda count: loop(start, run.inputs.shards, count).block_until_ready()


def megabytes(run: Chains) -> float:
    """That the compiled loop takes: arguments, results and all in between."""
    account = run._compiled.advance.memory_analysis()
    sizes = (account.argument_size_in_bytes, account.output_size_in_bytes, account.temp_size_in_bytes)
    return (sum(sizes) - account.alias_size_in_bytes) / 1e6


def grow() -> None:
    for dimension, rows in PROBLEMS:
        device = jax.devices()[0].device_kind
        print(f"simulate on {device}: {dimension} parameters, {rows} rows each, 4-regular, float32")
        print(f"{'sampler':<10}{'agents':>8}{'ms/iteration':>14}{'bare gradients':>16}{'ratio':>8}{'MB':>8}")
        for name in SAMPLERS:
            measured = []
            for size in SIZES:
                run = chains_of(name, size, dimension, rows)
                ours = milliseconds(partial(run.advance, 1))
                bare = milliseconds(bare_gradients(run, is_common=name == "mala"))
                memory = megabytes(run)
                measured.append((ours, bare, memory))
                print(f"{name:<10}{size:>8}{ours:>14.3f}{bare:>16.3f}{bare / ours:>8.2f}{memory:>8.1f}", flush=True)
            of_ours, of_bare, of_memory = (exponent(list(SIZES), [*values]) for values in zip(*measured, strict=True))
            print(
                f"{name}: growth exponent in m {of_ours:.2f} (aim: at most {MOST_EXPONENT}), of bare gradients "
                f"{of_bare:.2f}, of memory {of_memory:.2f}"
            )


def be_large() -> None:
    print(f"{'run':<14}{'sampler':<8}{'ms/iteration':>14}{'MB':>8}{'of data and one state, MB':>28}")
    for what, (size, dimension) in LARGE.items():
        for name in SAMPLERS:
            run = chains_of(name, size, dimension, LARGE_ROWS)
            least = 4e-6 * size * dimension * (LARGE_ROWS + (1 if name != "mala" else 1 / size))
            time, memory = milliseconds(partial(run.advance, 1)), megabytes(run)
            print(f"{what:<14}{name:<8}{time:>14.2f}{memory:>8.0f}{least:>28.0f}", flush=True)


def classify() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((MNIST_AGENTS, IMAGES, PIXELS), np.float32)
    y = rng.integers(0, CLASSES, (MNIST_AGENTS, IMAGES))
    init = {"bias": jnp.zeros(CLASSES), "weights": jnp.zeros((PIXELS, CLASSES))}
    posterior = cs.Posterior.classifier(lambda params, x: x @ params["weights"] + params["bias"], log_prior=log_prior)
    layout, ring = Layout.of(init), cs.Network.ring(MNIST_AGENTS)
    shards = stack_shards([{"x": a, "y": b} for a, b in zip(x, y, strict=True)], MNIST_AGENTS)
    start = jnp.zeros((1, layout.dimension))
    cases = {
        "dula": (cs.dula(1e-6), gradient),
        "dmala, 1 round": (cs.dmala(1e-6, inverse_mass_matrix=1.0, rounds=1), value_and_gradient),
        "mala": (cs.mala(1e-4, inverse_mass_matrix=1.0), value_and_gradient),
    }
    print(
        f"softmax regression on {jax.devices()[0].device_kind}: {MNIST_AGENTS} agents on a ring, {IMAGES} images each, "
        f"d = {layout.dimension}, float32, matmuls {jax.config.jax_default_matmul_precision or 'as jax has them'}"
    )
    print(f"{'sampler':<16}{'ms/iteration':>14}{'floor, ms':>12}{'ratio':>8}{'aim':>6}")
    for name, (sampler, update) in cases.items():
        with warnings.catch_warnings(action="ignore"):  # one round of dmala is for its speed, not its law
            resolved = sampler.resolve(ring, layout.dimension)
        run = simulation(posterior, layout, shards, ring, resolved, start, jax.random.key(0)).started()
        bare = floor(update, shards, False, layout.dimension, ITERATIONS)
        times = interleaved(partial(run.advance, 1, ITERATIONS), bare, PAIRS)
        ours, least = np.median(times, axis=0) / ITERATIONS * 1e3
        print(f"{name:<16}{ours:>14.3f}{least:>12.3f}{ratio(times):>8.2f}{LEAST_RATIO:>6}", flush=True)


def log_prior(params: dict[str, jax.Array]) -> jax.Array:
    return -0.5 * sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(params))


def main() -> None:
    grow()
    print()
    be_large()
    if jax.default_backend() != "cpu" or "--softmax" in sys.argv:
        print()
        classify()


if __name__ == "__main__":
    main()
