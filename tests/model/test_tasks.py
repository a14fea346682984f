"""Classifiers and regressors from a plain apply function: their density, predictions, and what they refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import consilience as cs
from consilience.model import Classification, Regression

ROWS = 8
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((ROWS, 3)).astype(np.float32)
LABELS = {"x": X, "y": np.arange(ROWS, dtype=np.int32) % 4}
NUMBERS = {"x": X, "y": RANDOM.standard_normal(ROWS).astype(np.float32)}
TABLE = {"w": RANDOM.standard_normal((3, 4)).astype(np.float32), "b": np.zeros(4, np.float32)}
LINE = {"w": RANDOM.standard_normal(3).astype(np.float32), "b": np.float32(0.5)}


def apply(params, x):
    return x @ params["w"] + params["b"]


def test_a_classifier_is_softmax_of_its_logits_under_a_gaussian_prior():
    posterior = cs.Posterior.classifier(apply, prior_precision=4.0)
    logits = X @ TABLE["w"]
    log_probabilities = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    expected = log_probabilities[np.arange(ROWS), LABELS["y"]]
    np.testing.assert_allclose(posterior.log_likelihood(TABLE, LABELS), expected, rtol=1e-5)
    np.testing.assert_allclose(posterior.log_likelihood(TABLE, (X, LABELS["y"])), expected, rtol=1e-5)
    np.testing.assert_allclose(posterior.task.probabilities(TABLE, X), np.exp(log_probabilities), rtol=1e-5)
    np.testing.assert_allclose(posterior.log_prior(TABLE), -2 * (TABLE["w"] ** 2).sum(), rtol=1e-6)
    assert posterior.task.classes(TABLE, LABELS) == 4


def test_a_regressor_is_gaussian_around_apply():
    posterior = cs.Posterior.regressor(apply, noise_sd=0.5, log_prior=lambda params: -jnp.abs(params["b"]))
    expected = norm.logpdf(NUMBERS["y"], X @ LINE["w"] + 0.5, 0.5)
    np.testing.assert_allclose(posterior.log_likelihood(LINE, NUMBERS), expected, rtol=1e-5)
    assert posterior.log_prior(LINE) == -0.5
    np.testing.assert_allclose(posterior.task.sd(LINE), 0.5)


def test_new_observations_need_inputs_alone():
    keys = jax.random.split(jax.random.key(0), 4000)
    classifier, regressor = cs.Posterior.classifier(apply), cs.Posterior.regressor(apply, noise_sd=2.0)
    labels = jax.vmap(lambda key: classifier.predictive(key, TABLE, {"x": X})["y"])(keys)
    frequencies = (np.asarray(labels)[:, :, None] == np.arange(4)).mean(axis=0)
    np.testing.assert_allclose(frequencies, classifier.task.probabilities(TABLE, X), atol=6 * 0.5 / np.sqrt(4000))
    numbers = jax.vmap(lambda key: regressor.predictive(key, LINE, {"x": X})["y"])(keys)
    np.testing.assert_allclose(numbers.mean(axis=0), apply(LINE, X), atol=6 * 2 / np.sqrt(4000))
    np.testing.assert_allclose(numbers.std(axis=0), 2.0, rtol=0.1)


def test_other_names_and_a_start_of_the_posterior_s_own():
    posterior = cs.Posterior.classifier(apply, x="image", y="digit", init=TABLE)
    data = {"image": X, "digit": LABELS["y"]}
    run = cs.sample(
        posterior,
        [data],
        cs.Network.complete(1),
        cs.centralized_hmc(0.01),
        num_samples=2,
        num_warmup=0,
        num_chains=1,
        progress=False,
    )
    assert run.draws["w"].shape == (1, 1, 2, 3, 4)
    assert posterior.predictive(jax.random.key(0), TABLE, {"image": X})["digit"].shape == (ROWS,)


def with_offset(params, inputs):
    z = params["offset"][inputs["agent"]] + inputs["x"] @ params["w"]
    return jnp.stack([0 * z, z], axis=1)


def test_effects_of_a_site_are_sampled_scored_and_checked_by_several_inputs():
    start = {"offset": np.zeros(2), "w": np.zeros(3)}
    posterior = cs.Posterior.classifier(with_offset, x=("x", "agent"), init=start)
    shards = {"lyon": {"x": X, "y": LABELS["y"] % 2}, "basel": {"x": -X, "y": LABELS["y"] // 2}}
    length = {"num_samples": 50, "num_warmup": 20, "num_chains": 1, "progress": False}
    run = cs.sample(posterior, shards, cs.Network.complete(2), cs.mala(), **length)
    assert run.coords == {"site": ("lyon", "basel")}
    rows = {**shards["lyon"], "agent": np.array([0, 1] * 4)}
    draws = {name: values[0, 0] for name, values in run.draws.items()}
    z = draws["offset"][:, rows["agent"]] + draws["w"] @ X.T
    probability = (1 / (1 + np.exp(-z.astype(float)))).mean(axis=0)
    nll = -np.log(np.where(rows["y"] == 1, probability, 1 - probability)).mean()
    np.testing.assert_allclose(run.evaluate(rows).nll, nll, rtol=1e-5)
    assert run.evaluate(rows, ood=rows).ood_auroc == pytest.approx(0.5)
    assert run.predictive_checks["y"].rows == 16
    of_basel = {**shards["lyon"], "agent": np.ones(8, int)}
    named = {**shards["lyon"], "agent": np.array(["basel"] * 8)}
    assert run.evaluate(named).nll == pytest.approx(run.evaluate(of_basel).nll)
    inputs = {"x": X, "agent": of_basel["agent"]}
    expected = run.predict(posterior.task.probabilities, inputs)
    by_name = run.predict(posterior.task.probabilities, {**inputs, "agent": np.array(["basel"] * 8)})
    np.testing.assert_array_equal(by_name, expected)
    with pytest.raises(ValueError, match=r"test: agent: there is no agent 2\. Number whose rows they are from 0 to 1"):
        run.evaluate({**of_basel, "agent": of_basel["agent"] + 1})
    with pytest.raises(ValueError, match=r"x: agent = 'Basl': the agents are lyon, basel\. Write agent='basel'"):
        run.predict(posterior.task.probabilities, {**inputs, "agent": np.array(["Basl"] * 8)})
    with pytest.raises(ValueError, match=r"test has 'x', 'y' and no 'agent'.*Say whose each row is by the agents'"):
        run.evaluate(shards["lyon"])
    with pytest.raises(ValueError, match=r"no 'y'.*Write test=\{'x': \.\.\., 'agent': \.\.\., 'y': \.\.\.\}"):
        run.evaluate({"x": X, "agent": rows["agent"]})
    with pytest.raises(ValueError, match=r"the data: they are a tuple, and the inputs are called 'x', 'agent'"):
        posterior.task.inputs((X, LABELS["y"]))


CLASSIFIER, REGRESSOR = cs.Posterior.classifier(apply), cs.Posterior.regressor(apply)


def labels(*changes, dtype=np.int32):
    y = LABELS["y"].astype(dtype)
    for row, label in changes:
        y[row] = label
    return {"x": X, "y": y}


REFUSED = {
    "too large": (
        CLASSIFIER,
        TABLE,
        labels((5, 9)),
        r"agent 1: y is 9 in row 5, .* classes are 0 to 3\..*10 classes.*np",
    ),
    "negative": (CLASSIFIER, TABLE, labels((2, -1)), r"y is -1 in row 2, .*from 0: before they are dealt out"),
    "real labels": (CLASSIFIER, TABLE, labels(dtype=np.float32), r"y: its dtype is float32; .*y\.astype\(np\.int32\)"),
    "one-hot": (CLASSIFIER, TABLE, {"x": X, "y": np.eye(4, dtype=int)[LABELS["y"]]}, r"shape is \(8, 4\).*y\.argmax"),
    "a column": (REGRESSOR, LINE, {"x": X, "y": NUMBERS["y"][:, None]}, r"y: its shape is \(8, 1\).*Write y\[:, 0\]"),
    "other names": (CLASSIFIER, TABLE, {"a": X, "b": X}, r"the data: they have 'a', 'b', and no 'y'"),
    "one array": (REGRESSOR, LINE, X, r"the data: they are a ndarray. Write a dict"),
    "one logit": (CLASSIFIER, LINE, LABELS, r"logits \(rows, classes\); for 8 rows it gave shape \(8,\)\. For two"),
    "a column of logits": (
        CLASSIFIER,
        {"w": TABLE["w"][:, :1], "b": np.float32(0)},
        labels(),
        r"it gave shape \(8, 1\)\. For two classes write jnp\.concatenate\(\[0 \* z, z\], axis=1\)",
    ),
    "a table of means": (REGRESSOR, TABLE, NUMBERS, r"one number a row; for 8 rows it gave shape \(8, 4\)"),
}


@pytest.mark.parametrize(("posterior", "params", "batch", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_data_and_networks_are_refused(posterior, params, batch, message):
    with pytest.raises((ValueError, TypeError), match=message):
        posterior.check_data("agent 1", params, batch)


def test_a_label_outside_the_range_is_refused_before_the_first_draw(monkeypatch):
    monkeypatch.setattr("consilience.engine.Chains.advance", None)  # never reached
    with pytest.raises(ValueError, match=r"agent 1: y is 4 in row 0"):
        cs.sample(
            CLASSIFIER,
            [LABELS, labels((0, 4))],
            cs.Network.complete(2),
            cs.nuts(),
            init=TABLE,
            num_samples=1,
            num_warmup=0,
            num_chains=1,
            progress=False,
        )


def test_labels_may_be_flags_or_bytes():
    for dtype in (bool, np.uint8):
        CLASSIFIER.check_data("agent 0", TABLE, {"x": X, "y": (LABELS["y"] % 2).astype(dtype)})
    flags = CLASSIFIER.log_likelihood(TABLE, {"x": X, "y": LABELS["y"] % 2 == 1})
    np.testing.assert_array_equal(flags, CLASSIFIER.log_likelihood(TABLE, {"x": X, "y": LABELS["y"] % 2}))


def test_a_task_of_one_s_own_is_checked_against_the_means():
    task = Regression(lambda params, x: (x @ params)[:4], lambda params: 1.0)
    with pytest.raises(ValueError, match=r"agent 3: y has shape \(8,\) and the model's mean \(4,\)"):
        task.check("agent 3", np.ones(3, np.float32), NUMBERS)
    assert Classification(lambda params, x: jax.nn.softmax(x @ params)).classes(np.ones((3, 5)), {"x": X}) == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise_sd": 0}, "noise_sd = 0: a positive number is needed"),
        ({"noise_sd": "learned"}, "noise_sd = 'learned': a positive number is needed"),
        ({"prior_precision": -1}, "prior_precision = -1"),
        ({"prior_precision": 2.0, "log_prior": lambda p: 0.0}, "log_prior replaces that prior. Leave it out"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        cs.Posterior.regressor(apply, **options)
