"""What a run's figures are said to mean, and that no more is said."""

from dataclasses import replace

import numpy as np
import pytest

import consilience as cs
from consilience.model import Layout
from consilience.neighbors import Traffic
from consilience.results import Run
from consilience.results.run import Owner

from ..targets import linear_regression

TARGET = linear_regression(4)
RING = cs.Network.ring(4)


def made_up(kept: np.ndarray, sampler=None, **stats: np.ndarray) -> Run:
    """A run of given draws (draw, chain, copy, number)."""
    layout = Layout.of({"w": np.zeros(kept.shape[-1], np.float32)})
    network = RING if kept.shape[2] == 4 or (sampler and sampler.replicated) else cs.Network.complete(1)
    return Run(kept, stats, layout, sampler or cs.centralized_hmc(0.1), network, 1, 1, Traffic(), 1.0)


def independent(chains: int = 4, copies: int = 1, draws: int = 1000) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((draws, chains, copies, 3))


def said(run: Run, **options) -> str:
    return run.summary(**options).verdict


def test_chains_that_agree():
    text = said(made_up(independent()))
    assert text.startswith("4 chains agree on all 3 parameters: R-hat at most 1.00")
    assert "effective draws in the bulk" in text
    assert "run longer" not in text


def test_chains_that_do_not():
    apart = independent()
    apart[:, 1, :, 2] += 2
    text = said(made_up(apart))
    assert text.startswith("4 chains do not agree: 1 of 3 parameters has R-hat above 1.01 (worst w[2], 1.")
    apart[:, 1, :, 2] -= 1.6
    text = said(made_up(apart))  # not by much: only the number is given
    assert text.startswith("1 of 3 parameters has R-hat above 1.01 (worst w[2], 1.0")
    assert "run longer or reparametrise" in text
    assert "chains agree" not in text


def test_agents_that_fell_out_of_step():
    run = made_up(independent(), cs.nuts(), redone=np.zeros((1000, 4, 1)))
    owner = Owner("a", ("a", "b", "c", "d"), (), attempts=2)
    assert "fell out of step 2 times, went back to what all had saved" in said(replace(run, owner=owner))
    assert "out of step" not in said(replace(run, owner=owner._replace(attempts=0)))


def test_too_few_effective_draws():
    walk = np.cumsum(independent(), axis=0)
    text = said(made_up(walk))
    assert "fewer than 400, means and intervals are rough" in text


def test_one_chain_is_not_said_to_have_found_everything():
    text = said(made_up(independent(chains=1)))
    assert text.startswith("One chain: whether it has found all of the posterior cannot be told from it.")
    assert "agree" not in text
    assert "effective draws" in text
    text = said(made_up(np.cumsum(independent(chains=1), axis=0)))
    assert "with fewer than 100, means and intervals are rough: run longer." in text


def test_of_draws_that_are_no_numbers_nothing_else_is_said():
    bad = independent()
    bad[500, 2, 0, 1] = np.nan
    assert said(made_up(bad)).startswith("Not all draws are finite numbers")
    assert said(made_up(bad)).endswith("None of them should be used.")
    figures = made_up(independent(), acceptance_rate=np.full((1000, 4, 1), np.nan))
    assert "figures are not finite although all draws are" in said(figures)


def test_a_chain_that_never_moved_comes_first():
    stuck = independent()
    stuck[:, 3] = 0.5
    text = said(made_up(stuck))
    assert text.startswith("1 of 4 chains never moved. ") or text == "1 of 4 chains never moved."
    assert "agree" not in text
    text = said(made_up(0 * stuck, is_accepted=np.zeros((1000, 4, 1))))
    assert text == "4 of 4 chains never moved: no proposal was taken. Use smaller steps."


def test_what_never_varies_is_not_counted_among_what_was_not_looked_at():
    draws = independent()
    draws[..., 1] = 2
    assert said(made_up(draws)).startswith("4 chains agree on all 2 parameters that vary: R-hat at most 1.00")


def test_without_draws_what_is_known_is_said_all_the_same():
    figures = {"is_divergent": np.ones((60, 2, 1)), "redone": np.zeros((60, 2, 1))}
    run = made_up(np.zeros((60, 2, 1, 1)), cs.nuts(), **figures)
    run = replace(run, kept=run.kept[..., :0], layout=Layout(None, (), (), ()))
    text = said(run)
    assert text.startswith("No parameters were kept")
    assert "120 iterations diverged" in text


def test_three_draws_say_nothing():
    assert said(made_up(independent(draws=3))) == "3 draws a chain are too few to say anything."
    assert said(made_up(independent(draws=1))) == "1 draw a chain is too few to say anything."


def test_parameters_that_were_not_looked_at_are_not_vouched_for():
    text = said(made_up(independent()), diagnosed=2)
    assert text.startswith("4 chains agree on the 2 of 3 parameters that were looked at: R-hat at most 1.00")


def test_an_unfinished_run_says_so_first():
    run = replace(made_up(independent()), planned=5000)
    assert said(run).startswith("Unfinished: 1,000 of 5,000 draws are there. 4 chains agree")


