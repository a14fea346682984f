"""Agents in processes of their own draw what `simulate` draws, agree before they start, and go on without others."""

import json
import re
import signal
from contextlib import chdir
from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

import consilience as cs
from consilience._refused import Refused
from consilience.cli.app import app
from consilience.runs.member import Member

from ..patience import PATIENCE
from .crew import AGENT, BARE, MODEL, STEADY, Crew, command

DIGITS = '''
"""Softmax regression on digits of eight numbers each; every agent has two classes."""
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

import consilience as cs


def logits(params, x):
    return x @ params["w"] + params["b"]


posterior = cs.Posterior.classifier(logits, init={"w": jnp.zeros((8, 10)), "b": jnp.zeros(10)})


def rows(index):
    x, y = load_digits(return_X_y=True)
    mine = np.flatnonzero(y % 5 == index)[:40]
    return {"x": x[mine].reshape(-1, 8, 8).mean(axis=1) / 16, "y": y[mine].astype(np.int32)}
'''

PYTHON = f"{__package__}.python_agent"
BOTH = ("nuts", "dmala")
LONG = "10"  # seconds, for which a busy machine keeps no agent from its pulse


def load(source):
    """The model's names, as the agents have them."""
    module = {}
    exec(source, module)
    return module


@pytest.fixture
def crews():
    """Made by the test, ended after it."""
    made = []

    def make(*args, **kwargs):
        made.append(Crew(*args, **kwargs))
        return made[-1]

    yield make
    for crew in made:
        crew.end()


def simulated(crew, sampler, source=MODEL, agents=None, **settings):
    agents = range(crew.network.size) if agents is None else agents
    network = settings.pop("network", crew.network)
    with jax.enable_x64(True):
        module = load(source)
        return cs.sample(
            module["posterior"],
            [module["rows"](index) for index in agents],
            network,
            sampler,
            num_chains=2,
            seed=5,
            progress=False,
            **({"num_warmup": 0} | settings),
        )


