"""Splits, padding and masks: nothing lost, nothing counted twice, and bad data refused by the agent's name."""

from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse import csr_array

import consilience as cs
from consilience.model import Shard, check_alike, own_shards, stack_shards

from ..targets import REGRESSION, linear_regression

ROWS = 60
AGENTS = ["agent 0", "agent 1", "agent 2"]
DATA = {
    "x": np.random.default_rng(0).standard_normal((ROWS, 5)).astype(np.float32),
    "y": np.repeat(np.arange(6), 10).astype(np.int32),
}


@pytest.mark.parametrize(
    "options",
    [
        {"by": "iid"},
        {"by": "label"},
        {"by": "dirichlet", "alpha": 0.3},
        {"by": "dirichlet", "label": DATA["y"]},
        {"by": [np.arange(0, ROWS, 3), np.arange(1, ROWS, 3), np.arange(2, ROWS, 3)]},
    ],
    ids=str,
)
def test_every_row_goes_to_exactly_one_agent(options):
    shards = cs.shard(DATA, 3, **options)
    assert len(shards) == 3
    rows = np.concatenate([s["x"] for s in shards])
    np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(DATA["x"], axis=0))
    for shard in shards:  # rows stay together
        for x, y in zip(shard["x"], shard["y"], strict=True):
            place = int(np.flatnonzero((DATA["x"] == x).all(axis=1))[0])
            assert DATA["y"][place] == y


def test_label_split_gives_two_of_six_classes_each():
    assert [np.unique(s["y"]).tolist() for s in cs.shard(DATA, 3, by="label")] == [[0, 1], [2, 3], [4, 5]]


def test_dirichlet_alpha_decides_how_alike_agents_are():
    def spread(alpha):
        shards = cs.shard(DATA, 3, by="dirichlet", alpha=alpha, seed=1)
        return np.std([len(s["y"]) for s in shards])

    assert 4 * spread(1e4) < spread(0.2)


