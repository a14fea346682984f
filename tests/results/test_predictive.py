"""Predictions of a run and their scores, against plain numpy over all draws at once, scikit-learn and scipy."""

import tracemalloc
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn import metrics

import consilience as cs
from consilience.model import Classification, Layout, Posterior, Regression
from consilience.neighbors import Traffic
from consilience.results import Run, expectation, scores
from consilience.results.expectation import expectation as mean_of
from consilience.results.predictions import predict
from consilience.results.predictive import evaluate
from consilience.store import draws as storage

from ..statistical import LEVEL, RETRY_LEVEL

AGENTS, CHAINS, DRAWS, ROWS, FEATURES, CLASSES = 3, 2, 37, 50, 4, 5
RING = cs.Network.ring(AGENTS)
SOFTMAX = Classification(lambda params, x: jax.nn.softmax(x @ params["w"] + params["b"]))
LINEAR = Regression(lambda params, x: x @ params["w"], lambda params: jnp.exp(params["log_sd"]))
FLAT = partial(Posterior, lambda params: 0.0, lambda params, batch: batch["x"][:, 0])


def run_of(params, copies=AGENTS, draws=DRAWS, seed=0, scale=1.0, **rest):
    """A run whose draws are standard normal, times `scale`."""
    layout = Layout.of(params)
    shape = (draws, CHAINS, copies, layout.dimension)
    kept = scale * np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return Run(kept, {}, layout, cs.nuts(), RING, draws, 1, Traffic(), 1.0, **rest)


def classifier(**options):
    params = {"w": np.zeros((FEATURES, CLASSES), np.float32), "b": np.zeros(CLASSES, np.float32)}
    return run_of(params, **options)


def regressor(**options):
    return run_of({"w": np.zeros(FEATURES, np.float32), "log_sd": np.float32(0)}, scale=0.5, **options)


def inputs(rows=ROWS, seed=1):
    return np.random.default_rng(seed).standard_normal((rows, FEATURES)).astype(np.float32)


def labelled(rows=ROWS, seed=1):
    return {"x": inputs(rows, seed), "y": np.random.default_rng(seed).integers(0, CLASSES, rows)}


def measured(rows=ROWS, seed=1):
    return {"x": inputs(rows, seed), "y": np.random.default_rng(seed).standard_normal(rows)}


def every_probability(run, x):
    """Of all draws at once, in float64: (draw, chain, copy, row, class)."""
    params = run.layout.unravel(run.kept)
    logits = x @ params["w"].astype(float) + params["b"][..., None, :]
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)


@pytest.fixture
def small_pieces(monkeypatch):
    """A few draws at a time, in blocks that are not all as long."""
    monkeypatch.setattr(expectation, "PIECE_BYTES", 40_000)
    monkeypatch.setattr(
        Run,
        "blocks",
        lambda run, count: (
            run.kept[first : min(first + count, start + 7)]
            for start in range(0, run.num_draws, 7)
            for first in range(start, min(start + 7, run.num_draws), count)
        ),
    )


