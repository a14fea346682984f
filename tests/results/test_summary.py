"""The table of a summary: which rows, which numbers, under which names; and the verdict on networks."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from arviz_stats.base import array_stats

import consilience as cs
from consilience._refused import Refused
from consilience.cli.output import summary_data
from consilience.model import Layout
from consilience.neighbors import Traffic
from consilience.results import Run, diagnostics, function_space
from consilience.results.expectation import pieces
from consilience.results.more_chains import mean_of_longest
from consilience.store import draws as storage

HOSPITALS = ("cleveland", "hungary", "switzerland", "va")
RING = cs.Network.ring(4)


def made_up(params: dict, kept: np.ndarray, **options) -> Run:
    """A run of given draws (draw, chain, copy, number)."""
    layout = Layout.of({name: np.zeros(shape, np.float32) for name, shape in params.items()})
    return Run(kept, {}, layout, options.pop("sampler", cs.nuts()), RING, 1, 1, Traffic(), 1.0, **options)


@pytest.fixture(scope="module")
def run() -> Run:
    """A run with a bias and three coefficients; every agent has draws of its own."""
    kept = np.random.default_rng(0).standard_normal((300, 2, 4, 5)) * [1, 2, 0.1, 1, 1] + [0, 3, 1, 0, 0.5]
    labels = {"dims": {"w": ("feature",)}, "coords": {"feature": ("age", "dose", "a*b")}, "names": HOSPITALS}
    return made_up({"bias": (), "scale": (), "w": (3,)}, kept, sampler=cs.dmala(), **labels)


# --- intervals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("prob", "ends"), [(0.94, ["3%", "97%"]), (0.95, ["2.5%", "97.5%"]), (0.5, ["25%", "75%"])])
def test_the_ends_of_intervals_are_quantiles_and_named_by_them(run, prob, ends):
    summary = run.summary(prob=prob)
    assert list(summary.columns) == ["mean", "sd", *ends, "mcse_mean", "ess_bulk", "ess_tail", "r_hat"]
    for name, level in zip(ends, ((1 - prob) / 2, (1 + prob) / 2), strict=True):
        of_agents = np.quantile(run.kept.transpose(2, 0, 1, 3).reshape(4, -1, 5), level, axis=1)
        np.testing.assert_allclose(summary.columns[name], of_agents.mean(axis=0))
        np.testing.assert_allclose(run.summary(agent=1, prob=prob).columns[name], of_agents[1])


@pytest.mark.parametrize("prob", [94, 0, 1, "0.94", True])
def test_what_is_no_probability_is_refused(run, prob):
    with pytest.raises(Refused, match=r"prob = .*prob=0\.94"):
        run.summary(prob=prob)


def test_few_values_are_held_at_once_and_the_columns_are_the_same(run, monkeypatch):
    expected = run.summary(diagnosed=None).columns
    held = []
    series = diagnostics._series

    def watched(*arguments):
        found = series(*arguments)
        held.append(found.size)
        return found

    monkeypatch.setattr(diagnostics, "_series", watched)
    monkeypatch.setattr(diagnostics, "MOST_VALUES", 5000)  # two numbers of four agents
    monkeypatch.setattr(storage, "BLOCK_BYTES", 10_000)
    found = run.summary(diagnosed=None).columns
    assert max(held) == 4800
    assert sum(held) == run.kept.size
    for name, values in found.items():
        np.testing.assert_allclose(values, expected[name])


def test_intervals_are_left_out_where_draws_would_have_to_be_read_too_often_and_it_is_said(run, monkeypatch):
    monkeypatch.setattr(diagnostics, "MOST_VALUES", 2400)  # one number of four agents
    monkeypatch.setattr(diagnostics, "MOST_GROUPS", 3)
    summary = run.summary()
    assert np.isnan(summary.columns["3%"]).tolist() == [False, True, True, True, True]
    assert not np.isnan(summary.columns["mean"]).any()
    assert "Intervals were computed for 1 of 5 parameters." in summary.warnings
    monkeypatch.setattr(diagnostics, "MOST_GROUPS", 4)
    summary = run.summary()
    assert not np.isnan(summary.columns["3%"]).any()
    assert np.isnan(summary.columns["r_hat"]).sum() == 4
    assert not any("Intervals" in warning for warning in summary.warnings)


def test_a_run_without_draws_has_no_intervals(run):
    assert np.isnan(replace(run, kept=run.kept[:0]).summary().columns["97%"]).all()


# --- names and patterns ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("var_names", "names"),
    [
        ("w", ("w[age]", "w[dose]", "w[a*b]")),
        ("w*", ("w[age]", "w[dose]", "w[a*b]")),
        ("w[dose]", ("w[dose]",)),
        ("w[a*]", ("w[age]", "w[a*b]")),
        (["w[a?e]", "bias"], ("bias", "w[age]")),
        ("*s*", ("bias", "scale", "w[dose]")),
    ],
)
def test_rows_are_chosen_by_name_or_pattern_in_the_models_order(run, var_names, names):
    summary = run.summary(var_names=var_names)
    assert summary.names == names
    whole = run.summary()
    places = [whole.names.index(name) for name in names]
    for name, values in summary.columns.items():
        np.testing.assert_array_equal(values, whole.columns[name][places])
    assert summary.verdict == whole.verdict  # which is on the run
    assert not set(whole.names) - set(names) & set(str(summary).split())


@pytest.mark.parametrize(
    ("var_names", "said"),
    [
        ("sclae", r"var_names = 'sclae'.*there are bias, scale, w\[age\].*Write var_names='scale'"),
        ("w[agee]", r"Write var_names='w\[age\]'"),
        ([], "names no parameter"),
        ([3], r"var_names = 3: names of parameters are needed"),
    ],
)
def test_names_that_are_not_there_are_refused_with_the_nearest(run, var_names, said):
    with pytest.raises(Refused, match=said):
        run.summary(var_names=var_names)


def test_elements_of_matrices_are_named_by_both_labels_or_by_numbers():
    kept = np.random.default_rng(0).standard_normal((50, 2, 1, 4))
    labelled = made_up({"w": (2, 2)}, kept, dims={"w": ("feature", "class")}, coords={"feature": ("age", "dose")})
    assert labelled.summary(var_names="w[dose,1]").names == ("w[dose, 1]",)
    assert labelled.summary(var_names="w[*, 0]").names == ("w[age, 0]", "w[dose, 0]")


def test_the_verdict_names_the_worst_by_its_column(run):
    apart = run.kept.copy()
    apart[:, 1, :, 3] += 2
    assert "(worst w[dose], " in replace(run, kept=apart).summary().verdict


def test_agents_are_told_by_name_or_by_number(run):
    summary = run.summary(agent="switzerland")
    np.testing.assert_array_equal(summary.columns["mean"], run.summary(agent=2).columns["mean"])
    assert summary.title.endswith(", switzerland")
    with pytest.raises(Refused, match=r"agent = 'hungry': the agents are cleveland.*Write agent='hungary'"):
        run.summary(agent="hungry")


# --- transforms --------------------------------------------------------------------------------------------------


def test_transforms_are_applied_to_the_draws(run):
    summary = run.summary(var_names=["bias", "w[age]"], transform={"w": np.exp, "scale": "log"})
    assert summary.names == ("bias", "exp(w[age])")
    odds = np.exp(run.kept[..., 2])
    assert summary.columns["mean"][1] == pytest.approx(odds.mean())
    assert summary.columns["sd"][1] == pytest.approx(odds.reshape(-1, 4).std(axis=0).mean())
    assert summary.columns["3%"][1] == pytest.approx(np.quantile(odds.reshape(-1, 4), 0.03, axis=0).mean())
    mcse = [array_stats.mcse(odds[:, :, a].T, method="mean", chain_axis=0, draw_axis=1) for a in range(4)]
    assert summary.columns["mcse_mean"][1] == pytest.approx(max(mcse))
    plain = run.summary()
    for name in ("ess_bulk", "r_hat"):  # which are of ranks
        assert summary.columns[name][1] == pytest.approx(plain.columns[name][2])
    assert summary.columns["mean"][0] == pytest.approx(plain.columns["mean"][0])


def test_a_transform_alone_is_of_all_parameters(run):
    assert run.summary(transform="exp").names[:2] == ("exp(bias)", "exp(scale)")
    assert run.summary(transform=lambda x: -x).names[0] == "transformed(bias)"
    first = run.summary(transform={"w[age]": "expit", "*": "square"})
    assert first.names == ("square(bias)", "square(scale)", "expit(w[age])", "square(w[dose])", "square(w[a*b])")
    assert first.columns["mean"][2] == pytest.approx((1 / (1 + np.exp(-run.kept[..., 2]))).mean())


@pytest.mark.parametrize(
    ("transform", "said"),
    [
        ("expp", r"transform = 'expp': the functions known by name are exp, .*Write 'exp'"),
        ({"v": "exp"}, r"transform = 'v': no parameter is called so"),
        ({"w": 3}, r"transform = 3: a function is needed.*np\.exp"),
        (lambda x: x - x.mean(), "does not look at each number alone"),
        (lambda x: x.sum(), r"it must give one number for each.*np\.exp"),
    ],
)
def test_what_is_no_function_of_single_numbers_is_refused(run, transform, said):
    with pytest.raises(Refused, match=said):
        run.summary(transform=transform)


# --- tables ------------------------------------------------------------------------------------------------------


def test_a_dataframe_has_the_table(run):
    summary = run.summary(var_names="w", transform={"w": "exp"})
    frame = summary.to_dataframe()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.index) == list(summary.names)
    assert list(frame.columns) == list(summary.columns)
    np.testing.assert_array_equal(frame.loc["exp(w[dose])", "97%"], summary.columns["97%"][1])


def test_printed_numbers_have_as_many_places_as_their_sd_has_digits():
    kept = np.random.default_rng(0).standard_normal((100, 2, 1, 4)) * [1e-3, 1, 250, 0] + [0.5, 0, 1e4, 7.25]
    text = str(made_up({"w": (4,)}, kept).summary())
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.startswith("w[")}
    places = {name: [len(cell.partition(".")[2]) for cell in row[:4]] for name, row in rows.items()}
    assert set(places["w[0]"]) <= {5, 6}
    assert set(places["w[1]"]) <= {2, 3}
    assert set(places["w[2]"]) == {0}
    assert rows["w[3]"][:2] == ["7.25", "0"]
    assert all(len(line) <= 100 for line in text.splitlines())


def test_of_many_parameters_some_are_shown_and_it_is_said_which():
    kept = np.random.default_rng(0).standard_normal((40, 2, 1, 300))
    many = made_up({"layer": (300,)}, kept)
    text = str(many.summary())
    assert text.count("\nlayer[") == 20
    assert 'the 20 of 300 parameters with the largest R-hat.\nOthers: summary(var_names="layer")' in text
    assert len(many.summary().to_dataframe()) == 300
    assert str(many.summary(var_names="layer[1*]")).count("\nlayer[") == 111  # asked for
    assert str(many.summary(var_names="layer")).count("\nlayer[") == 200
    assert 'Others: summary(var_names="layer")' in str(many.summary(transform="exp"))


# --- networks ----------------------------------------------------------------------------------------------------

HIDDEN, INPUTS = 6, np.random.default_rng(3).standard_normal((80, 3)).astype(np.float32)
SHAPES = {"b1": (HIDDEN,), "b2": (2,), "w1": (3, HIDDEN), "w2": (HIDDEN, 2)}
SHARDS = cs.shard({"x": INPUTS, "y": (INPUTS[:, 0] > 0).astype(np.int32)}, agents=4)


def logits(params, x):
    return jnp.tanh(x @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


def network_run(shift: float = 0.0, **options) -> Run:
    """A run of a network whose four chains have its hidden units in four orders; `shift` moves one chain's logits."""
    random = np.random.default_rng(0)
    layout = Layout.of({name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()})
    weights = {name: random.standard_normal(shape) for name, shape in SHAPES.items()}
    starts = []
    for _ in range(4):
        order = random.permutation(HIDDEN)
        alike = {"b1": weights["b1"][order], "b2": weights["b2"], "w1": weights["w1"][:, order]}
        starts.append(layout.ravel_on_host({**alike, "w2": weights["w2"][order]}))
    kept = np.stack(starts)[:, None] + 0.1 * random.standard_normal((400, 4, 1, layout.dimension))
    kept[:, 1, :, HIDDEN] += shift  # the first of b2
    common = {"posterior": cs.Posterior.classifier(logits), "shards": SHARDS} | options
    return made_up(SHAPES, kept.astype(np.float32), **common)


