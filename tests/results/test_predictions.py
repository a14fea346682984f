"""Predictions by name and with intervals, against plain numpy over all draws at once."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.stats import norm

import consilience as cs
from consilience.results import expectation, predictions

from .test_predictive import AGENTS, CHAINS, ROWS, SOFTMAX, classifier, every_probability, inputs, run_of

LEVEL, TAILS = 0.8, (0.1, 0.9)


def slope(params, x):
    return x @ params["w"]


def linear(batch):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([4]).to_event(1))
    mean = numpyro.deterministic("mean", batch["x"] @ w)
    numpyro.deterministic("by_column", jnp.stack([mean, 2 * mean]))
    numpyro.deterministic("total", mean.sum())
    numpyro.deterministic("residual", batch["y"] - mean)
    numpyro.deterministic("norm", (w**2).sum())
    with numpyro.plate("rows", len(batch["x"])):
        numpyro.sample("y", dist.Normal(mean, 2.0), obs=batch["y"])


@pytest.fixture(scope="module")
def known():
    """A run of `linear` with invented draws."""
    posterior = cs.Posterior.from_numpyro(linear).bind({"x": inputs(), "y": np.zeros(ROWS, np.float32)})
    return run_of({"norm": np.float32(0), "w": np.zeros(4, np.float32)}, posterior=posterior)


class TestIntervals:
    def test_they_are_quantiles_over_all_draws_and_chains_of_each_agent(self):
        run, x = classifier(), inputs()
        found = run.predict(SOFTMAX.probabilities, x, intervals=LEVEL)
        every = every_probability(run, x)
        np.testing.assert_allclose(found.mean, every.mean(axis=(0, 1)), rtol=1e-5)
        low, high = np.quantile(every, TAILS, axis=(0, 1))
        np.testing.assert_allclose(found.low, low, rtol=1e-4)
        np.testing.assert_allclose(found.high, high, rtol=1e-4)
        assert found.mean.shape == (AGENTS, ROWS, 5)
        np.testing.assert_allclose(found.mean, run.predict(SOFTMAX.probabilities, x), rtol=1e-6)

    def test_rows_are_held_as_memory_allows_and_compiled_once(self, monkeypatch, compilations):
        run, x, seen = classifier(), inputs(), []

        def probabilities(params, x):
            seen.append(len(x))
            return SOFTMAX.probabilities(params, x)

        whole = run.predict(SOFTMAX.probabilities, x, intervals=LEVEL)
        a_row = run.kept[..., 0].size * 5 * 4
        monkeypatch.setattr(predictions, "HELD_BYTES", 8 * a_row)
        monkeypatch.setattr(expectation, "PIECE_BYTES", 40_000)
        compilations.clear()
        cut = run.predict(probabilities, x, intervals=LEVEL)
        for one, other in zip(whole, cut, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)
        assert set(seen) == {ROWS, 8}  # the form of all rows is asked for, and eight at once are computed
        assert len(compilations) == 1
        seen.clear()
        run.predict(probabilities, x, intervals=LEVEL, rows_at_once=ROWS)
        assert set(seen) == {ROWS}

    def test_one_chain_on_all_agents_and_functions_without_rows(self):
        run, x = classifier(copies=1), inputs()
        found = run.predict(lambda params, x: (x @ params["w"]).sum(axis=0), x, intervals=LEVEL)
        every = np.einsum("rf,dcafk->dcak", x, run.layout.unravel(run.kept)["w"].astype(float))
        np.testing.assert_allclose(found.high[2], np.quantile(every[:, :, 0], TAILS[1], axis=(0, 1)), rtol=1e-4)
        assert found.low.shape == (AGENTS, 5)

    @pytest.mark.parametrize("wrong", [0.0, 1.0, 90, True, -0.5])
    def test_what_is_no_probability_is_refused(self, wrong):
        with pytest.raises(ValueError, match=r"a probability between 0 and 1 is needed\. Write intervals=0\.9"):
            classifier().predict(SOFTMAX.probabilities, inputs(), intervals=wrong)


class TestNames:
    def test_sites_of_the_rows_come_back_by_name_without_the_outcomes(self, known):
        x = inputs()
        expected = known.predict(slope, x)
        np.testing.assert_allclose(known.predict("mean", {"x": x}), expected, rtol=1e-5)
        np.testing.assert_allclose(known.predict("mean", {"x": x}, rows_at_once=16), expected, rtol=1e-5)
        np.testing.assert_allclose(
            known.predict("by_column", {"x": x}), np.stack([expected, 2 * expected], 2), rtol=1e-5
        )
        np.testing.assert_allclose(known.predict("total", {"x": x}), expected.sum(axis=1), rtol=1e-4)
        y = np.ones(ROWS, np.float32)
        np.testing.assert_allclose(known.predict("residual", {"x": x, "y": y}), 1 - expected, rtol=1e-4, atol=1e-5)
        with pytest.raises(ValueError, match="the model predicts from 'y', which they do not have"):
            known.predict("residual", {"x": x})

    def test_rows_without_the_agent_s_number_that_a_function_asks_for(self, known):
        with pytest.raises(ValueError, match=r'x: the model asks for batch\["agent"\], which these rows do not have'):
            known.predict(lambda params, rows: params["w"][rows["agent"]], {"x": inputs()})

    def test_intervals_of_outcomes_have_the_noise_and_those_of_means_do_not(self):
        posterior = cs.Posterior.regressor(slope, noise_sd=2.0)
        run = replace(run_of({"w": np.zeros(4, np.float32)}, draws=1000, scale=0.0), posterior=posterior)
        found = run.predict("y", {"x": inputs()}, intervals=0.9)
        half = 2 * norm.ppf(0.95)
        error = np.sqrt(0.05 * 0.95 / (1000 * CHAINS)) / (norm.pdf(norm.ppf(0.95)) / 2) / np.sqrt(ROWS)
        assert found.high.mean(axis=1) == pytest.approx([half] * AGENTS, abs=5 * error)
        assert found.low.mean(axis=1) == pytest.approx([-half] * AGENTS, abs=5 * error)
        assert not np.allclose(found.high[0], found.high[1])  # each agent's outcomes are drawn by themselves
        assert np.ptp(run.predict(slope, inputs(), intervals=0.9)) == 0
        same = run.predict("y", {"x": inputs()}, intervals=0.9)
        other = run.predict("y", {"x": inputs()}, intervals=0.9, seed=1)
        np.testing.assert_array_equal(found.high, same.high)
        assert not np.allclose(found.high, other.high)

    def test_each_draw_and_each_part_of_the_rows_has_noise_of_its_own(self, monkeypatch):
        posterior = cs.Posterior.regressor(slope)
        run = replace(run_of({"w": np.zeros(4, np.float32)}, draws=1000, scale=0.0), posterior=posterior)
        mean = run.predict("y", {"x": inputs()}, rows_at_once=10)[0]
        assert np.std(mean) == pytest.approx(1 / np.sqrt(1000 * CHAINS), rel=0.5)
        assert len(np.unique(mean)) == ROWS  # no part repeats another

    def test_names_that_are_not_there(self, known):
        x = {"x": inputs()}
        with pytest.raises(
            ValueError, match=r"there are mean, by_column, total, residual, y\. Write run.predict\('mean'"
        ):
            known.predict("means", x)
        with pytest.raises(ValueError, match=r"it does not depend on x\. Write run\.draws\['w'\]"):
            known.predict("w", x)
        with pytest.raises(ValueError, match=r"loaded without its model\. Write cs\.load\(path, posterior="):
            replace(known, posterior=None).predict("mean", x)
        labels = replace(
            classifier(), posterior=cs.Posterior.classifier(lambda params, x: x @ params["w"] + params["b"])
        )
        with pytest.raises(ValueError, match="labels of more than two classes have neither mean nor interval"):
            labels.predict("y", x, intervals=0.9)


class TestPriorPredictive:
    X = inputs(6)

    def assert_normal(self, drawn, variance, draws):
        assert drawn.shape == (draws, len(self.X))
        np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=5 * np.sqrt(2 / draws))
        assert (np.abs(drawn.mean(axis=0)) < 5 * np.sqrt(variance / draws)).all()

    def test_of_a_regression_it_has_the_variance_of_prior_and_noise(self):
        posterior = cs.Posterior.regressor(slope, noise_sd=0.5, prior_precision=4.0, init={"w": jnp.zeros(4)})
        drawn = posterior.prior_predictive({"x": self.X}, num_samples=3000)["y"]
        self.assert_normal(drawn, (self.X**2).sum(axis=1) / 4 + 0.25, 3000)
        again = posterior.prior_predictive({"x": self.X}, num_samples=3000, seed=1)["y"]
        assert not np.allclose(drawn, again)

    def test_of_a_numpyro_model_it_is_the_model_s(self):
        posterior = cs.Posterior.from_numpyro(linear)
        drawn = posterior.prior_predictive({"x": self.X, "y": np.zeros(6, np.float32)}, num_samples=3000)
        assert drawn.keys() == {"y"}
        self.assert_normal(drawn["y"], (self.X**2).sum(axis=1) + 4, 3000)

    def test_of_a_classifier_that_starts_by_a_function_of_a_key(self):
        def logits(params, x):
            z = x @ params["w"]
            return jnp.stack([0 * z, z], axis=1)

        posterior = cs.Posterior.classifier(logits, init=lambda key: {"w": jax.random.normal(key, (4,))})
        drawn = posterior.prior_predictive({"x": self.X}, num_samples=2000)["y"]
        assert set(np.unique(drawn)) == {0, 1}
        np.testing.assert_allclose(drawn.mean(axis=0), 0.5, atol=5 * 0.5 / np.sqrt(2000))

    def test_priors_that_cannot_be_drawn_from_are_refused(self):
        batch = {"x": self.X, "y": np.zeros(6, np.float32)}

        def with_factor(batch):
            w = numpyro.sample("w", dist.Normal(0, 1))
            numpyro.factor("more", -(w**2))
            with numpyro.plate("rows", len(batch["y"])):
                numpyro.sample("y", dist.Normal(w, 1), obs=batch["y"])

        def improper(batch):
            w = numpyro.sample("w", dist.ImproperUniform(dist.constraints.real, (), ()))
            with numpyro.plate("rows", len(batch["y"])):
                numpyro.sample("y", dist.Normal(w, 1), obs=batch["y"])

        plain = cs.Posterior(lambda params: 0.0, lambda params, batch: batch["y"])
        for posterior, what in [
            (plain, r"does not say how to draw.*Write draw_prior=lambda key"),
            (cs.Posterior.regressor(slope), r"needs init= alone"),
            (
                cs.Posterior.regressor(slope, log_prior=lambda p: 0.0, init={"w": jnp.zeros(4)}),
                "does not say how to draw",
            ),
            (
                replace(plain, draw_prior=lambda key: {}),
                r"cannot draw observations\. Write cs\.Posterior\(\.\.\., predictive",
            ),
            (
                cs.Posterior.from_numpyro(with_factor),
                r"numpyro\.factor 'more': it is a part of the prior that cannot be",
            ),
            (cs.Posterior.from_numpyro(improper), "one of its distributions is improper"),
        ]:
            with pytest.raises(ValueError, match=what):
                posterior.prior_predictive(batch, num_samples=2)
        with pytest.raises(ValueError, match="num_samples = 0"):
            plain.prior_predictive(batch, num_samples=0)
