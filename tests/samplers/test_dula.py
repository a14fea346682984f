"""D-ULA: the update, its temperature, and the guard on its consensus step."""

import warnings

import jax
import networkx as nx
import numpy as np
import pytest

import consilience as cs

from ..halves import checkerboard
from ..statistical import assert_caught
from ..targets import linear_regression
from .harness import draws, draws_after, noise_of, simulation
from .reference import dula as reference


@pytest.mark.parametrize("noise_rule", ["published", "corrected"])
@pytest.mark.parametrize("network", [cs.Network.star(4), cs.Network.ring(5), cs.Network.complete(1)], ids=repr)
def test_equals_the_algorithm_in_plain_numpy(network, noise_rule):
    target = linear_regression(network.size)
    decay = {"delta1": 0.02, "delta2": 0.6, "b1": 10.0, "b2": 3.0}
    laplacian = nx.laplacian_matrix(network.graph, weight=None).toarray()
    with jax.enable_x64(True):
        sampler = cs.dula(0.01, consensus_step_size=0.2, noise=noise_rule, **decay)
        run = simulation(target, network, sampler, start=target.mean + 1)
        noise = noise_of(run, 80)
        chunk = run.advance(80, 1)
    expected = reference(target, laplacian, noise, target.mean + 1, 0.01, 0.2, noise_rule == "corrected", **decay)
    np.testing.assert_allclose(chunk.positions[:, 0], expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(chunk.stats["step_size"][:, 0, 0], 0.01 / (np.arange(80) + 10) ** 0.6, rtol=1e-5)


def test_defaults_are_the_paper_s():
    sampler = cs.dula(1e-3)
    assert (sampler.delta1, sampler.delta2, sampler.b1, sampler.b2) == (0.01, 0.55, 230, 230)


@pytest.mark.parametrize(("agents", "noise_rule"), checkerboard({"2": 2, "4": 4, "8": 8}, ["published", "corrected"]))
def test_temperature_of_the_network_mean(agents, noise_rule):
    """1/m as published, 1 corrected. 500 chains that start exact and forget it: the ratio's sd is 0.02 of it."""
    target = linear_regression(agents, rows=40 // agents)
    network = cs.Network.complete(agents)
    sampler = cs.dula(0.02, noise=noise_rule)
    positions = draws(
        target, network, sampler, init=target.exact, num_chains=500, num_warmup=1000, num_samples=4, thin=250
    )
    mean = positions.astype(float).mean(axis=0) - target.mean
    ratio = (mean**2).mean(axis=(0, 1)) / np.diag(target.covariance)
    temperature = {"published": 1 / agents, "corrected": 1.0}[noise_rule]
    assert ratio.mean() == pytest.approx(temperature, rel=0.12)


def test_the_statistical_helper_catches_it():
    target = linear_regression(4)
    sampler = cs.dula(0.05)
    assert_caught(lambda seed: draws_after(target, cs.Network.ring(4), sampler, steps=300, seed=seed), target)


def test_default_consensus_step_size_is_guarded():
    assert cs.dula(1e-3).resolve(cs.Network.path(2), 1).consensus_step_size == 0.48
    assert cs.dula(1e-3).resolve(cs.Network.star(10), 1).consensus_step_size == pytest.approx(0.1)
    assert cs.dula(1e-3).resolve(cs.Network.complete(1), 1).consensus_step_size == 0.48
    with pytest.warns(UserWarning, match=r"consensus_step_size = 0\.48 is above 2/λ_max\(L\) = 0\.2 on this network"):
        cs.dula(1e-3, consensus_step_size=0.48).resolve(cs.Network.star(10), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cs.dula(1e-3, consensus_step_size=0.48).resolve(cs.Network.ring(5), 1)


def test_the_paper_s_step_diverges_on_a_star_and_the_guarded_one_does_not():
    target, network = linear_regression(10), cs.Network.star(10)
    options = {"num_samples": 300, "num_chains": 2}
    assert np.abs(draws(target, network, cs.dula(1e-3), **options)).max() < 10
    with pytest.warns(UserWarning, match="above 2/λ_max"), pytest.warns(UserWarning, match="the sampler diverged"):
        wild = draws(target, network, cs.dula(1e-3, consensus_step_size=0.48), **options)
    assert not np.abs(wild).max() < 1e6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step_size": -1.0}, r"dula: step_size = -1\.0: a positive number is needed"),
        ({"noise": "right"}, r"not one of 'published', 'corrected'"),
        ({"delta2": 0.5}, r"½ \+ delta1 < delta2 < 1"),
        ({"delta1": 0.2}, r"½ \+ delta1 < delta2 < 1"),
        ({"consensus_step_size": 0.0}, r"consensus_step_size = 0\.0"),
        ({"b1": 0.0}, r"b1 = 0\.0"),
    ],
    ids=str,
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        cs.dula(**{"step_size": 1e-3, **settings})