@pytest.fixture(scope="module")
def network() -> Run:
    return network_run()


def grave(run: Run, **options) -> list[str]:
    return [finding.short for finding in run.summary(**options).findings if finding.is_grave]


def test_a_network_is_judged_by_its_predictions(network):
    summary = network.summary()
    assert np.nanmax(summary.columns["r_hat"]) > 1.5
    assert not grave(network)
    assert summary.verdict.startswith("4 chains agree on predicted probabilities: R-hat at most 1.0")
    assert "at 32 rows of the agents' data. At least 1," in summary.verdict
    assert "parameters have R-hat above 1.01, as is usual where weights can change places" in summary.verdict
    assert "run longer" not in summary.verdict
    assert f"R-hat at most {summary.predictions.r_hat:.3f}" in summary.verdict
    assert summary_data(summary)["predictions"]["rows"] == 32


def test_its_figures_are_those_of_the_predictions(network):
    x = np.concatenate([shard["x"][np.linspace(0, 19, 8).astype(int)] for shard in SHARDS])
    draws = network.draws
    hidden = np.tanh(x @ draws["w1"][0] + draws["b1"][0][:, :, None])
    scores = hidden @ draws["w2"][0] + draws["b2"][0][:, :, None]
    probabilities = 1 / (1 + np.exp(scores[..., 0] - scores[..., 1]))
    r_hat = array_stats.rhat(probabilities, chain_axis=0, draw_axis=1)
    found = network.summary().predictions
    assert found.what == "probabilities"
    assert found.r_hat == pytest.approx(r_hat.max(), abs=2e-4)