class TestClassification:
    def test_every_score_is_scikit_learn_s_of_the_mean_probabilities(self, small_pieces):
        run, test = classifier(), labelled()
        found = evaluate(run, test, task=SOFTMAX, rows_at_once=16)
        for agent, p in enumerate(every_probability(run, test["x"]).mean(axis=(0, 1))):
            classes = {"labels": range(CLASSES)}
            best = p.argmax(axis=1)
            assert found.accuracy[agent] == pytest.approx(metrics.accuracy_score(test["y"], best))
            assert found.nll[agent] == pytest.approx(metrics.log_loss(test["y"], p, **classes), rel=1e-6)
            brier = metrics.brier_score_loss(test["y"], p, scale_by_half=False, **classes)
            assert found.brier[agent] == pytest.approx(brier, rel=1e-6)
            recall = metrics.recall_score(test["y"], best, average=None, zero_division=np.nan, **classes)
            np.testing.assert_allclose(found.class_accuracy[agent], recall)
            own = scores.Reliability.of([p], test["y"])
            assert found.ece[agent] == pytest.approx(own.ece[0], abs=1e-6)
            np.testing.assert_allclose(found.reliability.confidence[agent], own.confidence[0], rtol=1e-6)
        assert (found.rows, found.draws) == (ROWS, DRAWS)
        assert len(set(found.nll)) == AGENTS

    def test_cumulative_scores_are_those_of_the_first_draws_of_all_chains(self, small_pieces):
        run, test = classifier(), labelled()
        found = evaluate(run, test, task=SOFTMAX, rows_at_once=16, points=8)
        assert found.cumulative.draws[0] == 1
        assert found.cumulative.draws[-1] == DRAWS
        assert 5 <= len(found.cumulative.draws) <= 8
        every = every_probability(run, test["x"])
        for k, draws in enumerate(found.cumulative.draws):
            p = every[:draws].mean(axis=(0, 1))
            right = (p.argmax(axis=-1) == test["y"]).mean(axis=-1)
            np.testing.assert_allclose(found.cumulative.accuracy[k], right)
            of_label = p[:, np.arange(ROWS), test["y"]]
            np.testing.assert_allclose(found.cumulative.nll[k], -np.log(of_label).mean(axis=-1), rtol=1e-6)
        np.testing.assert_allclose(found.cumulative.accuracy[-1], found.accuracy)
        np.testing.assert_allclose(found.cumulative.nll[-1], found.nll)
        assert evaluate(run, test, task=SOFTMAX, points=1).cumulative.draws.tolist() == [DRAWS]

    def test_however_it_is_cut_up_the_scores_are_the_same(self, monkeypatch):
        run, test, other = classifier(), labelled(), inputs(20, seed=5)
        whole = evaluate(run, test, task=SOFTMAX, ood=other)
        monkeypatch.setattr(expectation, "PIECE_BYTES", 10_000)
        cut = evaluate(run, test, task=SOFTMAX, ood=other, rows_at_once=9)
        for name in ("accuracy", "nll", "brier", "ece", "class_accuracy", "ood_auroc"):
            np.testing.assert_allclose(getattr(cut, name), getattr(whole, name), rtol=1e-5, err_msg=name)
        np.testing.assert_allclose(cut.cumulative.nll, whole.cumulative.nll, rtol=1e-5)

    def test_one_chain_on_all_agents_is_computed_once_and_shown_for_each(self):
        one, test = classifier(copies=1), labelled()
        each = replace(one, kept=np.repeat(one.kept, AGENTS, axis=2))
        seen = [[0, 1], [2], [3, 4]]
        expected, found = (evaluate(run, test, task=SOFTMAX, seen=seen, ood=inputs(9, 5)) for run in (each, one))
        for name in ("accuracy", "nll", "ece", "class_accuracy", "unseen_accuracy", "unseen_nll", "ood_auroc"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-6, err_msg=name)
        assert found.cumulative.accuracy.shape == expected.cumulative.accuracy.shape
        assert len(set(found.unseen_nll)) == AGENTS  # each has seen other classes

    def test_classes_that_an_agent_never_saw_are_those_missing_in_its_shard(self):
        test = labelled()
        shards = [
            {"x": inputs(6), "y": np.array(y)} for y in ([0, 0, 1, 1, 0, 1], [1, 2, 3, 4, 2, 2], [0, 1, 2, 3, 4, 0])
        ]
        run = classifier(posterior=FLAT(task=SOFTMAX), shards=shards)
        found = run.evaluate(test)
        assert found.seen == ((0, 1), (1, 2, 3, 4), (0, 1, 2, 3, 4))
        p = every_probability(run, test["x"]).mean(axis=(0, 1))
        for agent, unseen in ((0, test["y"] > 1), (1, test["y"] == 0)):
            assert 0 < unseen.sum() < ROWS
            right = metrics.accuracy_score(test["y"][unseen], p[agent, unseen].argmax(axis=1))
            assert found.unseen_accuracy[agent] == pytest.approx(right)
            nll = metrics.log_loss(test["y"][unseen], p[agent, unseen], labels=range(CLASSES))
            assert found.unseen_nll[agent] == pytest.approx(nll, rel=1e-6)
        assert np.isnan(found.unseen_accuracy[2])
        assert np.isnan(found.unseen_nll[2])
        unknown = evaluate(replace(run, shards=None), test)
        assert unknown.seen is None
        assert np.isnan(unknown.unseen_accuracy).all()

    def test_ood_auroc_ranks_by_the_predictive_s_entropy(self):
        run, test, other = classifier(), labelled(), 0.3 * inputs(31, seed=5)
        found = evaluate(run, test, task=SOFTMAX, ood=other, rows_at_once=16)
        p = every_probability(run, np.concatenate([test["x"], other])).mean(axis=(0, 1))
        entropy = -(p * np.log(p)).sum(axis=-1)
        truth = np.repeat([0, 1], [ROWS, 31])
        np.testing.assert_allclose(found.ood_auroc, [metrics.roc_auc_score(truth, e) for e in entropy], atol=1e-6)
        plain = evaluate(run, test, task=SOFTMAX)
        assert plain.ood_auroc is None
        np.testing.assert_allclose(plain.nll, found.nll, rtol=1e-6)  # the other rows count in nothing else
        as_batch = evaluate(run, test, task=SOFTMAX, ood={"x": other})
        np.testing.assert_allclose(as_batch.ood_auroc, found.ood_auroc)

    def test_a_label_that_every_draw_rules_out_costs_infinitely_much(self):
        never = Classification(lambda params, x: jnp.tile(jnp.eye(CLASSES)[0], (len(x), 1)))
        found = evaluate(classifier(), labelled(), task=never)
        assert np.isposinf(found.nll).all()
        assert np.isposinf(found.cumulative.nll).all()
        assert np.isfinite(found.brier).all()
        assert found.to_dict()["nll"] == ["inf"] * AGENTS

    def test_a_diverged_agent_has_no_scores_and_the_others_have_theirs(self):
        run = classifier()
        run.kept[5, 1, 1] = np.nan
        found = evaluate(run, labelled(), task=SOFTMAX, ood=inputs(9, 5))
        for name in ("accuracy", "nll", "brier", "ece", "ood_auroc"):
            assert np.isnan(getattr(found, name)).tolist() == [False, True, False], name
        assert np.isfinite(found.cumulative.nll[0]).all()  # the first draw was well

    def test_data_in_tuples_and_labels_that_are_flags(self):
        two = Classification(lambda params, x: jax.nn.softmax(x @ params["w"][:, :2]))
        test = labelled()
        found = evaluate(classifier(), (test["x"], test["y"] > 2), task=two)
        same = evaluate(classifier(), {"x": test["x"], "y": (test["y"] > 2).astype(np.int8)}, task=two)
        np.testing.assert_array_equal(found.nll, same.nll)


