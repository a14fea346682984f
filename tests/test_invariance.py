"""Every sampler on every kind of network: what is exact leaves the posterior invariant, what is biased is caught.

Many chains start at exact posterior draws and make a few steps; where they then are must again be a draw from the
posterior. That needs no burn-in and sees wrong drifts, ratios, decisions and sums. One family-wise level holds for
the whole suite: all its tests together raise a false alarm less often than once in a thousand runs.
"""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import consilience as cs
from consilience.model import ShardsBySize, stack_by_size
from consilience.samplers import fitting

from .halves import checkerboard
from .samplers.harness import draws, draws_after, restart, simulation
from .statistical import LEVEL, RETRY_LEVEL, Verdict, assert_caught, assert_right, moment_test
from .targets import Target, gaussian_mixture, linear_regression, log_gamma

FAMILY_LEVEL = 1e-3
STEPS = 6
NETWORKS = {
    "ring": cs.Network.ring(6),
    "path": cs.Network.path(6),
    "star": cs.Network.star(6),
    "grid": cs.Network.grid(2, 3),
    "complete": cs.Network.complete(6),
    "random regular": cs.Network.random_regular(6, 3),
}
TARGETS = {"gaussian": linear_regression, "skewed": log_gamma}
# Of a surrogate: where it is the posterior itself, and where it is not by far.
SURROGATE_TARGETS = {"gaussian": linear_regression, "bent": gaussian_mixture}


def from_the_surrogate(make):
    """Make a sampler whose mass matrix is the surrogate's; without a warm-up it starts where it is told to."""
    return lambda step_size, inverse_mass_matrix: make(step_size, start="surrogate")


# Step sizes at which about two thirds of the proposals are taken: of the Gaussian target, and of the skewed one.
EXACT = {
    "nuts": (cs.nuts, (0.15, 0.9)),
    "hmc": (partial(cs.hmc, num_integration_steps=3), (0.12, 0.9)),
    "mala": (cs.mala, (0.15, 1.2)),
    "dmala": (cs.dmala, (0.12, 1.0)),
    "nuts from the surrogate": (from_the_surrogate(cs.nuts), (1.3, 1.3)),
}
EXACT |= {f"surrogate {way}": (partial(cs.surrogate, 100, correction=way), ()) for way in ("scored", "split")}
TUNED = [name for name, (_, step_sizes) in EXACT.items() if step_sizes]
EXACT_CASES = checkerboard(TUNED, [*NETWORKS], [*TARGETS])
SURROGATE_CASES = checkerboard([name for name in EXACT if name not in TUNED], [*NETWORKS], [*SURROGATE_TARGETS])
UNEQUAL_CASES = [("nuts", 0.05), ("dmala", 0.03)]
BIASED = {
    "published": (cs.published(0.1), "gaussian", 20),
    "dula": (cs.dula(0.05), "gaussian", 20),
    "dula corrected": (cs.dula(0.2, noise="corrected"), "gaussian", 20),
    "desgld": (cs.desgld(0.01), "gaussian", 20),
    "desghmc": (cs.desghmc(0.05, friction=5.0), "gaussian", 40),
    "diging": (cs.diging(0.01), "gaussian", 20),
    "extra": (cs.extra(0.01), "gaussian", 20),
    "dmala trapezoid": (cs.dmala(1.2, inverse_mass_matrix=1.0, energy="trapezoid"), "skewed", 20),
}
BIASED_CASES = checkerboard([*BIASED], ["ring", "star"])


def test_the_suite_s_false_alarms_are_rare():
    assert len(EXACT_CASES + SURROGATE_CASES + UNEQUAL_CASES) * LEVEL * RETRY_LEVEL < FAMILY_LEVEL


@pytest.mark.parametrize(("sampler", "network", "target"), EXACT_CASES)
def test_leaves_the_posterior_invariant(sampler, network, target):
    make, step_sizes = EXACT[sampler]
    step_size = dict(zip(TARGETS, step_sizes, strict=True))[target]
    network = NETWORKS[network]
    posterior = TARGETS[target](network.size)
    assert_right(
        lambda seed: draws_after(posterior, network, make(step_size, inverse_mass_matrix=1.0), STEPS, seed), posterior
    )


@pytest.fixture
def rough(monkeypatch):
    """Surrogates that are not improved after their first trial, so that there is something to correct."""
    monkeypatch.setattr(fitting, "MOST_PASSES", 1)


def after_surrogate(correction, network, target, seed, chains=2000):
    """Chains at exact draws, moved without a warm-up, after which they would be put where the surrogate's are."""
    length = {"num_chains": chains, "num_warmup": 0, "num_samples": 1, "thin": STEPS}
    return draws(target, network, EXACT[correction][0](), init=target.exact, seed=seed, **length)


@pytest.mark.usefixtures("rough")
@pytest.mark.parametrize(("sampler", "network", "target"), SURROGATE_CASES)
def test_a_surrogate_leaves_the_posterior_invariant(sampler, network, target):
    network = NETWORKS[network]
    target = SURROGATE_TARGETS[target](network.size)
    assert_right(partial(after_surrogate, sampler, network, target), target)


def in_order(law, key, number):
    """Draw proposals of the right density by one chain, each near the one before."""
    steps = jax.random.normal(key, (number, len(law.mean)), law.mean.dtype)
    _, z = jax.lax.scan(lambda z, step: (0.9 * z + np.sqrt(1 - 0.81) * step,) * 2, steps[0], steps)
    q = law.mean + z @ law.root.T
    return q, jax.vmap(law.log_density)(q)


