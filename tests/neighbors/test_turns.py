"""Calls that compiled code makes twice, leaves out or reorders, as jax may where it takes them for pure."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import consilience as cs
from consilience.neighbors import AGENTS, Collectives, OutOfTurn, PeerNeighbors, messages

NETWORK = cs.Network.path(2)
ITERATIONS, LOOPS = 2, 3
OUTSIDE, INSIDE = range(1, 4), range(4, 4 + LOOPS)  # calls of an iteration: two of gossip and a vote, then sums
CALLS = len(OUTSIDE) + len(INSIDE) + 1  # and the check of the loop


class Alike(Collectives):
    """One of two agents that hold the same values, without the other."""

    def __init__(self):
        self.ended = []
        super().__init__(self, NETWORK, 0)

    def end(self, reason):
        self.ended.append(reason)

    def exchange(self, arrays, kind="gossip"):
        return [arrays]

    def flood(self, arrays):
        return arrays

    def total(self, arrays, rider=()):
        return [2 * array for array in arrays]


def iteration(neighbors, x):
    x = neighbors.mix(x, 2)
    x = jnp.where(neighbors.all(x[0] > 0), x, -x)
    repeated = neighbors.repeated()

    def body(carry):
        with repeated:
            return carry[0] + 1, neighbors.total(carry[1]) / 2

    count, x = lax.while_loop(lambda carry: carry[0] < LOOPS, body, (0, x))
    repeated.times(count, x)
    return x


def run(collectives, chains=1, iteration=iteration):
    def move(x):
        lane = jax.vmap(lambda x: iteration(PeerNeighbors(collectives, NETWORK, 0), x), axis_name=AGENTS)
        return jax.vmap(lane)(x)

    start = np.ones((chains, 1, 4), np.float32)
    return jax.jit(lambda x: lax.fori_loop(0, ITERATIONS, lambda _, x: move(x), x))(start).block_until_ready()


def tampered(monkeypatch, at, tamper):
    """Let `tamper(function, arrays)` make the call with this number; count all."""
    of_jax, calls = messages.callback_for_all_chains, []

    def callback(function, shapes, several=None):
        def call(arrays):
            calls.append(None)
            return (tamper if len(calls) == at else lambda function, arrays: function(arrays))(function, arrays)

        return of_jax(call, shapes, several)

    monkeypatch.setattr(messages, "callback_for_all_chains", callback)
    return calls


def twice(function, arrays):
    function([array.copy() for array in arrays])
    return function(arrays)


def never(function, arrays):
    number, *rest = arrays
    return [*rest, number + (len(rest) == 1 and rest[0].dtype == bool)]


def too_early(function, arrays):
    return function([arrays[0] + 1, *arrays[1:]])


@pytest.mark.parametrize("chains", [1, 3])
def test_calls_in_their_turn_are_taken(monkeypatch, chains):
    calls, collectives = tampered(monkeypatch, 0, None), Alike()
    for _ in range(2):
        np.testing.assert_array_equal(run(collectives, chains), np.ones((chains, 1, 4)))
    assert len(calls) == 2 * ITERATIONS * CALLS
    assert collectives.ended == []


TAMPERED = [
    *((at, twice) for at in OUTSIDE),
    (OUTSIDE[-1], never),
    (OUTSIDE[0], too_early),
    (OUTSIDE[1], too_early),
    (INSIDE[1], never),
]


@pytest.mark.parametrize("start", [0, CALLS])
@pytest.mark.parametrize(
    ("at", "tamper", "chains"),
    [
        *((*case, chains) for case in TAMPERED for chains in (1, 3)),
        (INSIDE[1], twice, 1),  # of several chains one may do a part again: the loop's count is the least (`Turns.end`)
    ],
)
def test_a_call_that_is_doubled_missing_or_out_of_turn_ends_the_run(monkeypatch, at, tamper, start, chains):
    tampered(monkeypatch, start + at, tamper)
    collectives = Alike()
    with pytest.raises(Exception, match="called the other agents out of turn"):
        run(collectives, chains)
    assert isinstance(collectives.ended[0], OutOfTurn)


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_doubled_call_is_found_out_by_the_next_where_there_is_no_loop(monkeypatch, at):
    tampered(monkeypatch, at, twice)
    with pytest.raises(Exception, match=r"out of turn: call [01] came where call [12] was due"):
        run(Alike(), iteration=lambda neighbors, x: neighbors.mix(x, 2))


def test_where_callbacks_are_taken_for_pure_calls_are_in_turn_as_well(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    collectives = Alike()
    np.testing.assert_array_equal(run(collectives, 3), np.ones((3, 1, 4)))
    tampered(monkeypatch, CALLS + OUTSIDE[1], twice)
    with pytest.raises(Exception, match="out of turn"):
        run(collectives, 3)


def test_after_an_interruption_calls_are_numbered_anew(monkeypatch):
    tampered(monkeypatch, 2, twice)
    collectives = Alike()
    with pytest.raises(Exception, match="out of turn"):
        run(collectives)
    collectives.begin()
    assert run(collectives).shape == (1, 1, 4)


def test_the_order_of_calls_does_not_hang_on_their_values():
    """Two sums of the same numbers, whose results nobody looks at, are two calls; each takes the other's number."""
    order = []

    class Noted(Alike):
        def total(self, arrays, rider=()):
            order.append(float(arrays[0].sum()))
            return super().total(arrays, rider)

    def sums(x):
        neighbors = PeerNeighbors(Noted(), NETWORK, 0)
        for factor in (1, 1, 3, 2):
            neighbors.total(factor * x)
        return x

    jax.jit(jax.vmap(sums, axis_name=AGENTS))(np.ones((1, 1), np.float32)).block_until_ready()
    jax.effects_barrier()
    assert order == [1, 1, 3, 2]


def test_a_collective_in_a_loop_that_nobody_counts_is_refused():
    def body(x):
        neighbors = PeerNeighbors(Alike(), NETWORK, 0)
        return lax.fori_loop(0, 2, lambda _, x: neighbors.total(x), x)

    with pytest.raises(RuntimeError, match="cannot be counted"):
        jax.vmap(body, axis_name=AGENTS)(np.ones((1, 2), np.float32))
