"""A run is loaded with the model and the rows that it was sampled with, and with no others."""

import re
import shutil
import tomllib
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import tomli_w

import consilience as cs
from consilience._refused import Refused

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(50, 3)).astype(np.float32)
Y = (X @ [1.0, 2.0, 3.0] + RANDOM.normal(size=50)).astype(np.float32)
SHARDS = cs.shard({"x": X, "y": Y}, agents=3)
RING = cs.Network.ring(3)
SHORT = {"num_samples": 30, "num_warmup": 20, "num_chains": 2, "progress": False}


def model(prior_sd=1.0, shift=0.0, columns=3):
    start = {"layer": {"w": jnp.zeros(columns)}}

    def log_likelihood(params, batch):
        return -0.5 * (batch["y"] - batch["x"][:, :columns] @ params["layer"]["w"] - shift) ** 2

    return cs.Posterior(lambda p: -0.5 * jnp.sum((p["layer"]["w"] / prior_sd) ** 2), log_likelihood, init=start)


def numpyro_model(scale=1.0, noise=1.0):
    def linear(batch):
        w = numpyro.sample("w", dist.Normal(0, scale).expand([3]).to_event(1))
        sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
        with numpyro.plate("rows", len(batch["y"])):
            numpyro.sample("y", dist.Normal(batch["x"] @ w, noise * sigma), obs=batch["y"])

    return cs.Posterior.from_numpyro(linear)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    cs.sample(model(), SHARDS, RING, cs.mala(), **SHORT, out=out)
    return out


@pytest.fixture
def copy(folder, tmp_path):
    """A copy of the folder, and a function that changes its record."""
    shutil.copytree(folder, tmp_path / "copy")
    path = tmp_path / "copy" / "run.toml"

    def change(edit):
        record = tomllib.loads(path.read_text())
        edit(record)
        path.write_text(tomli_w.dumps(record))
        return path.parent

    return change


def without_fingerprints(record):
    """Make a record as earlier versions wrote it."""
    del record["model"]["prior"], record["model"]["likelihood"]


def moved(shard, shift=1):
    return {**shard, "y": shard["y"] + np.float32(shift)}


def test_the_same_model_and_rows_are_taken_in_silence(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = cs.load(folder, posterior=model(), shards=SHARDS)
        cs.load(folder, posterior=model())
        cs.load(folder, shards=[jax.tree.map(jnp.asarray, shard) for shard in SHARDS])
        cs.load(folder, shards=lambda agent: SHARDS[agent])
    assert run.draws["layer"]["w"].shape == (3, 2, 30, 3)  # nested as the posterior's start is
    assert cs.load(folder).draws["layer.w"].shape == (3, 2, 30, 3)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (model(prior_sd=2.0), "posterior: the prior computes something else"),
        (model(shift=0.5), "posterior: the likelihood computes something else"),
        (model(2.0, 0.5), "posterior: the prior and the likelihood compute something else"),
        (model(columns=2), r"posterior: it cannot be computed with the parameters .*: layer\.w \(3,\)"),
        (numpyro_model(), "posterior: it cannot be computed"),
    ],
)
def test_another_model_is_refused(folder, other, said):
    with pytest.raises(Refused, match=said):
        cs.load(folder, posterior=other, shards=SHARDS)


def test_without_shards_the_prior_is_compared(folder):
    cs.load(folder, posterior=model(shift=0.5))
    with pytest.raises(Refused, match="the prior computes"):
        cs.load(folder, posterior=model(prior_sd=2.0))


def test_other_rows_are_refused_with_the_agent_whose_they_are(folder):
    one, two, three = SHARDS
    shorter = jax.tree.map(lambda leaf: leaf[:-1], three)
    for shards, said in (
        ([one, moved(two), three], r"the rows of agent 1 are not those .* \(other values, columns or dtypes"),
        ([one, moved(two), shorter], r"the rows of agent 1, agent 2 are not"),
        ([one, two, shorter], r"agent 2 .*\(there are 15, and were 16\)"),
        ([two, one, three], "agent 0, agent 1 are out of place"),
        (SHARDS[:2], "there are 2, and the run in .* is of 3 agents"),
    ):
        with pytest.raises(Refused, match=said):
            cs.load(folder, shards=shards)
        with pytest.raises(Refused, match=said):
            cs.load(folder, posterior=model(), shards=shards)


