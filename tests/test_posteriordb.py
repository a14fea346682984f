"""The reference posteriors are written down right: the agents' parts add up to what scipy says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from consilience.model import stack_shards, start_values

from .posteriordb import AGENTS, NAMES, load, needs_posteriordb, read

pytestmark = [needs_posteriordb, pytest.mark.parametrize("name", NAMES)]


def scipy_regression(x, y, params):
    return stats.norm.logpdf(y, x @ params["beta"], np.exp(params["log_sigma"])).sum() + params["log_sigma"]


def scipy_blr(params):
    data = read("data", "sblri")
    prior = stats.norm.logpdf(params["beta"], 0, 10).sum() + stats.halfnorm.logpdf(np.exp(params["log_sigma"]), 0, 10)
    return prior + scipy_regression(np.array(data["X"]), data["y"], params)


def scipy_kidiq(params):
    data = read("data", "kidiq")
    x = np.column_stack([np.ones(434), data["mom_hs"], data["mom_iq"]])
    return stats.halfcauchy.logpdf(np.exp(params["log_sigma"]), 0, 2.5) + scipy_regression(x, data["kid_score"], params)


def scipy_earnings(params):
    data = read("data", "earnings")
    return scipy_regression(np.column_stack([np.ones(1192), data["height"]]), np.log(data["earn"]), params)


def scipy_nes(params):
    data = {key: np.array(value) for key, value in read("data", "nes1992").items()}
    beta = params["beta"]
    mean = beta[0] + beta[1] * data["real_ideo"] + beta[2] * data["race_adj"]
    mean = mean + np.array([0, *beta[3:6]])[data["age_discrete"] - 1]
    mean = mean + beta[6] * data["educ1"] + beta[7] * data["gender"] + beta[8] * data["income"]
    return stats.norm.logpdf(data["partyid7"], mean, np.exp(params["log_sigma"])).sum() + params["log_sigma"]


def scipy_schools(params):
    data = read("data", "eight_schools")
    tau, effects = np.exp(params["log_tau"]), params["standardized_effects"]
    prior = stats.norm.logpdf(params["mu"], 0, 5) + stats.halfcauchy.logpdf(tau, 0, 5) + params["log_tau"]
    likelihood = stats.norm.logpdf(data["y"], params["mu"] + tau * effects, data["sigma"]).sum()
    return prior + stats.norm.logpdf(effects).sum() + likelihood


SCIPY = dict(zip(NAMES, [scipy_blr, scipy_kidiq, scipy_earnings, scipy_nes, scipy_schools], strict=True))


def test_the_agents_log_densities_add_up_to_scipy_s_log_posterior(name):
    reference = load(name)
    random = np.random.default_rng(0)
    points = [jax.tree.map(lambda leaf: leaf + random.standard_normal(leaf.shape), reference.init) for _ in range(20)]
    with jax.enable_x64(True):
        shards = stack_shards(reference.shards, AGENTS)
        local = jax.jit(jax.vmap(reference.posterior.local_logdensity, in_axes=(None, 0, None)), static_argnums=2)
        ours = np.array([local(params, shards, AGENTS).sum() for params in points])
    expected = np.array([SCIPY[name](params) for params in points])
    np.testing.assert_allclose(ours - ours[0], expected - expected[0], rtol=1e-12, atol=1e-8)


def test_the_start_is_finite_in_single_precision_and_the_split_uneven_where_it_can_be(name):
    reference = load(name)
    shards = stack_shards(reference.shards, AGENTS)
    init = jax.tree.map(jnp.asarray, reference.init)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(init))
    values = jax.jit(jax.vmap(lambda shard: start_values(reference.posterior, init, shard, AGENTS)))(shards)
    assert np.isfinite(values).all()
    lengths = [len(shard["y"]) for shard in reference.shards]
    assert lengths == [2, 2, 2, 2] if "schools" in name else 3 * lengths[0] < lengths[3]
