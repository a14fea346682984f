"""Clinics with wards: every owner keeps its own wards' draws, and has those that nobody disturbed would have."""

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zarr

import consilience as cs
from consilience.neighbors import LaneNeighbors
from consilience.runs.member import own_secret

from .crew import AGENT, HELD, Crew
from .test_runs import load
from .test_survival import hold, release

WARDS = '''
"""Three clinics with three wards, one and two: a slope that all share, and a level of each ward."""
import jax.numpy as jnp
import numpy as np

import consilience as cs

posterior = cs.Posterior(
    lambda params: -0.5 * (params["w"] @ params["w"] + params["mu"] ** 2),
    lambda params, own, batch: -0.5 * (batch["y"] - batch["x"] @ params["w"] - own["level"]) ** 2,
    own_log_prior=lambda own, params: -0.5 * (own["level"] - params["mu"]) ** 2,
    own_init={"level": 0.5},
    group="ward",
    init={"w": jnp.zeros(2), "mu": 0.0},
)


def rows(index):
    rng = np.random.default_rng(index)
    wards = [["east", "west", "north"], ["children"], ["A", "B"]][index]
    ward = np.repeat(wards, 6)
    x = rng.standard_normal((len(ward), 2))
    level = {name: rng.standard_normal() for name in wards}
    return {"x": x, "y": x @ [1.0, -1.0] + [level[w] for w in ward] + rng.standard_normal(len(ward)), "ward": ward}
'''
COUNTS = (3, 1, 2)


@pytest.fixture
def crew_of(tmp_path):
    made = []

    def make(sampler, draws, program=AGENT):
        settings = ["--mask", *(["--set", "sampler.max_num_doublings=4"] if sampler == "nuts" else [])]
        made.append(Crew(tmp_path, num_samples=draws, model=WARDS, sampler=sampler, program=program, settings=settings))
        return made[-1]

    yield make
    for crew in made:
        crew.end()


def drawn(crew):
    """Of every agent: the draws of what is shared, and of its own wards."""
    runs = {name: crew.run(name) for name in crew.names}
    return {name: (np.asarray(run.kept[:]), run.own[name]["level"]) for name, run in runs.items()}


@pytest.mark.parametrize(
    ("name", "sampler"),
    [("hmc", cs.hmc(0.1, 1.0)), pytest.param("nuts", cs.nuts(0.1, 1.0, max_num_doublings=4), marks=pytest.mark.slow)],
)
def test_owners_draw_what_simulate_draws_with_their_secrets(crew_of, monkeypatch, name, sampler):
    crew = crew_of(name, 40)
    crew.start()
    assert set(crew.finish().values()) == {0}, crew.said()
    run_id = crew.run("agent0").facts["run id"]
    keys = [(crew.folder / f"peers/{agent}/key.pem").read_bytes() for agent in crew.names]
    secrets = np.array([own_secret(key, run_id) for key in keys], np.uint32)
    monkeypatch.setattr(
        LaneNeighbors, "secret", property(lambda self: [jnp.asarray(words)[self.index] for words in secrets.T])
    )
    with jax.enable_x64(True):
        module = load(WARDS)
        shards = [module["rows"](index) for index in range(3)]
        expected = cs.sample(
            module["posterior"], shards, crew.network, sampler, num_warmup=0, num_samples=40, num_chains=2, seed=5
        )
    for index, (agent, (shared, own)) in enumerate(drawn(crew).items()):
        assert own.shape == (2, 40, COUNTS[index])
        np.testing.assert_allclose(shared, expected.kept, rtol=0, atol=1e-7, err_msg=agent)  # masks round to 1e-10
        np.testing.assert_allclose(own, expected.own[f"agent {index}"]["level"], rtol=0, atol=1e-7, err_msg=agent)
    assert len({tuple(words) for words in secrets}) == 3


def test_an_owner_that_is_killed_twice_has_its_own_draws_to_the_bit(crew_of):
    draws = 120
    crew = crew_of("hmc", draws, HELD)
    hold(crew)
    crew.start()
    for name, iteration in (("agent0", draws // 4), ("agent2", draws // 2)):
        crew.wait_until_saved(iteration, name)
        crew.kill(name)
        crew.start(name)
    release(crew)
    assert set(crew.finish().values()) == {0}, crew.said()
    found = drawn(crew)
    for place, name in enumerate(crew.names):
        folder = crew.run_folder(name)
        group = zarr.open_group(folder / "draws.zarr", mode="r")
        assert {*group["own"].group_keys()} == {"0"}  # its own, and nobody else's
        assert group["own/0/level"].shape == (draws, 2, 1, COUNTS[place])
        assert crew.run(name).own_groups == {name: (("east", "north", "west"), ("children",), ("A", "B"))[place]}
        shutil.rmtree(folder)
    crew.program = AGENT
    crew.start()
    assert set(crew.finish().values()) == {0}, crew.said()
    for name, (shared, own) in drawn(crew).items():
        np.testing.assert_array_equal(found[name][0], shared, err_msg=name)
        np.testing.assert_array_equal(found[name][1], own, err_msg=name)
        assert np.ptp(own, axis=1).min() > 0.5