def test_divergences_and_slow_energies():
    draws = independent(chains=2)
    divergent = np.zeros((1000, 2, 1))
    divergent[:7] = 0.5
    energy = np.cumsum(np.random.default_rng(1).standard_normal((1000, 2, 1)), axis=0)
    run = made_up(draws, cs.nuts(), is_divergent=divergent, energy=energy, redone=np.zeros((1000, 2, 1)))
    text = said(run)
    assert "7 iterations diverged" in text
    expected = (np.diff(energy[:, :, 0], axis=0) ** 2).mean(axis=0) / energy[:, :, 0].var(axis=0)
    np.testing.assert_allclose(run.summary().e_bfmi, expected, rtol=0.01)
    assert f"E-BFMI is {expected.min():.2f} in the worst chain, below 0.3" in text
    assert "All agents hold the same chains." in text
    assert "E-BFMI" not in said(replace(run, thin=2))  # averaged energies say nothing


def test_iterations_behind_thinned_draws_are_all_counted():
    """A draw's figure is the mean over the iterations behind it."""
    half = np.zeros((1000, 2, 1))
    half[:7] = 0.5
    run = replace(made_up(independent(chains=2), cs.nuts(), is_divergent=half, redone=half), thin=4)
    assert run.divergences == run.redone == 7 * 2 * 0.5 * 4


def test_how_far_agents_are_apart_and_that_a_sampler_is_biased():
    common = np.repeat(independent(copies=1), 4, axis=2)
    text = said(made_up(common + 0.01 * independent(copies=4), cs.published(0.1)))
    assert "Agents differ by 0.0" in text
    assert "far" not in text
    assert text.endswith("The sampler does not sample the posterior exactly, which none of these figures can show.")
    text = said(made_up(common + 0.5 * independent(copies=4), cs.published(0.1)))
    assert "That is far: what one agent says is not what another does." in text


def test_agents_with_draws_of_their_own_are_one_sd_apart_however_many_they_are():
    draws = np.random.default_rng(1).standard_normal((500, 2, 64, 3))
    layout = Layout.of({"w": np.zeros(3, np.float32)})
    run = Run(draws, {}, layout, cs.dmala(), cs.Network.ring(64), 1, 1, Traffic(), 1.0)
    assert run.consensus_error == pytest.approx(np.sqrt(1 - 1 / 64), rel=0.02)
    draws[..., 1] = 3.0  # which tells nothing
    assert replace(run, kept=draws).consensus_error == pytest.approx(np.sqrt(1 - 1 / 64), rel=0.02)
    assert np.isnan(replace(run, kept=draws[:0]).consensus_error)


def test_what_is_grave_is_a_warning_and_has_a_short_name():
    common = np.repeat(independent(copies=1), 4, axis=2)
    summary = made_up(common + 0.5 * independent(copies=4), cs.published(0.1)).summary()
    grave = [finding.short for finding in summary.findings if finding.is_grave]
    assert grave == ["agents 0.39 sd apart", "biased"]
    assert all(f.sentence in summary.warnings for f in summary.findings if f.is_grave)
    assert summary.warnings[0].startswith("biased by design: ")


@pytest.mark.parametrize("sampler", [cs.nuts(), cs.dmala()], ids=["nuts", "dmala"])
def test_real_runs_have_all_figures(sampler):
    run = cs.sample(
        TARGET.posterior,
        TARGET.shards,
        RING,
        sampler,
        init=np.zeros(3, np.float32),
        num_samples=200,
        num_warmup=200,
        num_chains=2,
        progress=False,
    )
    summary = run.summary()
    assert list(summary.columns) == ["mean", "sd", "3%", "97%", "mcse_mean", "ess_bulk", "ess_tail", "r_hat"]
    assert all(np.isfinite(values).all() for values in summary.columns.values())
    np.testing.assert_allclose(
        summary.columns["mcse_mean"], summary.columns["sd"] / np.sqrt(summary.columns["ess_bulk"]), rtol=0.5
    )
    assert summary.verdict in str(summary).replace("\n", " ")
    assert (summary.e_bfmi is not None) == run.sampler.replicated


def test_the_energy_behind_e_bfmi_is_potential_and_kinetic():
    """Where draws are right, a momentum has kinetic energy d/2 on average, on top of -log π."""
    run = cs.sample(
        TARGET.posterior,
        TARGET.shards,
        RING,
        cs.nuts(),
        init=np.zeros(3, np.float32),
        num_samples=1000,
        num_warmup=300,
        num_chains=2,
        progress=False,
    )
    pooled = cs.pool(TARGET.shards)[0]
    w = run.draws[0].astype(float)
    potential = 0.5 * ((pooled["y"] - w @ pooled["x"].T) ** 2).sum(axis=-1) + 0.5 * (w**2).sum(axis=-1)
    kinetic = run.stats["energy"][0] - potential
    assert kinetic.min() > -1e-3
    assert abs(kinetic.mean() - 1.5) < 0.2  # seven standard errors of independent draws
