"""Several processes share a run over `jax.distributed`: one chain, one folder, and no draw is lost by a death."""

import json
import shutil
from contextlib import contextmanager

import jax
import numpy as np
import pytest

import consilience as cs

from ..forks import Forked
from ..patience import PATIENCE
from ..peers.crew import free_ports
from .host import NETWORK
from .problem import sample

DRAWS = 150
ENDLESS = 100_000  # draws, more than there is time for


@contextmanager
def hosts(folder, count, jobs=None, **job):
    """Start so many processes with one job, what they say in `folder`; `jobs`: what differs between them."""
    port = free_ports(1)[0]
    each = [
        {"host": k, "hosts": count, "port": port, "draws": DRAWS, **job, **(jobs or [{}] * count)[k]}
        for k in range(count)
    ]
    started = [
        Forked(f"{__package__}.host", [json.dumps(one)], folder, folder / f"{port}-{k}.out", folder / f"{port}-{k}.err")
        for k, one in enumerate(each)
    ]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def ends(processes):
    """What each has said, and its exit code."""
    return [(*process.communicate(timeout=PATIENCE), process.returncode) for process in processes]


def draws_of(folder):
    return cs.load(folder).kept[:]


# By dmala, the command's own test has two processes, and kills one (cli/test_devices.py).
@pytest.fixture(scope="module", params=["nuts", pytest.param("dmala", marks=pytest.mark.soak)])
def shared(request, tmp_path_factory):
    """A run of two processes, nobody killed: its sampler, its folder, and what the processes said."""
    out = tmp_path_factory.mktemp("shared") / "run"
    with hosts(out.parent, 2, name=request.param, out=str(out)) as processes:
        return request.param, out, ends(processes)


def test_two_processes_draw_the_chain_of_simulate(shared):
    name, out, said = shared
    assert [code for *_, code in said] == [0, 0], said
    with jax.enable_x64(True):
        right = sample(name, NETWORK, DRAWS)
    found = cs.load(out)
    np.testing.assert_allclose(found.kept[:], right.kept, rtol=0, atol=1e-8)
    for figure, values in right.raw_stats.items():
        np.testing.assert_allclose(found.raw_stats[figure], values, atol=1e-6, err_msg=figure)
    assert found.traffic == right.traffic
    assert found.facts["status"] == "complete" and found.rows == right.rows


def test_every_host_loads_the_data_of_its_own_agents_and_has_all_draws_at_the_end(shared):
    name, _, said = shared
    loaded = [[line[-1] for line in errors.splitlines() if line.startswith("loads ")] for _, errors, _ in said]
    assert loaded == [["0", "1", "2"], ["3", "4"]]
    for out, *_ in said:
        end = json.loads(out.splitlines()[-1])
        assert end["shape"] == [DRAWS, 2, 1 if name == "nuts" else 5, 3] and len(end["rows"]) == 5
        assert end["status"] == "complete"
    assert "drawn" in said[0][1] and "drawn" not in said[1][1]  # one bar


def test_a_killed_host_costs_nothing_that_was_reported(shared, tmp_path):
    name, undisturbed, _ = shared
    victim = 0 if name == "nuts" else 1
    out = tmp_path / "run"
    with hosts(tmp_path, 2, name=name, out=str(out), draws=ENDLESS, chunk=10) as processes:
        drawn = (line for line in processes[0].errors() if line.startswith("drawn"))
        first = next(drawn, None)
        assert first is not None, ends(processes)
        reported = int(first.split()[1])
        processes[victim].kill()
        _, _, code = ends([processes[1 - victim]])[0]
        assert code != 0
    before = cs.load(out).num_draws
    assert reported <= before < ENDLESS  # nothing that was reported is lost, and it was in the midst
    draws = max(DRAWS, before + 50)
    if draws > DRAWS:  # the machine is fast, or this process was late: what was left alone has to be longer, too
        undisturbed = shutil.copytree(undisturbed, tmp_path / "undisturbed")
    for folder in (out, undisturbed)[: 1 + (draws > DRAWS)]:
        with hosts(tmp_path, 2, name=name, out=str(folder), draws=draws) as processes:
            said = ends(processes)
            assert [code for *_, code in said] == [0, 0], said
    assert len(draws_of(out)) == draws
    np.testing.assert_array_equal(draws_of(out), draws_of(undisturbed))


@pytest.mark.soak  # on one host, test_mesh.py shows it
def test_a_run_goes_on_with_other_hosts(shared, tmp_path):
    """Two, then three, one of which has two devices, then one with two."""
    name, undisturbed, _ = shared
    out = tmp_path / "run"
    for devices, draws in (([1, 1], 30), ([1, 2, 1], 60), ([2], DRAWS)):
        jobs = [{"devices": own} for own in devices]
        with hosts(tmp_path, len(jobs), jobs, name=name, out=str(out), draws=draws) as processes:
            said = ends(processes)
            assert [code for *_, code in said] == [0] * len(jobs), said
    np.testing.assert_allclose(draws_of(out), draws_of(undisturbed), rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ([{"fault": "nan"}] * 2, "agent 4: x has NaN in 1 of 14 rows"),
        ([{"fault": "columns"}] * 2, "agent 3: its data is"),
        ([{"fault": "large"}] * 2, "agent 4: the gradient of the log density is inf"),
        ([{"seed": 1}, {"seed": 2}], "seed: 1 there, 2 here"),
        pytest.param([{"draws": 10}, {"draws": 20}], "num_samples: 10 there, 20 here", marks=pytest.mark.soak),
        ([{}, {"out": "elsewhere"}], "is not the folder that the first host sees"),
        pytest.param([{}, {"out": None}], "out: True there, False here", marks=pytest.mark.soak),
    ],
    ids=["data", "columns", "start", "settings", "length", "folder", "memory"],
)
def test_what_one_host_refuses_stops_all(jobs, message, tmp_path):
    folders = [job.get("out", "run") for job in jobs]
    jobs = [{**job, "out": folder and str(tmp_path / folder)} for job, folder in zip(jobs, folders, strict=True)]
    with hosts(tmp_path, 2, jobs, name="dmala") as processes:
        said = ends(processes)
    assert all(code != 0 and message.split(" there")[0][:20] in errors for _, errors, code in said), said
    assert any(message in errors for _, errors, _ in said), said
    assert not [*tmp_path.glob("*/run.toml")]  # nothing was begun


def test_more_hosts_than_agents_are_refused():
    from consilience.runs.arrays import chosen_devices

    class Device:
        def __init__(self, host):
            self.process_index = host

    with pytest.raises(ValueError, match="3 hosts for 2 agents"):
        chosen_devices([Device(host) for host in range(3)], 2)
    assert len(chosen_devices([Device(host // 4) for host in range(8)], 5)) == 4  # two of each
