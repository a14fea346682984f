"""DE-SGLD, DE-SGHMC, DIGing-SGLD, EXTRA-SGLD: their updates, what they conserve, and how biased they are.

On a Gaussian target their law is computed from the numpy step alone (`gossip_langevin_law`), so that biases are known
to rounding and the library has only to be shown to have that law.
"""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import consilience as cs
from consilience._refused import Refused
from consilience.model import Layout, LocalLogDensity, stack_shards
from consilience.neighbors import Alone, Traffic

from ..halves import checkerboard
from ..statistical import assert_caught, assert_right
from ..targets import ONE_CHAIN, linear_regression
from .harness import draws, draws_after, noise_of, simulation
from .reference import Regression, extra_step, gossip_langevin, gossip_langevin_law

RING = cs.Network.ring(5)
TARGET = linear_regression(5)
SD = np.sqrt(np.diag(TARGET.covariance))
NAMES = ("desgld", "desghmc", "diging", "extra")
every_method = pytest.mark.parametrize("name", NAMES)


def settings(name, step_size):
    return {"step_size": step_size} | ({"friction": 5.0} if name == "desghmc" else {})


def sampler(name, step_size, **options):
    return getattr(cs, name)(**settings(name, step_size), **options)


@pytest.mark.parametrize(
    ("network", "batch_size"), [(cs.Network.star(4), None), (RING, 4), (cs.Network.complete(1), None)], ids=repr
)
@every_method
def test_equals_the_algorithm_in_plain_numpy(name, network, batch_size):
    target = linear_regression(network.size)
    with jax.enable_x64(True):
        run = simulation(target, network, sampler(name, 0.004, batch_size=batch_size), start=target.mean + 1)
        noise = noise_of(run, 80)
        chunk = run.advance(80, 1)
    expected = gossip_langevin(name, target, network.weights, noise, target.mean + 1, **settings(name, 0.004))
    assert np.abs(expected).max() < 100
    np.testing.assert_allclose(chunk.positions[:, 0], expected, rtol=1e-9, atol=1e-10)
    if network.size > 1:
        apart = np.sqrt(((expected - expected.mean(axis=1, keepdims=True)) ** 2).mean(axis=-1))
        np.testing.assert_allclose(chunk.stats.pop("disagreement")[:, 0], apart, rtol=1e-6)
    assert chunk.stats == {}


@pytest.mark.parametrize("batch_size", [None, 3])
def test_trackers_add_up_to_the_gradients_as_they_were_computed(batch_size):
    with jax.enable_x64(True):
        run = simulation(TARGET, RING, cs.diging(0.003, batch_size=batch_size), start=TARGET.mean + 1)
        for _ in range(4):
            run.advance(50, 1)
            tracker, slope = (np.asarray(leaf)[0] for leaf in (run.state.tracker, run.state.slope))
            np.testing.assert_allclose(tracker.sum(axis=0), slope.sum(axis=0), atol=1e-10)
            if batch_size is None:
                gradients = Regression(TARGET).gradients(np.asarray(run.state.position)[0])
                np.testing.assert_allclose(slope, -gradients, rtol=1e-6, atol=1e-9)
            assert np.abs(tracker - slope).max() > 1  # one agent's is not the other


def test_dual_variables_add_up_to_nothing():
    with jax.enable_x64(True):
        run = simulation(TARGET, RING, cs.extra(0.003, batch_size=3), start=TARGET.mean + 1)
        for _ in range(4):
            run.advance(50, 1)
            dual = np.asarray(run.state.dual)[0]
            np.testing.assert_allclose(dual.sum(axis=0), 0, atol=1e-12)
            assert np.abs(dual).max() > 0.01


