"""What each sampler can do, as the rest of the code asks for it."""

import pytest

import consilience as cs
from consilience.cli.build import SAMPLERS

ALL = {
    "nuts": cs.nuts(),
    "hmc": cs.hmc(),
    "mala": cs.mala(),
    "surrogate": cs.surrogate(),
    "dmala": cs.dmala(),
    "published": cs.published(0.1),
    "dula": cs.dula(0.1),
    "desgld": cs.desgld(0.1),
    "desghmc": cs.desghmc(0.1, friction=1.0),
    "diging": cs.diging(0.1),
    "extra": cs.extra(0.1),
    "consensus_monte_carlo": cs.consensus_monte_carlo(),
    "centralized_hmc": cs.centralized_hmc(0.1),
    "decentralized": cs.decentralize(lambda logdensity: None),
}


def those(attribute):
    return {name for name, sampler in ALL.items() if getattr(sampler, attribute)}


def test_all_are_here():
    assert {*ALL} == {*SAMPLERS, "decentralized"}
    assert all(sampler.name == name for name, sampler in ALL.items())


def test_what_each_can_do():
    assert those("replicated") == {"nuts", "hmc", "mala", "surrogate", "decentralized"}
    assert those("common_noise") == those("replicated") | {"dmala"}
    assert {*ALL} - those("communicates") == {"consensus_monte_carlo", "centralized_hmc"}
    assert those("maskable") == those("replicated")
    assert those("moves_own") == {"nuts", "hmc"}
    assert {*ALL} - those("has_steady_cost") == {"surrogate"}
    assert those("second_stage") == {"consensus_monte_carlo"}


def test_one_that_does_not_inherit_what_it_can_do_is_told_to():
    class Walk:
        name = "walk"

    posterior = cs.Posterior(lambda w: -(w @ w), lambda w, batch: batch["x"])
    with pytest.raises(ValueError, match=r"sampler: it is a Walk\. .* class Walk\(consilience\.samplers\.Sampler\)"):
        cs.sample(
            posterior,
            [{"x": [1.0]}],
            cs.Network.complete(1),
            Walk(),
            init=[0.0],
            num_samples=1,
            num_warmup=0,
            num_chains=1,
        )
