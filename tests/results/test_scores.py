"""Scores of predictions, against scikit-learn and by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn import metrics

from consilience.results import ClassificationScores, RegressionScores, Reliability, classification_scores, scores
from consilience.results.scores import Coverage, CumulativeError

CLASSES = 4


@pytest.fixture
def predictive():
    """Probabilities (rows, classes) and labels that do not follow them."""
    random = np.random.default_rng(0)
    return random.dirichlet(np.full(CLASSES, 0.5), size=200), random.integers(0, CLASSES, 200)


def test_row_scores_average_to_scikit_learn_s(predictive):
    p, labels = predictive
    everything = {"labels": range(CLASSES)}
    assert scores.correct(p, labels).mean() == pytest.approx(metrics.accuracy_score(labels, p.argmax(axis=1)))
    assert scores.surprise(p, labels).mean() == pytest.approx(metrics.log_loss(labels, p, **everything))
    brier = metrics.brier_score_loss(labels, p, scale_by_half=False, **everything)
    assert scores.brier(p, labels).mean() == pytest.approx(brier)


def test_leading_axes_are_kept(predictive):
    p, labels = predictive
    both = np.stack([p, p[:, ::-1]])
    for score in (scores.correct, scores.surprise, scores.brier):
        np.testing.assert_array_equal(score(both, labels), [score(p, labels), score(p[:, ::-1], labels)])


def test_a_class_that_was_ruled_out_costs_infinitely_much_and_no_warning():
    p = np.array([[1.0, 0.0], [0.5, 0.5]])
    np.testing.assert_array_equal(scores.surprise(p, np.array([1, 0])), [np.inf, np.log(2)])
    np.testing.assert_array_equal(scores.entropy(p), [0, np.log(2)])


def test_auroc_is_scikit_learn_s_with_ties_and_without():
    random = np.random.default_rng(1)
    for inside, outside in (
        (random.standard_normal(40), random.standard_normal(30) + 0.5),
        (random.integers(0, 4, 40), random.integers(1, 5, 30)),
    ):
        expected = metrics.roc_auc_score(np.repeat([0, 1], [40, 30]), np.concatenate([inside, outside]))
        assert scores.auroc(inside, outside) == pytest.approx(expected, abs=1e-12)
    assert scores.auroc(np.zeros(3), np.zeros(5)) == 0.5
    assert scores.auroc(np.zeros(3), np.ones(5)) == 1


def test_reliability_by_hand():
    p = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.25, 0.75], [0.5, 0.5]])
    labels = np.array([0, 1, 1, 1, 1])
    found = Reliability.of([p], labels, bins=4)  # (0, .25], (.25, .5], (.5, .75], (.75, 1]
    np.testing.assert_array_equal(found.count, [[0, 1, 2, 2]])  # 0.5 and 0.75 belong below their edges
    np.testing.assert_allclose(found.confidence, [[np.nan, 0.5, 0.725, 0.85]])
    np.testing.assert_allclose(found.accuracy, [[np.nan, 0.0, 1.0, 0.5]])
    np.testing.assert_allclose(found.ece, [(1 * 0.5 + 2 * 0.275 + 2 * 0.35) / 5])


def test_confident_and_always_right_is_calibrated_and_always_wrong_is_not():
    sure = np.eye(3)[[0, 1, 2, 0]]
    assert Reliability.of([sure], np.array([0, 1, 2, 0])).ece == 0
    assert Reliability.of([sure], np.array([1, 2, 0, 1])).ece == 1


def test_what_is_not_a_number_has_no_score(predictive):
    p, labels = predictive
    p = p.copy()
    p[3] = np.nan
    assert np.isnan(scores.correct(p, labels).mean())
    assert np.isnan(scores.surprise(p, labels).mean())
    assert np.isnan(Reliability.of([p], labels).ece)
    assert np.isnan(scores.auroc(scores.entropy(p), np.ones(3)))
    assert np.isnan(scores.covered(np.array([0.5, np.nan]))).all()


def test_central_intervals_are_central():
    pit = np.array([0.5, 0.3, 0.75, 0.76, 0.04, 0.97])
    np.testing.assert_allclose(scores.covered(pit, (0.5, 0.9, 0.95)), [3 / 6, 4 / 6, 6 / 6])


@pytest.fixture
def regression():
    return RegressionScores(
        rmse=np.array([0.5, np.nan]),
        nll=np.array([np.inf, 1.0]),
        coverage=Coverage(np.array([0.5, 0.9]), np.array([[0.4, 0.8], [0.5, 1.0]])),
        cumulative=CumulativeError(np.array([1, 7]), np.ones((2, 2)), np.full((2, 2), -np.inf)),
        rows=10,
        draws=7,
    )


@pytest.fixture
def classification(predictive):
    p, labels = predictive
    found = Reliability.of([p, p], labels)
    two = np.array([0.25, 1.0])
    return ClassificationScores(
        accuracy=two,
        nll=two,
        brier=two,
        ece=found.ece,
        class_accuracy=np.ones((2, CLASSES)),
        seen=((0, 1), (0, 1, 2, 3)),
        unseen_accuracy=np.array([0.75, np.nan]),
        unseen_nll=two,
        reliability=found,
        cumulative=scores.CumulativeAccuracy(np.array([1, 7]), np.ones((2, 2)), np.ones((2, 2))),
        ood_auroc=None,
        rows=200,
        draws=7,
    )


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_scores_survive_json(kind, request):
    before = request.getfixturevalue(kind)
    plain = json.loads(json.dumps(before.to_dict(), allow_nan=False))  # strict: NaN is no JSON
    after = scores.scores_from_dict(plain)
    assert type(after) is type(before)
    assert_same(before, after)


def assert_same(before, after):
    for name, value in vars(before).items():
        again = getattr(after, name)
        assert type(again) is type(value), name
        if isinstance(value, np.ndarray):
            assert again.dtype == value.dtype, name
            np.testing.assert_array_equal(again, value)
        elif hasattr(value, "to_dict"):
            assert_same(value, again)
        else:
            assert again == value, name


def test_scores_of_no_known_kind_are_refused():
    with pytest.raises(ValueError, match="kind = 'ranking'"):
        scores.scores_from_dict({"kind": "ranking"})


def test_the_table_shows_every_agent_and_says_what_each_column_is(classification, regression):
    lines = str(classification).splitlines()
    assert lines[0] == "classification: 200 test rows, 7 draws a chain"
    assert lines[2].split() == ["agent", "accuracy", "NLL", "Brier", "ECE", "unseen", "acc", "unseen", "NLL"]
    assert lines[3].split()[:4] == ["0", "0.25", "0.25", "0.25"]
    assert lines[4].split()[-2] == "-"  # agent 1 has seen all classes
    assert lines[5].split()[:2] == ["mean", "0.625"]
    assert "OOD" not in str(classification)  # nothing was given to tell apart
    assert any(line.startswith("Brier ") and "lower is better" in line for line in lines[6:])
    assert lines[5].split()[-2:] == ["0.75", "0.625"]  # the mean of those that have unseen classes
    assert "inf" in str(regression).splitlines()[3]
    assert "in 90%" in str(regression)


def test_agents_that_predict_alike_have_one_line(regression):
    alike = {"rmse": np.ones(3), "nll": np.array([np.inf] * 3), "coverage": Coverage(np.ones(1), np.ones((3, 1)))}
    names = ("lyon", "basel", "turin")
    lines = str(RegressionScores(**{**vars(regression), **alike, "agents": names})).splitlines()
    assert [line.split()[:3] for line in lines[3:5]] == [["all", "3", "1"], []]
    unlike = {**alike, "rmse": np.array([1, 1, 2])}
    lines = str(RegressionScores(**{**vars(regression), **unlike, "agents": names})).splitlines()
    assert [line.split()[0] for line in lines[3:7]] == [*names, "mean"]


def test_a_long_table_is_cut_and_says_so(regression):
    many = RegressionScores(
        **{
            **vars(regression),
            "rmse": np.arange(30.0),
            "nll": np.ones(30),
            "coverage": Coverage(np.ones(1), np.ones((30, 1))),
        }
    )
    assert "... 20 of 30 agents; all are in the attributes" in str(many)
    assert len(str(many).splitlines()) < 32


def two_classes(rows=300, seed=2):
    """Probabilities of two classes, and labels that follow them."""
    random = np.random.default_rng(seed)
    p = random.beta(0.8, 0.8, rows)
    return np.stack([1 - p, p], axis=1), (random.random(rows) < p).astype(int)


def scored(predictives, labels):
    nothing = scores.CumulativeAccuracy(np.ones(1), np.ones((1, 1)), np.ones((1, 1)))
    return classification_scores(predictives, labels, None, nothing, 7)


def test_of_two_classes_the_auc_is_scikit_learn_s():
    p, labels = two_classes()
    found = scored([p, p[:, ::-1]], labels)
    expected = metrics.roc_auc_score(labels, p[:, 1])
    np.testing.assert_allclose(found.auc, [expected, 1 - expected])
    assert np.isnan(scored([p], np.zeros(300, int)).auc).all()
    assert "AUC" in str(found)


def test_there_is_no_auc_of_more_classes(predictive):
    p, labels = predictive
    assert scored([p], labels).auc is None
    assert "AUC" not in str(scored([p], labels))


def test_base_rates_score_what_predicting_them_scores(predictive):
    p, labels = predictive
    rates = np.bincount(labels, minlength=CLASSES) / len(labels)
    always = scored([np.tile(rates, (len(labels), 1))], labels)
    at = scored([p], labels).at_base_rates
    for name in ("accuracy", "nll", "brier", "ece"):
        assert at[name] == pytest.approx(getattr(always, name)[0], abs=1e-9), name
    assert f"{at['brier']:.4g} at the base rates" in str(scored([p], labels))


def test_the_interval_of_an_ece_is_a_bootstrap_over_rows(predictive):
    p, labels = predictive
    random = np.random.default_rng(1)
    ece = Reliability.of([p], labels).ece[0]
    again = [Reliability.of([p[rows]], labels[rows]).ece[0] for rows in random.integers(0, 200, (400, 200))]
    expected = [2 * ece - np.quantile(again, 0.95), 2 * ece - np.quantile(again, 0.05)]
    np.testing.assert_allclose(scores.ece_interval(p, labels), expected, atol=0.01)
    assert np.isnan(scores.ece_interval(p * np.nan, labels)).all()
    low, high = scored([p], labels).ece_interval[0]
    assert f"90% within {low:.3f} and {high:.3f} by a bootstrap over test rows, which takes off" in str(
        scored([p], labels)
    )


def test_intervals_of_calibrated_predictions_reach_down_to_nearly_zero():
    lows = [scores.ece_interval(*two_classes(seed=seed))[0] for seed in range(20)]
    plain = [Reliability.of([p], y).ece[0] for p, y in (two_classes(seed=seed) for seed in range(20))]
    assert np.mean(lows) < 0.25 * np.mean(plain)  # which are what chance makes of 0


def test_agents_names_are_in_the_table_and_in_the_file(classification):
    named = replace(classification, agents=("north", "a longer name"))
    lines = str(named).splitlines()
    assert lines[3].split()[:2] == ["north", "0.25"]
    assert lines[4].startswith("a longer name ")
    assert len(lines[3]) == len(lines[4])
    assert scores.scores_from_dict(named.to_dict()).agents == named.agents


def test_scores_of_a_version_that_had_fewer_are_read(classification):
    plain = classification.to_dict()
    for name in ("auc", "ece_interval", "base_rates", "agents"):
        del plain[name]
    found = scores.scores_from_dict(plain)
    assert (found.auc, found.ece_interval, found.base_rates, found.agents) == (None, None, None, ())
    assert found.at_base_rates == {}
