"""Mistakes that are easily made, each refused with its subject, a reason, and the line to write instead."""

import re

import jax.numpy as jnp
import jaxtyping
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import consilience as cs
from consilience._refused import Refused

from ..targets import REGRESSION, linear_regression

RING = cs.Network.ring(4)
SHARDS = linear_regression(4).shards
QUICK = {"num_samples": 5, "num_warmup": 0, "num_chains": 1, "progress": False}
SAMPLER = cs.published(0.05)


def prior(w):
    return -0.5 * jnp.vdot(w, w)


def likelihood(w, batch):
    return -0.5 * (batch["y"] - batch["x"] @ w) ** 2


def by_numpy(w, batch):
    return -0.5 * (batch["y"] - np.exp(batch["x"] @ w)) ** 2


def by_if(w, batch):
    return batch["y"] * (1.0 if w[0] > 0 else -1.0)


def named(params, batch):
    return -0.5 * (batch["y"] - batch["x"] @ params["w"]) ** 2


def named_prior(params):
    return prior(params["w"])


def logits(params, x):
    return np.tanh(x @ params)


def sample(posterior=REGRESSION, shards=SHARDS, **options):
    return cs.sample(posterior, shards, RING, SAMPLER, **{**QUICK, **options})


@pytest.mark.parametrize(
    ("posterior", "init", "message"),
    [
        ((prior, likelihood), np.zeros(4), r"init: params has shape (4,), and x has 3 columns"),
        ((prior, likelihood), np.zeros(4), r"Write init=jnp.zeros((3,))."),
        ((named_prior, named), {"w": np.zeros((2,))}, "init: w has shape (2,), and x has 3 columns"),
        ((named_prior, named), {"w": np.zeros((2,))}, 'Give "w" the shape (3,).'),
        ((prior, likelihood), {"w": np.zeros(3)}, r"init: log_prior(params) fails with TypeError"),
        (
            (named_prior, named),
            {"v": np.zeros(3)},
            r"init: log_prior(params) fails with KeyError: 'w', in test_refusals.py",
        ),
        ((named_prior, named), {"v": np.zeros(3)}, r"init has v (3,). Write an init that fits"),
        ((lambda p: 0.0, named), {"v": np.zeros(3)}, r"KeyError: 'w'"),
        ((lambda p: 0.0, named), {"v": np.zeros(3)}, r"init has v (3,), the batch has x (15, 3), y (15,)"),
        ((prior, by_numpy), np.zeros(3), r"log_likelihood(params, batch): it calls numpy on what jax traces, in test_"),
        ((prior, by_numpy), np.zeros(3), r"np.exp(batch["),
        ((prior, by_numpy), np.zeros(3), r"Write jax.numpy for numpy: jnp.exp(...) for np.exp(...)."),
        ((lambda w: np.exp(w).sum(), likelihood), np.zeros(3), r"log_prior(params): it calls numpy"),
        (
            (prior, by_if),
            np.zeros(3),
            r"log_likelihood(params, batch): it looks at values in Python, in test_refusals.py",
        ),
        ((prior, by_if), np.zeros(3), r"Write jnp.where(condition, a, b)"),
    ],
)
def test_functions_and_a_start_that_do_not_go_together(posterior, init, message):
    with pytest.raises(Refused, match=re.escape(message)):
        sample(cs.Posterior(*posterior), init=init)


def test_numpy_in_a_classifier():
    shards = [{**shard, "y": np.zeros(len(shard["y"]), np.int32)} for shard in SHARDS]
    with pytest.raises(Refused, match=r"it calls numpy on what jax traces, in test_refusals\.py"):
        sample(cs.Posterior.classifier(logits, init=jnp.zeros((3, 2))), shards)