class TestRegression:
    def moments(self, run, x):
        params = run.layout.unravel(run.kept)
        w, log_sd = params["w"].astype(float), params["log_sd"].astype(float)
        return np.einsum("rf,dcaf->dcar", x, w), np.exp(log_sd)[..., None]

    def test_every_score_is_that_of_the_mixture(self, small_pieces):
        run, test = regressor(), measured()
        found = evaluate(run, test, task=LINEAR, rows_at_once=16, points=6)
        mean, sd = self.moments(run, test["x"])
        np.testing.assert_allclose(found.rmse, np.sqrt(((mean.mean((0, 1)) - test["y"]) ** 2).mean(1)), rtol=1e-5)
        for k, draws in enumerate(found.cumulative.draws):
            log_p = logsumexp(norm.logpdf(test["y"], mean, sd)[:draws], axis=(0, 1)) - np.log(draws * CHAINS)
            np.testing.assert_allclose(found.cumulative.nll[k], -log_p.mean(axis=1), rtol=1e-5)
            error = mean[:draws].mean((0, 1)) - test["y"]
            np.testing.assert_allclose(found.cumulative.rmse[k], np.sqrt((error**2).mean(1)), rtol=1e-5)
        np.testing.assert_allclose(found.nll, found.cumulative.nll[-1])
        np.testing.assert_allclose(found.rmse, found.cumulative.rmse[-1])
        pit = norm.cdf(test["y"], mean, sd).mean(axis=(0, 1))
        assert found.coverage.levels.tolist() == [0.5, 0.8, 0.9, 0.95]
        for k, level in enumerate(found.coverage.levels):
            low, high = (1 - level) / 2, (1 + level) / 2
            np.testing.assert_allclose(found.coverage.covered[:, k], ((low <= pit) & (pit <= high)).mean(axis=1))

    def test_a_target_far_outside_costs_what_it_should_though_its_density_underflows(self):
        run = regressor(copies=1)
        test = {"x": np.zeros((1, FEATURES), np.float32), "y": np.array([500.0])}
        found = evaluate(run, test, task=Regression(LINEAR.mean, lambda params: 1.0))
        np.testing.assert_allclose(found.nll, 0.5 * 500.0**2 + 0.5 * np.log(2 * np.pi))
        assert found.nll.shape == (AGENTS,)
        assert (found.coverage.covered == 0).all()

    def test_a_noise_level_for_every_row(self):
        test = measured()
        levels = np.linspace(0.5, 2, ROWS).astype(np.float32)
        found = evaluate(regressor(), test, task=Regression(LINEAR.mean, lambda params: levels), rows_at_once=16)
        mean, _ = self.moments(regressor(), test["x"])
        log_p = logsumexp(norm.logpdf(test["y"], mean, levels), axis=(0, 1)) - np.log(DRAWS * CHAINS)
        np.testing.assert_allclose(found.nll, -log_p.mean(axis=1), rtol=1e-5)

    @staticmethod
    def p_value(seed, width=1.0):
        """That intervals cover as they say, on data from the predictive; its sd is taken `width` times too large."""
        rows = 3000
        run = regressor(copies=1, draws=20, seed=seed)
        random = np.random.default_rng([seed, 1])
        draw, chain = random.integers(0, 20, rows), random.integers(0, CHAINS, rows)
        x = inputs(rows, seed)
        params = run.layout.unravel(run.kept[draw, chain, 0])
        y = (x * params["w"]).sum(axis=1) + np.exp(params["log_sd"]) * random.standard_normal(rows)
        task = Regression(LINEAR.mean, lambda params: width * jnp.exp(params["log_sd"]))
        coverage = evaluate(run, {"x": x, "y": y}, task=task).coverage
        z = (coverage.covered[0] - coverage.levels) / np.sqrt(coverage.levels * (1 - coverage.levels) / rows)
        return min(1.0, 2 * len(z) * norm.sf(np.abs(z).max()))

    def test_intervals_cover_as_they_say_on_data_from_the_predictive(self):
        assert self.p_value(seed=0) > LEVEL or self.p_value(seed=1) > RETRY_LEVEL

    @pytest.mark.parametrize("width", [0.8, 1.25])
    def test_a_predictive_that_is_too_narrow_or_too_wide_is_caught(self, width):
        assert self.p_value(seed=0, width=width) < LEVEL


