"""Consensus Monte Carlo: its weights, what it samples, what it costs, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import consilience as cs
from consilience.neighbors import Alone, Traffic

from ..statistical import assert_caught, assert_right
from ..targets import ONE_CHAIN, REGRESSION, linear_regression, log_gamma
from .harness import draws, simulation
from .reference import consensus_monte_carlo as reference

RING = cs.Network.ring(4)
TARGET = linear_regression(4)
GIVEN = {"step_size": 0.2, "inverse_mass_matrix": 1.0}


def made_up_draws(agents=4, shape=(50, 3), dimension=3, dtype=float):
    """Of agents with covariances and means of their own: (draw, chain, agent, dimension)."""
    random = np.random.default_rng(0)
    mixing = random.standard_normal((agents, dimension, dimension))
    values = np.einsum("tcai,aij->tcaj", random.standard_normal((*shape, agents, dimension)), mixing)
    return (values + random.standard_normal((agents, dimension))).astype(dtype)


@pytest.mark.parametrize("weights", ["dense", "diagonal"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equals_the_weighted_mean_in_plain_numpy(weights, dtype):
    values = made_up_draws(dtype=dtype)
    combined = cs.consensus_monte_carlo(weights=weights).combine(values)
    assert combined.dtype == dtype
    assert combined.shape == (50, 3, 1, 3)
    tolerance = 1e-10 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(combined[:, :, 0], reference(values, weights), rtol=tolerance, atol=tolerance)


def test_every_agent_runs_nuts_alone_on_its_own_data():
    """Draw for draw the chain that `cs.nuts` draws on a network of that agent alone, given its key."""
    run = simulation(TARGET, RING, cs.consensus_monte_carlo(**GIVEN), start=TARGET.mean)
    chunk = run.advance(30, 1)
    assert chunk.traffic == Traffic()
    chain_key = run.inputs.chain_keys[0]
    nuts = cs.nuts(**GIVEN).resolve(cs.Network.complete(1), 3)
    for agent in (0, 3):
        shard = jax.tree.map(lambda leaf, agent=agent: leaf[agent], run.inputs.shards)
        logdensity = run.model.logdensity(shard, 4)
        kernel = nuts.build(logdensity, Alone(), jnp.zeros(3))
        state = kernel.init(jnp.asarray(TARGET.mean, jnp.float32))
        step = jax.jit(kernel.step)
        for t in range(30):
            state, _ = step(jax.random.fold_in(jax.random.fold_in(chain_key, t), agent), state)
            np.testing.assert_allclose(chunk.positions[t, 0, agent], state.position, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("network", [RING, cs.Network.complete(1)], ids=repr)
def test_right_on_a_gaussian_posterior(network):
    options = {"num_warmup": 400, "num_samples": 1500, "num_chains": 4}
    sampler = cs.consensus_monte_carlo()
    assert_right(lambda seed: draws(TARGET, network, sampler, seed=seed, **options), TARGET)


def test_diagonal_weights_are_not_enough_where_subposteriors_are_correlated():
    options = {"num_warmup": 400, "num_samples": 1500, "num_chains": 4}
    sampler = cs.consensus_monte_carlo(weights="diagonal")
    assert_caught(lambda seed: draws(TARGET, RING, sampler, seed=seed, **options), TARGET)


def test_caught_on_a_skewed_posterior():
    target = log_gamma(3)
    options = {"num_warmup": 400, "num_samples": 1500, "num_chains": 4}
    sampler = cs.consensus_monte_carlo()
    assert_caught(lambda seed: draws(target, cs.Network.path(3), sampler, seed=seed, **options), target)


def sample(sampler, network=RING, posterior=REGRESSION, shards=TARGET.shards, **options):
    options = {"num_samples": 40, "init": np.zeros(3, np.float32), "progress": False, **options}
    return cs.sample(posterior, shards, network, sampler, **(ONE_CHAIN | options))


def test_all_agents_end_with_the_same_draws_and_keep_their_own_figures():
    run = sample(cs.consensus_monte_carlo(**GIVEN), num_chains=2, thin=2)
    assert run.draws.shape == (4, 2, 40, 3)
    assert (run.draws == run.draws[:1]).all()
    assert run.consensus_error == 0
    assert run.iterations == 80
    assert run.stats["acceptance_rate"].shape == (4, 2, 40)
    assert not (run.stats["acceptance_rate"] == run.stats["acceptance_rate"][:1]).all()
    assert "biased by design: its weighted mean" in str(run.summary())


@pytest.mark.parametrize(("weights", "numbers"), [("dense", 9), ("diagonal", 3)])
def test_it_costs_two_sums_over_the_tree(weights, numbers):
    network = cs.Network.star(4)  # three messages up, three down, one level each
    run = sample(cs.consensus_monte_carlo(**GIVEN, weights=weights), network, num_chains=2, thin=2, num_warmup=5)
    assert run.traffic == Traffic(2 * 2, 2 * 6, 6 * 8 * (numbers + 40 * 2 * 3))


def test_one_agent_sends_nothing_and_its_draws_are_nuts_s():
    alone, shards = cs.Network.complete(1), cs.pool(TARGET.shards)
    run = sample(cs.consensus_monte_carlo(**GIVEN), alone, shards=shards, num_samples=2)  # too few for a covariance
    assert run.traffic == Traffic()
    assert np.isfinite(run.draws).all()


def test_which_samplers_are_one_shot():
    assert cs.consensus_monte_carlo().second_stage is not None
    assert cs.nuts().second_stage is None


# --- refusals --------------------------------------------------------------------------------------------

FLAT = cs.Posterior(lambda w: 0.0 * w[0], REGRESSION.log_likelihood)


@pytest.mark.parametrize("weights", ["dense", "diagonal"])
def test_an_improper_subposterior_is_not_combined_in_silence(weights):
    """Flat prior, agent 2 with two examples of three parameters: no matter which of its signs shows first."""
    shards = [dict(shard) for shard in TARGET.shards]
    shards[2] = {name: value[:2] for name, value in shards[2].items()}
    with pytest.raises((ValueError, UserWarning), match=r"agent 2's .*improper: give the model a proper prior"):
        sample(
            cs.consensus_monte_carlo(weights=weights), posterior=FLAT, shards=shards, num_warmup=100, num_samples=200
        )


def test_draws_without_a_finite_covariance_are_refused():
    values = made_up_draws()
    values[3, 1, 2, 0] = np.inf
    with pytest.raises(ValueError, match=r"agent 2's draws have no finite covariance\. Its subposterior"):
        cs.consensus_monte_carlo().combine(values)


def test_draws_that_never_moved_are_refused():
    values = made_up_draws()
    values[:, :, 1, 2] = 0.5
    with pytest.raises(ValueError, match="agent 1's draws of parameter 2 are all alike"):
        cs.consensus_monte_carlo(weights="diagonal").combine(values)


def test_singular_covariances_are_refused_and_diagonal_weights_need_none():
    few = made_up_draws(shape=(2, 1))
    with pytest.raises(ValueError, match=r"covariance of agent 0's 2 draws of 3 parameters is singular\. Draw more"):
        cs.consensus_monte_carlo().combine(few)
    assert np.isfinite(cs.consensus_monte_carlo(weights="diagonal").combine(few)).all()
    dependent = made_up_draws()
    dependent[..., 1, 2] = 2 * dependent[..., 1, 0]
    with pytest.raises(
        ValueError, match=r"covariance of agent 1's 150 draws of 3 parameters is singular\. Its subpost"
    ):
        cs.consensus_monte_carlo().combine(dependent)
    with pytest.warns(
        UserWarning, match=r"covariance of agent 1's 150 draws of 3 parameters is singular\. Its subpost"
    ):
        cs.consensus_monte_carlo(weights="diagonal").combine(dependent)


def test_an_agent_whose_draws_have_not_settled_warns():
    drifting = made_up_draws()
    drifting[:, :, 3, 1] += np.linspace(0, 100, 50)[:, None]
    with pytest.warns(UserWarning, match=r"agent 3's own draws have not settled, R-hat = \d\.\d\. Its subpost"):
        cs.consensus_monte_carlo().combine(drifting)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weights": "equal"}, r"weights = \'equal\': not one of \'dense\', \'diagonal\'"),
        ({"step_size": -1.0}, r"consensus_monte_carlo: step_size = -1\.0: a positive number is needed"),
        (
            {"target_acceptance": 1.5},
            r"target_acceptance = 1\.5: a number between 0 and 1 is needed",
        ),
    ],
    ids=str,
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        cs.consensus_monte_carlo(**settings)


def test_it_needs_a_warm_up_to_tune_itself():
    with pytest.raises(ValueError, match="consensus_monte_carlo"):
        sample(cs.consensus_monte_carlo())