def test_predictions_that_differ_are_grave():
    apart = network_run(shift=0.5)
    assert [text.split()[0] for text in grave(apart)] == ["R-hat", "ESS"]
    assert all(text.endswith("of predictions") for text in grave(apart))
    assert "4 chains do not agree: R-hat of predicted probabilities is up to 1." in apart.summary().verdict
    assert "use predictions" not in apart.summary().verdict


def test_predictions_are_computed_once_and_only_where_they_are_asked_for(network, monkeypatch):
    asked = []
    monkeypatch.setattr(function_space, "pieces", lambda *args: asked.append(args) or pieces(*args))
    fresh = replace(network)
    assert any("R-hat" in text for text in grave(fresh, predictions=False))
    assert not asked
    assert fresh.summary().findings == fresh.summary().findings
    assert len(asked) == 1
    agreeing = replace(network, kept=np.random.default_rng(0).standard_normal(network.kept.shape).astype(np.float32))
    assert not grave(agreeing)
    assert len(asked) == 1


def test_held_out_inputs_are_used_where_there_are_some(network):
    fresh = replace(network)
    fresh.summary()
    fresh.evaluate({"x": INPUTS[:10], "y": np.zeros(10, int)})
    assert "at 10 held-out rows" in fresh.summary().verdict


def test_an_agent_that_has_its_own_rows_alone_uses_these(network):
    assert "at 20 rows of the agents' data" in replace(network, shards=None, own_shards=SHARDS[:1]).summary().verdict


