"""`watch=`: numbers of the running mean, recorded with every draw."""

import jax.numpy as jnp
import numpy as np
import pytest

import consilience as cs
from consilience.engine import Chains

from ..targets import REGRESSION, linear_regression

TARGET = linear_regression(4)
GOOD = {
    "posterior": REGRESSION,
    "shards": TARGET.shards,
    "network": cs.Network.ring(4),
    "init": np.zeros(3, np.float32),
    "num_samples": 60,
    "num_warmup": 40,
    "num_chains": 3,
    "thin": 2,
    "progress": False,
    "moments": lambda w: {"square": w**2, "first": w[0]},
    "watch": lambda mean: {"largest": mean["square"].max(), "params": 2 * mean["first"]},
}
SAMPLERS = {"published": cs.published(0.05), "nuts": cs.nuts(), "dmala": cs.dmala()}


def sample(**options):
    return cs.sample(**{**GOOD, **options})


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
def test_it_is_of_the_mean_of_the_draws_so_far(sampler):
    run = sample(sampler=sampler)
    so_far = np.arange(1, 61)[:, None]
    means = np.cumsum(run.draws**2, axis=2, dtype=float) / so_far
    np.testing.assert_allclose(run.stats["largest"], means.max(axis=-1), rtol=1e-4)
    first = np.cumsum(run.draws[..., 0], axis=2, dtype=float) / so_far[:, 0]
    np.testing.assert_allclose(run.stats["params"], 2 * first, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
def test_neither_chunks_nor_an_interruption_change_it(sampler, tmp_path, monkeypatch):
    whole = sample(sampler=sampler)
    sample(sampler=sampler, num_samples=17, out=tmp_path / "run")
    monkeypatch.setattr(Chains, "iterations_at_once", lambda self: 7)
    on_disk = sample(sampler=sampler, out=tmp_path / "run", resume=True)
    for name in ("largest", "params"):
        np.testing.assert_array_equal(on_disk.stats[name], whole.stats[name])
        np.testing.assert_array_equal(cs.load(tmp_path / "run").stats[name], whole.stats[name])


def test_another_watch_is_another_run(tmp_path):
    sample(sampler=cs.published(0.05), out=tmp_path / "run")
    with pytest.raises(ValueError, match=r"holds another run"):
        sample(sampler=cs.published(0.05), out=tmp_path / "run", resume=True, watch=lambda m: {"largest": m["first"]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"moments": False}, r"watch is of a running mean, and there is none: say of what, moments=\.\.\."),
        ({"watch": lambda mean: mean["first"]}, r"a dict of single numbers; it gave "),
        ({"watch": lambda mean: [mean["first"]]}, r"a dict of single numbers; it gave \["),
        ({"watch": lambda mean: mean}, r"single numbers; square has shape \(3,\)"),
        ({"watch": lambda mean: {}}, r"it gave \{\}\. Write for example"),
        ({"watch": lambda mean: {"is_accepted": jnp.float32(1)}}, r"'is_accepted' is a figure of the sampler's own"),
        ({"watch": lambda mean: {"chain": jnp.float32(1)}}, r"watch: 'chain' is the name of a dimension"),
    ],
)
def test_what_cannot_be_watched(options, message):
    with pytest.raises(ValueError, match=message):
        sample(sampler=cs.published(0.05), **options)
