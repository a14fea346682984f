"""Names of agents and columns, from the data to the run: in memory, on disk, on devices."""

import jax.numpy as jnp
import networkx as nx
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest

import consilience as cs
from consilience._refused import Refused

RANDOM = np.random.default_rng(0)
X = pd.DataFrame(RANDOM.normal(size=(45, 3)), columns=["age", "dose", "bmi"])
Y = pd.Series(RANDOM.normal(size=45) + X["age"])
SITES = ("cleveland", "va", "basel")
SHARDS = dict(zip(SITES, cs.shard({"x": X, "y": Y}, 3), strict=True))
RING = cs.Network.ring(3)
QUICK = {"num_samples": 5, "num_warmup": 0, "num_chains": 1, "progress": False}
SAMPLER = cs.published(0.01)


def prior(params):
    return -0.5 * sum(jnp.sum(leaf**2) for leaf in params.values())


def likelihood(params, batch):
    """`w` acts by columns; `v` is as long and does not; `mixed` acts through columns in another order."""
    z = batch["x"] @ params["w"] + batch["x"][:, ::-1] @ params["mixed"] + params["v"].sum()
    return -0.5 * (batch["y"] - z) ** 2


INIT = {name: jnp.zeros(3) for name in ("w", "v", "mixed")}
POSTERIOR = cs.Posterior(prior, likelihood, init=INIT)


def sample(posterior=POSTERIOR, shards=SHARDS, network=RING, **options):
    return cs.sample(posterior, shards, network, SAMPLER, **QUICK, **options)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return sample(out=tmp_path_factory.mktemp("labels") / "run")


def assert_labelled(run):
    assert run.agent_names == SITES
    assert run.columns == {"x": ("age", "dose", "bmi")}
    assert run.coords == {"x_column": ("age", "dose", "bmi")}
    assert run.dims == {"w": ("x_column",)}  # and no other parameter of that length
    names = run.summary().names
    assert {"w[age]", "w[dose]", "w[bmi]", "v[0]", "mixed[0]"} <= set(names)


def test_a_run_has_the_names_of_agents_and_columns_and_keeps_them(run):
    assert_labelled(run)
    assert_labelled(cs.load(run.folder))


def test_devices_have_them_too():
    assert_labelled(sample(runtime=cs.Devices(2)))


def test_a_folder_of_before_there_were_labels_is_read_and_gone_on_with(run, tmp_path):
    import shutil
    import tomllib

    import tomli_w

    old = tmp_path / "old"
    shutil.copytree(run.folder, old)
    record = tomllib.loads((old / "run.toml").read_text())
    del record["labels"]
    record["dims"] = {}
    (old / "run.toml").write_text(tomli_w.dumps(record))
    loaded = cs.load(old)
    assert (loaded.names, loaded.columns, loaded.coords) == ((), {}, {})
    assert loaded.agent_names[0] == "agent 0"
    assert_labelled(sample(out=old, resume=True))


def test_names_do_not_change_the_draws(run):
    plain = [{"x": shard["x"].to_numpy(), "y": np.asarray(shard["y"])} for shard in SHARDS.values()]
    without = sample(shards=plain)
    np.testing.assert_array_equal(without.positions, run.positions)
    assert (without.names, without.columns, without.coords) == ((), {}, {})
    assert sample(shards=plain, columns={"x": ["age", "dose", "bmi"]}).coords == run.coords


def test_names_of_a_networkx_graph_say_which_data_are_whose():
    network = cs.Network.from_networkx(nx.path_graph(3))
    assert network.names == ()
    graph = nx.Graph([("va", "basel"), ("basel", "cleveland")])
    network = cs.Network.from_networkx(graph)
    assert network.names == ("va", "basel", "cleveland")
    named = sample(network=network)
    assert named.names == network.names
    np.testing.assert_array_equal(named.shards[0]["y"], np.asarray(SHARDS["va"]["y"]))
    with pytest.raises(Refused, match=r"shards: they lack 'va' and have 'vaa', unlike the network"):
        sample(network=network, shards={name.replace("va", "vaa"): shard for name, shard in SHARDS.items()})


def test_refusals_call_agents_by_their_names():
    holed = {**SHARDS, "va": {"x": SHARDS["va"]["x"].mask(X > 1), "y": SHARDS["va"]["y"]}}
    with pytest.raises(Refused, match=r"agent va: x has NaN"):
        sample(shards=holed)


@pytest.mark.parametrize(
    ("shards", "message"),
    [
        ({"x": X, "y": Y}, r"a dict of arrays is one agent's data, .*cs\.shard\(data, agents=3\)"),
        ({"x": np.zeros((3, 3)), "y": np.zeros(3)}, r"a dict of arrays is one agent's data"),
        (dict(list(SHARDS.items())[:2]), r"there are shards of 2 agents \(cleveland, va\), and the network has 3"),
    ],
    ids=["one agent's", "arrays", "too few"],
)
def test_a_dict_that_is_not_of_all_agents_is_refused(shards, message):
    with pytest.raises(Refused, match=message):
        sample(shards=shards)


def changed(**columns):
    return {**SHARDS, "va": {**SHARDS["va"], **columns}}