def test_without_model_or_data_parameters_are_judged_and_it_is_said_how_to_judge_predictions(network, tmp_path):
    loaded = replace(network, posterior=None, shards=None, folder=tmp_path / "bnn")
    assert any(text.startswith("R-hat") for text in grave(loaded))
    load = 'bnn", posterior=..., shards=...).summary().'
    assert load in loaded.summary().verdict
    assert load in replace(loaded, posterior=network.posterior).summary().verdict
    assert load not in replace(loaded, posterior=network.posterior, shards=SHARDS).summary().verdict
    untold = replace(network.posterior, task=None)
    assert load not in replace(loaded, posterior=untold, shards=SHARDS).summary().verdict


def test_parameters_of_a_linear_model_are_not_excused_by_its_predictions(network):
    """Logits of 24 columns, of which the last is 0 in all rows that are here: nothing is predicted by it."""
    x = np.random.default_rng(0).standard_normal((40, 24)).astype(np.float32) * (np.arange(24) < 23)
    linear = cs.Posterior.classifier(lambda w, x: jnp.stack([0 * x[:, 0], x @ w], axis=1))
    kept = np.random.default_rng(1).standard_normal((400, 4, 1, 24)).astype(np.float32)
    kept[:, 1, :, 23] += 2
    layout = Layout.of(np.zeros(24, np.float32))
    shards = cs.shard({"x": x, "y": np.zeros(40, np.int32)}, agents=4)
    run = replace(network, kept=kept, layout=layout, posterior=linear, shards=shards)
    assert grave(run)[0].startswith("R-hat")
    assert "worst params[23]" in run.summary().verdict