# By nuts and dmala three agents do so in tests/golden.
@pytest.mark.parametrize(
    ("name", "network", "model"),
    [
        ("mala", "ring:3", MODEL),
        ("surrogate", "ring:3", MODEL),
        ("mala-started", "ring:3", MODEL),
        *(pytest.param(name, "ring:3", MODEL, marks=pytest.mark.soak) for name in ("dmala-started", "nuts")),
        *(pytest.param(name, "ring:5", DIGITS, marks=pytest.mark.soak) for name in BOTH),
    ],
    ids=[
        *(f"three-{name}" for name in ("mala", "surrogate", "mala-started", "dmala-started", "nuts")),
        *(f"five-{name}" for name in BOTH),
    ],
)
def test_agents_draw_what_simulate_draws(crews, tmp_path, name, network, model):
    sampler = {
        "nuts": cs.nuts(0.1, 1.0, max_num_doublings=4),
        "mala": cs.mala(0.1, 1.0),
        "dmala": cs.dmala(0.05, 1.0),
        "surrogate": cs.surrogate(100),
        "mala-started": cs.mala(0.5, start="surrogate"),
        "dmala-started": cs.dmala(0.5, start="surrogate"),
    }[name]
    name, _, started = name.partition("-")
    given = "num_proposals" if name == "surrogate" else "step_size"
    settings = ["--set", f"sampler.{given}={getattr(sampler, given)}"]
    settings += ["--set", "sampler.max_num_doublings=4"] if name == "nuts" else []
    if started:  # which brings the mass matrix that the file gives
        settings = ["--set", f'sampler={{name = "{name}", step_size = 0.5, start = "surrogate"}}']
    crew = crews(tmp_path, network, settings=settings, model=model, sampler=name)
    done = command("launch", "peers", "--data", "regression:rows", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    expected = simulated(crew, sampler, model, num_samples=100)
    for index, (agent, draws) in enumerate(crew.positions().items()):
        assert draws.dtype == np.float64
        np.testing.assert_allclose(draws[:, :, 0], expected.positions[:, :, index], atol=1e-8, err_msg=agent)
    run = crew.run("agent2")
    assert run.owner.name == "agent2"
    assert run.agents == (crew.network.size if sampler.replicated else 1)
    assert 1 < run.traffic.bytes / expected.traffic.bytes < (1.5 if model == DIGITS else 10)  # headers count


SITES = '''
"""A likelihood of a whole site that cannot be split into rows, and an effect of each site."""
import jax.numpy as jnp
import numpy as np

import consilience as cs


def log_likelihood(params, batch):
    mean = batch["x"] @ params["w"] + params["offset"][batch["agent"]]
    return -0.5 * jnp.sum((batch["y"] - mean) ** 2) - 0.01 * jnp.sum(batch["y"] - mean) ** 2


def log_prior(params):
    return -0.5 * (params["w"] @ params["w"] + params["offset"] @ params["offset"])


init = {"w": np.zeros(3), "offset": np.zeros(3)}
posterior = cs.Posterior(log_prior, log_likelihood, init=init, per_row=False)


def rows(index):
    rng = np.random.default_rng(index)
    x = rng.standard_normal((20 + 5 * index, 3))
    return {"x": x, "y": x @ np.array([1.0, -1.0, 0.5]) + index}
'''


def test_likelihoods_of_whole_sites_know_whose_they_are(crews, tmp_path):
    crew = crews(tmp_path, model=SITES)
    crew.start()
    assert set(crew.finish().values()) == {0}, crew.said()
    expected = simulated(crew, cs.mala(0.1, 1.0), SITES, num_samples=100)
    for agent, draws in crew.positions().items():
        np.testing.assert_allclose(draws, expected.kept, atol=1e-8, err_msg=agent)
    run = crew.run("agent1")
    assert run.coords["site"] == run.names == ("agent0", "agent1", "agent2")


def test_agents_take_part_from_python_and_a_finished_run_is_there_at_once(crews, tmp_path):
    """With one agent of the three that is run by the command."""
    crew = crews(tmp_path, program=PYTHON)
    crew.start("agent0", "agent2")
    crew.program = AGENT
    crew.start("agent1")
    assert set(crew.finish().values()) == {0}, crew.said()
    expected = simulated(crew, cs.mala(0.1, 1.0), num_samples=100)
    for name in ("agent0", "agent2"):
        np.testing.assert_allclose(np.load(tmp_path / f"{name}.npy"), expected.kept, atol=1e-8, err_msg=name)
        run = crew.run(name)
        assert run.names == run.agent_names == ("agent0", "agent1", "agent2")
        assert run.summary().names == ("params[age]", "params[dose]", "params[bmi]")
    crew.program = PYTHON
    crew.start("agent2")
    assert crew.finish()["agent2"] == 0, crew.said()
    assert "100 draws" in crew.said()
    crew.start("agent2", options=("--seed", 9))
    assert crew.finish()["agent2"] == 1
    assert "holds another run; going on would mix the two" in crew.said() and "seed: 5 there, 9 here" in crew.said()


@pytest.fixture
def mine(crews, tmp_path):
    """What one agent asks for: its file, and the arguments of `cs.sample`."""
    crew, module = crews(tmp_path), load(MODEL)
    arguments = {"posterior": module["posterior"], "shards": [module["rows"](0)], "network": crew.network}
    length = {"num_samples": 10, "num_warmup": 0, "num_chains": 1}
    return tmp_path / "peers/agent0/agent.toml", {**arguments, "sampler": cs.mala(0.1, 1.0), **length}


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (
            {"shards": [{"x": np.ones((2, 3)), "y": np.ones(2)}] * 3},
            r"shards: agent0 needs its own data.*shards=\[mine\]",
        ),
        ({"network": cs.Network.ring(5)}, "names has 3 names, and ring of 5 has 5 agents"),
        ({"network": cs.Network.path(3)}, "path of 3.* links agent0 with agent1"),
        ({"sampler": cs.centralized_hmc(0.1)}, "centralized_hmc: it is not run by peers"),
        ({"moments": True}, "moments and watch: peers keep draws only. Leave them out"),
    ],
    ids=["shards", "size", "neighbors", "sampler", "moments"],
)
def test_what_a_peer_cannot_do_is_refused_before_it_looks_for_others(mine, wrong, text):
    file, arguments = mine
    with pytest.raises(ValueError, match=text):
        cs.sample(**{**arguments, **wrong}, runtime=cs.Peer(file))


