"""Starts of models with very many parameters: a precision that is diagonal plus low rank, by a few products."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import consilience as cs
from consilience.model import Layout, stack_shards
from consilience.neighbors import Alone
from consilience.runs import simulation as lanes
from consilience.samplers import low_rank, starting
from consilience.samplers.low_rank import RANK, REFINEMENTS, FitCounts, LowRankNormal, fit_low_rank

from ..statistical import assert_right
from ..targets import linear_regression
from .harness import Lanes, draws, simulation

RING = cs.Network.ring(6)
FAR = np.full(3, 50.0, np.float32)


def columns(law):
    """Return C, whose columns are where the law places the axes."""
    return np.asarray(jax.vmap(lambda z: law.place(z) - law.mean, out_axes=1)(jnp.eye(len(law.mean))), float)


def test_a_law_places_what_it_standardises():
    random = np.random.default_rng(0)
    directions, _ = np.linalg.qr(random.standard_normal((20, 4)))
    parts = random.standard_normal(20), np.exp(random.standard_normal(20)), directions, [0.1, 0.5, 2.0, 7.0]
    law = LowRankNormal(*(jnp.array(part, jnp.float32) for part in parts))
    q = jnp.array(random.standard_normal(20), jnp.float32)
    np.testing.assert_allclose(law.place(law.standardise(q)), q, atol=1e-4)
    root = columns(law)
    np.testing.assert_allclose(law.covariant(q), root @ root.T @ np.asarray(q), rtol=1e-3, atol=1e-3)
    precision = np.diag(1 / parts[1]) @ (np.eye(20) + directions @ np.diag(1 / np.square(parts[3]) - 1) @ directions.T)
    np.testing.assert_allclose(np.linalg.inv(root @ root.T), precision @ np.diag(1 / parts[1]), rtol=1e-2, atol=1e-2)


def spiked(dimension, rank):
    """Make a normal log-likelihood whose precision is diagonal plus low rank, both of unlike scales."""
    random = np.random.default_rng(0)
    loadings = 3 * random.standard_normal((rank, dimension)) * np.exp(0.5 * random.standard_normal(dimension))
    diagonal, center = np.exp(random.standard_normal(dimension)), random.standard_normal(dimension)
    found = [jnp.array(part, jnp.float32) for part in (loadings, diagonal, center)]

    def log_likelihood(q):
        apart = q - found[2]
        return -0.5 * (jnp.vdot(apart, found[1] * apart) + jnp.square(found[0] @ apart).sum())

    likelihood = np.diag(diagonal) + loadings.T @ loadings
    covariance = np.linalg.inv(likelihood + np.eye(dimension))
    return log_likelihood, covariance @ likelihood @ center, covariance


def fitted(prior_sd, log_likelihood, start, neighbors=None):
    """Fit a law under a normal prior around nought."""
    neighbors = neighbors or Alone()
    counts = FitCounts(*(neighbors.repeated() for _ in FitCounts._fields))

    def log_prior(q):
        return -0.5 * jnp.vdot(q, q) / prior_sd**2

    return fit_low_rank(log_prior, log_likelihood, neighbors, counts, start, jax.random.key(0))


def test_what_is_diagonal_plus_low_rank_is_found():
    log_likelihood, mean, covariance = spiked(300, 10)
    found = jax.jit(lambda: fitted(1.0, log_likelihood, jnp.zeros(300)))()
    assert found.climbs <= low_rank.MOST_STEPS // 2
    root = columns(found.law)
    scales = np.linalg.eigvals(np.linalg.solve(covariance, root @ root.T)).real
    assert scales.min() > 0.5 and scales.max() < 2  # its variance over the right one, in every direction
    sd = np.sqrt(np.diag(covariance))
    assert np.linalg.cond(covariance / sd[:, None] / sd) > 1000  # a diagonal alone would not do
    assert np.abs(np.linalg.solve(np.linalg.cholesky(covariance), found.law.mean - mean)).max() < 0.05
    assert starting.spread_of(found.log_weights) < 2


def counts_of_fifty(w):
    """Return the log-likelihood of a Poisson count with a log link, whose curvature is e^w."""
    return 50 * w[0] - jnp.exp(w[0])


@pytest.mark.parametrize("start", [0.0, -8.0])
def test_a_step_too_far_is_taken_back_with_the_curvature_that_is_there(start):
    """The first step leads to where the curvature is beyond all bounds: it says nothing of where the chain still is."""
    found = jax.jit(lambda start: fitted(10**0.5, counts_of_fifty, start))(jnp.array([start]))
    mode = 3.904  # 50 = e^w + w / 10
    np.testing.assert_allclose(found.law.mean, mode, atol=0.03)
    np.testing.assert_allclose(columns(found.law)[0, 0], (np.exp(mode) + 0.1) ** -0.5, rtol=0.03)
    assert 4 < found.climbs < low_rank.MOST_STEPS


def test_from_a_start_that_is_impossible_it_does_not_climb():
    found = jax.jit(lambda: fitted(1.0, lambda w: jnp.log(w[0]), jnp.array([-1.0])))()
    assert found.climbs == 1
    assert not jnp.isfinite(starting.spread_of(found.log_weights))


def test_it_is_the_root_that_stops_a_climb(monkeypatch):
    """Agents' processors round eigenvalues in their own ways: here all others have arrived before the root has."""
    ritz = low_rank._ritz

    def rounded_apart(directions, products):
        vectors, values = ritz(directions, products)
        return vectors, values * jnp.where(lax.axis_index("agents") == 0, 1.0, 1e6)

    def climbed(share):
        def log_likelihood(w):
            return share * counts_of_fifty(w)

        return fitted(10**0.5, log_likelihood, jnp.zeros(1), Lanes())

    alone = jax.jit(lambda: fitted(10**0.5, counts_of_fifty, jnp.zeros(1)))()
    monkeypatch.setattr(low_rank, "_ritz", rounded_apart)
    found = jax.jit(jax.vmap(climbed, axis_name="agents"))(jnp.full(3, 1 / 3))
    assert (found.climbs == found.climbs[0]).all()
    assert abs(found.climbs[0] - alone.climbs) <= 1
    np.testing.assert_allclose(found.law.mean[0], alone.law.mean, atol=0.01)


