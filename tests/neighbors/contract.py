"""What every twin of `Neighbors` must do: cases with their expected results, for any runtime to run.

A case is a function of one agent's `Neighbors` and value; `expected` works out from all agents' values, in numpy, what
each must get.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
from jax import lax

import consilience as cs
from consilience.neighbors import AGENTS

# A ring of four with a tail: degrees one, two and three, and a tree that is not the graph.
NETWORK = cs.Network.from_networkx(nx.Graph([(0, 1), (1, 2), (2, 3), (3, 0), (3, 4)]))
SIZE = NETWORK.size
ROOT = NETWORK.tree.root
CHAINS = 3
FACTORS = np.array([0.7, 1.3, 0.9])


class Case(NamedTuple):
    function: Callable[[Any, Any], Any]  # of one agent's neighbors, and its value
    values: Any  # of all agents: arrays (agent, ...)
    expected: Callable[[Any], Any]  # arrays (agent, ...)
    exact: bool = False  # to the bit
    has_chains: bool = False  # values are (agent, chain, ...), and the function is of one chain's


def _numbers(*shape):
    return np.random.default_rng(len(shape) + sum(shape)).standard_normal((SIZE, *shape)).astype(np.float32)


def _power(rounds):
    W = np.linalg.matrix_power(NETWORK.weights, rounds)
    return lambda x: jax.tree.map(lambda leaf: np.tensordot(W, leaf, 1), x)


def _polynomial(x):
    flow = NETWORK.weights - np.eye(SIZE)
    matrix = np.eye(SIZE)
    for factor in FACTORS:
        matrix = (np.eye(SIZE) + factor * flow) @ matrix
    return matrix @ x


def _laplacian(x):
    adjacency = (NETWORK.weights - np.diag(np.diag(NETWORK.weights)) > 0).astype(float)
    return (np.diag(adjacency.sum(axis=1)) - adjacency) @ x


def _for_all(reduce):
    return lambda x: np.broadcast_to(reduce(x), x.shape)


def _follow(neighbors, x):
    state = {"vector": x["vector"], "key": jax.random.wrap_key_data(x["key"])}
    found, is_alike = neighbors.follow_root(state, x["digest"])
    return {"vector": found["vector"], "key": jax.random.key_data(found["key"]), "is_alike": is_alike}


def _followed(x):
    def root(leaf):
        return np.broadcast_to(leaf[ROOT], leaf.shape)

    return {"vector": root(x["vector"]), "key": root(x["key"]), "is_alike": np.full(SIZE, True)}


def _alike(*numbers):
    """A number that rounding has set apart, and others that are the same."""
    first = np.stack([1 + 1e-3 * np.arange(SIZE), np.full(SIZE, 0.1)], axis=-1)
    rest = [np.broadcast_to([number, 0.0], (SIZE, 2)) for number in numbers]
    return np.stack([first, *rest], axis=1).astype(np.float32)


def _ride(neighbors, x):
    """Three times two sums, and with the second what the root makes of it."""
    repeated, following = neighbors.repeated(sums=2), neighbors.repeated()

    def body(_, value):
        with repeated:
            value = neighbors.total(neighbors.total(value) / 10) / 10
        with following:
            return neighbors.follow_root(value + neighbors.index, jnp.asarray([[1.0, 0.0]]), repeated)[0]

    found = lax.fori_loop(0, 3, body, x)
    repeated.times(6, found)
    following.times(3, found)
    return found


def _ridden(x):
    for _ in range(3):
        x = np.broadcast_to(x.sum(axis=0) * SIZE / 100 + ROOT, x.shape)
    return x


def _while(neighbors, x):
    """Sums inside of a loop whose length the data decide, alike on all agents."""
    repeated = neighbors.repeated()

    def body(carry):
        count, value = carry
        with repeated:
            return count + 1, neighbors.total(value) / 10

    count, value = lax.while_loop(lambda carry: jnp.abs(carry[1]).max() > 1e-3, body, (0, neighbors.total(x) / 10))
    repeated.times(count, value)
    return value


def _whiled(x):
    while True:
        x = np.broadcast_to(x.sum(axis=0) / 10, x.shape)
        if np.abs(x).max() <= 1e-3:
            return x


def _cond(neighbors, x):
    repeated = neighbors.repeated()

    def sums(value):
        with repeated:
            return neighbors.total(value)

    found = lax.cond(neighbors.all(x[0] > -100), sums, lambda value: value, x)
    repeated.times(1, found)
    return found


CASES = {
    "one round": Case(lambda n, x: n.mix(x), _numbers(4), _power(1)),
    "seven rounds": Case(lambda n, x: n.mix(x, 7), _numbers(4), _power(7)),
    "rounds that are traced": Case(lambda n, x: n.mix(x, jnp.int32(3)), _numbers(4), _power(3)),
    "a pytree in one message": Case(lambda n, x: n.mix(x, 2), {"vector": _numbers(3), "number": _numbers()}, _power(2)),
    "a polynomial": Case(lambda n, x: n.average(x, jnp.asarray(FACTORS)), _numbers(4), _polynomial),
    "the Laplacian": Case(lambda n, x: n.laplacian(x), _numbers(4), _laplacian),
    "what all agree on is kept": Case(
        lambda n, x: n.mix(x, 5), np.full((SIZE, 3), 0.1, np.float32), lambda x: x, exact=True
    ),
    "all say true": Case(lambda n, x: n.all(x), np.ones(SIZE, bool), _for_all(np.all), exact=True),
    "one says false": Case(lambda n, x: n.all(x), np.arange(SIZE) != 4, _for_all(np.all), exact=True),
    "a sum": Case(lambda n, x: n.total(x), _numbers(4), _for_all(lambda x: x.sum(axis=0))),
    "a sum of what was evaluated at one place": Case(
        lambda n, x: n.total(x, at=jnp.arange(3.0)), _numbers(4), _for_all(lambda x: x.sum(axis=0))
    ),
    "a sum of numbers": Case(lambda n, x: n.total(x), _numbers(), _for_all(np.sum)),
    "a sum of whole numbers": Case(
        lambda n, x: n.total(x), np.arange(SIZE, dtype=np.int32), _for_all(np.sum), exact=True
    ),
    "a sum off the support": Case(
        lambda n, x: n.total(x),
        np.where(np.arange(SIZE) == 2, np.nan, 1.0).astype(np.float32)[:, None] * np.array([1, 0], np.float32)
        + np.array([0, 1], np.float32),
        _for_all(lambda x: x.sum(axis=0)),
    ),
    "the root's state, and whether all agree": Case(
        _follow,
        {
            "vector": _numbers(3),
            "key": np.arange(2 * SIZE, dtype=np.uint32).reshape(SIZE, 2),
            "digest": _alike(1.0, 7.0),
        },
        _followed,
        exact=True,
    ),
    "the root's state alone": Case(
        lambda n, x: n.follow_root(x)[0], _numbers(3), _for_all(lambda x: x[ROOT]), exact=True
    ),
    "the root's state with the sum before it": Case(_ride, _numbers(3), _ridden),
    "the root's state of several chains with the sum before it": Case(
        _ride, _numbers(CHAINS, 2), _ridden, has_chains=True
    ),
    "who and how many": Case(
        lambda n, x: jnp.array([n.index, n.size]) + 0 * x.astype(jnp.int32),
        np.zeros((SIZE, 2), np.float32),
        lambda x: np.stack([np.arange(SIZE), np.full(SIZE, SIZE)], axis=1),
        exact=True,
    ),
    "inside of a loop": Case(_while, _numbers(3), _whiled),
    "inside of a branch": Case(_cond, _numbers(3), _for_all(lambda x: x.sum(axis=0))),
    "several chains": Case(
        lambda n, x: n.total(n.mix(x, 2)),
        _numbers(CHAINS, 4),
        lambda x: np.broadcast_to(_power(2)(x).sum(axis=0), x.shape),
        has_chains=True,
    ),
    "several chains of a pytree, of which a part is empty": Case(
        lambda n, x: n.total(n.mix(x, 2)),
        {"vector": _numbers(CHAINS, 3), "number": _numbers(CHAINS), "nothing": _numbers(CHAINS, 0)},
        lambda x: jax.tree.map(lambda leaf: np.broadcast_to(leaf.sum(axis=0), leaf.shape), _power(2)(x)),
        has_chains=True,
    ),
    "chains that loop differently": Case(
        _while,
        _numbers(CHAINS, 2) * np.array([1.0, 1e3, 1e-3], np.float32)[:, None],
        lambda x: np.stack([_whiled(x[:, chain]) for chain in range(CHAINS)], axis=1),
        has_chains=True,
    ),
}


def of_agents(case, connect):
    """The case as a function of the values of the agents here. `connect()` gives an agent its `Neighbors`."""

    def lane(x):
        return case.function(connect(), x)

    of_agent = jax.vmap(lane, axis_name=AGENTS)
    return jax.jit(jax.vmap(of_agent, in_axes=1, out_axes=1) if case.has_chains else of_agent)


# Results that must be the same on all agents, bit by bit, whatever they are.
SAME_EVERYWHERE = [name for name in CASES if name.startswith(("a sum", "all", "one says", "the root", "inside"))]
