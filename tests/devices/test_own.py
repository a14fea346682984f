"""Variables that stay with their owner, on meshes of devices: the same chain, kept alike."""

import jax
import numpy as np
import pytest

import consilience as cs
from consilience._refused import Refused
from consilience.runs.driver import check_own_are_held
from consilience.runs.request import Length, Request

from ..samplers.hierarchy import POSTERIOR, shards_of

RING = cs.Network.ring(5)


def sample(sampler, **options):
    options = {"num_warmup": 0, "num_samples": 20, "num_chains": 2, "progress": False, **options}
    return cs.sample(POSTERIOR, shards_of(), RING, sampler, **options)


@pytest.mark.parametrize(
    "sampler", [cs.nuts(0.15, inverse_mass_matrix=1.0), cs.hmc(0.15, inverse_mass_matrix=1.0)], ids=lambda it: it.name
)
def test_the_chain_is_that_of_simulate(sampler, tmp_path):
    """Two devices have three agents and two, and the second a lane without an agent."""
    out = tmp_path / "run"
    with jax.enable_x64(True):
        right = sample(sampler, num_samples=30)
        found = sample(sampler, runtime=cs.Devices(2), out=out)
        found = sample(sampler, runtime=cs.Devices(2), out=out, num_samples=30, resume=True)
    np.testing.assert_allclose(found.positions, right.positions, rtol=0, atol=1e-8)
    for name, own in right.own.items():
        for leaf, values in own.items():
            np.testing.assert_allclose(found.own[name][leaf], values, rtol=0, atol=1e-8)
    assert found.traffic == right.traffic
    assert found.raw_stats["energy"].shape == right.raw_stats["energy"].shape


def test_several_hosts_are_refused(monkeypatch):
    request = Request(POSTERIOR, [], RING, cs.nuts(), Length(1, 1, 1, 1, 0))
    check_own_are_held(request, cs.Devices(2).holds_own)
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with pytest.raises(Refused, match=r"runtime: of several hosts none may keep .*Write cs\.Devices\(\) on one host"):
        check_own_are_held(request, cs.Devices(2).holds_own)