@pytest.mark.usefixtures("rough")
@pytest.mark.parametrize("wrong", ["takes every proposal", "takes proposals of one chain in their order"])
def test_catches_a_surrogate_that_is_wrong(wrong, monkeypatch):
    """The test above has power."""
    if wrong == "takes every proposal":
        monkeypatch.setattr(jax.random, "exponential", lambda key, shape, dtype: jnp.full(shape, 1e9, dtype))
    else:
        monkeypatch.setattr(fitting, "draw_normal", in_order)
    target = gaussian_mixture(6)
    assert_caught(partial(after_surrogate, "surrogate scored", NETWORKS["ring"], target), target)


@pytest.mark.parametrize(("sampler", "step_size"), UNEQUAL_CASES)
def test_leaves_the_posterior_invariant_where_one_agent_has_most_rows(sampler, step_size):
    target = linear_regression(6, rows=60)
    rows = cs.pool(target.shards)[0]
    ends = np.cumsum([4, 300, 5, 3, 6])
    shards = cs.shard(rows, 6, by=np.split(np.arange(len(rows["y"])), ends))
    assert isinstance(stack_by_size(shards), ShardsBySize)
    unequal = replace(target, shards=shards)
    make = EXACT[sampler][0]
    assert_right(
        lambda seed: draws_after(unequal, NETWORKS["ring"], make(step_size, inverse_mass_matrix=1.0), STEPS, seed),
        unequal,
    )


@pytest.mark.parametrize(("sampler", "network"), BIASED_CASES)
def test_catches_what_is_biased(sampler, network):
    sampler, target, steps = BIASED[sampler]
    network = NETWORKS[network]
    posterior = TARGETS[target](network.size)
    assert_caught(lambda seed: draws_after(posterior, network, sampler, steps, seed), posterior)


def test_catches_consensus_monte_carlo_off_gaussians():
    target = log_gamma(6)
    options = {"num_chains": 4, "num_warmup": 500, "num_samples": 2000}
    assert_caught(
        lambda seed: draws(target, NETWORKS["complete"], cs.consensus_monte_carlo(), seed=seed, **options), target
    )


@pytest.mark.parametrize(
    ("sampler", "network"),
    checkerboard([cs.nuts(), cs.hmc(num_integration_steps=4), cs.mala(), cs.dmala()], ["ring", "star"]),
)
def test_tunes_itself_and_is_right_on_a_long_run(sampler, network):
    """From a start far off, warm-up and all."""
    target = linear_regression(6)
    options = {"num_chains": 4, "num_warmup": 600, "num_samples": 2000, "init": np.full(3, 5.0, np.float32)}
    assert_right(lambda seed: draws(target, NETWORKS[network], sampler, seed=seed, **options), target)


def joint_draws(sampler, seed, datasets=1500, steps=5):
    """Geweke's test in short form: θ from the prior, data from θ, then some steps of the sampler given the data.

    (θ, data) starts as a draw of the joint law, and the sampler must leave it one: θ stays a draw from the prior.
    """
    random = np.random.default_rng(seed)

    def draw():
        truth = random.standard_normal(2).astype(np.float32)
        x = 0.4 * random.standard_normal((18, 2)) + np.repeat(np.arange(6) / 6, 3)[:, None]
        y = random.uniform(size=18) < 1 / (1 + np.exp(-x @ truth))
        data = {"x": x.astype(np.float32), "y": y.astype(np.float32)}
        return truth, cs.shard(data, 6, by=np.array_split(np.arange(18), 6))

    truth, shards = draw()
    run = simulation(Target(LOGISTIC, shards, truth, np.eye(2), None), NETWORKS["path"], sampler)
    found = []
    for dataset in range(datasets):
        truth, shards = draw()
        restart(run, shards, truth, dataset)
        found.append(run.advance(1, steps).positions[0, 0, 0])
    return np.array(found, float)


LOGISTIC = cs.Posterior(
    lambda w: -0.5 * jnp.vdot(w, w),
    lambda w, batch: batch["y"] * (batch["x"] @ w) - jnp.logaddexp(0.0, batch["x"] @ w),
)


class StandardNormal:
    mean = np.zeros(2)
    covariance = np.eye(2)


@pytest.mark.parametrize(
    "sampler", [cs.nuts(0.5, inverse_mass_matrix=1.0), cs.dmala(0.7, inverse_mass_matrix=1.0)], ids=lambda s: s.name
)
def test_geweke_s_joint_test_of_a_whole_model(sampler):
    def verdict(seed: int) -> Verdict:
        return moment_test(joint_draws(sampler, seed)[None, :, None], StandardNormal())

    first = verdict(0)
    assert not first.rejects(LEVEL) or not verdict(1).rejects(RETRY_LEVEL)


def test_geweke_s_test_catches_the_published_algorithm():
    found = joint_draws(cs.published(0.3), 0, steps=60)
    assert moment_test(found[None, :, None], StandardNormal()).rejects()


def test_the_network_s_sum_is_what_is_sampled_and_not_one_agent_s():
    """A sampler that forgot the others would pass none of the above; here is why: their posteriors are far apart."""
    target = linear_regression(5)
    alone = linear_regression(5).shards[0]
    run = cs.sample(
        target.posterior,
        [alone],
        cs.Network.complete(1),
        cs.nuts(),
        init=jax.device_get(jnp.zeros(3)),
        num_warmup=300,
        num_samples=500,
        num_chains=1,
        progress=False,
    )
    assert moment_test(run.draws, target).rejects()
