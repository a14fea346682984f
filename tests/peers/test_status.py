"""`consilience status`: what is shown of agents, and who is told."""

import json
import shutil
import time

import pytest
from typer.testing import CliRunner

from consilience.cli.app import app
from consilience.cli.status import status_text
from consilience.peers import Credentials, Links, Place

from .crew import Crew


@pytest.fixture
def crew(tmp_path):
    return Crew(tmp_path)


def consilience(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def said(name, **report):
    agents = {f"agent{k}": {"phase": "not heard of"} for k in range(3)}
    agents[name] = {
        "iteration": 40,
        "total": 100,
        "phase": "running",
        "epoch": 1,
        "stop": "",
        "seconds_ago": 0.0,
        **report,
    }
    return {"run": "00" * 8, "told_by": name, "agents": agents, "time": time.time()}


def test_what_agents_say_is_put_together(crew):
    peers = crew.folder / "peers"
    assert "nothing has been heard of" in consilience("status", peers / "agent0").stderr
    (peers / "agent0" / "status.json").write_text(json.dumps(said("agent0", waiting_for=["agent2"])))
    (peers / "agent1" / "status.json").write_text(json.dumps(said("agent1", acceptance=0.8)))
    done = consilience("status", peers)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert "40 of 100, waiting for agent2" in lines[1]
    assert "accepts 0.80" in lines[2]
    assert "not heard of" in lines[3]
    assert json.loads(consilience("status", peers, "--json").stdout)["agents"]["agent1"]["acceptance"] == 0.8


def test_an_agent_answers_the_observer_and_nobody_else(crew):
    peers = crew.folder / "peers"
    observer = json.dumps(said("agent1"))
    run_id = next(
        line for line in (peers / "agent1" / "agent.toml").read_text().splitlines() if line.startswith("run =")
    )
    names = tuple(crew.names)
    place = Place(run_id.split('"')[1], "agent1", names, f"tls/127.0.0.1:{crew.ports[1]}", {})
    files = [peers / "agent1" / f"{part}.pem" for part in ("key", "certificate", "authority")]
    links = Links(place, Credentials(*files), lambda *_: None, lambda *_: None, observer.encode)
    links.open()
    try:
        endpoint = f"tls/127.0.0.1:{crew.ports[1]}"
        found = consilience("status", endpoint, "--observer", peers / "observer")
        assert "40 of 100" in found.stdout, found.stderr
        refused = consilience("status", endpoint)
        assert refused.exit_code == 2
        assert "--observer" in refused.stderr
        for name in crew.names:
            shutil.rmtree(peers / name)  # handed out
        assert "40 of 100" in consilience("status", peers).stdout
    finally:
        links.close()


def test_lines_say_how_often_agents_fell_out_of_step():
    assert "out of step 3 times" in status_text(said("agent0", attempt=3))
    assert "out of step" not in status_text(said("agent0", attempt=0))


def test_lines_say_how_long_nothing_was_heard():
    assert "last heard of 61 s ago" in status_text(said("agent0", seconds_ago=61.0))