def test_without_noise_the_primal_dual_form_is_extra():
    """ω'' = (I + W)ω' - ½(I + W)ω - η(∇U(ω') - ∇U(ω)), and it finds the posterior mean."""
    model, W, eta = Regression(TARGET), RING.weights, 0.01
    slopes = lambda w: -model.gradients(w)  # noqa: E731
    w = np.random.default_rng(0).standard_normal((5, 3))
    state, path = (w, np.zeros_like(w)), [w]
    for _ in range(2000):
        state = extra_step(W, slopes, state, 0 * w, eta)
        path.append(state[0])
    np.testing.assert_allclose(path[1], W @ w - eta * slopes(w))
    for before, now, after in zip(path[:50], path[1:], path[2:], strict=False):
        expected = now + W @ now - 0.5 * (before + W @ before) - eta * (slopes(now) - slopes(before))
        np.testing.assert_allclose(after, expected, atol=1e-12)
    np.testing.assert_allclose(path[-1], np.tile(TARGET.mean, (5, 1)), atol=1e-8)


# --- bias ------------------------------------------------------------------------------------------------


def law(name, step_size, target=TARGET, network=RING):
    return gossip_langevin_law(name, target, network.weights, doublings=20, **settings(name, step_size))


def mean_of_network(name, step_size, target=TARGET, network=RING):
    """The target, with the moments that the network mean has instead."""
    mean, covariance = law(name, step_size, target, network)
    return replace(target, mean=mean.mean(axis=0), covariance=covariance.mean(axis=(0, 2)))


@pytest.mark.parametrize("network", [cs.Network.path(2), RING, cs.Network.star(8)], ids=repr)
@every_method
def test_the_network_mean_samples_the_posterior_as_the_step_vanishes(name, network):
    """At its own temperature, whatever the number of agents: what is off is off by O(η)."""
    target = linear_regression(network.size)
    sd = np.sqrt(np.diag(target.covariance))
    off = []
    for step_size in (1e-4, 1e-5):
        found = mean_of_network(name, step_size, target, network)
        variance = np.diag(found.covariance) / sd**2 - 1
        off.append(np.array([np.abs(variance).max(), np.abs((found.mean - target.mean) / sd).max()]))
    assert (off[0] < 0.02).all()
    assert off[1][0] == pytest.approx(off[0][0] / 10, rel=0.2)
    assert off[1][1] < max(off[0][1] / 8, 1e-4)


@pytest.mark.parametrize("name", checkerboard(NAMES, first=1))
def test_the_variance_of_the_network_mean_at_a_small_step(name):
    """The law is within 0.022 of the posterior's; 800 chains × 3 parameters have a sd of 0.03."""
    step_size = 0.01 if name == "desghmc" else 0.001
    positions = draws_after(TARGET, RING, sampler(name, step_size), steps=300, seed=0, chains=800)
    mean = positions.astype(float).mean(axis=0)[:, 0]
    assert np.diag(mean_of_network(name, step_size).covariance) == pytest.approx(SD**2, rel=0.022)
    assert (((mean - TARGET.mean) / SD) ** 2).mean() == pytest.approx(1.0, abs=0.15)


@every_method
def test_the_library_has_the_law_of_the_numpy_step(name):
    """From draws of the posterior into another law, in 150 steps: agents and their mean."""
    expected_mean, covariance = law(name, 0.005)

    @cache
    def found(seed):
        return draws_after(TARGET, RING, sampler(name, 0.005), steps=150, seed=seed, chains=1000).astype(float)

    assert_right(lambda seed: found(seed).mean(axis=0, keepdims=True), mean_of_network(name, 0.005))
    for agent in range(5):
        expected = replace(TARGET, mean=expected_mean[agent], covariance=covariance[agent, :, agent])
        assert_right(lambda seed, agent=agent: found(seed)[agent : agent + 1], expected)


@pytest.mark.parametrize("name", checkerboard(NAMES))
def test_the_statistical_helper_catches_agents_and_their_mean_at_a_moderate_step(name):
    step_size = 0.03 if name == "desghmc" else 0.01
    found = draws_after(TARGET, RING, sampler(name, step_size), steps=100, seed=0, chains=2000)
    assert_caught(lambda _: found, TARGET)
    assert_caught(lambda _: found.astype(float).mean(axis=0, keepdims=True), TARGET)


