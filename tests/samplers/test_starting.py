"""Starts from a surrogate: its parts against what they are of, the draws that follow, and what the warm-up costs."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import consilience as cs
from consilience.cli.build import sampler_from
from consilience.samplers import start_spread_limit, starting
from consilience.store import describe_sampler

from ..statistical import assert_right
from ..targets import Target, linear_regression
from .harness import draws, simulation
from .test_surrogate import hierarchy, nearly_separable, two_modes

RING = cs.Network.ring(6)
SAMPLERS = {
    "nuts": cs.nuts(start="surrogate"),
    "hmc": cs.hmc(start="surrogate", num_integration_steps=4),
    "mala": cs.mala(start="surrogate"),
    "dmala": cs.dmala(start="surrogate"),
}
FAR = np.full(3, 50.0, np.float32)


# --- parts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [0.57, 0.8])
@pytest.mark.parametrize("has_one_step", [True, False])
@pytest.mark.parametrize("dimension", [20, 600])
def test_the_first_step_is_accepted_as_often_as_asked_for(dimension, has_one_step, target):
    """Of a standard normal, by leapfrog steps in plain numpy: by one of them, or a quarter of a turn."""
    step = float(starting.first_step(dimension, target, has_one_step))
    z, p = np.random.default_rng(0).standard_normal((2, 4000, dimension))
    before = np.square(z).sum(1) + np.square(p).sum(1)
    for _ in range(1 if has_one_step else round(np.pi / 4 / np.arcsin(step / 2))):
        p = p - 0.5 * step * z
        z = z + step * p
        p = p - 0.5 * step * z
    found = np.minimum(1, np.exp(0.5 * (before - np.square(z).sum(1) - np.square(p).sum(1)))).mean()
    assert abs(found - target) < 0.06


def test_starts_are_drawn_by_weight_where_many_weigh_and_among_fifty_where_one_would_have_it_all():
    even = jnp.log(jnp.array(np.random.default_rng(0).uniform(0.5, 1, 400), jnp.float32))
    np.testing.assert_allclose(starting.tempered(even), even - even.max(), atol=1e-6)
    uneven = 20 * jnp.array(np.random.default_rng(1).standard_normal(1000), jnp.float32).at[:10].set(-jnp.inf)
    found = starting.tempered(uneven)
    weights = np.exp(np.asarray(found))
    assert abs(weights.sum() ** 2 / np.square(weights).sum() - starting.FEWEST_STARTS) < 1
    assert (weights[:10] == 0).all()
    np.testing.assert_array_equal(np.argsort(found), np.argsort(uneven))


def test_the_spread_of_weights_is_their_sd_where_they_are_normal_and_infinite_where_many_are_impossible():
    drawn = jnp.array(3 * np.random.default_rng(0).standard_normal(20_000), jnp.float32)
    assert abs(float(starting.spread_of(drawn)) - 3) < 0.1
    assert starting.spread_of(drawn.at[:4000].set(-jnp.inf)) == jnp.inf
    assert jnp.isfinite(starting.spread_of(drawn.at[:2000].set(jnp.nan)))


# --- start, mass and step --------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLERS)
def test_start_mass_and_step_are_the_surrogate_s(name):
    """Of a normal posterior the surrogate is the posterior: all are known to be right."""
    target = linear_regression(6)
    run = simulation(target, RING, SAMPLERS[name], FAR, chains=300, num_warmup=1)
    first = run.advance(1, 1)
    law = run.state.start.law
    np.testing.assert_allclose(law.mean, target.mean, atol=1e-4)
    np.testing.assert_allclose(law.root @ law.root.T, target.covariance, rtol=1e-3, atol=1e-5)
    scaled = np.linalg.solve(np.linalg.cholesky(target.covariance), (first.positions[0, :, 0] - target.mean).T)
    # 300 of 2000 proposals, with some twice, and one iteration of the sampler.
    assert np.abs(scaled.mean(axis=1)).max() < 5 / np.sqrt(300)
    assert np.abs(scaled.var(axis=1) - 1).max() < 5 * np.sqrt(2 / 300)
    assert len(np.unique(first.positions[0, :, 0, 0])) > 200
    sampler = SAMPLERS[name]
    expected = starting.first_step(3, sampler.target_acceptance, sampler.has_one_step)
    np.testing.assert_allclose(first.stats["step_size"][0], float(expected), rtol=1e-5)


def test_without_a_warm_up_a_chain_starts_where_it_is_told_to():
    target = linear_regression(6)
    sampler = cs.mala(1e-4, start="surrogate")
    run = simulation(target, RING, sampler, FAR, num_warmup=0)
    found = run.advance(1, 1).positions[0, 0, 0]
    np.testing.assert_allclose(found, FAR, atol=0.2)
    assert (found != FAR).any()  # it has moved


@pytest.mark.parametrize("name", ["nuts", "dmala"])
def test_is_right_on_a_long_run_from_a_start_far_off(name):
    target = linear_regression(6)
    options = {"num_chains": 4, "num_warmup": 200, "num_samples": 2000, "init": FAR}
    assert_right(lambda seed: draws(target, RING, SAMPLERS[name], seed=seed, **options), target)


def test_a_hierarchy_starts_in_the_coordinates_of_its_parameters():
    """Its surrogate is not normal: the mass is that of chains that have settled on it."""
    posterior, effect, shards = hierarchy()
    inside = cs.Posterior(posterior.log_prior, posterior.log_likelihood, init=posterior.init, coordinates=effect)
    length = {"num_samples": 400, "num_chains": 2, "progress": False}
    run = cs.sample(inside, shards, cs.Network.ring(3), SAMPLERS["nuts"], num_warmup=200, **length)
    assert run.stats["start_used"].all()
    plain = cs.sample(posterior, shards, cs.Network.ring(3), cs.nuts(), num_warmup=500, **length)
    for site, values in plain.draws.items():
        apart = (run.draws[site].mean(axis=(0, 1, 2)) - values.mean(axis=(0, 1, 2))) / values.std(axis=(0, 1, 2))
        assert np.abs(apart).max() < 0.35, site


# --- what it costs ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def separable():
    posterior, shards = nearly_separable()
    return Target(posterior, shards, np.zeros(12), np.eye(12), None)


@pytest.mark.parametrize(("name", "most"), [("nuts", 600), ("mala", 250), ("dmala", 250)])
def test_warm_up_is_hundreds_of_sums_and_then_nobody_is_asked(separable, name, most):
    """Counted as rounds: on a star one up and one down for a sum."""
    star, sampler = cs.Network.star(4), SAMPLERS[name]
    run = simulation(separable, star, sampler, num_warmup=500)
    short = run.advance(sampler.short_warmup, 1)
    assert short.stats["start_used"].all()
    idle = [run.advance(n, 1) for n in (1, 500 - sampler.short_warmup - 1)]
    assert sum(chunk.traffic.rounds for chunk in idle) == 0
    for chunk in idle:
        np.testing.assert_array_equal(chunk.positions, np.broadcast_to(short.positions[-1], chunk.positions.shape))
    sums = int(short.stats["start_sums"][0, 0, 0]) + 2  # and where it starts, before the fit and after
    sums += int(short.stats["num_integration_steps"].sum()) if name == "nuts" else sampler.short_warmup
    assert sums <= most
    # An iteration's state and step size follow the root's, and a fit's points: three trips at most beside each sum.
    gossip = 2 * len(run.inputs.sampler.factors) if name == "dmala" else 0
    assert short.traffic.rounds <= 5 * sums + (gossip + 2) * sampler.short_warmup
    drawn = run.advance(20, 1)
    assert drawn.traffic.rounds > 0 and len(np.unique(drawn.positions[:, 0, 0, 0])) > 5
    assert 0.4 < run.advance(300, 1).stats["acceptance_rate"].mean() < 0.97


# --- where it is of no use -------------------------------------------------------------------------


def test_a_surrogate_of_one_of_two_modes_is_not_used_and_the_run_says_so():
    target = Target(
        cs.Posterior(
            lambda w: -0.5 * jnp.vdot(w, w) / 100,
            lambda w, batch: batch["share"] * two_modes(0.3, 2)(w),
            init=np.ones(2, np.float32),
        ),
        [{"share": np.full(1, 0.5, np.float32)}] * 2,
        np.ones(2),
        np.eye(2),
        None,
    )
    options = {"num_samples": 300, "num_warmup": 300, "num_chains": 2, "progress": False}
    run = cs.sample(target.posterior, target.shards, cs.Network.path(2), SAMPLERS["mala"], **options)
    assert not run.stats["start_used"].any()
    found = run.summary()
    assert not found.start.is_used
    assert "Started without a surrogate" in found.verdict and "another one has" in found.verdict
    assert "warmed up as without one" in found.verdict
    # It warms up as ever: for all of the warm-up, mass matrix and all.
    assert 0.4 < run.acceptance < 0.8


def test_a_surrogate_whose_weights_are_all_over_the_place_is_not_used(monkeypatch):
    target = linear_regression(6)
    monkeypatch.setattr(starting, "start_spread_limit", lambda dimension: -1.0)
    run = simulation(target, RING, cs.mala(0.1, start="surrogate"), target.mean, num_warmup=100)
    found = run.advance(100, 1)
    assert not found.stats["start_used"].any()
    law = run.state.start.law
    np.testing.assert_array_equal(law.root, np.eye(3))
    # The windows of its warm-up have found a mass, as they do without a surrogate.
    assert np.abs(np.asarray(run.state.inner.adaptation.inverse_mass_matrix) - 1).max() > 0.1
    np.testing.assert_allclose(found.positions[0, 0, 0], target.mean, atol=1.0)


def test_the_summary_says_how_chains_have_started():
    target = linear_regression(6)
    options = {"num_samples": 20, "num_warmup": 10, "init": FAR, "num_chains": 2, "progress": False}
    run = cs.sample(target.posterior, target.shards, RING, SAMPLERS["mala"], **options)
    text = str(run.summary())
    assert "started          from a surrogate, fitted by" in text
    assert f"of {start_spread_limit(3):.1f} allowed" in text
    assert "Started without" not in text
    plain = cs.sample(target.posterior, target.shards, RING, cs.mala(0.1, 1.0), **options)
    assert plain.summary().start is None and "started" not in str(plain.summary())


# --- where it runs ---------------------------------------------------------------------------------


def test_copies_of_agents_stay_alike_and_are_the_one_chain():
    target = linear_regression(5)
    runs = [
        simulation(target, cs.Network.ring(5), SAMPLERS["mala"], target.mean, 2, one_copy=one_copy, num_warmup=20)
        for one_copy in (True, False)
    ]
    one, many = (run.advance(40, 1).positions for run in runs)
    np.testing.assert_allclose(many, np.broadcast_to(one, many.shape), rtol=2e-4, atol=2e-4)
    assert (many == many[:, :, :1]).all()


@pytest.mark.parametrize("name", ["mala", "dmala"])
def test_goes_on_where_it_stopped_to_the_same_bits(name, tmp_path):
    target = linear_regression(6)
    options = {"init": np.zeros(3, np.float32), "num_chains": 2, "num_warmup": 160, "progress": False}
    arguments = (target.posterior, target.shards, RING, SAMPLERS[name])
    cs.sample(*arguments, num_samples=13, out=tmp_path / "run", **options)
    resumed = cs.sample(*arguments, num_samples=40, out=tmp_path / "run", resume=True, **options)
    whole = cs.sample(*arguments, num_samples=40, **options)
    np.testing.assert_array_equal(resumed.draws, whole.draws)
    assert cs.load(tmp_path / "run").summary().start == whole.summary().start


def test_devices_draw_what_lanes_draw():
    target = linear_regression(4)
    options = {"init": np.zeros(3), "num_chains": 2, "num_warmup": 10, "num_samples": 20, "progress": False}
    with jax.enable_x64(True):
        run = partial(cs.sample, target.posterior, target.shards, cs.Network.ring(4), **options)
        for name in ("mala", "dmala"):
            lanes, devices = run(SAMPLERS[name]), run(SAMPLERS[name], runtime=cs.Devices(2))
            np.testing.assert_allclose(devices.draws, np.broadcast_to(lanes.draws, devices.draws.shape), atol=1e-8)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_file_asks_for_it(name):
    found = sampler_from({"name": name, "start": "surrogate"})
    assert found.start == "surrogate" and describe_sampler(found)["start"] == "surrogate"
    assert "start" not in describe_sampler(sampler_from({"name": name}))


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"name": "nuts", "start": "surogate"}, "nuts: start.*not one of 'surrogate'"),
        ({"name": "nuts", "start": "none"}, "Write start='surrogate', or leave it out."),
        ({"name": "hmc", "inverse_mass_matrix": 1.0, "start": "surrogate"}, "inverse_mass_matrix: .* brings its own"),
        ({"name": "dula", "step_size": 0.1, "start": "surrogate"}, "dula has no setting start"),
        ({"name": "surrogate", "start": "surrogate"}, "surrogate has no setting start"),
        ({"name": "consensus_monte_carlo", "start": "surrogate"}, "consensus_monte_carlo has no setting start"),
        ({"name": "centralized_hmc", "step_size": 0.1, "start": "surrogate"}, "centralized_hmc has no setting start"),
    ],
)
def test_refuses_a_start_that_is_none(table, text):
    with pytest.raises(ValueError, match=text):
        sampler_from(table)
