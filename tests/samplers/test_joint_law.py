"""Own variables are drawn from the right law: exact moments, and the pooled joint model of another implementation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy.special import expit

import consilience as cs

from ..statistical import LEVEL, assert_right, moment_test
from ..targets import Target

TAU, NOISE = 0.8, 1.2
COUNTS = (3, 1, 4)  # groups of each agent
RING = cs.Network.ring(3)


def normal_prior(own, params):
    return -0.5 * ((own["b"] - params["mu"]) / TAU) ** 2


NORMAL = cs.Posterior(
    lambda params: -0.5 * params["mu"] ** 2,
    lambda params, own, batch: -0.5 * ((batch["y"] - own["b"]) / NOISE) ** 2,
    own_log_prior=normal_prior,
    own_init={"b": 0.0},
    group="ward",
    init={"mu": 0.0},
)


def normal_model():
    """μ ~ N(0, 1), b_g ~ N(μ, τ²), y ~ N(b_g, σ²), 1 to 4 rows a group: a normal posterior of (μ, b)."""
    random = np.random.default_rng(3)
    shards, rows = [], []
    for count in COUNTS:
        ward = np.repeat(np.arange(count), 1 + np.arange(count))
        shards.append({"ward": ward + 10, "y": (1 + random.normal(size=len(ward))).astype(np.float32)})
        rows += [(shards[-1]["y"][ward == k]) for k in range(count)]
    size = 1 + sum(COUNTS)
    precision, pull = np.zeros((size, size)), np.zeros(size)
    precision[0, 0] = 1 + sum(COUNTS) / TAU**2
    for k, y in enumerate(rows, 1):
        precision[k, k] = 1 / TAU**2 + len(y) / NOISE**2
        precision[0, k] = precision[k, 0] = -1 / TAU**2
        pull[k] = y.sum() / NOISE**2
    covariance = np.linalg.inv(precision)
    root = np.linalg.cholesky(covariance)
    mean = covariance @ pull
    return Target(NORMAL, shards, mean, covariance, lambda key: mean + root @ jax.random.normal(key, (size,)))


def joint_draws(target, sampler, seed, draws=1500):
    run = cs.sample(
        target.posterior, target.shards, RING, sampler, num_warmup=300, num_samples=draws, seed=seed, progress=False
    )
    own = [run.own[name]["b"] for name in run.agent_names]
    return np.concatenate([run.draws["mu"][0][..., None], *own], axis=-1)[None]


@pytest.mark.parametrize("sampler", [cs.nuts(), cs.hmc(num_integration_steps=6)], ids=lambda sampler: sampler.name)
def test_of_a_normal_model(sampler):
    target = normal_model()
    assert_right(lambda seed: joint_draws(target, sampler, seed), target)


def test_and_the_test_tells_a_little_less_noise_from_it():
    target = normal_model()
    covariance = target.covariance * 0.85
    verdict = moment_test(joint_draws(target, cs.nuts(), 2), Target(NORMAL, [], target.mean, covariance, target.exact))
    assert verdict.rejects(LEVEL)


class TestMixedLogistic:
    """8 sites with an intercept each: b_i ~ N(0, τ²), logit P(y = 1) = a + w x + b_i."""

    SITES = 8

    def shards(self):
        random = np.random.default_rng(5)
        level = 0.8 * random.normal(size=self.SITES)
        found = []
        for site in range(self.SITES):
            x = random.normal(size=20 + 5 * site).astype(np.float32)
            y = random.random(len(x)) < expit(-0.3 + 0.7 * x + level[site])
            found.append({"x": x, "y": y.astype(np.float32)})
        return found

    @staticmethod
    def log_prior(params):
        return -0.5 * (params["a"] ** 2 + params["w"] ** 2) - 0.5 * (params["log_tau"] / 0.5) ** 2

    @staticmethod
    def own_log_prior(own, params):
        return -0.5 * (own * jnp.exp(-params["log_tau"])) ** 2 - params["log_tau"]

    @staticmethod
    def log_likelihood(params, own, batch):
        logit = params["a"] + params["w"] * batch["x"] + own
        return batch["y"] * logit - jnp.logaddexp(0, logit)

    def test_means_and_sds_are_those_of_blackjax_s_nuts_on_the_pooled_joint_model(self):
        """Level: |z| < 4 of 11 means and 11 sds, once in seven hundred runs of two right samplers."""
        import blackjax

        shards = self.shards()
        posterior = cs.Posterior(
            self.log_prior,
            self.log_likelihood,
            own_log_prior=self.own_log_prior,
            own_init=0.0,
            init={"a": 0.0, "w": 0.0, "log_tau": 0.0},
        )
        run = cs.sample(
            posterior, shards, cs.Network.ring(8), cs.nuts(), num_warmup=400, num_samples=1000, progress=False
        )
        assert [own["own"].shape for own in run.own.values()] == [(4, 1000, 1)] * 8
        shared = [run.draws[name][0][..., None] for name in ("a", "log_tau", "w")]
        found = np.concatenate([*shared, *(own["own"] for own in run.own.values())], axis=-1)

        site = np.repeat(np.arange(8), [len(shard["y"]) for shard in shards])
        pooled = cs.pool(shards)[0]

        def logdensity(v):
            params = {"a": v[0], "log_tau": v[1], "w": v[2]}
            priors = jax.vmap(self.own_log_prior, in_axes=(0, None))(v[3:], params).sum()
            return self.log_prior(params) + priors + self.log_likelihood(params, v[3:][site], pooled).sum()

        kernel = blackjax.nuts(logdensity, 0.3, jnp.full(11, 0.15))

        def chain(key):
            state = kernel.init(jnp.zeros(11))

            def move(state, key):
                state, _ = kernel.step(key, state)
                return state, state.position

            return jax.lax.scan(move, state, jax.random.split(key, 1300))[1][300:]

        wanted = np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(9), 4)))
        axes = {"chain_axis": 0, "draw_axis": 1}
        for method, of in (("mean", np.mean), ("sd", np.std)):
            errors = [array_stats.mcse(values, method=method, **axes) for values in (found, wanted)]
            z = (of(found, axis=(0, 1)) - of(wanted, axis=(0, 1))) / np.hypot(*errors)
            assert np.abs(z).max() < 4, (method, z)
        assert found.std(axis=(0, 1)).min() > 0.1