class TestCost:
    def test_one_compilation_serves_all_draws_rows_and_other_inputs(self, compilations, small_pieces):
        run = classifier()
        compilations.clear()
        evaluate(run, labelled(), task=SOFTMAX, ood=inputs(23, 5), rows_at_once=16)
        assert len(compilations) == 1
        evaluate(regressor(), measured(), task=LINEAR, rows_at_once=16)
        assert len(compilations) == 2  # the listener listens

    def test_a_function_that_has_come_to_mean_something_else_is_computed_anew(self):
        run, x, factor = classifier(), inputs(), 1.0

        def function(params, x):
            return factor * x[:, 0]

        before = predict(run, function, x)
        factor = 2.0
        np.testing.assert_allclose(predict(run, function, x), 2 * before)

    @pytest.mark.parametrize("kind", ["classification", "regression"])
    def test_memory_does_not_grow_with_the_draws(self, kind, monkeypatch):
        run, test, task = (
            (classifier(), labelled(200), SOFTMAX) if kind == "classification" else (regressor(), measured(200), LINEAR)
        )
        monkeypatch.setattr(expectation, "PIECE_BYTES", 100_000)
        monkeypatch.setattr(storage, "BLOCK_BYTES", 2_000)
        stored = StoredElsewhere((800, *run.kept.shape[1:]))
        tracemalloc.start()
        try:
            evaluate(replace(run, kept=stored), test, task=task, rows_at_once=64, points=3)
        finally:
            tracemalloc.stop()
        early, late = (max(part) for part in np.array_split(stored.held[1:], 2))
        assert early > 8 * AGENTS * 200  # the listener listens
        a_number_each = 400 * CHAINS * AGENTS * 200 * 4  # for every draw of the second half and every row
        assert late < early + 0.1 * a_number_each