@pytest.mark.parametrize(
    ("shards", "message"),
    [
        (changed(x=SHARDS["va"]["x"][["dose", "age", "bmi"]]), r"agent va: the columns of x are in another order"),
        (
            changed(x=SHARDS["va"]["x"].rename(columns={"age": "Age"})),
            r"agent va: x lacks 'age' and has 'Age', unlike agent cleveland's\. Write x\[\['age', 'dose', 'bmi'\]\]",
        ),
        (
            changed(x=SHARDS["va"]["x"].assign(age="old")),
            r"agent va: column 'age' of x has dtype \w+; numbers are needed\. .*x\.drop\(columns=\['age'\]\)",
        ),
    ],
    ids=["order", "names", "text"],
)
def test_columns_that_are_not_alike_are_refused(shards, message):
    with pytest.raises(Refused, match=message):
        sample(shards=shards)


def test_columns_that_do_not_fit_are_refused():
    plain = [{"x": shard["x"].to_numpy(), "y": np.asarray(shard["y"])} for shard in SHARDS.values()]
    with pytest.raises(Refused, match=r"columns: x has shape \(15, 3\), and its columns are named \['age'\]"):
        sample(shards=plain, columns={"x": ["age"]})
    with pytest.raises(Refused, match=r"columns: the data have no 'X'; they have 'x', 'y'"):
        sample(shards=plain, columns={"X": ["age"]})
    with pytest.raises(Refused, match=r"columns: two columns of x are called 'age'\. Rename one\."):
        sample(shards=plain, columns={"x": ["age", "dose", "age"]})


def test_frames_to_predict_for_have_the_columns_of_the_agents_in_their_order(run):
    def mean(params, x):
        return x @ params["w"]

    task, turned, renamed = (
        cs.Regression(mean, lambda params: 1.0),
        X[["bmi", "age", "dose"]],
        X.rename(columns=str.title),
    )
    message = r"the columns of x are in another order than cleveland's\. Write x\[\['age', 'dose', 'bmi'\]\]"
    for call in (
        lambda: run.predict(mean, turned),
        lambda: run.predict(lambda params, rows: mean(params, rows["x"]), {"x": turned}),
        lambda: run.evaluate({"x": turned, "y": Y}, task=task),
        lambda: cs.load(run.folder).evaluate({"x": turned, "y": Y}, task=task),
    ):
        with pytest.raises(Refused, match=message):
            call()
    with pytest.raises(Refused, match=r"test: x lacks 'age'.* and has 'Age'"):
        run.evaluate({"x": renamed, "y": Y}, task=task)
    np.testing.assert_array_equal(run.predict(mean, X), run.predict(mean, X.to_numpy()))


def test_a_run_that_is_gone_on_with_keeps_the_names_that_are_not_given_again(tmp_path):
    sample(out=tmp_path / "run")
    plain = [{"x": shard["x"].to_numpy(), "y": np.asarray(shard["y"])} for shard in SHARDS.values()]
    for run in (sample(shards=plain, out=tmp_path / "run", resume=True), cs.load(tmp_path / "run")):
        assert run.agent_names == tuple(SHARDS)
        assert run.columns == {"x": ("age", "dose", "bmi")}
        assert "w[dose]" in run.summary().names


def test_labels_of_the_user_stay_as_they_are():
    labels = {"dims": {"w": ("feature",), "v": ("part",)}, "coords": {"part": ["a", "b", "c"]}}
    run = sample(cs.Posterior(prior, likelihood, init=INIT, **labels))
    assert run.coords == {"part": ("a", "b", "c"), "feature": ("age", "dose", "bmi")}
    assert {"v[b]", "w[dose]"} <= set(run.summary().names)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"dims": {"w": ("f",)}, "coords": {"f": ["a"]}}, r"coords: 'f' has 1 labels, and that axis of w has length 3"),
        ({"coords": {"f": ["a"]}}, r"coords: no axis is called 'f'\. .*dims=\{\"w\": \(\"f\",\)\}"),
        ({"dims": {"ww": ("f",)}}, r"dims: no parameter is called 'ww'; .* Write dims=\{\"w\": \.\.\.\}"),
        ({"dims": {"w": "feature"}}, r"dims: w has 'feature', .*dims=\{\"w\": \(\"feature\",\)\}"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, message):
    with pytest.raises(Refused, match=message):
        sample(cs.Posterior(prior, likelihood, init=INIT, **labels))


def horseshoe(batch):
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([3]).to_event(1))
    steps = numpyro.sample("steps", dist.Normal(0, 1).expand([3]).to_event(1))
    w = numpyro.deterministic("w", tau * z)
    numpyro.deterministic("path", jnp.cumsum(steps))
    with numpyro.plate("rows", len(batch["y"])):
        numpyro.sample("y", dist.Normal(batch["x"] @ w + steps.sum(), 1.0), obs=batch["y"])


def test_what_a_model_shows_is_labelled_where_each_element_goes_with_a_column():
    assert sample(cs.Posterior.from_numpyro(horseshoe)).dims == {"w": ("x_column",), "z": ("x_column",)}
    named = cs.Posterior.from_numpyro(horseshoe, dims={"steps": ("step",)}, coords={"step": [1, 2, 3]})
    assert {"steps[3]", "w[age]"} <= set(sample(named).summary().names)


def test_the_first_layer_of_a_network_is_labelled_by_columns():
    def mean(params, x):
        return jnp.tanh(x @ params["first"]) @ params["second"]

    init = {"first": jnp.zeros((3, 3)), "second": jnp.zeros(3)}
    run = sample(cs.Posterior.regressor(mean, init=init))
    assert run.dims == {"first": ("x_column", "first_dim_1")}
    assert "first[bmi, 0]" in run.summary().names


def test_what_is_kept_is_labelled_where_it_still_goes_by_columns():
    run = sample(keep=lambda params: {"odds": jnp.exp(params["w"]), "turned": params["w"][::-1]})
    assert run.dims == {"odds": ("x_column",)}