@pytest.mark.parametrize(
    ("network", "sampler", "text"),
    [
        ("path:2", cs.mala(0.1, 1.0), "mask with 2 agents hides nothing"),
        ("ring:3", cs.dmala(0.05, 1.0), "mask is not for dmala"),
    ],
    ids=["two", "dmala"],
)
def test_a_mask_that_hides_nothing_is_refused_from_python_too(crews, tmp_path, network, sampler, text):
    crew, module = crews(tmp_path, network), load(MODEL)
    file = tmp_path / "peers/agent0/agent.toml"
    file.write_text(file.read_text().replace("[agent]", "[agent]\nmask = true", 1).replace("mask = false\n", ""))
    with pytest.raises(ValueError, match=text):
        cs.sample(
            module["posterior"],
            [module["rows"](0)],
            crew.network,
            sampler,
            num_samples=10,
            num_warmup=0,
            num_chains=1,
            runtime=cs.Peer(file),
        )


def test_settings_of_a_block_of_code_are_refused_since_an_agent_has_threads_of_its_own(mine):
    file, arguments = mine
    with jax.enable_x64(True), pytest.raises(ValueError, match=r"jax's settings.*jax_enable_x64: .*False.*True"):
        cs.sample(**arguments, runtime=cs.Peer(file))


def test_data_by_an_agent_s_number_is_this_agent_s_whoever_is_left_out_later(mine, monkeypatch):
    asked, (file, arguments) = [], mine
    monkeypatch.setattr("consilience.runs.peer.Member", lambda place, credentials, terms, request, show: request)
    monkeypatch.setattr("consilience.runs.peer._run_in_thread", lambda request: request)
    request = cs.sample(**{**arguments, "shards": lambda agent: asked.append(agent) or "mine"}, runtime=cs.Peer(file))
    assert [request.shards(agent) for agent in (0, 1)] == ["mine", "mine"]
    assert asked == [0]


@pytest.mark.parametrize("patience", [0, float("nan"), "30"])
def test_a_patience_that_is_none_is_refused(patience):
    with pytest.raises(ValueError, match="a number of seconds is needed"):
        cs.Peer("agent.toml", patience=patience)


def test_an_adapted_run_is_the_same_on_all_agents_to_the_bit(crews, tmp_path):
    crew = crews(tmp_path, num_samples=60, num_warmup=80, settings=["--set", 'sampler={name = "nuts"}'])
    assert set(crew.start().finish().values()) == {0}, crew.said()
    draws = crew.positions()
    for other in draws.values():
        np.testing.assert_array_equal(other, draws["agent0"])
    steps = [crew.run(name).stats["step_size"][0] for name in crew.names]
    np.testing.assert_array_equal(steps[1], steps[0])
    assert len(np.unique(steps[0])) == 2  # each chain has its own, found in the warm-up
    assert_sums_add_up(crew)


def assert_sums_add_up(crew):
    """What the owners hand over of their rows gives the figures of all rows."""
    sums = [f"{name}.json" for name in crew.names]
    with chdir(crew.folder):
        for name, file in zip(crew.names, sums, strict=True):
            words = ["compare", f"peers/{name}", "--data", "regression:rows", "--out", file]
            done = CliRunner().invoke(app, words)
            assert done.exit_code == 0, (done.output, done.exception)
        told = json.loads(CliRunner().invoke(app, ["compare", *sums, "--json"]).stdout)
    with jax.enable_x64(True):
        module = load(MODEL)
        shards = [module["rows"](index) for index in range(len(crew.names))]
        own = cs.load(crew.run_folder("agent0"), posterior=module["posterior"], shards=shards[:1])
        by_name = cs.load(crew.run_folder("agent0"), posterior=module["posterior"], shards={"agent0": shards[0]})
        assert by_name.loo() == own.loo()
        pooled = replace(own, owner=None, shards=shards).loo()
    assert told["rows"] == pooled.rows == 75
    np.testing.assert_allclose([told["elpd"], told["se"]], [pooled.elpd, pooled.se], atol=1e-8)


