"""Likelihoods of a whole site, which no row can be taken from; and batches that know whose they are."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax.scipy.special import logsumexp

import consilience as cs
from consilience._refused import Refused
from consilience.model import Layout, LocalLogDensity, ShardsBySize, stack_by_size, stack_on_host

from ..targets import ONE_CHAIN

LENGTHS = (7, 20, 11)
SITES = ("lyon", "basel", "turin")
RING = cs.Network.ring(3)


def site(agent, length=None):
    random = np.random.default_rng(agent)
    x = random.standard_normal((length or LENGTHS[agent], 2))
    time = random.exponential(np.exp(-x @ [0.8, -0.4])) * (1 + agent)
    return {"x": x, "time": time, "died": (random.random(len(x)) < 0.7).astype(float)}


SHARDS = [site(agent) for agent in range(3)]


def cox(w, batch):
    """The log of Cox's partial likelihood within one site: its baseline hazard is its own."""
    risk = batch["x"] @ w
    at_risk = batch["time"][None, :] >= batch["time"][:, None]
    return jnp.sum(batch["died"] * (risk - logsumexp(jnp.where(at_risk, risk, -jnp.inf), axis=1)))


def prior(w):
    return -0.5 * jnp.vdot(w, w)


STRATIFIED = cs.Posterior(prior, cox, init=np.zeros(2), per_row=False)


def all_sites(w, batch):
    """The same of all sites in one place, by hand: rows of another site are never at risk."""
    risk = batch["x"] @ w
    same = batch["site"][None, :] == batch["site"][:, None]
    at_risk = same & (batch["time"][None, :] >= batch["time"][:, None])
    return jnp.sum(batch["died"] * (risk - logsumexp(jnp.where(at_risk, risk, -jnp.inf), axis=1)))


POOLED = {name: np.concatenate([shard[name] for shard in SHARDS]) for name in SHARDS[0]} | {
    "site": np.repeat(np.arange(3), LENGTHS)
}


@pytest.fixture
def double():
    with jax.enable_x64(True):
        yield


def sample(posterior=STRATIFIED, shards=SHARDS, network=RING, sampler=None, **options):
    options = {"num_samples": 30, "num_chains": 2, "progress": False, **options}
    return cs.sample(posterior, shards, network, sampler or cs.mala(0.1, 1.0), **(ONE_CHAIN | options))


@pytest.mark.parametrize("one_copy", [False, True], ids=["a lane's own", "one copy"])
def test_the_parts_of_unequal_sites_add_up_to_their_log_likelihoods_and_one_prior(double, one_copy):
    stacked = stack_by_size(SHARDS, whole=True)
    assert isinstance(stacked, ShardsBySize)
    assert all(part.mask is None for part in stacked.classes)
    w = jnp.array([0.3, -0.7])

    def local(shard):
        return LocalLogDensity(STRATIFIED, Layout.of(w), shard, 3, one_copy)(w)

    parts = jax.vmap(local, in_axes=(stacked.lane_axes,), axis_name="agents")(stacked)
    by_hand = [cox(w, shard) + prior(w) / 3 for shard in SHARDS]
    np.testing.assert_allclose(parts, by_hand, rtol=0, atol=1e-8)
    np.testing.assert_allclose(parts.sum(), all_sites(w, POOLED) + prior(w), rtol=0, atol=1e-8)


@pytest.mark.parametrize("sampler", [cs.mala(0.1, 1.0), cs.nuts(0.2, 1.0)], ids=["mala", "nuts"])
def test_draws_are_those_of_one_agent_that_holds_all_sites(double, sampler):
    alone = cs.Posterior(prior, all_sites, init=np.zeros(2), per_row=False)
    expected = sample(alone, [POOLED], cs.Network.complete(1), sampler)
    found = sample(sampler=sampler)
    np.testing.assert_allclose(found.positions[:, :, :1], expected.positions, rtol=0, atol=1e-8)


