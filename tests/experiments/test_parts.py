"""What the experiments are made of, each part against something known."""

import jax
import numpy as np
import pytest

from consilience.experiments import bnn, boston, gmm, images, logistic
from consilience.experiments.floor import Floor, derivative_milliseconds, gradient_and_product
from consilience.experiments.methods import SplitData
from consilience.experiments.mnist_partial import quarters
from consilience.model import Posterior, shard
from consilience.network import Network

from ..real_data import FOLDER, needs_data


class TestMixture:
    def test_the_table_is_the_posterior(self):
        """Against a log density written out, up to the constant."""
        data = gmm.points()
        theta = np.array([[0.0, 1.0], [1.0, -1.0], [0.3, 0.2], [-1.0, 2.0]])
        x = data["x"].astype(float)
        by_hand = [
            -0.5 * (a**2 / 10 + b**2) + np.log(np.exp(-((x - a) ** 2) / 4) + np.exp(-((x - a - b) ** 2) / 4)).sum()
            for a, b in theta
        ]
        found = gmm.log_density_at(theta, data)
        np.testing.assert_allclose(found - found[0], by_hand - by_hand[0], atol=2e-3)

    def test_it_has_two_modes_and_nothing_at_the_edges(self):
        from scipy.ndimage import maximum_filter

        table = gmm.tabulated(gmm.points())
        top = table.log_density.max()
        peaks = (table.log_density == maximum_filter(table.log_density, 15)) & (table.log_density > top - 3)
        assert sorted(np.sign(table.axes[1][np.argwhere(peaks)[:, 1]])) == [-1, 1]
        edge = np.concatenate([table.log_density[[0, -1]].ravel(), table.log_density[:, [0, -1]].ravel()])
        assert edge.max() < top - 14

    def test_draws_from_it_have_its_mass(self):
        table = gmm.tabulated(gmm.points())
        draws = table.draws(np.random.default_rng(0), 20_000)
        error = 0.5 / np.sqrt(len(draws))
        assert (draws[:, 1] > 0).mean() == pytest.approx(table.positive_mass, abs=5 * error)
        outlying = (gmm.log_density_at(draws, gmm.points()) < table.limit).mean()
        assert outlying == pytest.approx(gmm.OUTLYING, abs=5 * 0.1 / np.sqrt(len(draws)))

    def test_the_distance_of_a_shifted_sample_is_the_shift(self):
        draws = np.random.default_rng(0).normal(size=(200, 2))
        assert gmm.distance(draws, draws[::-1]) == pytest.approx(0)
        assert gmm.distance(draws, draws + np.array([3, 4])) == pytest.approx(5)