def test_prior_and_likelihood_swapped():
    with pytest.raises(
        Refused, match=r"cs\.Posterior: .* swapped\. Write cs\.Posterior\(log_prior, log_likelihood\)\."
    ):
        cs.Posterior(likelihood, prior)
    with pytest.raises(
        Refused, match=r"log_likelihood: it cannot be called as log_likelihood\(params, batch\)\. Write def"
    ):
        cs.Posterior(prior, prior)
    with pytest.raises(Refused, match=r"log_prior: it is a float, not a function"):
        cs.Posterior(0.0, likelihood)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: cs.nuts(target_accept=0.9),
            "cs.nuts(target_accept=...): it has no argument target_accept. Write target_acceptance=...",
        ),
        (lambda: cs.nuts(max_tree_depth=5), "Write max_num_doublings=..."),
        (lambda: cs.dmala(stepsize=0.1), "cs.dmala(stepsize=...): it has no argument stepsize. Write step_size=..."),
        (lambda: sample(draws=5), "cs.sample(draws=...): it has no argument draws. Write num_samples=..."),
        (lambda: sample(tune=5), "Write num_warmup=..."),
        (lambda: sample(chains=2), "Write num_chains=..."),
        (lambda: sample(random_seed=2), "Write seed=..."),
        (
            lambda: cs.Posterior(prior, likelihood, inti=0),
            "cs.Posterior(inti=...): it has no argument inti. Write init=...",
        ),
        (lambda: cs.Posterior.regressor(likelihood, noise=1.0), "cs.Posterior.regressor(noise=...)"),
        (lambda: cs.Posterior.from_numpyro(likelihood, zzz=1), "There are model, init, task, dims, coords"),
        (lambda: cs.Network.ring(agents=4), "cs.Network.ring(agents=...): it has no argument agents. Write size="),
        (lambda: cs.load("run", model=REGRESSION), "cs.load(model=...): it has no argument model"),
        (lambda: cs.Devices(number=2), "cs.Devices(number=...)"),
        (
            lambda: sample(init=np.zeros(3, np.float32)).summary(hdi_prob=0.9),
            "run.summary(hdi_prob=...): it has no argument hdi_prob. Write prob=",
        ),
        (
            lambda: cs.shard(SHARDS[0], num_agents=2),
            "cs.shard(num_agents=...): it has no argument num_agents. Write agents=...",
        ),
    ],
)
def test_keywords_that_do_not_exist(call, message, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which would find them first, in tests alone
    with pytest.raises(Refused, match=re.escape(message)):
        call()


def test_signatures_are_as_they_are_written():
    import inspect

    assert list(inspect.signature(cs.nuts).parameters)[:2] == ["step_size", "inverse_mass_matrix"]
    assert list(inspect.signature(cs.sample).parameters)[:4] == ["posterior", "shards", "network", "sampler"]
    assert "log_prior" in inspect.signature(cs.Posterior).parameters


def test_keys_of_shards_that_are_unlike():
    shards = [dict(shard) for shard in SHARDS]
    shards[2]["Y"] = shards[2].pop("y")
    with pytest.raises(Refused) as refused:
        sample(shards=shards)
    assert str(refused.value) == "agent 2: its data lacks 'y' and has 'Y', unlike agent 0's. Rename 'Y' to 'y'."
    shards[2] = {"x": SHARDS[2]["x"]}
    with pytest.raises(
        Refused, match=r"agent 2: its data lacks 'y', unlike agent 0's\. Give all agents the same: 'x', 'y'\."
    ):
        sample(shards=shards)


def test_a_ring_of_two():
    with pytest.raises(Refused, match=r"ring\(2\): a ring has three agents or more\. Write Network\.path\(2\)"):
        cs.Network.ring(2)
    with pytest.raises(Refused, match=r"'ring:2': .* Write path:2"):
        cs.network.network_from_spec("ring:2")


def test_an_infinite_outcome():
    shards = [dict(shard) for shard in SHARDS]
    shards[1]["y"] = np.where(np.arange(len(shards[1]["y"])) == 4, np.float32(np.inf), shards[1]["y"])
    message = r"agent 1: the log-likelihood is -inf at .*, and y is inf in row 4\. Correct that row, or drop it\."
    with pytest.raises(Refused, match=message):
        sample(init=np.zeros(3, np.float32), shards=shards)


def test_an_infinite_outcome_on_devices():
    shards = [dict(shard) for shard in SHARDS]
    shards[1]["y"] = np.full(len(shards[1]["y"]), np.inf, np.float32)
    with pytest.raises(Refused, match=r"agent 1: .* y is inf in row 0"):
        sample(init=np.zeros(3, np.float32), shards=shards, runtime=cs.Devices(2))


def test_infinite_limits_of_what_is_censored_are_data():
    def below(w, batch):
        return jnp.where(jnp.isinf(batch["limit"]), 0.0, -((batch["y"] - w) ** 2))

    shards = [{"y": shard["y"], "limit": np.full(len(shard["y"]), np.inf, np.float32)} for shard in SHARDS]
    assert sample(cs.Posterior(lambda w: -0.5 * w**2, below, init=0.0), shards).num_draws == 5


@pytest.mark.parametrize("below", ["file", "file/run"])
def test_a_folder_that_cannot_be_made(tmp_path, below, monkeypatch):
    monkeypatch.setattr("consilience.engine.Chains.compile", None)  # it is refused before anything is compiled
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match=r'file is a file, and a folder is needed\. Name another: out="runs/first"'):
        sample(init=np.zeros(3, np.float32), out=tmp_path / below)
    with pytest.raises(Refused, match=r'nothing can be written to /proc/run: .*\. Name another: out="runs/first"'):
        sample(init=np.zeros(3, np.float32), out="/proc/run")


def test_labels_that_are_measurements():
    data = {"x": np.ones((6, 2)), "y": np.linspace(0, 1, 6)}
    with pytest.raises(
        Refused, match=r"label: it is 0\.2 in row 1, a measurement .* Write label=np\.digitize\(y, limits\)"
    ):
        cs.shard(data, 2, by="label")
    assert len(cs.shard({**data, "y": np.repeat([0.0, 1.0, 2.0], 2)}, 3, by="label")) == 3


def test_a_numpyro_model_of_columns():
    def model(x, y=None):
        w = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))
        numpyro.sample("y", dist.Normal(x @ w, 1), obs=y)

    with pytest.raises(Refused) as refused:
        sample(cs.Posterior.from_numpyro(model))
    assert refused.value.subject == "the model"
    assert "its arguments x, y are columns of the data" in str(refused.value)
    assert 'cs.Posterior.from_numpyro(lambda batch: model(batch["x"], batch["y"]))' in str(refused.value)
