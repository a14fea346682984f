"""What a run says of itself."""

import numpy as np
import pytest
from arviz_stats.base import array_stats

import consilience as cs
from consilience.results import Run
from consilience.results.expectation import expectation
from consilience.results.summary import SHOWN_ROWS
from consilience.store import draws as storage

from ..targets import linear_regression

TARGET = linear_regression(4)
RING = cs.Network.ring(4)


@pytest.fixture(scope="module")
def run() -> Run:
    return cs.sample(
        TARGET.posterior,
        TARGET.shards,
        RING,
        cs.published(0.05),
        init=np.zeros(3, np.float32),
        num_samples=300,
        num_warmup=100,
        num_chains=3,
        progress=False,
    )


def synthetic(draws: np.ndarray, like: Run) -> Run:
    """A run with the given draws (agent, chain, draw, 3)."""
    kept = np.swapaxes(draws, 0, 2).copy()
    return Run(kept, like.raw_stats, like.layout, like.sampler, like.network, 1, 1, like.traffic, 1.0)


def test_columns_are_arviz_figures_worst_agent_first(run):
    summary = run.summary()
    draws = run.draws.astype(float)
    assert summary.names == ("params[0]", "params[1]", "params[2]")
    np.testing.assert_allclose(summary.columns["mean"], draws.mean(axis=(0, 1, 2)))
    sds = draws.reshape(4, -1, 3).std(axis=1)
    np.testing.assert_allclose(summary.columns["sd"], sds.mean(axis=0))
    bulk = [[array_stats.ess(draws[a, :, :, k], chain_axis=0, draw_axis=1) for k in range(3)] for a in range(4)]
    np.testing.assert_allclose(summary.columns["ess_bulk"], np.min(bulk, axis=0))
    tail = [
        [
            array_stats.ess(draws[a, :, :, k], chain_axis=0, draw_axis=1, method="tail", prob=(0.05, 0.95))
            for k in range(3)
        ]
        for a in range(4)
    ]
    np.testing.assert_allclose(summary.columns["ess_tail"], np.min(tail, axis=0))
    r_hat = [[array_stats.rhat(draws[a, :, :, k], chain_axis=0, draw_axis=1) for k in range(3)] for a in range(4)]
    np.testing.assert_allclose(summary.columns["r_hat"], np.max(r_hat, axis=0))
    alone = run.summary(agent=2)
    np.testing.assert_allclose(alone.columns["mean"], draws[2].mean(axis=(0, 1)))
    assert alone.acceptance == pytest.approx(run.stats["is_accepted"][2].mean())
    with pytest.raises(ValueError, match=r"agent = 4: a whole number from 0 to 3"):
        run.summary(agent=4)


def test_mean_and_sd_of_blocks_are_those_of_all_draws(run, monkeypatch):
    """Of draws that wander, so that no block is like the next one."""
    draws = np.random.default_rng(0).standard_normal((4, 3, 300, 3)) + np.linspace(0, 5, 300)[:, None]
    wandering = synthetic(draws, run)
    monkeypatch.setattr(storage, "BLOCK_BYTES", 10_000)
    assert len([*wandering.blocks()]) > 3
    columns = wandering.summary().columns
    np.testing.assert_allclose(columns["mean"], draws.mean(axis=(0, 1, 2)))
    np.testing.assert_allclose(columns["sd"], draws.reshape(4, -1, 3).std(axis=1).mean(axis=0))


def test_the_printed_summary_says_everything_and_that_it_is_biased(run):
    text = str(run.summary())
    for word in (
        "params[2]",
        "ess_bulk",
        "ess_tail",
        "r_hat",
        "consensus error",
        "acceptance",
        "rounds",
        "messages",
        "MB",
    ):
        assert word in text
    assert "warning: biased by design: the published algorithm samples about π²" in text
    assert f"{run.traffic.rounds:,} rounds" in text