def test_parameters_that_are_few_are_not_excused_either():
    def curve(params, x):
        return params["top"] * jnp.tanh(params["slope"] * x[:, 0])

    kept = 1 + 0.1 * np.random.default_rng(0).standard_normal((400, 4, 1, 2)).astype(np.float32)
    kept[:, 2:] *= -1  # the same curve
    shards = [{"x": shard["x"], "y": shard["x"][:, 0]} for shard in SHARDS]
    run = made_up({"slope": (), "top": ()}, kept, posterior=cs.Posterior.regressor(curve), shards=shards)
    assert grave(run)[0].startswith("R-hat")


def test_means_of_a_regression_network_are_judged_alike():
    def mean(params, x):
        return logits(params, x)[:, 0]

    shards = [{"x": shard["x"], "y": shard["x"][:, 0]} for shard in SHARDS]
    run = network_run(posterior=cs.Posterior.regressor(mean), shards=shards)
    assert not grave(run)
    assert run.summary().verdict.startswith("4 chains agree on predicted means: R-hat at most 1.0")


@pytest.mark.parametrize("of_logits", [lambda z: z[:, 0], lambda z: z * jnp.nan], ids=["no table", "no numbers"])
def test_predictions_that_are_none_leave_the_verdict_to_parameters(network, of_logits):
    task = cs.Classification(lambda params, x: of_logits(logits(params, x)))
    run = replace(network, posterior=replace(network.posterior, task=task))
    assert run.summary().predictions is None
    assert grave(run)[0].startswith("R-hat")


def test_predictions_that_do_not_vary_agree_and_draws_that_were_left_out_say_nothing():
    sure = network_run()
    sure.kept[..., HIDDEN] += 60
    assert "agree on predicted probabilities: none varies by more than 0.001 at 32 rows" in sure.summary().verdict
    part = replace(sure, kept=sure.kept[..., 8:], layout=Layout.of({k: np.zeros(SHAPES[k]) for k in ("w1", "w2")}))
    assert part.summary().predictions is None
    assert grave(part)[0].startswith("R-hat")


# --- what more chains would gain ---------------------------------------------------------------------------------


def a_long_run(rounds=50_000, size=1_000, chains=4, sampler=None, steps=None):
    """A run that has sent messages of so many bytes; `steps`: lengths of its trajectories."""
    kept = np.random.default_rng(0).standard_normal((400, chains, 1, 2))
    stats = {} if steps is None else {"num_integration_steps": steps}
    run = made_up({"w": (2,)}, kept, sampler=sampler or cs.nuts())
    return replace(run, traffic=Traffic(rounds, rounds, rounds * size), raw_stats=stats)


def test_the_longest_of_many_trajectories_is_what_all_wait_for():
    lengths = np.array([1.0, 3.0, 3.0, 7.0])
    drawn = np.random.default_rng(0).choice(lengths, (100_000, 5)).max(axis=1)
    assert mean_of_longest(lengths, 1) == lengths.mean()
    assert mean_of_longest(lengths, 5) == pytest.approx(drawn.mean(), abs=5 * drawn.std() / np.sqrt(len(drawn)))


def test_more_chains_are_said_to_share_rounds_where_that_is_worth_saying():
    steps = np.random.default_rng(0).choice([3.0, 7.0, 15.0], (400, 4, 1), p=[0.4, 0.5, 0.1])
    ratio = mean_of_longest(steps.ravel(), 64) / mean_of_longest(steps.ravel(), 4)
    summary = a_long_run(steps=steps).summary()
    assert summary.more_chains == f"64 would take about {ratio:.1f} × the rounds of 4, and give 16 × the draws"
    assert f"more chains      {summary.more_chains}" in str(summary)
    assert summary_data(summary)["more_chains"] == summary.more_chains
    alike = a_long_run(steps=np.full((400, 4, 1), 7.0)).summary()
    assert alike.more_chains == "64 would take as many rounds as 4, and give 16 × the draws"
    for silent in (
        a_long_run(rounds=900, steps=steps),
        a_long_run(size=50_000, steps=steps),
        a_long_run(chains=40, sampler=cs.mala()),
        replace(a_long_run(steps=steps), thin=2),
        a_long_run(steps=np.where(np.random.default_rng(1).random((400, 4, 1)) < 0.01, 1023.0, 1.0)),
    ):
        assert silent.summary().more_chains is None
        assert "more chains" not in str(silent.summary())