def test_an_agent_s_own_chain_sees_its_own_rows_alone(double):
    """Without exact sums, every lane has another argument."""
    equal = cs.Posterior(prior, all_sites, init=np.zeros(2), per_row=False)
    shards = [{**shard, "site": np.full(len(shard["x"]), k)} for k, shard in enumerate(SHARDS)]
    one = sample(sampler=cs.dula(0.01))
    np.testing.assert_allclose(sample(equal, shards, sampler=cs.dula(0.01)).positions, one.positions, atol=1e-8)
    # Padded with a row of its own, the first site would have another density.
    padded = {name: np.concatenate([leaf, leaf[:1]]) for name, leaf in SHARDS[0].items()}
    assert abs(float(cox(jnp.ones(2), padded) - cox(jnp.ones(2), SHARDS[0]))) > 0.1


def test_devices_take_equal_sites_and_refuse_to_pad(double):
    equal = [site(agent, 9) for agent in range(3)]
    found = sample(shards=equal, runtime=cs.Devices(2))
    np.testing.assert_allclose(found.kept, sample(shards=equal).kept, rtol=0, atol=1e-8)
    with pytest.raises(Refused, match=r"per_row=False: agents have 7 to 20 rows; .*Leave out runtime=cs\.Devices\(\)"):
        sample(runtime=cs.Devices(2))
    assert stack_on_host(SHARDS[:1], whole=True).mask is None


@pytest.mark.parametrize(
    ("posterior", "sampler", "message"),
    [
        (
            cs.Posterior(prior, cox, init=np.zeros(2)),
            cs.mala(),
            "such as Cox's or a Gaussian process's, write cs.Posterior(..., per_row=False).",
        ),
        (
            cs.Posterior(prior, lambda w, b: b["x"] @ w, init=np.zeros(2), per_row=False),
            cs.mala(),
            "with per_row=False it must return one number for all rows; it returned float32 of shape (20,). Leave out",
        ),
        (
            cs.Posterior(prior, lambda w, b: b["x"] * w, init=np.zeros(2), per_row=False),
            cs.mala(),
            "it returned float32 of shape (20, 2). Add .sum().",
        ),
        (STRATIFIED, cs.desgld(0.001, batch_size=3), "batch_size: the likelihood is of a whole site (per_row=False)"),
    ],
    ids=["not said", "rows", "a table", "minibatch"],
)
def test_likelihoods_that_are_not_what_they_are_said_to_be(posterior, sampler, message):
    with pytest.raises(Refused, match=re.escape(message)):
        sample(posterior, sampler=sampler)


def gaussian_process(batch):
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    x = batch["x"][:, 0]
    kernel = jnp.exp(-0.5 * ((x[:, None] - x[None, :]) / scale) ** 2) + 0.1 * jnp.eye(len(x))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(len(x)), kernel), obs=batch["time"])


def test_the_likelihood_of_a_site_has_the_name_of_the_column_that_is_observed():
    def process(batch):
        scale = numpyro.sample("scale", dist.HalfNormal(1))
        numpyro.sample("time", dist.MultivariateNormal(0.0, scale * jnp.eye(len(batch["time"]))), obs=batch["time"])

    bound = cs.Posterior.from_numpyro(process, per_row=False).bind(SHARDS[0])
    assert bound.observed == "time"


def test_a_gaussian_process_for_each_site(double):
    with pytest.raises(Refused, match=r"write cs\.Posterior\.from_numpyro\(model, per_row=False\)"):
        sample(cs.Posterior.from_numpyro(gaussian_process))
    run = sample(cs.Posterior.from_numpyro(gaussian_process, per_row=False))

    def log_prior(u):
        scale = jnp.exp(u["scale"])
        return dist.HalfNormal(1).log_prob(scale) + u["scale"]

    def by_hand(u, batch):
        x = batch["x"][:, 0]
        kernel = jnp.exp(-0.5 * ((x[:, None] - x[None, :]) / jnp.exp(u["scale"])) ** 2) + 0.1 * jnp.eye(len(x))
        return dist.MultivariateNormal(jnp.zeros(len(x)), kernel).log_prob(batch["time"])

    start = run.posterior.init(jax.random.key(0))
    for shard in SHARDS:
        found = run.posterior.log_likelihood(start, shard)
        np.testing.assert_allclose(found, by_hand(start, shard), rtol=0, atol=1e-8)
    np.testing.assert_allclose(run.posterior.log_prior(start), log_prior(start), rtol=0, atol=1e-8)
    drawn = run.posterior.predictive(jax.random.key(0), start, SHARDS[1])["y"]
    assert drawn.shape == (20,)


# --- whose batch it is ---------------------------------------------------------------------------------