def test_masked_sums_give_the_same_draws_gathered_or_over_the_tree(crews, tmp_path):
    found, traffic = [], {}
    for consensus in ("tree", "gather"):
        settings = ["--mask", "--consensus", consensus]
        crew = crews(tmp_path / consensus, "ring:4", num_samples=60, settings=settings, program=STEADY)
        assert set(crew.start().finish().values()) == {0}, crew.said()
        found += crew.positions().values()
        traffic[consensus] = crew.run().traffic
    for other in found:
        np.testing.assert_array_equal(other, found[0])
    expected = simulated(crew, cs.mala(0.1, 1.0), num_samples=60)
    np.testing.assert_allclose(found[0][:, :, 0], expected.positions[:, :, 0], atol=1e-6)
    assert traffic["tree"].rounds - traffic["gather"].rounds == 61 * 2  # of four, and of two, a sum


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--consensus", "gather"], "every agent's own part of a sum would go to all others, and nothing hides it"),
        (["--consensus", "ring", "--mask"], "consensus = 'ring': not one of 'auto', 'tree', 'gather'"),
        (["--consensus", "gather", "--mask", "--network", "ring:300"], "each of 300 agents would pass on"),
    ],
)
def test_a_way_of_sums_that_hides_nothing_is_refused(tmp_path, words, said):
    done = CliRunner().invoke(app, ["init", str(tmp_path / "peers"), "--network", "ring:4", *words])
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())


def test_agents_that_do_not_run_the_same_thing_say_who_and_what(crews, tmp_path):
    crew = crews(tmp_path)
    crew.start("agent0", "agent1")
    crew.start("agent2", options=["--set", "run.seed=6", "--set", "sampler.step_size=0.2"])
    assert set(crew.finish().values()) == {2}
    for name in crew.names:
        said = crew.said(name)
        assert re.search(r"  seed: agent2: 6; agent0, agent1: 5", said), said
        assert "sampler.settings.step_size: agent2: 0.2; agent0, agent1: 0.1" in said
        assert crew.run(name).num_draws == 0


def test_agents_that_know_their_columns_have_them_in_one_order():
    member = SimpleNamespace(_has_met=False)
    one, other = "['age', 'dose']", "['dose', 'age']"
    cards = [SimpleNamespace(name=name, identity={"labels.columns.x": one}) for name in "ac"]
    silent = SimpleNamespace(name="b", identity={})
    assert Member._are_alike(member, [*cards, silent])
    with pytest.raises(Refused, match=r"labels\.columns\.x: b: \['dose', 'age'\]; a, c: \['age', 'dose'\]"):
        Member._are_alike(member, [*cards, SimpleNamespace(name="b", identity={"labels.columns.x": other})])


def test_a_start_that_is_not_finite_is_refused_by_the_agent_whose_it_is(crews, tmp_path):
    huge = "def huge(index):\n    return {**rows(index), 'y': np.full(20 + 5 * index, 1e300)}\n"  # too large to square
    crew = crews(tmp_path, model=f"{MODEL}\n\n{huge}", rows="huge")
    assert crew.start("agent1").finish() == {"agent1": 2}, crew.said("agent1")
    assert "agent1: the log-likelihood is -inf at the start of chain 0." in crew.said("agent1")


