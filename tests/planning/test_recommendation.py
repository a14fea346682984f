"""Plans of whole runs: what a surrogate asks is what a run has counted, and what is recommended follows from it."""

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import consilience as cs
from consilience._refused import Refused
from consilience.planning import (
    EFFECTIVE_DRAWS,
    MEASURED,
    SPLIT,
    STARTED,
    SURROGATE,
    Demand,
    LinkSpeeds,
    assumed_of,
    demand_of,
    recommend,
)
from consilience.planning.cost import CostModel
from consilience.planning.questions import questions_of
from consilience.planning.recommendation import CHAINS, NUTS, _Whole, in_words

RING = cs.Network.ring(4)
ASSUMED = assumed_of(8)
ROUNDS = Path(__file__).parents[2] / "docs" / "rounds.json"
SLOW = LinkSpeeds.alike(RING, 0.02, 5e7)
CHAINS_RUN, DRAWS = 4, 472  # 1000 effective draws where 0.53 of a draw is one


@pytest.fixture(scope="module")
def counted():
    """A run of a surrogate whose rounds and bytes were counted."""
    random = np.random.default_rng(0)
    x = random.standard_normal((60, 3)).astype(np.float32)
    data = {"x": x, "y": (random.random(60) < 1 / (1 + np.exp(-x[:, 0]))).astype(np.float32)}
    posterior = cs.Posterior(
        lambda w: -0.5 * w @ w,
        lambda w, batch: batch["y"] * (batch["x"] @ w) - jnp.logaddexp(0.0, batch["x"] @ w),
        init=np.zeros(3, np.float32),
    )
    length = {"num_samples": DRAWS, "num_warmup": 1, "num_chains": CHAINS_RUN, "progress": False}
    return cs.sample(posterior, cs.shard(data, agents=4), RING, cs.surrogate(correction="scored"), **length)


@pytest.fixture(scope="module")
def by_default():
    return recommend(RING, SLOW, 8)


def runs_of(found):
    return {run.sampler: run for run in found.runs}


def test_a_whole_run_takes_the_rounds_and_bytes_that_were_counted(counted):
    fit_sums = int(counted.raw_stats["surrogate_sums"].max())
    facts = ASSUMED[SURROGATE]._replace(fit_sums=fit_sums, ess_per_draw=EFFECTIVE_DRAWS / (DRAWS * CHAINS_RUN))
    planned = _Whole(RING, CostModel(RING, SLOW), MEASURED, 3, 0.0).run(SURROGATE, facts, CHAINS_RUN, "tree")
    assert planned.draws == DRAWS
    assert planned.sums == fit_sums + 1
    asked = questions_of(cs.surrogate(), RING, 3)
    climbing, trial, end, block = (
        np.array(Demand(question.collectives, 1.0, 0, 0).traffic(RING))
        for question in (asked.derivatives, asked.trial, asked.end, asked.block.of_chains(CHAINS_RUN))
    )
    # How many sums of a fit are scores is not known beforehand.
    possible = [(fit_sums - k) * climbing + k * trial + end + block for k in range(1, fit_sums)]
    assert [counted.traffic.rounds, counted.traffic.bytes] in [[rounds, size] for rounds, _, size in possible]
    assert planned.rounds in [rounds for rounds, *_ in possible]


def test_many_chains_share_the_rounds_of_nuts_and_a_surrogate_needs_few(by_default):
    found = runs_of(by_default)
    assert [*found] == [SURROGATE, STARTED, NUTS, SPLIT]
    assert (by_default.sampler, by_default.consensus, by_default.chains) == (SURROGATE, "gather", CHAINS[0])
    assert found[STARTED].chains > CHAINS[0]
    assert found[NUTS].seconds > 100 * by_default.seconds
    assert [run.sampler for run in by_default.runs if not run.is_likely] == [SPLIT]
    for words in (
        "Take surrogate, 4 chains",
        "masked sums that are gathered",
        "1,000 effective draws",
        "nuts",
        "goes on by",
    ):
        assert words in by_default.sentence
    assert "Only a trial can tell" in by_default.unknown


def test_what_a_trial_has_told_is_not_assumed(by_default):
    few = {name: facts._replace(ess_per_draw=facts.ess_per_draw / 100) for name, facts in ASSUMED.items()}
    worse = recommend(RING, SLOW, 8, known=few)
    assert worse.unknown == ""
    assert not any(run.is_assumed for run in worse.runs)
    assert worse.seconds > 2 * by_default.seconds
    rejected = recommend(RING, SLOW, 8, known={SPLIT: ASSUMED[SPLIT]._replace(sums=50.0)})
    assert rejected.sampler == "nuts from the surrogate"
    assert 'Take nuts with start = "surrogate"' in rejected.sentence
    assert [run.sampler for run in rejected.runs if not run.is_likely] == [SURROGATE]