def with_offsets(params, batch):
    return -0.5 * (batch["time"] - batch["x"] @ params["w"] - params["offset"][batch["agent"]]) ** 2


def flat(params):
    return -0.5 * (jnp.sum(params["w"] ** 2) + jnp.sum(params["offset"] ** 2))


OFFSETS = cs.Posterior(flat, with_offsets, init={"w": np.zeros(2), "offset": np.zeros(3)})


def test_a_loaded_run_has_its_agents_numbers_again(double, tmp_path):
    by_name = dict(zip(SITES, SHARDS, strict=True))
    run = sample(OFFSETS, by_name, out=tmp_path / "run")
    for shards in (SHARDS, dict(reversed(by_name.items()))):
        loaded = cs.load(tmp_path / "run", posterior=OFFSETS, shards=shards)
        for shard, same in zip(loaded.shards, run.shards, strict=True):
            np.testing.assert_array_equal(shard["time"], same["time"])
            np.testing.assert_array_equal(shard["agent"], same["agent"])
    with pytest.raises(Refused, match=r"shards: they are of 'a', 'b', 'c', and the run is of 'lyon', 'basel', 'turin'"):
        cs.load(tmp_path / "run", posterior=OFFSETS, shards=dict(zip("abc", SHARDS, strict=True)))


def test_a_batch_knows_its_agent_and_names_go_with_it(double):
    by_hand = [{**shard, "agent": np.full(len(shard["x"]), k, np.int32)} for k, shard in enumerate(SHARDS)]
    run = sample(OFFSETS, dict(zip(SITES, SHARDS, strict=True)))
    np.testing.assert_array_equal(run.kept, sample(OFFSETS, by_hand).kept)
    assert (run.dims, run.coords) == ({"offset": ("site",)}, {"site": SITES})
    assert "offset[basel]" in run.summary().names
    assert [set(shard["agent"]) for shard in run.shards] == [{0}, {1}, {2}]


def test_a_column_of_the_data_that_is_called_agent_stays_what_it_is(double):
    turned = [{**shard, "agent": np.full(len(shard["x"]), 2 - k, np.int32)} for k, shard in enumerate(SHARDS)]
    run = sample(OFFSETS, dict(zip(SITES, turned, strict=True)))
    assert [set(shard["agent"]) for shard in run.shards] == [{2}, {1}, {0}]
    assert run.coords == {}  # its numbers may be of anything


def test_models_that_do_not_ask_have_the_data_as_they_are(double, tmp_path):
    run = sample(out=tmp_path / "run")
    assert all("agent" not in shard for shard in run.shards)


def hierarchical(batch):
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    with numpyro.plate("hospital", 3):
        z = numpyro.sample("z", dist.Normal(0, 1))
    theta = numpyro.deterministic("theta", tau * z)
    with numpyro.plate("rows", len(batch["time"])):
        numpyro.sample("time", dist.Normal(theta[batch["agent"]], 1.0), obs=batch["time"])


def test_numpyro_models_are_given_it_too():
    run = sample(cs.Posterior.from_numpyro(hierarchical), dict(zip(SITES, SHARDS, strict=True)))
    assert run.coords == {"hospital": SITES}  # the plate's own name of the axis
    assert run.dims == {"z": ("hospital",), "theta": ("hospital",)}
    assert "theta[turin]" in run.summary().names
    predictive, params = run.posterior.predictive, run.posterior.init(jax.random.key(0))
    with pytest.raises(Refused, match=r"predicts from 'agent', which they do not have\. Say whose each row is by"):
        predictive(jax.random.key(0), params, {"time": jnp.zeros(4)})


def test_prior_predictive_needs_to_know_whose_the_rows_are():
    posterior, rows = cs.Posterior.from_numpyro(hierarchical), {"time": np.zeros(4)}
    with pytest.raises(Refused, match=r"batch\['agent'\], and there are 'time'\. Say whose each row is"):
        posterior.prior_predictive(rows)
    with pytest.raises(Refused, match=r"batch\['time'\], and there are 'lyon'\. .* or cs\.pool\(shards\)\[0\]"):
        posterior.prior_predictive({"lyon": np.zeros(4)})
    drawn = posterior.prior_predictive({**rows, "agent": np.full(4, 2)}, num_samples=20)["time"]
    assert drawn.shape == (20, 4)
