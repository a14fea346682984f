"""`published` is Algorithm 1 as printed, with the bias that comes of it."""

import jax
import numpy as np
import pytest

import consilience as cs

from ..statistical import assert_caught, moment_test
from ..targets import linear_regression, log_gamma
from .harness import draws, draws_after, noise_of, simulation
from .reference import published as reference

ITERATIONS = 60
NETWORKS = {
    "ring": cs.Network.ring(4),
    "star": cs.Network.star(4),
    "complete": cs.Network.complete(4),
    "one agent": cs.Network.complete(1),
}


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"rounds": 3},
        {"rounds": {0: 1, 10: 2, 40: 5}},
        {"gradient_tracking": False},
        {"consensus_step": False},
        {"metropolis_after": 30},
        {"metropolis_after": None},
        {"inverse_mass_matrix": 0.25},
    ],
    ids=str,
)
def test_equals_the_algorithm_in_plain_numpy(network, settings):
    target = linear_regression(network.size)
    step_size = 0.1  # large, so that some proposals are refused
    run = simulation(target, network, cs.published(step_size, **settings), start=target.mean + 0.3)
    noise = noise_of(run, ITERATIONS)
    schedule = settings.get("rounds", 1)
    starts = sorted(schedule) if isinstance(schedule, dict) else []
    expected = reference(
        target,
        network.weights,
        noise,
        target.mean + 0.3,
        step_size,
        rounds=lambda t: schedule[max(s for s in starts if s <= t)] if starts else schedule,
        tracking=settings.get("gradient_tracking", True),
        consensus=settings.get("consensus_step", True),
        metropolis_after=settings.get("metropolis_after", 0),
    )
    chunk = run.advance(ITERATIONS, 1)
    np.testing.assert_allclose(chunk.positions[:, 0], expected, rtol=2e-3, atol=2e-4)
    accepted = chunk.stats["is_accepted"]
    if settings.get("metropolis_after", 0) is None:
        assert accepted.all()
    elif settings.get("metropolis_after", 0) == 0:
        assert 0 < accepted.mean() < 1  # both branches were compared


def test_mass_scales_the_momentum_and_nothing_else():
    target, network = linear_regression(4), NETWORKS["ring"]
    plain, scaled = (simulation(target, network, cs.published(0.1, inverse_mass_matrix=m)) for m in (None, [4.0] * 3))
    np.testing.assert_allclose(noise_of(scaled, 5).momentum, noise_of(plain, 5).momentum / 2, rtol=1e-6)
    dense = simulation(target, network, cs.published(0.1, inverse_mass_matrix=4 * np.eye(3)))
    np.testing.assert_allclose(noise_of(dense, 5).momentum, noise_of(plain, 5).momentum / 2, rtol=1e-5)


def test_momenta_and_decisions_are_each_agents_own():
    noise = noise_of(simulation(linear_regression(4), NETWORKS["ring"], cs.published(0.1)), 50)
    assert len(np.unique(noise.momentum[:, :, 0])) == 200
    assert len(np.unique(noise.log_uniform)) == 200


@pytest.mark.parametrize("rounds", [1, {0: 1, 5: 4}], ids=str)
@pytest.mark.parametrize("name", ["ring", "star", "complete"])
def test_tracked_gradients_add_up_to_the_gradient_at_every_iteration(name, rounds):
    target = linear_regression(4)
    run = simulation(target, NETWORKS[name], cs.published(0.05, rounds=rounds), start=target.mean)
    for _ in range(50):
        run.advance(1, 1)
        state = jax.tree.map(lambda leaf: np.asarray(leaf, float)[..., :], run.state._replace(iteration=()))
        size = np.abs(state.local_gradient).sum(axis=1)
        np.testing.assert_array_less(np.abs((state.gradient - state.local_gradient).sum(axis=1)), 1e-5 * size + 1e-5)
        size = np.abs(state.local_curvature).sum(axis=1)
        np.testing.assert_array_less(np.abs((state.curvature - state.local_curvature).sum(axis=1)), 1e-5 * size + 1e-5)


def test_on_the_complete_graph_all_agents_agree_after_consensus():
    target = linear_regression(4)
    positions = draws(target, NETWORKS["complete"], cs.published(0.05), num_samples=200)
    np.testing.assert_allclose(positions, np.broadcast_to(positions[:1], positions.shape), atol=1e-5)
    apart = draws(target, NETWORKS["complete"], cs.published(0.05, consensus_step=False), num_samples=200)
    assert np.std(apart, axis=0).max() > 0.05  # and without it they do not


@pytest.mark.parametrize("agents", [1, 4])
def test_variance_is_half_of_the_posteriors_at_small_steps(agents):
    """For one agent and for four. The ratio is a mean over coordinates of averages over 64 chains: sd below 0.01."""
    target = linear_regression(agents, rows=40 // agents)
    network = cs.Network.ring(agents) if agents > 1 else cs.Network.complete(1)
    sampler = cs.published(0.02)
    positions = draws(target, network, sampler, num_chains=64, num_warmup=1500, num_samples=1500, thin=4)
    ratio = (positions.astype(float) - target.mean).reshape(agents, -1, 3).var(axis=1) / np.diag(target.covariance)
    assert 0.45 <= ratio.mean() <= 0.55
    assert moment_test(positions, target).rejects()


@pytest.mark.parametrize("target", [linear_regression(4), log_gamma(4)], ids=["regression", "skewed"])
def test_stationarity_from_exact_draws_catches_it(target):
    sampler = cs.published(0.1)
    assert_caught(lambda seed: draws_after(target, NETWORKS["ring"], sampler, steps=60, seed=seed), target)


REFUSED = {
    "step": ({"step_size": 0.0}, r"published: step_size = 0\.0 must be a positive number"),
    "NaN step": ({"step_size": float("nan")}, r"step_size = nan"),
    "rounds": ({"rounds": 0}, r"rounds = 0 must be a whole number of at least 1"),
    "milestones": ({"rounds": {10: 2}}, r"does not say what happens from iteration 0 on"),
    "milestone count": ({"rounds": {0: 1, 10: 0}}, r"rounds from iteration 10 on = 0"),
    "metropolis": ({"metropolis_after": -1}, r"metropolis_after = -1"),
    "mass": ({"inverse_mass_matrix": [1.0, -1.0]}, r"inverse_mass_matrix must be positive"),
    "dense mass": ({"inverse_mass_matrix": [[1.0, 2.0], [2.0, 1.0]]}, r"inverse_mass_matrix must be positive"),
}


@pytest.mark.parametrize(("settings", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        cs.published(**{"step_size": 0.1, **settings})


def test_a_mass_of_another_dimension_is_refused():
    with pytest.raises(ValueError, match="is for 2 parameters, the model has 3"):
        draws(linear_regression(4), NETWORKS["ring"], cs.published(0.1, inverse_mass_matrix=[1.0, 1.0]), num_samples=1)
