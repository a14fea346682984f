"""Time of agents with very unequal shards over that of an even split of the same rows.

Logistic regression, 20,950 rows, 20 agents on a ring, 19 of them with 50 rows and one with 20,000, in the default
runtime. An iteration of all agents should cost what their rows cost, whoever has them. The last column is what it would
cost if all shards were padded to the longest, as they are on a mesh of devices. Medians over repeats, taken in turns;
of `nuts` per leapfrog step, since rounding may give trajectories another length.
"""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np

import consilience as cs
from consilience.engine import Chains
from consilience.model import Layout, Shards, stack_by_size, stack_shards
from consilience.runs import simulation

AGENTS, FEW, MANY, DIMENSION = 20, 50, 20_000, 10
ITERATIONS, REPEATS = 100, 9
REPLICATED, GOSSIP = 1.5, 2.5  # at most so many times an even split: the aim
SAMPLERS = {
    "nuts": (cs.nuts(0.02, 1.0), REPLICATED),
    "hmc": (cs.hmc(0.02, 1.0), REPLICATED),
    "mala": (cs.mala(0.02, 1.0), REPLICATED),
    "dmala": (cs.dmala(2e-3, 1.0), GOSSIP),
    "dula": (cs.dula(1e-7), GOSSIP),
    "published": (cs.published(1e-5), GOSSIP),
    "desgld": (cs.desgld(1e-7), GOSSIP),
    "desgld, minibatch": (cs.desgld(1e-7, batch_size=32), GOSSIP),
}


def log_likelihood(w: jax.Array, batch: dict[str, jax.Array]) -> jax.Array:
    logits = batch["x"] @ w
    return batch["y"] * logits - jnp.logaddexp(0.0, logits)


POSTERIOR = cs.Posterior(lambda w: -0.5 * w @ w, log_likelihood)


def splits() -> dict[str, Shards]:
    """The rows of all agents: split evenly, split unevenly, and split unevenly with all shards padded."""
    random, lengths = np.random.default_rng(0), [*[FEW] * (AGENTS - 1), MANY]
    x = random.standard_normal((sum(lengths), DIMENSION)).astype(np.float32)
    y = (random.random(len(x)) < 1 / (1 + np.exp(-x.sum(axis=1)))).astype(np.float32)

    def split(at: np.ndarray | int) -> list[dict[str, np.ndarray]]:
        return [{"x": a, "y": b} for a, b in zip(np.array_split(x, at), np.array_split(y, at), strict=True)]

    uneven = split(np.cumsum(lengths)[:-1])
    return {
        "even": stack_by_size(split(AGENTS)),
        "uneven": stack_by_size(uneven),
        "padded": stack_shards(uneven, AGENTS),
    }


def seconds_of(run: Chains) -> float:
    """Seconds of an iteration, or of a leapfrog step of NUTS."""
    began = time.perf_counter()
    chunk = run.advance(ITERATIONS, 1)
    took = time.perf_counter() - began
    return took / (chunk.stats["num_integration_steps"].sum() if run.inputs.sampler.name == "nuts" else ITERATIONS)


def main() -> None:
    ring, layout = cs.Network.ring(AGENTS), Layout.of(jnp.zeros(DIMENSION))
    print(f"{AGENTS - 1} agents with {FEW} rows and one with {MANY}, over an even split; median of {REPEATS} repeats")
    print(f"{'sampler':<20}{'even, µs':>10}{'uneven, µs':>12}{'ratio':>8}{'at most':>9}{'if padded':>11}")
    shards, start = splits(), jnp.ones((1, DIMENSION))
    for name, (sampler, most) in SAMPLERS.items():
        resolved = sampler.resolve(ring, DIMENSION)
        runs = {
            split: simulation(POSTERIOR, layout, stacked, ring, resolved, start, jax.random.key(0)).started()
            for split, stacked in shards.items()
        }
        for run in runs.values():
            run.advance(8, 1)  # from the start into the typical set
        times = np.array([[seconds_of(run) for run in runs.values()] for _ in range(REPEATS)])
        even, uneven, _ = 1e6 * np.median(times, axis=0)
        ratio, padded = np.median(times[:, 1:] / times[:, :1], axis=0)
        print(f"{name:<20}{even:>10.0f}{uneven:>12.0f}{ratio:>8.2f}{most:>9}{padded:>11.2f}", flush=True)


if __name__ == "__main__":
    main()
