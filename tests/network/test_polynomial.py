"""Averaging polynomials against dense algebra, their known degrees, and what rounding leaves of them."""

import math

import networkx as nx
import numpy as np
import pytest
from numpy.polynomial.chebyshev import Chebyshev

import consilience as cs
from consilience.network import averaging, averaging_with, chebyshev_contraction
from consilience.network.polynomial import accuracy, chebyshev, chebyshev_rounds, finite_time, leja

SMALL = [
    cs.Network.ring(5),
    cs.Network.ring(12),
    cs.Network.path(7),
    cs.Network.star(6),
    cs.Network.grid(3, 4),
    cs.Network.torus(3, 5),
    cs.Network.hypercube(3),
    cs.Network.exponential(11),
    cs.Network.erdos_renyi(15, 0.4),
    cs.Network.erdos_renyi(15, 0.4, weights="max-degree"),
    cs.Network.complete(6),
    cs.Network.path(2),
]


def product(network, factors):
    """The polynomial as a dense matrix."""
    result = np.eye(network.size)
    for c in factors:
        result = result + c * (network.weights @ result - result)
    return result


@pytest.mark.parametrize("network", SMALL, ids=repr)
def test_the_finite_time_polynomial_is_the_mean(network):
    np.testing.assert_allclose(product(network, finite_time(network)), 1 / network.size, atol=1e-12)
    assert network.diameter <= len(finite_time(network)) < network.size


