"""Whatever happens to agents and links, the draws are those of a run to which nothing happened."""

import fcntl
import os
import random
import signal
import time

import numpy as np
import pytest

import consilience as cs
from consilience.peers import ENDED

from .crew import HELD, Crew, Proxy

DRAWS, MANY = 300, 1200


def left_alone(folder, draws, sampler="mala"):
    """What all agents draw to whom nothing happens, in chunks and with checkpoints as users have them."""
    crew = Crew(folder, num_samples=draws, sampler=sampler)
    assert set(crew.start().finish().values()) == {0}, crew.said()
    found = crew.positions()
    assert found["agent0"].shape == (draws, 2, 1, 3)
    for others in found.values():
        np.testing.assert_array_equal(others, found["agent0"])
    return found["agent0"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What is drawn where nothing happens, once for all of pytest's workers."""
    folder = tmp_path_factory.getbasetemp()
    kept = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "undisturbed.npy"
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            np.save(kept, left_alone(tmp_path_factory.mktemp("undisturbed"), DRAWS))
    return np.load(kept)


@pytest.fixture
def draws():
    return DRAWS


@pytest.fixture
def sampler():
    return "mala"


@pytest.fixture
def settings():
    return ()


@pytest.fixture
def crew(tmp_path, draws, sampler, settings):
    """Agents whose run does not end before `release`, whenever a test gets round to what is to happen to them."""
    crew = Crew(tmp_path, num_samples=draws, program=HELD, sampler=sampler, settings=settings)
    hold(crew)
    yield crew
    crew.end()


def hold(crew):
    (crew.folder / "hold").touch()


def release(crew):
    (crew.folder / "hold").unlink(missing_ok=True)


def check(crew, undisturbed):
    """All draws are there, once, and right; nothing is left of the way there."""
    release(crew)
    codes = crew.finish()
    assert set(codes.values()) == {0}, crew.said()
    for name, draws in crew.positions().items():
        np.testing.assert_array_equal(draws, undisturbed, err_msg=name)
        assert cs.load(crew.run_folder(name)).is_complete


def killed_and_restarted(crew, draws, times, seed):
    chance = random.Random(seed)
    crew.start()
    for k in range(times):
        crew.wait_until_saved(draws * (k + 1) // (times + 2))
        time.sleep(chance.uniform(0, 0.3))
        name = chance.choice(crew.names)
        crew.kill(name)
        release(crew)  # without that one they get nowhere
        others = [other for other in crew.names if other != name]
        # In the midst of the run, or of meeting again after the last kill.
        crew.wait_for(lambda status: status.get("waiting_for"), chance.choice(others))
        hold(crew)
        crew.start(name)


def test_an_agent_that_is_killed_twice_costs_nothing(crew, undisturbed):
    killed_and_restarted(crew, DRAWS, 2, time.time_ns())
    check(crew, undisturbed)


@pytest.mark.parametrize("settings", [("--mask", "--consensus", "gather")])
def test_gathered_sums_are_as_patient(crew, undisturbed):
    killed_and_restarted(crew, DRAWS, 1, time.time_ns())
    release(crew)
    assert set(crew.finish().values()) == {0}, crew.said()
    draws = crew.positions()
    for found in draws.values():
        np.testing.assert_array_equal(found, draws["agent0"])
    np.testing.assert_allclose(draws["agent0"], undisturbed, atol=1e-6)  # masked numbers are rounded otherwise


@pytest.mark.soak
@pytest.mark.parametrize(("draws", "sampler"), [(MANY, "nuts"), (MANY, "surrogate")])
def test_ten_kills(crew, tmp_path_factory, sampler):
    killed_and_restarted(crew, MANY, 10, time.time_ns())
    check(crew, left_alone(tmp_path_factory.mktemp("undisturbed"), MANY, sampler))


@pytest.mark.parametrize("seconds", [2, pytest.param(20, marks=pytest.mark.soak)])
def test_a_frozen_agent_is_waited_for(crew, undisturbed, seconds):
    crew.start()
    crew.wait_until_saved(DRAWS // 5)
    frozen = crew.processes["agent1"]
    os.kill(frozen.pid, signal.SIGSTOP)
    release(crew)
    try:
        said = crew.wait_for(lambda status: status["neighbors"]["agent1"] == "lost" and status["waiting_for"])
        assert said["phase"] not in ENDED  # in the midst of the run, or, where a third one was late as well, of meeting
        time.sleep(seconds)
        assert all(process.poll() is None for process in crew.processes.values())
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
    check(crew, undisturbed)


def test_a_cut_link_is_waited_for(crew, undisturbed):
    proxy = Proxy(crew.ports[0])  # agent1 reaches agent0 through it
    try:
        file = crew.folder / "peers" / "agent1" / "agent.toml"
        file.write_text(file.read_text().replace(f":{crew.ports[0]}", f":{proxy.port}"))
        crew.start()
        crew.wait_until_saved(DRAWS // 5)
        proxy.cut()
        release(crew)
        said = crew.wait_for(lambda status: status["neighbors"]["agent1"] == "lost")
        assert said["neighbors"]["agent2"] == "up"
        time.sleep(3)
        assert all(process.poll() is None for process in crew.processes.values())
        proxy.mend()
        check(crew, undisturbed)
        assert "is there again" in crew.logged("agent0") or "asks for a new start" in crew.logged("agent0")
    finally:
        proxy.close()


def test_ctrl_c_stops_all_and_all_go_on(crew, undisturbed):
    crew.start()
    crew.wait_until_saved(DRAWS // 5)
    crew.processes["agent2"].send_signal(signal.SIGINT)
    assert set(crew.finish().values()) == {130}, crew.said()
    drawn = {crew.run(name).num_draws for name in crew.names}
    assert len(drawn) == 1  # all at the same draw
    assert 0 < drawn.pop() < DRAWS
    assert "agent2 was interrupted" in crew.said("agent0")
    release(crew)
    crew.start()
    check(crew, undisturbed)
    # One that was killed after its last draw, before it knew that all were done, learns it from one that knows.
    file = crew.run_folder("agent1") / "run.toml"
    file.write_text(file.read_text().replace('status = "complete"', 'status = "running"'))
    crew.start("agent1")
    crew.wait_for(lambda status: status["phase"] == "joining", "agent1")
    crew.start("agent0")
    assert crew.finish() == dict.fromkeys(crew.names, 0), crew.said()