class StoredElsewhere:
    """Draws that are made when they are read. `held` is the memory in use at each reading."""

    def __init__(self, shape):
        self.shape, self.dtype, self.held = shape, np.dtype(np.float32), []

    def __getitem__(self, rows):
        self.held.append(tracemalloc.get_traced_memory()[0])
        first, last, _ = rows.indices(self.shape[0])
        return np.random.default_rng(first).standard_normal((last - first, *self.shape[1:]), np.float32)


class TestPredict:
    def test_it_is_the_mean_over_draws_and_chains_of_each_agent(self, small_pieces):
        run, x = classifier(), inputs()
        found = predict(run, SOFTMAX.probabilities, x, rows_at_once=16)
        np.testing.assert_allclose(found, every_probability(run, x).mean(axis=(0, 1)), rtol=1e-5)
        once = predict(classifier(copies=1), SOFTMAX.probabilities, x)
        assert once.shape == (AGENTS, ROWS, CLASSES)
        np.testing.assert_array_equal(once[0], once[2])

    def test_inputs_may_be_a_pytree_and_outputs_flags(self):
        run, x = classifier(), {"left": inputs(), "right": inputs(seed=7)}

        def positive(params, x):
            return (x["left"] * x["right"]) @ params["w"][:, 0] > 0

        found = predict(run, positive, x, rows_at_once=7)
        w = run.layout.unravel(run.kept)["w"][..., 0]
        expected = (np.einsum("rf,dcaf->dcar", x["left"] * x["right"], w) > 0).mean(axis=(0, 1))
        np.testing.assert_allclose(found, expected, atol=0.02)

    @pytest.mark.parametrize(
        "function",
        [
            lambda params, x: (x @ params["w"]).mean(axis=0),  # no rows
            lambda params, x: jnp.ones(ROWS) * params["b"][0],  # as many numbers as rows, by chance
        ],
    )
    def test_what_has_no_row_for_each_row_sees_all_rows_at_once(self, function):
        run, x = classifier(), inputs()
        whole = predict(run, function, x)
        np.testing.assert_allclose(predict(run, function, x, rows_at_once=16), whole, rtol=1e-6)
        assert whole.shape[0] == AGENTS

    def test_expectation_goes_the_same_way(self, small_pieces):
        run = classifier()
        b = run.layout.unravel(run.kept)["b"].astype(float)
        np.testing.assert_allclose(mean_of(run, lambda p: p["b"] ** 2), (b**2).mean(axis=(0, 1)), rtol=1e-5)
        np.testing.assert_allclose(mean_of(run, lambda p: p["b"][0]), b[..., 0].mean(axis=(0, 1)), rtol=1e-4)

    def test_refusals(self):
        run = classifier()
        with pytest.raises(ValueError, match="must return one array: it returned a tuple"):
            predict(run, lambda params, x: (x, x), inputs())
        with pytest.raises(ValueError, match="a whole number of at least 1"):
            predict(run, SOFTMAX.probabilities, inputs(), rows_at_once=0)
        with pytest.raises(ValueError, match="number of rows of x = 0"):
            predict(run, SOFTMAX.probabilities, inputs(0))
        with pytest.raises(ValueError, match="no draws yet"):
            predict(replace(run, kept=run.kept[:0]), SOFTMAX.probabilities, inputs())


def with_nan(data, name):
    values = data[name].astype(float)
    values[3] = np.nan
    return {**data, name: values}


