"""Leave-one-out cross-validation summed over owners is ArviZ's on pooled rows."""

from dataclasses import replace
from math import log, pi

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from arviz_base import from_dict
from arviz_stats.base import array_stats

import consilience as cs
from consilience._refused import Refused
from consilience.results import loo_rows as loo_module
from consilience.results.loo_rows import LooRows, loo_rows
from consilience.results.loo_sums import added_up, sums_of

from .compared import MODELS, RANDOM, RING, SHARDS, Y, arviz_loo, exact, model, pointwise, pooled

SHORT = {"num_samples": 60, "num_warmup": 60, "num_chains": 2, "progress": False}


@pytest.fixture(scope="module", autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def runs(double):
    return {name: exact(name) for name in MODELS}


@pytest.fixture(scope="module")
def gossip(double):
    return replace(exact("all", copies=3), sampler=cs.dula(1e-3))


@pytest.mark.parametrize("name", MODELS)
def test_sums_over_unequal_owners_are_arviz_figures_on_pooled_rows(runs, name):
    found, expected = runs[name].loo(), arviz_loo(pooled(name, runs[name]))
    np.testing.assert_allclose(
        [found.elpd, found.se, found.p_loo, found.k_limit],
        [expected.elpd, expected.se, expected.p, expected.good_k],
        rtol=0,
        atol=1e-8,
    )
    assert (found.rows, found.draws) == (expected.n_data_points, expected.n_samples) == (90, 500)
    assert found.high_k == (expected.pareto_k.values > expected.good_k).sum()
    assert found.basis.owners == ("agent 0", "agent 1", "agent 2")


def test_rows_with_a_high_k_hat_are_counted_and_said_in_words(runs):
    found = runs["all"].loo()
    assert found.high_k > 0  # or the test above compares zeros
    assert f"warning: a high k-hat ({found.high_k} row" in str(found)
    assert "elpd" in str(found)
    assert f"{found.elpd:.2f}" in str(found)


def test_it_is_that_of_the_tree_that_a_run_gives_arviz(runs):
    tree = runs["two"].to_arviz(log_likelihood=True)
    if "agent" in tree["log_likelihood"].dims:
        tree = tree.sel(agent=0)
    assert runs["two"].loo().elpd == pytest.approx(arviz_loo(tree).elpd, abs=1e-8)


def test_blocks_of_rows_are_as_good_as_all_at_once(runs, monkeypatch):
    whole = runs["all"].loo()
    monkeypatch.setattr(loo_module, "VALUES_AT_ONCE", 20 * 500)
    parts = runs["all"].loo()
    np.testing.assert_allclose([parts.elpd, parts.se, parts.p_loo], [whole.elpd, whole.se, whole.p_loo], rtol=1e-12)
    assert (parts.rows, parts.high_k) == (whole.rows, whole.high_k)


def test_with_a_sampler_that_gossips_every_owner_takes_its_own_draws(gossip):
    found = gossip.loo()
    trees = [pooled("all", gossip, agent, [shard]) for agent, shard in enumerate(SHARDS)]
    elpd = np.concatenate([arviz_loo(tree).elpd_i.values for tree in trees])
    assert found.elpd == pytest.approx(elpd.sum(), abs=1e-8)
    assert found.se == pytest.approx(array_stats.loo_summary(elpd, np.zeros_like(elpd))[1], abs=1e-8)
    assert "Every owner took the draws of its own chain" in str(found)
    other = arviz_loo(pooled("all", gossip, 0)).elpd
    assert abs(found.elpd - other) > 1e-6  # with one agent's draws for all rows it would be another


def test_one_chain_is_taken_for_efficient_as_arviz_does(runs):
    one = replace(runs["two"], kept=runs["two"].kept[:, :1])
    expected = arviz_loo(pooled("two", one))
    assert one.loo().elpd == pytest.approx(expected.elpd, abs=1e-8)


def test_a_loaded_run_needs_its_model_and_its_rows(runs, tmp_path):
    cs.sample(model(3, 1.0), SHARDS, RING, cs.mala(), **SHORT, out=tmp_path / "run")
    loaded = cs.load(tmp_path / "run", posterior=model(3, 1.0), shards=SHARDS)
    expected = arviz_loo(pooled("all", loaded))
    assert loaded.loo().elpd == pytest.approx(expected.elpd, abs=1e-8)
    with pytest.raises(Refused, match=r"no data at hand. Write cs\.load"):
        cs.load(tmp_path / "run").loo()


def test_too_few_draws_are_refused(runs):
    few = replace(runs["two"], kept=runs["two"].kept[:12])
    with pytest.raises(Refused, match="it takes 25 draws at least, and there are 24"):
        few.loo()


def test_rows_that_no_draw_can_explain_are_refused_with_their_owner(runs):
    bad = [SHARDS[0], {**SHARDS[1], "y": np.where(np.arange(30) == 5, np.inf, SHARDS[1]["y"])}, SHARDS[2]]
    with pytest.raises(Refused, match="agent 1: the log-likelihood of 1 of its rows is not finite"):
        replace(runs["two"], shards=bad).loo()


def test_a_row_that_is_as_likely_under_all_draws_has_its_likelihood_for_an_elpd():
    by_draw = np.full((2, 50, 3), -1.25)
    by_draw[:, :, 1] = RANDOM.normal(size=(2, 50))
    elpd, k, p_loo = loo_module._psis("a", by_draw, 1.0)
    np.testing.assert_array_equal(elpd[[0, 2]], -1.25)
    np.testing.assert_array_equal(p_loo[[0, 2]], 0)
    assert k[0] == -np.inf
    assert elpd[1] == pytest.approx(array_stats.loo(by_draw[:, :, 1])[0])


@pytest.fixture(scope="module")
def masked(double):
    """A run with a model of two outcomes, one of which was measured in some rows only."""

    def two_outcomes(batch):
        a = numpyro.sample("a", dist.Normal(0, 1))
        b = numpyro.sample("b", dist.Normal(0, 1))
        with numpyro.plate("rows", len(batch["y"])):
            numpyro.sample("y", dist.Normal(a, 1), obs=batch["y"])
            with numpyro.handlers.mask(mask=batch["seen"]):
                numpyro.sample("z", dist.Normal(b, 1), obs=batch["z"])

    data = {"y": Y[:40], "z": 1 + Y[40:80], "seen": np.arange(40) % 3 > 0}
    shards = cs.shard(data, agents=2, by=[np.arange(10), np.arange(10, 40)])
    return cs.sample(cs.Posterior.from_numpyro(two_outcomes), shards, cs.Network.complete(2), cs.mala(), **SHORT)


def expected_of(run, *names):
    """ArviZ's figures, from log-likelihoods in plain numpy, of rows where any variable counts."""
    draws = {name: values[0] for name, values in run.draws.items()}
    data = {key: np.concatenate([shard[key] for shard in run.shards]) for key in run.shards[0]}
    seen = {"y": np.ones(40, bool), "z": data["seen"]}
    mean = {"y": draws["a"], "z": draws["b"]}
    by_name = {name: -0.5 * (data[name] - mean[name][..., None]) ** 2 - 0.5 * log(2 * pi) for name in names}
    total = sum(np.where(seen[name], values, 0) for name, values in by_name.items())
    counts = np.any([seen[name] for name in names], axis=0)
    return arviz_loo(from_dict({"posterior": draws, "log_likelihood": {"row": total[..., counts]}}))


def test_log_likelihoods_of_several_variables_are_added_row_by_row(masked):
    found = masked.loo()
    assert found.elpd == pytest.approx(expected_of(masked, "y", "z").elpd, abs=1e-8)
    assert found.rows == 40
    assert "Log-likelihoods of y, z are added row by row." in str(found)


def test_rows_that_a_mask_leaves_out_are_no_observations(masked):
    found, expected = masked.loo("z"), expected_of(masked, "z")
    assert found.rows == expected.n_data_points == 26
    np.testing.assert_allclose([found.elpd, found.se], [expected.elpd, expected.se], atol=1e-8, rtol=0)
    with pytest.raises(Refused, match="the model observes y, z"):
        masked.loo("w")


def test_where_the_likelihood_is_of_a_site_each_site_is_one_observation(runs):
    whole = replace(runs["two"].posterior, log_likelihood=lambda p, d: runs["two"].posterior.log_likelihood(p, d).sum())
    object.__setattr__(whole, "per_row", False)
    found = replace(runs["two"], posterior=whole).loo()
    draws = {key: values[0] for key, values in runs["two"].draws.items()}
    sites = np.stack([pointwise("two", draws, [shard]).sum(axis=-1) for shard in SHARDS], axis=-1)
    expected = arviz_loo(from_dict({"posterior": draws, "log_likelihood": {"site": sites}}))
    assert (found.rows, found.high_k) == (3, (expected.pareto_k.values > expected.good_k).sum())
    np.testing.assert_allclose([found.elpd, found.se, found.p_loo], [expected.elpd, expected.se, expected.p], atol=1e-8)
    assert "3 sites" in str(found)
    assert "each owner is one observation, left out as a whole" in str(found)
    with pytest.raises(Refused, match=r"var_name = 'other': the likelihood is one number for the whole site, "):
        replace(runs["two"], posterior=whole).loo("other")


def test_owners_without_observations_change_nothing(runs):
    some = loo_rows(runs["two"], "b", SHARDS[1], 1)
    nothing = LooRows("a", np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(4, bool), {})
    alone = sums_of([some], [0.7])
    both = added_up([sums_of([nothing], [0.7]), alone])
    assert (both.observations, both.rows) == (30, 30)
    np.testing.assert_allclose([both.elpd, both.se], [alone.elpd, alone.se])
