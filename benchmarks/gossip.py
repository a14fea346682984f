"""Time of one gossip round on rings and 4-regular graphs of 16 to 1024 agents, 1000 parameters each, float32.

The cost of a round should be linear in the number of edges: the growth exponent, by least squares on the logarithms, is
printed, with the same for a multiplication by the dense W, which is what a round must not be.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import consilience as cs
from consilience.neighbors import AGENTS, LaneNeighbors, edge_lists

from .timing import seconds

SIZES = (16, 64, 256, 1024)
DIMENSION = 1000
ROUNDS = 50
REPEATS = 7


@jax.jit
def sparse(lists, x, rounds):
    return jax.vmap(lambda v: LaneNeighbors(lists).mix(v, rounds), axis_name=AGENTS)(x)


@jax.jit
def dense(matrix, x, rounds):
    return jax.lax.fori_loop(0, rounds, lambda _, v: matrix @ v, x)


def microseconds(work: Callable[[], object]) -> float:
    work()
    return float(np.median([seconds(work) for _ in range(REPEATS)])) / ROUNDS * 1e6


def exponent(edges: list[int], times: list[float]) -> float:
    return float(np.polyfit(np.log(edges), np.log(times), 1)[0])


def main() -> None:
    families = {"ring": cs.Network.ring, "4-regular": lambda m: cs.Network.random_regular(m, 4)}
    print(f"one gossip round, d = {DIMENSION}, float32, median of {REPEATS} × {ROUNDS} rounds")
    print(f"{'graph':<12}{'agents':>8}{'edges':>8}{'µs/round':>12}{'ns/edge/param':>16}{'dense W, µs':>14}")
    for name, make in families.items():
        edges, times, dense_times = [], [], []
        for size in SIZES:
            network = make(size)
            x = jnp.asarray(np.random.default_rng(0).standard_normal((size, DIMENSION)), jnp.float32)
            lists, matrix = edge_lists(network), jnp.asarray(network.weights, jnp.float32)
            edges.append(len(network.edges))
            times.append(microseconds(lambda a=(lists, x): sparse(*a, ROUNDS).block_until_ready()))
            dense_times.append(microseconds(lambda a=(matrix, x): dense(*a, ROUNDS).block_until_ready()))
            per_edge = times[-1] * 1e3 / edges[-1] / DIMENSION
            print(f"{name:<12}{size:>8}{edges[-1]:>8}{times[-1]:>12.1f}{per_edge:>16.3f}{dense_times[-1]:>14.1f}")
        print(
            f"{name}: growth exponent in edges {exponent(edges, times):.2f} (dense {exponent(edges, dense_times):.2f})"
        )


if __name__ == "__main__":
    main()
