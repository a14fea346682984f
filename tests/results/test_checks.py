"""Predictive checks, against posteriors whose leave-one-out predictives are known in closed form."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom, norm

import consilience as cs
from consilience.model import Layout
from consilience.neighbors import Traffic
from consilience.results import Run, checks

PATH = cs.Network.path(2)
DRAWS, CHAINS = 400, 2


def run_of(values, posterior, data, copies=1):
    """A run of two agents whose kept vectors are (draw, chain, copy, number)."""
    layout = Layout.of({"w": np.zeros(values.shape[-1], np.float32)})
    shards = cs.shard(data, agents=2, by="iid")
    sampler = cs.nuts() if copies == 1 else cs.dula(0.1)
    return Run(
        values.astype(np.float32), {}, layout, sampler, PATH, 1, 1, Traffic(), 1.0, posterior=posterior, shards=shards
    )


def regression(noise_sd=1.0, rows=24, features=4, draws=DRAWS):
    """A linear model with prior N(0, 1) and exact draws from its posterior; y has a standard deviation of 1."""
    random = np.random.default_rng(3)
    x = random.standard_normal((rows, features))
    y = x @ np.ones(features) + random.standard_normal(rows)
    precision = np.eye(features) + x.T @ x / noise_sd**2
    mean = np.linalg.solve(precision, x.T @ y / noise_sd**2)
    noise = random.standard_normal((draws, CHAINS, 1, features))
    values = mean + noise @ np.linalg.inv(np.linalg.cholesky(precision))
    data = {"x": x.astype(np.float32), "y": y.astype(np.float32)}
    posterior = cs.Posterior.regressor(lambda params, x: x @ params["w"], noise_sd=noise_sd)
    return run_of(values, posterior, data)


@pytest.mark.filterwarnings("error")
def test_draws_in_double_precision_are_used_without_it_in_silence():
    run = regression(draws=60)
    layout = replace(run.layout, dtypes=(np.dtype(float),))
    double = replace(run, kept=run.kept.astype(float), layout=layout)
    assert double.loo().elpd == pytest.approx(run.loo().elpd, rel=1e-6)
    x = run.shards[0]["x"]
    np.testing.assert_allclose(double.predict("y", {"x": x}), run.predict("y", {"x": x}), rtol=1e-5)


def exact_pit(run, leave_out):
    """P(y' < y_n) of every row of the run, by all other rows or by all."""
    pooled = {name: np.concatenate([shard[name] for shard in run.shards]).astype(float) for name in ("x", "y")}
    x, y = pooled["x"], pooled["y"]
    found = []
    for n in range(len(y)):
        kept = np.arange(len(y)) != n if leave_out else slice(None)
        precision = np.eye(x.shape[1]) + x[kept].T @ x[kept]
        mean = x[n] @ np.linalg.solve(precision, x[kept].T @ y[kept])
        found.append(norm.cdf((y[n] - mean) / np.sqrt(1 + x[n] @ np.linalg.solve(precision, x[n]))))
    return np.array(found)


def test_loo_pit_is_that_of_the_posterior_without_the_row():
    run = regression()
    [check] = run.predictive_checks.values()
    assert (check.rows, check.all_rows, check.draws) == (24, 24, DRAWS * CHAINS)
    error, apart = check.pit - exact_pit(run, True), exact_pit(run, False) - exact_pit(run, True)
    assert abs((error * apart).sum() / (apart**2).sum()) < 0.5  # 1 if nothing was left out, 2 if weighted inversely
    assert np.sqrt((error**2).mean()) < 0.03
    assert check.probability is None
    assert not check.is_whole


def test_bars_and_intervals_are_those_of_outcomes_drawn_again(monkeypatch):
    run = regression(rows=200)
    check = run.predictive_checks["y"]
    assert check.observed.sum() == pytest.approx(200)
    assert check.mean.sum() == pytest.approx(200)
    np.testing.assert_array_equal(
        check.observed, np.histogram(np.clip(check.outcomes, *check.edges[[0, -1]]), check.edges)[0]
    )
    inside = (check.low <= check.observed) & (check.observed <= check.high)
    assert inside.mean() > 0.7
    too_wide = regression(noise_sd=4.0, rows=200).predictive_checks["y"]
    inside = (too_wide.low <= too_wide.observed) & (too_wide.observed <= too_wide.high)
    assert inside.mean() < 0.7
    assert np.std(too_wide.pit) < 0.8 / np.sqrt(12)  # predictions that are too wide have a hump


def binary(rows=40):
    """Outcomes of one probability with prior U(0, 1), and exact draws of its logit."""
    random = np.random.default_rng(5)
    y = (random.random(rows) < 0.3).astype(np.int32)
    p = random.beta(1 + y.sum(), 1 + rows - y.sum(), (DRAWS, CHAINS, 1, 1))
    zeros = {"x": np.zeros((rows, 1), np.float32), "y": y}

    def logits(params, x):
        z = jnp.broadcast_to(params["w"][0], (len(x),))
        return jnp.stack([0 * z, z], axis=1)

    return run_of(np.log(p / (1 - p)), cs.Posterior.classifier(logits), zeros)


def test_outcomes_of_two_values_have_leave_one_out_probabilities():
    run = binary()
    check = run.predictive_checks["y"]
    rows, ones = len(check.outcomes), check.outcomes.sum()
    exact = (1 + ones - check.outcomes) / (2 + rows - 1)
    error = np.sqrt(exact * (1 - exact) / (DRAWS * CHAINS))
    assert (np.abs(check.probability - exact) < 5 * error).all()
    assert check.pit is None
    assert check.is_whole
    np.testing.assert_array_equal(check.edges, [-0.5, 0.5, 1.5])
    np.testing.assert_array_equal(check.observed, [rows - ones, ones])
    assert check.low[1] == pytest.approx(binom.ppf(0.05, rows, ones / rows), abs=4)


def test_counts_have_a_pit_that_is_smoothed_between_its_steps():
    random = np.random.default_rng(7)
    y = random.poisson(3.0, 120).astype(np.int32)
    log_rate = np.log(random.gamma(1 + y.sum(), 1 / 120, (DRAWS, CHAINS, 1, 1)))
    posterior = cs.Posterior(
        lambda params: 0.0,
        lambda params, batch: jax.scipy.stats.poisson.logpmf(batch["y"], jnp.exp(params["w"][0])),
        predictive=lambda key, params, batch: {"y": jax.random.poisson(key, jnp.exp(params["w"][0]), batch["y"].shape)},
    )
    check = run_of(log_rate, posterior, {"y": y}).predictive_checks["y"]
    assert check.is_whole
    assert np.diff(check.edges)[0] == 1
    heights = np.histogram(check.pit, 4, (0, 1))[0]
    assert (np.abs(heights - 30) < 5 * np.sqrt(120 * 0.25 * 0.75)).all()
    assert len(np.unique(check.pit)) == 120


def test_the_cost_is_bounded(monkeypatch):
    run = regression(rows=200)
    monkeypatch.setattr(checks, "MOST_DRAWS", 100)
    monkeypatch.setattr(checks, "MOST_ROWS", 50)
    check = run.predictive_checks["y"]
    assert (check.rows, check.all_rows, check.draws) == (50, 200, 100)
    monkeypatch.setattr(checks, "MOST_WORK", 10 * 100 * 4)  # room for ten rows
    assert replace(run).predictive_checks == {}


def test_of_agents_with_draws_of_their_own_the_first_one_s_are_taken():
    run = regression()
    kept = np.concatenate([run.kept, run.kept + 100], axis=2)
    apart = replace(run, kept=kept, sampler=cs.dula(0.1)).predictive_checks["y"]
    np.testing.assert_array_equal(apart.pit, run.predictive_checks["y"].pit)


def test_there_are_none_where_something_is_missing():
    run = regression()
    silent = replace(run.posterior, predictive=None)
    broken = run.kept.copy()
    broken[3] = np.nan
    kept_out = {"kept": run.kept[..., :2], "layout": Layout.of({"w": np.zeros(2)}), "parameters": run.layout}
    for changes in (
        {"posterior": None},
        {"shards": None},
        {"posterior": silent},
        {"kept": broken},
        {"kept": run.kept[:0]},
        {"kept": run.kept[:20]},  # too few draws
        kept_out,
    ):
        assert replace(run, **changes).predictive_checks == {}
    assert run.predictive_checks


def test_a_check_is_printed_without_a_number_for_every_row():
    [check] = regression(rows=60).predictive_checks.values()
    assert len(repr(check)) < 1500
    assert "observed=" in repr(check)