def test_the_runtime_itself_makes_compiled_code_wait_for_its_end(crews, tmp_path):
    """Whoever starts an agent: without that, a callback may wait for the thread that it holds."""
    model = MODEL.replace("init=jnp.zeros(3)", "init=np.zeros(3)")  # computes nothing
    settings = ["--set", 'sampler={name = "mala"}']  # without arrays
    crew = crews(tmp_path, "path:2", num_samples=20, num_warmup=20, settings=settings, model=model, program=BARE)
    assert set(crew.start().finish().values()) == {0}, crew.said()
    assert all("waits: True" in crew.said(name) for name in crew.names)


def test_a_process_in_which_it_is_too_late_for_that_is_refused(crews, tmp_path):
    crew = crews(tmp_path, "path:2", program=BARE)  # with a mass matrix, which is an array
    assert crew.start("agent0").finish() == {"agent0": 2}, crew.said("agent0")
    assert "this process: jax has computed something before the run" in crew.said("agent0")
    assert "Make cs.Peer(...) before anything is computed" in crew.said("agent0")


def test_another_model_is_found_out_whatever_the_data(crews, tmp_path):
    crew = crews(tmp_path)
    other = crew.folder / "peers" / "agent1" / "regression.py"
    other.write_text(MODEL.replace("noise_sd=0.5", "noise_sd=0.6"))
    crew.start()
    assert set(crew.finish().values()) == {2}
    assert "model.code: agent1: " in crew.said("agent0")


@pytest.mark.parametrize("network", ["ring:3", pytest.param("ring:4", marks=pytest.mark.soak)])
def test_the_others_go_on_without_one_that_is_lost(crews, tmp_path, network):
    crew = crews(tmp_path, network, num_samples=50_000, settings=["--on-loss", "continue-without"])
    crew.start(options=["--patience", LONG])
    crew.wait_until_saved(100)
    crew.kill("agent2")
    crew.wait_until_saved(200, folder="run-without-agent2")
    crew.start("agent2", options=["--patience", LONG])  # too late
    assert crew.processes["agent2"].wait(PATIENCE) == 1, crew.said()
    assert "the others went on without agent2" in crew.said("agent2")
    crew.processes["agent1"].send_signal(signal.SIGINT)
    codes = crew.finish()
    rest = [index for index in range(crew.network.size) if index != 2]
    assert {codes[f"agent{index}"] for index in rest} == {130}, crew.said()
    folders = {index: crew.folder / "peers" / f"agent{index}" / "run-without-agent2" for index in rest}
    planned = cs.load(folders[0]).num_draws + 10
    crew.start(*(f"agent{index}" for index in rest), options=["--set", f"run.num_samples={planned}"])
    codes = crew.finish()
    assert {codes[f"agent{index}"] for index in rest} == {0}, crew.said()  # they knew whom they had gone on without
    without = cs.Network.from_adjacency([[int(j in crew.network.neighbors(i)) for j in rest] for i in rest])
    expected = simulated(crew, cs.mala(0.1, 1.0), agents=rest, network=without, num_samples=200)
    for index in rest:
        run = cs.load(folders[index])
        assert run.num_draws == planned
        np.testing.assert_allclose(run.positions[:200], expected.positions, atol=1e-8)
        assert run.owner.without == ("agent2",)
        before = crew.run(f"agent{index}")
        assert before.num_draws >= 100  # what was drawn together stays, and stays apart
    names = ", ".join(f"agent{index}" for index in rest)
    verdict = f"agent2 was lost: this is the posterior of the data of {names} alone."
    assert verdict in " ".join(str(run.summary()).split())
    assert "without agent2" in run.report(tmp_path / "report.html").read_text()
    assert crew.start("agent0", options=["--set", f"run.num_samples={planned}"]).finish()["agent0"] == 0  # it is done


def test_all_stop_when_one_is_lost_if_they_are_to(crews, tmp_path):
    crew = crews(tmp_path, num_samples=100_000, settings=["--on-loss", "stop"])
    crew.start(options=["--patience", LONG])
    crew.wait_until_saved(50)
    crew.kill("agent1")
    codes = crew.finish()
    assert {codes["agent0"], codes["agent2"]} == {130}, crew.said()
    assert "agent1 was lost" in crew.said("agent0")