@pytest.mark.parametrize(
    ("network", "rounds"),
    [(cs.Network.ring(m), m // 2) for m in (3, 4, 5, 10, 31, 100)]
    + [(cs.Network.star(m), 2) for m in (3, 4, 50)]
    + [(cs.Network.path(m), m - 1) for m in (2, 3, 10, 60)]
    + [(cs.Network.complete(m), 1) for m in (2, 3, 40)]
    + [(cs.Network.hypercube(k), k) for k in (1, 3, 6)]
    + [(cs.Network.complete(1), 0), (cs.Network.erdos_renyi(30, 0.3), 29), (cs.Network.path(2049), None)],
    ids=lambda value: str(value),
)
def test_known_numbers_of_finite_time_rounds(network, rounds):
    factors = finite_time(network)
    assert (None if factors is None else len(factors)) == rounds


@pytest.mark.parametrize("rounds", [1, 2, 3, 8, 25])
@pytest.mark.parametrize("network", SMALL, ids=repr)
def test_the_chebyshev_polynomial_is_the_one_of_the_textbook(network, rounds):
    values, vectors = np.linalg.eigh(network.weights)
    textbook = Chebyshev.basis(rounds)
    scaled = values**rounds if network.beta == 0 else textbook(values / network.beta) / textbook(1 / network.beta)
    expected = (vectors * scaled) @ vectors.T
    np.testing.assert_allclose(product(network, chebyshev(network, rounds)), expected, atol=1e-11)


@pytest.mark.parametrize("beta", [1e-6, 0.1, 0.539, 0.9, 0.999, 1 - 1e-6])
@pytest.mark.parametrize("rounds", [1, 2, 5, 20])
def test_the_contraction_is_one_over_the_chebyshev_polynomial(beta, rounds):
    exact = 1 / Chebyshev.basis(rounds)(1 / beta)
    assert chebyshev_contraction(beta, rounds) == pytest.approx(exact, rel=1e-9)


def test_the_contraction_where_formulas_overflow_or_cancel():
    assert chebyshev_contraction(0.5, 100_000) == 0
    assert 0 < chebyshev_contraction(0.5, 500) < 1e-280
    assert chebyshev_contraction(0.0, 1) == 0
    assert chebyshev_contraction(0.9, 0) == 1
    assert chebyshev_contraction(0.9, 1) == pytest.approx(0.9, rel=1e-14)
    beta = 1 - 2701 * 2.0**-53  # 1/β loses the last bit of the gap; arccosh(1/β) = √(2 gap) up to order gap
    assert chebyshev_contraction(beta, 10**6) == pytest.approx(1 / math.cosh(1e6 * math.sqrt(2 * (1 - beta))), rel=1e-9)


@pytest.mark.parametrize("contraction", [0.9, 0.1, 1e-6, 1e-12])
@pytest.mark.parametrize("beta", [1e-9, 0.05, 0.1, 0.539, 0.99, 1 - 1e-7])
def test_the_fewest_rounds_reach_the_contraction_and_one_less_does_not(beta, contraction):
    rounds = chebyshev_rounds(beta, contraction)
    assert chebyshev_contraction(beta, rounds) <= contraction
    assert rounds == 1 or chebyshev_contraction(beta, rounds - 1) > contraction
    for exactly in range(1, 40):  # where rounding alone decides
        assert chebyshev_rounds(0.9, chebyshev_contraction(0.9, exactly)) == exactly


def test_one_round_where_one_round_is_the_mean():
    assert chebyshev_rounds(0.0, 1e-15) == 1
    assert chebyshev_rounds(0.3, 0.3) == 1
    np.testing.assert_array_equal(chebyshev(cs.Network.complete(4), 1), [1.0])
    np.testing.assert_allclose(chebyshev(cs.Network.ring(5), 1), [1.0])
    np.testing.assert_array_equal(chebyshev(cs.Network.complete(4), 3), np.ones(3))  # plain gossip


def test_leja_order_by_hand():
    np.testing.assert_array_equal(leja(np.array([0.5, -1.0, 0.0, 1.0])), [-1, 1, 0, 0.5])
    np.testing.assert_array_equal(leja(np.array([0.0, 0.0, 1.0])), [0, 1, 0])
    assert leja(np.zeros(0)).size == 0


def test_equally_far_roots_have_one_order_whatever_the_rounding():
    """Eigenvalues differ between machines in their last bits; agents in two orders would not average."""
    roots = np.cos(np.linspace(0, np.pi, 33))
    noise = np.random.default_rng(0).uniform(-1e-15, 1e-15, 33)
    np.testing.assert_allclose(leja(roots), leja(roots + noise), atol=1e-14)


TO_A_HUNDRED = [
    (cs.Network.ring(30), 1e-6),
    (cs.Network.ring(100), 8e-6),
    (cs.Network.ring(99), 8e-6),
    (cs.Network.path(100), 2e-5),
    (cs.Network.random_regular(100, 4), 1e-6),
    (cs.Network.erdos_renyi(100, 0.1), 1e-6),
    (cs.Network.exponential(100), 1e-6),
    (cs.Network.torus(7, 11), 8e-6),
]


@pytest.mark.parametrize(("network", "error"), TO_A_HUNDRED, ids=lambda value: str(value))
def test_leja_order_keeps_the_finite_time_polynomial_to_a_hundred_agents(network, error):
    factors = finite_time(network)
    assert accuracy(network, factors) < error
    assert accuracy(network, factors, np.float64) < 2e-13
    if network.beta > 0.99:  # that it is the order: with ascending roots all is lost
        assert accuracy(network, np.sort(factors)) > 1


@pytest.mark.parametrize("rounds", [50, 200, 1000])
@pytest.mark.parametrize("network", [cs.Network.ring(100), cs.Network.path(100), cs.Network.star(100)], ids=repr)
def test_leja_order_keeps_chebyshev_at_any_degree(network, rounds):
    bound = 2 * chebyshev_contraction(network.beta, rounds)
    assert accuracy(network, chebyshev(network, rounds)) < max(bound, 2e-5)
    assert accuracy(network, chebyshev(network, rounds), np.float64) < max(bound, 1e-13)


def test_accuracy_is_the_error_that_dense_algebra_sees():
    network = cs.Network.grid(3, 4)
    left = product(network, np.ones(3)) - 1 / 12
    units = np.abs(left[:, [0, 6, 11]]).max() / (1 - 1 / 12)
    assert units <= accuracy(network, np.ones(3), np.float64) <= np.abs(left).sum(axis=1).max() * 2
    assert accuracy(network, np.zeros(0), np.float64) == 1
    assert accuracy(cs.Network.complete(1), np.ones(3)) == 0
    assert accuracy(network, np.full(200, 1e3)) == math.inf


def test_auto_takes_the_fewest_rounds():
    ring, star, random = cs.Network.ring(5), cs.Network.star(10), cs.Network.random_regular(30, 4)
    assert [(averaging(n).method, averaging(n).rounds) for n in (ring, star)] == [("finite-time", 2)] * 2
    assert averaging(ring).contraction < 1e-6
    taken = averaging(random)
    assert (taken.method, taken.rounds) == ("chebyshev", chebyshev_rounds(random.beta, 0.1))
    assert taken.contraction == chebyshev_contraction(random.beta, taken.rounds) <= 0.1
    assert averaging(random, 0.01).rounds > taken.rounds
    complete = averaging(cs.Network.complete(8))
    assert (complete.method, complete.rounds) == ("finite-time", 1)
    np.testing.assert_allclose(complete.factors, [1.0])
    alone = averaging(cs.Network.complete(1))
    assert (alone.method, alone.rounds, alone.contraction) == ("none", 0, 0)


def test_a_polynomial_that_rounding_spoils_is_not_taken():
    """On a random tree the finite-time polynomial has a huge error, and is offered all the rounds it wants."""
    tree = cs.Network.from_networkx(nx.random_labeled_tree(60, seed=1))
    assert accuracy(tree, finite_time(tree)) > 1e3
    assert averaging_with(tree, 59).method == "chebyshev"
    assert accuracy(tree, averaging(tree).factors) < 0.11


def test_a_number_of_ones_own_runs_and_is_finite_time_where_that_is_enough():
    network = cs.Network.ring(9)
    few = averaging_with(network, 3)
    assert (few.method, few.rounds) == ("chebyshev", 3)
    assert few.contraction == chebyshev_contraction(network.beta, 3)
    np.testing.assert_array_equal(few.factors, chebyshev(network, 3))
    for rounds in (4, 20):
        assert (averaging_with(network, rounds).method, averaging_with(network, rounds).rounds) == ("finite-time", 4)
    assert averaging_with(cs.Network.complete(1), 3).rounds == 0


def test_no_spectrum_is_computed_for_rounds_that_cannot_reach_across():
    network = cs.Network.path(30)
    averaging_with(network, 10)
    assert "spectrum" not in vars(network)


REFUSED = {
    "no rounds": (lambda: averaging_with(cs.Network.ring(5), 0), r"rounds = 0: a whole number of at least 1"),
    "half a round": (lambda: chebyshev(cs.Network.ring(5), 2.5), r"rounds = 2\.5"),
    "minus one": (lambda: chebyshev_contraction(0.5, -1), r"rounds = -1"),
    "contraction": (lambda: averaging(cs.Network.ring(5), 1.0), r"contraction = 1\.0: .*Write contraction=0\.1"),
    "contraction 0": (lambda: chebyshev_rounds(0.5, 0.0), r"contraction = 0\.0"),
    "beta": (lambda: chebyshev_contraction(1.0, 2), r"β = 1\.0: .*such as network\.beta"),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