def test_splits_repeat_with_the_seed():
    one, same, other = (cs.shard(DATA, 3, seed=s)[0]["x"] for s in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_tuples_have_labels_last_and_features_first():
    shards = cs.shard((DATA["x"], DATA["y"]), 3, by="label")
    assert [np.unique(s[1]).tolist() for s in shards] == [[0, 1], [2, 3], [4, 5]]
    assert cs.shard((DATA["x"], DATA["y"]), 5, by="features")[0][0].any(axis=0).tolist() == [True] + [False] * 4


@pytest.mark.parametrize("blocks", [[2, 1, 2], [[0, 1], [2], [3, 4]]])
def test_feature_blocks_keep_all_rows_and_zero_the_rest(blocks):
    shards = cs.shard(DATA, 3, by="features", blocks=blocks)
    np.testing.assert_array_equal(sum(s["x"] for s in shards), DATA["x"])
    assert [s["x"].any(axis=0).tolist() for s in shards][1] == [False, False, True, False, False]
    assert all(s["x"].dtype == np.float32 and np.array_equal(s["y"], DATA["y"]) for s in shards)


def test_features_are_masked_by_their_place_not_by_their_values():
    """An autoencoder's target is the same array as its input, and stays whole."""
    shards = cs.shard((DATA["x"], DATA["x"]), 5, by="features")
    assert all(np.array_equal(s[1], DATA["x"]) and s[0].any(axis=0).sum() == 1 for s in shards)
    named = namedtuple("Data", "x y")(DATA["x"], DATA["y"])
    assert type(cs.shard(named, 5, by="features")[0]).__name__ == "Data"
    assert [np.unique(s.y).tolist() for s in cs.shard(named, 3, by="label", label="y")] == [[0, 1], [2, 3], [4, 5]]
    rows = np.arange(ROWS).reshape(3, -1)
    np.testing.assert_array_equal(cs.shard(DATA, 3, by=rows)[1]["x"], DATA["x"][20:40])
    np.testing.assert_array_equal(sum(cs.shard(DATA["x"], 5, by="features")), DATA["x"])


def test_jax_arrays_and_wide_integers_that_fit_are_data():
    shards = cs.shard({"x": jnp.asarray(DATA["x"]), "y": DATA["y"].astype(np.int64)}, 3)
    assert stack_shards(shards, 3).batch["y"].dtype == jnp.int32


def test_pool_undoes_a_split_and_stacks_feature_blocks():
    assert len(cs.pool(cs.shard(DATA, 3))[0]["x"]) == ROWS
    assert len(cs.pool(cs.shard(DATA, 5, by="features"))[0]["x"]) == 5 * ROWS
    by_name = dict(zip("abc", cs.shard(DATA, 3), strict=True))
    np.testing.assert_array_equal(cs.pool(by_name)[0]["x"], cs.pool([*by_name.values()])[0]["x"])


def test_padding_changes_neither_value_nor_gradient():
    target = linear_regression(4)
    stacked = stack_shards(target.shards, 4)
    assert stacked.mask.sum(axis=1).tolist() == [12, 13, 14, 15]
    w = jnp.array([0.3, -1.0, 2.0])

    def local(w, shard):
        return REGRESSION.local_logdensity(w, shard, 4)

    values, gradients = jax.vmap(jax.value_and_grad(local), in_axes=(None, 0))(w, stacked)
    for agent, data in enumerate(target.shards):
        value, gradient = jax.value_and_grad(local)(w, Shard(data, None))
        np.testing.assert_allclose(values[agent], value, rtol=1e-6)
        np.testing.assert_allclose(gradients[agent], gradient, rtol=1e-5)
    # The parts add up to the whole: the prior is counted once.
    whole = REGRESSION.local_logdensity(w, Shard(cs.pool(target.shards)[0], None), 1)
    np.testing.assert_allclose(values.sum(), whole, rtol=1e-6)


def test_padding_repeats_a_row_so_that_a_likelihood_with_a_pole_at_zero_has_finite_gradients():
    shards = [{"z": np.array([1.0, 2.0], np.float32)}, {"z": np.array([3.0], np.float32)}]
    posterior = cs.Posterior(lambda w: -0.5 * w**2, lambda w, batch: w * jnp.log(batch["z"]) - jnp.sqrt(batch["z"] * w))
    stacked = stack_shards(shards, 2)
    gradients = jax.vmap(lambda s: jax.grad(posterior.local_logdensity)(1.5, s, 2))(stacked)
    assert np.isfinite(gradients).all()


def test_equal_shards_need_no_mask():
    assert stack_shards(cs.shard(DATA, 3), 3).mask is None


def shards_with(agent, **changes):
    shards = [dict(s) for s in cs.shard(DATA, 3)]
    shards[agent] |= changes
    return shards


X, Y = (DATA[k][:20] for k in "xy")
HOLED = np.where(np.arange(20)[:, None] == 7, np.nan, X).astype(np.float32)
REFUSED_SHARDS = {
    "NaN": (shards_with(1, x=HOLED), r"agent 1: x has NaN in 1 of 20 rows, the first is row 7"),
    "empty": (shards_with(2, x=X[:0], y=Y[:0]), r"agent 2: it has no examples"),
    "width": (shards_with(1, x=X[:, :3]), r"agent 1: an example of x has shape \(3,\), agent 0's has \(5,\)"),
    "dtype": (shards_with(1, x=X.astype(np.float64)), r"agent 1: x has dtype float64, agent 0's has float32"),
    "text": (shards_with(0, y=np.full(20, "a")), r"agent 0: y has dtype <U1"),
    "ragged": (shards_with(1, x=X[:5]), r"agent 1: x has 5 rows but y has 20"),
    "structure": (
        [(X, Y), {"x": X, "y": Y}, (X, Y)],
        r"agent 1: its data is a dict of 2 arrays, agent 0's a tuple of 2",
    ),
    "scalar": (shards_with(1, y=np.float32(1)), r"agent 1: y is a single number"),
    "count": (cs.shard(DATA, 2), r"there are 2 shards for 3 agents"),
    "not a list": (DATA, r"shards: a dict, .*cs\.shard\(data, agents=3\)"),
    "nothing": ([{}, {}, {}], r"agent 0: there are no arrays"),
    "too large": (
        [{"t": np.array([1, 2]), "y": Y[:2]}] * 2 + [{"t": np.array([1, 3_000_000_000]), "y": Y[:2]}],
        r"agent 2: t has 3000000000 in row 1, which int32 cannot hold",
    ),
    "too large a float": ([{"x": np.array([1e300])}] * 3, r"agent 0: x has 1e\+300 in row 0, which float32 cannot"),
    "lists": ([{"x": [1.0, 2.0]}] * 3, r"x\.0 is a single number.*Write lists as np\.asarray"),
    "sparse": ([csr_array(np.eye(3))] * 3, r"agent 0: the data is a sparse matrix"),
    "masked": ([np.ma.masked_array([1.0, 2.0], [0, 1])] * 3, r"agent 0: the data has masked entries"),
}


@pytest.mark.parametrize(("shards", "message"), REFUSED_SHARDS.values(), ids=REFUSED_SHARDS)
def test_bad_shards_are_refused_by_name(shards, message):
    with pytest.raises((ValueError, TypeError), match=message):
        stack_shards(shards, 3)


@pytest.mark.parametrize("own", [range(3), range(1), range(1, 3), range(2, 3)], ids=str)
@pytest.mark.parametrize("by_number", [False, True], ids=["a list", "a function"])
def test_a_host_has_the_shards_of_its_own_agents(own, by_number):
    shards = cs.shard(DATA, 3)
    found = check_alike(own_shards(shards.__getitem__ if by_number else shards, 3, own), AGENTS[own.start : own.stop])
    assert len(found) == len(own)
    for agent, shard in zip(own, found, strict=True):
        np.testing.assert_array_equal(shard["x"], shards[agent]["x"])


def test_a_host_names_its_agents_as_all_do():
    with pytest.raises(ValueError, match="agent 2: x has NaN"):
        check_alike(own_shards(shards_with(2, x=HOLED), 3, range(1, 3)), AGENTS[1:])


REFUSED_SPLITS = {
    "unknown": ({"by": "class"}, r"by = \'class\': not one of \'iid\'"),
    "too few classes": ({"by": "label", "agents": 7}, r"6 classes cannot be dealt to 7 agents"),
    "no label": ({"by": "label", "label": "z"}, r"label: data has 'x', 'y'. Say which"),
    "NaN label": ({"by": "dirichlet", "label": np.full(ROWS, np.nan)}, r"the class of row 0 is NaN"),
    "by nothing": ({"by": None}, r"by = None: not one of .*, nor a list"),
    "agents as text": ({"agents": "3"}, r"agents = '3': a whole number"),
    "label shape": ({"by": "label", "label": "x"}, r"one class per row is needed"),
    "alpha": ({"by": "dirichlet", "alpha": 0}, r"alpha = 0"),
    "hopeless alpha": ({"by": "dirichlet", "alpha": 1e-4, "agents": 30}, r"Use a larger alpha"),
    "lists": ({"by": [[0]]}, r"1 index lists for 3 agents"),
    "twice": ({"by": [range(30), range(29, 60), []]}, r"row 29 is given to agent 0 and to agent 1"),
    "left out": ({"by": [range(30), range(30, 50), range(50, 59)]}, r"1 rows belong to no agent, the first is row 59"),
    "outside": ({"by": [range(30), range(30, 61), []]}, r"agent 1 is given a row outside 0 \.\.\. 59"),
    "negative": ({"by": [range(60), [-1], []]}, r"agent 1 is given a row outside"),
    "not whole": ({"by": [[0.5], [1], [2]]}, r"agent 0's indices must be a list of whole numbers"),
    "nothing": ({"by": [range(60), [], []]}, r"agent 1 would have no examples"),
    "agents": ({"agents": 0}, r"agents = 0"),
    "blocks": ({"by": "features", "blocks": [2, 2, 2]}, r"hold each of the 5 features once.*blocks=\[2, 2, 1\]"),
    "too many blocks": ({"by": "features", "agents": 6}, r"6 agents need 6 non-empty blocks"),
    "blocks of flags": ({"by": "features", "blocks": [[True], [False], [True]]}, r"lists of whole numbers"),
    "not a table": ({"by": "features", "feature": "y"}, r"a table \(rows, features\) is needed"),
}


@pytest.mark.parametrize(("options", "message"), REFUSED_SPLITS.values(), ids=REFUSED_SPLITS)
def test_bad_splits_are_refused(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        cs.shard(DATA, **{"agents": 3, **options})


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (DATA["x"], {"by": "label"}, r"label: data is a single array. Pass a dict"),
        (DATA["x"], {"by": "features", "feature": 0}, r"data is a single array, and all of it is features"),
        ((DATA["x"], DATA["y"]), {"by": "label", "label": 2}, r"label = 2: data is a tuple of 2"),
        ((DATA["x"], DATA["y"]), {"by": "label", "label": "y"}, r"label = 'y': data is a tuple of 2"),
    ],
)
def test_parts_of_the_data_that_are_not_there_are_refused(data, options, message):
    with pytest.raises(ValueError, match=message):
        cs.shard(data, 3, **options)


@pytest.mark.parametrize(
    ("shards", "message"),
    [
        (DATA, "pool: it takes a list"),
        ([], "pool: it takes a list"),
        ([(X,), (X[:, :2],)], r"agent 1: an example of 0 has shape"),
    ],
)
def test_what_cannot_be_pooled_is_refused(shards, message):
    with pytest.raises((TypeError, ValueError), match=message):
        cs.pool(shards)