def test_an_exact_sampler_has_no_bias_warning_and_one_chain_is_mentioned():
    run = cs.sample(
        TARGET.posterior,
        cs.pool(TARGET.shards),
        cs.Network.complete(1),
        cs.centralized_hmc(0.2),
        init=TARGET.mean.astype(np.float32),
        num_samples=100,
        num_warmup=0,
        num_chains=1,
        progress=False,
    )
    warnings = run.summary().warnings
    assert not any("bias" in w for w in warnings)
    assert any("One chain" in w for w in warnings)
    assert run.consensus_error == 0


def test_a_chain_that_never_moved_is_not_called_perfect(run):
    draws = np.random.default_rng(0).standard_normal((4, 3, 300, 3))
    draws[1, 2] = 0.5
    summary = synthetic(draws, run).summary()
    assert np.isnan(summary.columns["ess_bulk"]).all()
    assert "1 of 12 chains never moved." in summary.warnings
    assert not any("never moved" in text for text in synthetic(draws, run).summary(agent=0).warnings)


def test_diagnostics_of_many_parameters_are_taken_of_some_and_it_is_said(run):
    summary = run.summary(diagnosed=8)
    assert np.isnan(summary.columns["ess_bulk"]).tolist() == [False, True, False]
    assert not np.isnan(summary.columns["mean"]).any()
    assert "ESS and R-hat were computed for 2 of 3 parameters." in summary.warnings
    assert not np.isnan(run.summary(diagnosed=None).columns["ess_bulk"]).any()


def test_a_run_of_three_draws_has_no_diagnostics_and_says_so(run):
    summary = synthetic(np.random.default_rng(0).standard_normal((4, 3, 3, 3)), run).summary()
    assert any("too few to say anything" in text for text in summary.warnings)
    assert "nan" in str(summary)


def test_chains_that_disagree_are_reported(run):
    draws = np.random.default_rng(0).standard_normal((4, 3, 300, 3)) + 3 * np.arange(3)[:, None, None]
    warnings = synthetic(draws, run).summary().warnings
    assert any("3 of 3 parameters have R-hat above 1.01" in w for w in warnings)


def test_consensus_error_is_measured_in_posterior_sd(run):
    random = np.random.default_rng(1)
    common = random.standard_normal((1, 3, 300, 3)) * [1.0, 10.0, 0.1]
    assert synthetic(np.repeat(common, 4, axis=0), run).consensus_error < 1e-12
    offsets = 0.5 * np.array([1, -1, 1, -1])[:, None, None, None] * common.std(axis=(1, 2))
    assert synthetic(common + offsets, run).consensus_error == pytest.approx(0.5, rel=1e-6)


def test_acceptance_and_repr(run):
    assert run.acceptance == pytest.approx(run.stats["is_accepted"].mean())
    assert run.stats["is_accepted"].shape == (4, 3, 300)
    assert repr(run).startswith("Run(published on ring of 4: 4 agents × 3 chains × 300 draws of 3 parameters, ")


def test_draws_are_views_not_copies(run):
    assert np.shares_memory(run.draws, run.positions)


def test_expectation_is_the_mean_over_draws_and_chains(run):
    expected = np.stack([run.draws[a].reshape(-1, 3) ** 2 for a in range(4)]).mean(axis=1)
    np.testing.assert_allclose(expectation(run, lambda w: w**2), expected, rtol=1e-5)


def test_long_tables_show_the_worst_rows():
    posterior = cs.Posterior(lambda w: -0.5 * (w**2).sum(), lambda w, batch: 0 * batch * w[0, 0])
    run = cs.sample(
        posterior,
        [np.ones(2, np.float32)],
        cs.Network.complete(1),
        cs.centralized_hmc(0.5),
        init=np.zeros((5, 6), np.float32),
        num_samples=50,
        num_warmup=0,
        num_chains=2,
        progress=False,
    )
    summary = run.summary()
    assert len(summary.names) == 30
    assert summary.names[7] == "params[1, 1]"
    text = str(summary)
    assert f"the {SHOWN_ROWS} of 30 parameters with the largest R-hat" in text
    assert f"params[{', '.join(map(str, divmod(int(np.argmax(summary.columns['r_hat'])), 6)))}]" in text