def test_unlike_data_set_agents_apart_unless_it_is_corrected():
    apart = {name: np.abs((law(name, 0.003)[0] - TARGET.mean) / SD).max() for name in NAMES}
    assert apart["desgld"] > 0.3
    assert apart["desghmc"] > 0.05
    assert max(apart["diging"], apart["extra"]) < 1e-4
    for name in NAMES:
        assert ("unlike data" in sampler(name, 0.003).bias) == (apart[name] > 0.01)
        assert "minibatch" not in sampler(name, 0.003).bias
        assert "minibatch" in sampler(name, 0.003, batch_size=3).bias


# --- minibatches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", [0, 4])  # the shortest shard, which is padded, and the longest
def test_minibatch_gradients_are_unbiased(agent):
    """One step of 20 000 keys, its noise taken away: the mean gradient by a z-test at 5 sd."""
    w, eta = np.array([0.3, -0.2, 0.5], np.float32), 0.01
    stacked = stack_shards(TARGET.shards, 5)
    assert stacked.mask is not None
    shard = jax.tree.map(lambda leaf: leaf[agent], stacked)
    logdensity = LocalLogDensity(TARGET.posterior, Layout.of(jnp.asarray(w)), shard, 5)
    kernel = cs.desgld(eta, batch_size=3).build(logdensity, Alone(), jnp.asarray(w))

    def gradient(key):
        noise = kernel.noise(key)
        moved = kernel.move(noise, kernel.init(jnp.asarray(w)))[0].position
        return (w + jnp.sqrt(2 * eta) * noise.normal - moved) / eta

    found = np.asarray(jax.jit(jax.vmap(gradient))(jax.random.split(jax.random.key(agent), 20_000)), float)
    truth = -Regression(TARGET).gradients(np.tile(w, (5, 1)))[agent]
    assert found.std(axis=0).min() > 1
    np.testing.assert_array_less(np.abs(found.mean(axis=0) - truth), 5 * found.std(axis=0) / np.sqrt(len(found)))


@pytest.mark.parametrize("name", checkerboard(NAMES))
def test_minibatches_add_noise(name):
    """Small steps of all data and of one example each: the second has the larger variance, of the network mean too."""
    variance = {}
    for batch_size in (None, 1):
        method = sampler(name, 0.02 if name == "desghmc" else 0.002, batch_size=batch_size)
        mean = draws_after(TARGET, RING, method, steps=150, seed=0, chains=1000).astype(float).mean(axis=0)[:, 0]
        variance[batch_size] = (mean.var(axis=0) / SD**2).mean()
    assert variance[1] > 1.1 * variance[None]


def test_a_log_density_that_is_no_sum_has_no_minibatches():
    kernel = cs.desgld(0.1, batch_size=2).build(lambda w: -0.5 * w @ w, Alone(), jnp.ones(2))
    with pytest.raises(Refused, match="batch_size: it needs a log density that is a sum over examples"):
        kernel.step(jax.random.key(0), kernel.init(jnp.ones(2)))


# --- settings and cost -----------------------------------------------------------------------------------


@every_method
def test_one_round_an_iteration(name):
    options = {"num_samples": 20, "num_chains": 2, "progress": False, "init": np.zeros(3, np.float32)}
    run = cs.sample(TARGET.posterior, TARGET.shards, RING, sampler(name, 0.001), **(ONE_CHAIN | options))
    vectors = 2 if name == "diging" else 1
    assert run.traffic == Traffic(20, 10 * 20, 10 * 20 * 2 * vectors * 3 * 4)
    assert run.acceptance is None
    assert "biased by design: no Metropolis step" in str(run.summary())


def test_too_large_a_step_diverges_and_says_so():
    with pytest.warns(UserWarning, match="the sampler diverged"):
        draws(TARGET, RING, cs.desgld(0.1), num_samples=400)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cs.desgld(-1.0), r"desgld: step_size = -1\.0: a positive number is needed"),
        (lambda: cs.desghmc(0.1, friction=0.0), r"desghmc: friction = 0\.0: a positive number is needed"),
        (lambda: cs.diging(0.1, batch_size=0), r"diging: batch_size .* 0"),
        (lambda: cs.extra("0.1"), r"extra: step_size = '0\.1': a positive number is needed"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