class TestRefusals:
    @pytest.fixture(autouse=True)
    def nothing_is_computed(self, monkeypatch):
        monkeypatch.setattr(Run, "blocks", lambda *_: pytest.fail("draws were read"))

    @pytest.mark.parametrize(
        ("test", "what"),
        [
            ({"x": inputs()}, r"test has 'x' and no 'y': .*test=\{'x': ..., 'y': ...\}"),
            ({**labelled(), "y": labelled()["y"] + 1}, r"label of row \d+ is 5, and the model's classes are 0 to 4"),
            ({**labelled(), "y": labelled()["y"] - 1}, r"label of row \d+ is -1"),
            ({**labelled(), "y": labelled()["y"][:, None]}, r"test: y: its shape is \(50, 1\).*y\[:, 0\]"),
            ({**labelled(), "y": labelled()["y"] * 1.0}, r"test: y: its dtype is float64.*astype\(np.int32\)"),
            ({**labelled(), "x": inputs()[:, :3]}, r"inputs has shape \(3,\), and one of the agents' data \(4,\)"),
            ({**labelled(), "x": inputs()[:30]}, r"test: x has 30 rows but y has 50"),
            (labelled(0), "test has no rows"),
            (with_nan(labelled(), "x"), "test: 1 of 50 rows have values that are not finite, row 3 first"),
            (inputs(), "the data: they are a ndarray"),
        ],
        ids=["labels", "high", "low", "column", "dtype", "features", "rows", "empty", "nan", "bare"],
    )
    def test_a_test_set_that_is_not_like_the_agents_data(self, test, what):
        run = classifier(posterior=FLAT(task=SOFTMAX), shards=[labelled(9)] * AGENTS)
        with pytest.raises(ValueError, match=what):
            evaluate(run, test)

    @pytest.mark.parametrize(
        ("options", "what"),
        [
            ({"task": None}, r"the run was loaded without its model\. Write cs\.load\(path, posterior="),
            ({"task": SOFTMAX.probabilities}, r"task is a function\. Write task=cs.Classification"),
            ({"ood": inputs()[:, :2]}, r"ood: a row of its inputs has shape \(2,\), and one of the test set \(4,\)"),
            ({"ood": inputs(0)}, "ood has no rows"),
            ({"ood": np.full((2, FEATURES), np.nan)}, "ood: 2 of 2 rows have values that are not finite"),
            ({"seen": [[0], [1]]}, r"the classes of each of 3 agents are needed, from 0 to 4"),
            ({"seen": [[0], [1], [5]]}, r"the classes of each of 3 agents are needed, from 0 to 4"),
            ({"points": 0}, "points = 0"),
            ({"rows_at_once": 0}, "rows_at_once = 0"),
            ({"task": Classification(lambda params, x: x[:, 0])}, r"has \(50,\)\. For two classes write jnp.stack"),
            (
                {"task": Classification(lambda p, x: x @ p["v"])},
                r"cannot be computed from what was kept, b, w: KeyError: 'v'",
            ),
            ({"task": LINEAR, "ood": inputs()}, "ood is for classes"),
        ],
        ids=[
            "task",
            "function",
            "ood",
            "no ood",
            "nan",
            "agents",
            "classes",
            "points",
            "rows",
            "binary",
            "kept",
            "regression",
        ],
    )
    def test_what_cannot_be_evaluated(self, options, what):
        with pytest.raises(ValueError, match=what):
            evaluate(classifier(), labelled(), **{"task": SOFTMAX, **options})

    def test_regression_targets_that_are_missing_and_means_with_a_column_too_many(self):
        with pytest.raises(ValueError, match="1 of 50 rows have values that are not finite"):
            evaluate(regressor(), with_nan(measured(), "y"), task=LINEAR)
        column = Regression(lambda params, x: x @ params["w"][:, None], LINEAR.sd)
        with pytest.raises(ValueError, match=r"task.mean\(params, x\) must have shape \(50,\) here, and has \(50, 1\)"):
            evaluate(regressor(), measured(), task=column)
        with pytest.raises(ValueError, match=r"task.sd\(params\), one number or one a test row, cannot"):
            evaluate(regressor(), measured(), task=Regression(LINEAR.mean, lambda params: jnp.ones(7)))

    def test_a_run_without_draws(self):
        run = classifier()
        with pytest.raises(ValueError, match="the run has no draws yet"):
            evaluate(replace(run, kept=run.kept[:0]), labelled(), task=SOFTMAX)


class TestWhatOnlyDrawsShow:
    @pytest.mark.parametrize(
        "wrong", [lambda p, x: x @ p["w"], lambda p, x: jax.nn.log_softmax(x @ p["w"]), lambda p, x: 0 * (x @ p["w"])]
    )
    def test_probabilities_that_are_none(self, wrong):
        with pytest.raises(ValueError, match=r"must give probabilities: .*Write jax.nn.softmax"):
            evaluate(classifier(), labelled(), task=Classification(wrong))

    def test_noise_that_is_negative(self):
        with pytest.raises(ValueError, match=r"task.sd\(params\) must be positive"):
            evaluate(regressor(), measured(), task=Regression(LINEAR.mean, lambda params: params["log_sd"]))