class TestBoston:
    def test_the_exact_posterior_is_that_of_ridge_regression(self):
        """With all rows in one place: mean (τXᵀX + λI)⁻¹ τXᵀy."""
        train, _, _ = boston.table(is_small=True)
        mean, variances = boston.exact([train])
        x = np.column_stack([np.ones(len(train["y"])), train["x"]]).astype(float)
        precision = 10 * x.T @ x + np.eye(x.shape[1])
        np.testing.assert_allclose(precision @ mean, 10 * x.T @ train["y"], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(variances, np.linalg.inv(precision).diagonal())

    def test_blocks_have_another_posterior_than_rows(self):
        train, _, _ = boston.table(is_small=True)
        blocks = shard(train, 4, by="features")
        assert np.abs(boston.exact(blocks)[0] - boston.exact([train])[0]).max() > 0.1

    def test_rows_are_standardised_by_the_training_part(self):
        train, test, source = boston.table(is_small=True)
        np.testing.assert_allclose(train["x"].mean(axis=0), 0, atol=1e-5)
        np.testing.assert_allclose(train["x"].std(axis=0), 1, atol=1e-5)
        assert abs(test["x"].mean()) < 0.2
        assert "training and" in source

    def test_a_target_that_predicts_badly_is_said(self):
        assert boston._warning({"exact, feature blocks": 0.9}) == []
        assert "(1.94)" in boston._warning({"exact, feature blocks": 1.94})[0]


class TestImages:
    def test_quarters_are_the_corners(self):
        found = quarters(4)
        assert [part.tolist() for part in found] == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]

    def test_the_small_ones_scale_the_paper_s_steps_by_the_width_of_their_posterior(self, monkeypatch):
        monkeypatch.setattr(images.data, "found", lambda name: False)
        small = images.images(is_small=True)
        share = np.square(small.train["x"].astype(float)).sum() / images.MNIST_CURVATURE
        assert small.step(1e-3) == pytest.approx(1e-3 / np.sqrt(share))
        assert small.squared_step(1e-3) == pytest.approx(1e-3 / share)
        assert small.precision(100.0) == pytest.approx(100 * share)
        ood, _ = images.ood_images(small, is_small=True)
        np.testing.assert_allclose(np.sort(ood[3]), np.sort(small.test["x"][3]))
        assert np.abs(ood[3] - small.test["x"][3]).max() > 0.5

    def test_thumbnails_are_means_of_four_pixels(self):
        picture = np.arange(784, dtype=np.float32).reshape(1, 784)
        small = images._halved(picture).reshape(14, 14)
        assert small[0, 0] == pytest.approx(np.mean([0, 1, 28, 29]))
        assert small[13, 13] == pytest.approx(np.mean([754, 755, 782, 783]))

    def test_normalised_pixels_have_mean_zero_and_sd_one(self, monkeypatch):
        monkeypatch.setattr(images.data, "found", lambda name: False)
        train = images.images(is_small=True).train["x"]
        first, other = images.normalised(train, train, train + 1)
        assert first.mean() == pytest.approx(0, abs=1e-5)
        assert first.std() == pytest.approx(1, abs=1e-5)
        np.testing.assert_allclose(other - first, 1 / train.std(), rtol=1e-4)

    @needs_data
    def test_where_mnist_is_at_hand_the_small_ones_are_thumbnails_of_it(self, monkeypatch):
        monkeypatch.setenv("CONSILIENCE_DATA", str(FOLDER))
        found = images.images(is_small=True)
        assert found.train["x"].shape == (images.SMALL_ROWS, 196)
        ood, source = images.ood_images(found, is_small=True)
        assert ood.shape == found.test["x"].shape
        assert "MNIST" in found.source
        assert "Fashion-MNIST" in source
        assert set(found.train["y"]) == set(range(10))

    @needs_data
    def test_mnist_s_curvature_is_as_it_is_written(self, monkeypatch):
        monkeypatch.setenv("CONSILIENCE_DATA", str(FOLDER))
        found = images.images(is_small=False)
        assert images.square_sum(found.train["x"]) == pytest.approx(images.MNIST_CURVATURE, rel=1e-6)
        assert found.step(1e-3) == 1e-3
        (pixels,) = images.normalised(found.train["x"], found.train["x"])
        assert images.square_sum(pixels) == pytest.approx(bnn.MNIST_NUMBERS, rel=1e-4)
        assert bnn.width_ratio({"x": pixels}) == 1


class TestNetworkOfNeurons:
    def test_adam_finds_a_better_place(self):
        train, _ = images.bundled_digits()
        start = bnn.zeros(64, 10)
        posterior = Posterior.classifier(bnn.logits, prior_precision=bnn.PRIOR_PRECISION)
        found = bnn.near_maximum(posterior, train, start, steps=200)

        def logdensity(params):
            return float(posterior.log_prior(params) + posterior.log_likelihood(params, train).sum())

        assert logdensity(found) > logdensity(start) + 1000

    @pytest.mark.parametrize("derivative", [jax.value_and_grad, gradient_and_product])
    def test_bare_derivatives_are_timed(self, derivative):
        train, _ = images.bundled_digits()
        pair = SplitData("posterior", shard(train, 2), Network.complete(2))
        posterior = Posterior.classifier(logistic.logits)
        init = {"w": np.zeros((64, 10), np.float32), "b": np.zeros(10, np.float32)}
        assert 0.01 < derivative_milliseconds(posterior, pair, init, derivative, chains=2) < 1000

    def test_a_floor_is_said_as_a_share(self):
        said = Floor("An iteration", "Gradient.", 0.8, 1.0).describe()
        assert said == (
            "An iteration takes 1 ms, compilation included. The bare derivatives of all agents (Gradient) take 0.8 ms "
            "on the same device: 0.80 of that time."
        )