def test_of_many_parameters_proposals_are_not_counted_on_and_of_thousands_no_surrogate():
    assert [run.sampler for run in recommend(RING, SLOW, 300).runs if not run.is_likely] == [SURROGATE]
    large = recommend(RING, SLOW, 2000)
    assert [run.sampler for run in large.runs] == [NUTS]
    assert large.sampler == NUTS
    assert [run.sampler for run in recommend(RING, SLOW, 8, has_failed=True).runs] == [STARTED, NUTS]


@pytest.mark.parametrize("name", [NUTS, STARTED])
def test_sums_that_are_assumed_of_many_parameters_lie_between_those_that_were_counted(name):
    counted = [
        row["warm"]["sums"] + row["sampling"]["sums"] * EFFECTIVE_DRAWS / row["ess"]
        for row in json.loads(ROUNDS.read_text(encoding="utf-8"))["rows"]
        if row["method"] == name and row.get("dimension") == 650
    ]
    planned = _Whole(RING, CostModel(RING, SLOW), MEASURED, 650, 0.0).run(name, assumed_of(650)[name], 4, "tree")
    assert min(counted) <= planned.sums <= max(counted)
    found = recommend(RING, SLOW, 650)
    assert "models with 650 parameters" in found.unknown
    assert "a warm-up as long as" in found.unknown


def test_sums_go_the_way_that_is_asked_for(by_default):
    assert {run.consensus for run in recommend(RING, SLOW, 8, consensus="tree").runs} == {"tree"}
    narrow = LinkSpeeds.alike(RING, 1e-4, 1e5)
    assert {run.consensus for run in recommend(RING, narrow, 50, consensus="gather").runs} == {"gather"}
    over_tree = recommend(RING, SLOW, 8, consensus="tree")
    assert over_tree.seconds > by_default.seconds
    assert f"({in_words(over_tree.seconds)} over the tree)" in by_default.sentence
    assert "over the tree)" not in recommend(RING, SLOW, 8, consensus="gather").sentence


def test_gradients_that_take_time_count_for_every_chain():
    slow, fast = (recommend(RING, SLOW, 2000, gradient_seconds=gradient) for gradient in (1.0, 0.0))
    assert slow.chains < fast.chains or slow.chains == CHAINS[0]
    [run] = slow.runs
    assert run.seconds > run.sums * run.chains * 1.0


def test_times_are_said_as_people_say_them():
    assert [in_words(seconds) for seconds in (0.012, 1.52, 77.4, 1714, 8000, 36000)] == [
        "12 ms",
        "1.5 s",
        "77 s",
        "29 minutes",
        "2.2 hours",
        "10 hours",
    ]


def test_a_network_that_is_too_large_is_refused():
    with pytest.raises(Refused, match="too many"):
        recommend(cs.Network.path(9000), LinkSpeeds.alike(cs.Network.path(9000), 0.02, 5e7), 8)


def test_a_draw_with_a_number_of_sums_that_nobody_knows_beforehand_is_that_of_nuts():
    whole = _Whole(RING, CostModel(RING, SLOW), MEASURED, 8, 0.0)
    found, expected = whole._draw(7.0), demand_of(cs.nuts(), RING, 8, evaluations=7)
    assert found.traffic(RING)[:2] == expected.traffic(RING)[:2]
    assert found.traffic(RING)[2] == pytest.approx(expected.traffic(RING)[2], rel=0.1)


def test_sums_go_over_the_tree_where_masks_hide_nothing_and_where_links_are_narrow():
    two = cs.Network.path(2)
    assert {run.consensus for run in recommend(two, LinkSpeeds.alike(two, 0.02, 5e7), 8).runs} == {"tree"}
    narrow = _Whole(RING, CostModel(RING, LinkSpeeds.alike(RING, 1e-4, 1e5)), MEASURED, 50, 0.0)
    assert narrow.run(NUTS, ASSUMED[NUTS], 4, "tree").seconds < narrow.run(NUTS, ASSUMED[NUTS], 4, "gather").seconds
    gathered, over_tree = (
        _Whole(RING, CostModel(RING, SLOW), MEASURED, 8, 0.0).run(NUTS, ASSUMED[NUTS], 4, way)
        for way in ("gather", "tree")
    )
    assert gathered.rounds == RING.diameter * gathered.sums
    assert over_tree.rounds == RING.tree.rounds * over_tree.sums + RING.tree.depth * 1300  # draws and warm-up


def test_questions_of_many_chains_are_more_work():
    asked = questions_of(cs.surrogate(), RING, 3)
    assert asked.block.of_chains(64).evaluations == 64 * asked.block.evaluations > 0
    assert asked.derivatives.evaluations > asked.derivatives.collectives[-1].times