@pytest.fixture
def few(monkeypatch):
    """Take three parameters for very many."""
    monkeypatch.setattr(starting, "MOST_DENSE", 2)


@pytest.mark.parametrize("make", [cs.mala, cs.dmala])
def test_chains_start_from_it(few, make):
    target = linear_regression(6)
    run = simulation(target, RING, make(start="surrogate"), FAR, chains=2, num_warmup=1)
    first = run.advance(1, 1)
    assert first.stats["start_used"].all()
    root = columns(run.state.start.law)
    np.testing.assert_allclose(root @ root.T, target.covariance, rtol=1e-2, atol=1e-4)
    np.testing.assert_allclose(run.state.start.law.mean, target.mean, atol=1e-3)
    assert first.stats["start_sums"][0, 0, 0] <= low_rank.MOST_STEPS + REFINEMENTS + 1
    assert run.advance(1, 1).traffic.rounds > 0


def test_draws_are_right_on_a_long_run(few):
    target = linear_regression(6)
    options = {"num_chains": 4, "num_warmup": 200, "num_samples": 2000, "init": FAR}
    assert_right(lambda seed: draws(target, RING, cs.mala(start="surrogate"), seed=seed, **options), target)


def arrays_of(jaxpr):
    """Yield the sizes of all arrays in a piece of code, and in what it calls."""
    for equation in jaxpr.eqns:
        yield from (variable.aval.size for variable in equation.outvars if hasattr(variable.aval, "size"))
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda v: hasattr(v, "eqns")):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from arrays_of(inner)


def test_nobody_holds_or_sends_parameters_by_parameters():
    dimension, network = 2500, cs.Network.path(2)
    shards = [{"x": np.ones((3, dimension), np.float32), "y": np.ones(3, np.float32)}] * 2
    posterior = cs.Posterior(
        lambda w: -0.5 * jnp.vdot(w, w), lambda w, batch: -0.5 * (batch["y"] - batch["x"] @ w) ** 2
    )
    layout = Layout.of(jnp.zeros(dimension, np.float32))
    positions = jnp.zeros((1, dimension), np.float32)
    sampler = cs.mala(start="surrogate").resolve(network, dimension, 500)
    chains = lanes(posterior, layout, stack_shards(shards, 2), network, sampler, positions, jax.random.key(0))
    traced = chains._traced
    largest = max(arrays_of(traced.move.code.jaxpr))
    assert RANK * dimension <= largest < dimension**2 / 4
    numbers = max(exchange.message_bytes for exchange in traced.exchanges) // 4
    assert numbers <= 2 * (RANK + 2) * dimension < dimension * (dimension + 1) / 2
