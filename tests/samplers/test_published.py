"""`published` is Algorithm 1 as printed, with the bias that comes of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import consilience as cs
from consilience._checks import check_flag
from consilience.samplers.rounds import check_rounds, rounds_at

from ..halves import checkerboard
from ..statistical import assert_caught, moment_test
from ..targets import linear_regression, log_gamma
from .harness import draws, draws_after, noise_of, simulation
from .reference import Regression
from .reference import published as reference

ITERATIONS = 60
NETWORKS = {
    "ring": cs.Network.ring(4),
    "star": cs.Network.star(4),
    "complete": cs.Network.complete(4),
    "one agent": cs.Network.complete(1),
}


SETTINGS = [
    {},
    {"rounds": 3},
    {"rounds": {0: 1, 10: 2, 40: 5}},
    {"gradient_tracking": False},
    {"consensus_step": False},
    {"metropolis_after": 30},
    {"metropolis_after": None},
    {"inverse_mass_matrix": 0.25},
]


@pytest.mark.parametrize(("settings", "network"), checkerboard({str(one): one for one in SETTINGS}, NETWORKS))
def test_equals_the_algorithm_in_plain_numpy(settings, network):
    target = linear_regression(network.size)
    step_size = 0.1  # large, so that some proposals are refused
    schedule = settings.get("rounds", 1)
    starts = sorted(schedule) if isinstance(schedule, dict) else []
    with jax.enable_x64(True):
        run = simulation(target, network, cs.published(step_size, **settings), start=target.mean + 0.3)
        noise = noise_of(run, ITERATIONS)
        chunk = run.advance(ITERATIONS, 1)
    expected, log_ratios = reference(
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
    np.testing.assert_allclose(chunk.positions[:, 0], expected, rtol=1e-9, atol=1e-10)
    if settings.get("metropolis_after", 0) is None:
        assert set(chunk.stats) <= {"disagreement"}
        return
    np.testing.assert_allclose(chunk.stats["acceptance_rate"][:, 0], np.exp(log_ratios), rtol=1e-5)
    np.testing.assert_array_equal(chunk.stats["is_accepted"][:, 0], log_ratios >= noise.log_uniform)
    assert 0 < chunk.stats["is_accepted"].mean() < 1  # both branches were compared


def test_the_metropolis_step_begins_where_it_should():
    run = simulation(linear_regression(4), NETWORKS["ring"], cs.published(1.0, metropolis_after=3))
    accepted = run.advance(6, 1).stats["is_accepted"][:, 0]
    np.testing.assert_array_equal(accepted, np.repeat([[1.0], [0.0]], 3, axis=0) * np.ones(4))


def test_a_schedule_of_rounds_changes_at_its_milestones():
    rounds = check_rounds("published", {0: 1, 1000: 5, 2000: 10})
    at = (0, 1, 999, 1000, 1001, 1999, 2000, 10**6)
    assert [int(rounds_at(rounds, jnp.int32(t))) for t in at] == [1, 1, 1, 5, 5, 5, 10, 10]


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
    """Σ_i g_i = Σ_i ∇ℓ_i, the latter by hand at the positions before the step; and for ℵ with that step's momenta."""
    target = linear_regression(4)
    model = Regression(target)
    run = simulation(target, NETWORKS[name], cs.published(0.05, rounds=rounds), start=target.mean)
    momenta = noise_of(run, 50).momentum
    for step in range(50):
        before = np.asarray(run.state.position[0], float)
        run.advance(1, 1)
        gradients, curvatures = model.gradients(before), model.curvatures(momenta[step])
        tracked = np.asarray(run.state.gradient[0], float).sum(axis=0)
        np.testing.assert_allclose(tracked, gradients.sum(axis=0), atol=1e-4 * np.abs(gradients).max())
        assert float(run.state.curvature[0].sum()) == pytest.approx(curvatures.sum(), rel=1e-4)


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
    "step": ({"step_size": 0.0}, r"published: step_size = 0\.0: a positive number is needed"),
    "NaN step": ({"step_size": float("nan")}, r"step_size = nan"),
    "rounds": ({"rounds": 0}, r"rounds = 0: a whole number of at least 1"),
    "milestones": ({"rounds": {10: 2}}, r"does not say what happens from iteration 0 on"),
    "milestone count": ({"rounds": {0: 1, 10: 0}}, r"rounds from iteration 10 on = 0"),
    "metropolis": ({"metropolis_after": -1}, r"metropolis_after = -1"),
    "mass": ({"inverse_mass_matrix": [1.0, -1.0]}, r"inverse_mass_matrix must be positive"),
    "step as a jax array": ({"step_size": jnp.float32(-0.1)}, r"step_size = .*: a positive number is needed"),
    "step as text": ({"step_size": "0.1"}, r"step_size = '0\.1'"),
    "steps": ({"step_size": np.ones(3)}, r"a positive number is needed"),
    "branching rounds": ({"rounds": lambda t: 1 if t < 10 else 2}, r"Use jnp\.where, or milestones"),
    "fractional rounds": ({"rounds": lambda t: 1.5}, r"rounds\(iteration\) must be a whole number"),
    "mass of names": ({"inverse_mass_matrix": {"w": 1.0}}, r"inverse_mass_matrix must be positive"),
    "dense mass": ({"inverse_mass_matrix": [[1.0, 2.0], [2.0, 1.0]]}, r"inverse_mass_matrix must be positive"),
}


@pytest.mark.parametrize(("settings", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        cs.published(**{"step_size": 0.1, **settings})


def test_flags_are_true_or_false():
    with pytest.raises(ValueError, match="gradient_tracking = 'no': True or False is needed"):
        check_flag("gradient_tracking", "no")


def test_a_mass_of_another_dimension_is_refused():
    with pytest.raises(ValueError, match="is for 2 parameters, the model has 3"):
        draws(linear_regression(4), NETWORKS["ring"], cs.published(0.1, inverse_mass_matrix=[1.0, 1.0]), num_samples=1)