def test_a_folder_of_an_earlier_version_says_what_it_cannot_compare(copy):
    old = copy(without_fingerprints)
    with pytest.warns(UserWarning, match="not compared with the run in .*no fingerprint of the prior and the likelih"):
        cs.load(old, posterior=model(prior_sd=2.0), shards=SHARDS)
    with pytest.raises(Refused, match="the rows of agent 1"):
        cs.load(old, shards=[SHARDS[0], moved(SHARDS[1]), SHARDS[2]])


def test_such_a_folder_is_gone_on_with_and_has_fingerprints_then(copy):
    old = copy(without_fingerprints)
    run = cs.sample(model(), SHARDS, RING, cs.mala(), **{**SHORT, "num_samples": 35}, out=old, resume=True)
    assert run.num_draws == 35
    with pytest.raises(Refused, match="the prior computes"):
        cs.load(old, posterior=model(prior_sd=2.0))


def test_models_traced_by_another_jax_are_not_compared(copy):
    other = copy(lambda record: record["versions"].update(jax="0.9.0"))
    with pytest.warns(UserWarning, match=r"it was sampled with jax 0\.9\.0"):
        cs.load(other, posterior=model(prior_sd=2.0), shards=SHARDS)


def test_a_run_in_progress_is_compared_too(copy):
    running = copy(lambda record: record.update(status="running"))
    assert cs.load(running, posterior=model(), shards=SHARDS).facts["status"] == "running"
    with pytest.raises(Refused, match="the likelihood computes"):
        cs.load(running, posterior=model(shift=0.5), shards=SHARDS)


def test_an_owners_folder_takes_the_owners_rows(copy):
    def owned(record):
        record["data"] = {name: values[1:2] for name, values in record["data"].items()}
        record["agent"] = {"name": "b", "run": "0" * 16, "names": ["a", "b", "c"], "without": [], "mask": False}

    mine = copy(owned)
    assert cs.load(mine, posterior=model(), shards=[SHARDS[1]]).owner.name == "b"
    with pytest.raises(Refused, match=re.escape("is b's own, one shard. Write shards=[mine].")):
        cs.load(mine, shards=SHARDS)
    with pytest.raises(Refused, match="the rows of b are not those"):
        cs.load(mine, posterior=model(), shards=[SHARDS[0]])


def test_a_numpyro_model_is_compared_whoever_writes_it_anew(tmp_path):
    out = tmp_path / "numpyro"
    cs.sample(numpyro_model(), SHARDS, RING, cs.mala(), **SHORT, out=out)
    run = cs.load(out, posterior=numpyro_model(), shards=SHARDS)
    assert set(run.draws) == {"w", "sigma"}
    with pytest.raises(Refused, match="the prior computes"):
        cs.load(out, posterior=numpyro_model(scale=2.0), shards=SHARDS)
    with pytest.raises(Refused, match="the prior and the likelihood compute"):  # one function has both
        cs.load(out, posterior=numpyro_model(noise=2.0), shards=SHARDS)
    with pytest.warns(UserWarning, match="not compared"):
        cs.load(out, posterior=numpyro_model(scale=2.0))


def test_a_model_is_compared_in_the_precision_that_it_was_sampled_in(tmp_path):
    out = tmp_path / "double"
    with jax.enable_x64(True):
        cs.sample(model(), SHARDS, RING, cs.mala(), **SHORT, out=out)
    cs.load(out, posterior=model(), shards=SHARDS)
    with pytest.raises(Refused, match=re.escape('jax.config.update("jax_enable_x64", True)')):
        cs.load(out, posterior=model(shift=jnp.float32(0.5)), shards=SHARDS)
