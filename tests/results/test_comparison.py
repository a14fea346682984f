"""Models compared over owners are ranked as ArviZ ranks them on pooled rows, and only on the same rows."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import consilience as cs
from consilience._refused import Refused
from consilience.results.run import Owner

from .compared import MODELS, SHARDS, arviz_compare, arviz_loo, exact, pooled


@pytest.fixture(scope="module", autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def runs(double):
    return {name: exact(name) for name in MODELS}


@pytest.fixture(scope="module")
def found(runs):
    return cs.compare(runs)


@pytest.fixture(scope="module")
def expected(runs):
    return arviz_compare({name: pooled(name, run) for name, run in runs.items()})


def test_figures_and_stacking_weights_are_arviz_on_pooled_rows(found, expected):
    assert [model.name for model in found.models] == [*expected.index]
    table = found.to_dataframe()
    for ours, theirs in {"p_loo": "p"}.items() | {(name, name) for name in ("rank", "elpd", "elpd_diff", "se", "dse")}:
        np.testing.assert_allclose(table[ours], expected[theirs], rtol=0, atol=1e-8, err_msg=ours)
    np.testing.assert_allclose(table["weight"], expected["weight"], rtol=0, atol=1e-8)
    assert list(table["high_k"] > 0) == list(expected["warning"])
    assert 0 < table["weight"].iloc[0] < 1  # or anything that weighs the best alone would do
    assert (found.rows, found.weights) == (90, "stacking")


def test_pseudo_bma_weights_are_arviz(runs):
    expected = arviz_compare({name: pooled(name, run) for name, run in runs.items()}, method="pseudo-BMA")
    found = cs.compare(runs, weights="pseudo-BMA")
    np.testing.assert_allclose([found[name].weight for name in expected.index], expected["weight"], atol=1e-8)
    with pytest.raises(Refused, match="Write weights='stacking'"):
        cs.compare(runs, weights="stackin")


def test_the_table_says_who_is_ahead_and_warns(found):
    text, best, second = str(found), *found.models[:2]
    assert f"{best.name} is ahead of {second.name} by {second.elpd_diff:.1f} ± {second.dse:.1f}" in text
    assert "90 rows of 3 owners, weights by stacking" in text
    assert "high k-hat (" in text
    close = replace(found, models=(best, replace(second, elpd_diff=1.0, dse=0.1)))
    assert "too little to tell them apart" in close.verdict
    unsure = replace(found, models=(best, replace(second, elpd_diff=9.0, dse=6.0)))
    assert "it may be chance" in unsure.verdict
    sure = replace(found, models=(best, replace(second, elpd_diff=9.0, dse=3.0)))
    assert "it predicts better" in sure.verdict


def test_a_difference_of_two_models_that_are_nearly_one_keeps_its_digits(runs):
    near = replace(runs["two"], kept=runs["two"].kept + 1e-9)
    elpd = [arviz_loo(pooled("two", run)).elpd_i.values for run in (runs["two"], near)]
    difference = elpd[0] - elpd[1]
    found = cs.compare({"one": runs["two"], "other": near}).models[1]
    assert found.dse == pytest.approx(np.sqrt(len(difference) * difference.var()), rel=1e-3)
    assert 0 < found.dse < 1e-6


def test_models_of_other_rows_are_refused(runs):
    one = runs["all"]
    shorter = jax.tree.map(lambda leaf: leaf[:-1], SHARDS[1])
    other_y = {**SHARDS[2], "y": SHARDS[2]["y"] + 1}
    turned = jax.tree.map(lambda leaf: leaf[::-1], SHARDS[0])
    for shards, said in (
        ([SHARDS[0], shorter, SHARDS[2]], "agent 1: a has 30 observations of 30 rows, b 29 of 29"),
        ([*SHARDS[:2], other_y], "agent 2: y of a and y of b are not the same values"),
        ([turned, *SHARDS[1:]], "agent 0: y of a and y of b are not the same values"),
        (SHARDS[:2], "b is of the rows of agent 0, agent 1, a of agent 0, agent 1, agent 2"),
    ):
        with pytest.raises(Refused, match=said):
            cs.compare({"a": one, "b": replace(runs["two"], shards=shards)})


def test_owners_are_found_by_name_whatever_their_order(runs):
    one, two = replace(runs["all"], names=("a", "b", "c")), replace(runs["two"], names=("a", "b", "c"))
    turned = replace(runs["two"], names=("c", "a", "b"), shards=[SHARDS[2], *SHARDS[:2]])
    assert cs.compare({"all": one, "two": turned}) == cs.compare({"all": one, "two": two})


def test_what_cannot_be_compared_is_refused(runs):
    one, two = runs["all"], runs["two"]
    for bad, said in (
        ({"a": one}, r"two or more are needed, by name.*run\.loo"),
        ([one, two], "two or more are needed, by name"),
        ({"a": one, "b": replace(two, shards=None)}, "no data at hand"),
        ({"a": one, "b": replace(two, posterior=None)}, "loaded without its model"),
    ):
        with pytest.raises(Refused, match=said):
            cs.compare(bad)
    site = replace(two.posterior)
    object.__setattr__(site, "per_row", False)
    with pytest.raises(Refused, match="a likelihood of rows, the other of whole sites"):
        cs.compare({"a": one, "b": replace(two, posterior=site)})


def test_an_owners_run_is_compared_on_its_own_rows_and_says_so(runs):
    def own(run, *without):
        names = tuple(name for name in ("a", "b", "c") if name not in without)
        return replace(run, owner=Owner("b", names, without), shards=[SHARDS[1]])

    found = cs.compare({"all": own(runs["all"]), "two": own(runs["two"])})
    assert found.rows == 30
    assert "These are rows of b alone: without a, c." in str(found)
    with pytest.raises(Refused, match="two was sampled with b, a, all with b, a, c"):
        cs.compare({"all": own(runs["all"]), "two": own(runs["two"], "c")})
