"""The one driver: what is compared before what, and chunks on which all processes agree."""

from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import pytest

import consilience as cs
from consilience._refused import Refused
from consilience.engine import Chains, Hosts
from consilience.neighbors import OutOfStep
from consilience.runs import simulate
from consilience.runs.request import Length, Request
from consilience.runs.runtime import Wish
from consilience.store import RunFolder, folder

from ..targets import linear_regression

TARGET = linear_regression(4)


@dataclass(frozen=True)
class Beside(Hosts):
    """This host, beside another that does the same, but for an entry of its record."""

    count: int = 2
    table: str = ""
    entry: str = ""

    def gather(self, value):
        other = deepcopy(value)
        if isinstance(value, dict) and self.table in value:
            other[self.table][self.entry] = "something else"
        return [value, other]


def home(hosts):
    runtime = simulate.Simulate()
    runtime.hosts = hosts
    return runtime


def request(**changes):
    start = np.zeros(TARGET.dimension, np.float32)
    network = cs.Network.ring(4)
    length = Length(20, 0, 1, 1, 0)
    return Request(TARGET.posterior, TARGET.shards, network, cs.nuts(0.1, 1.0), length, start, **changes)


@pytest.mark.parametrize(
    ("table", "entry", "said"), [("model", "code", "computes something else"), ("run", "seed", "seed: 0 there")]
)
def test_hosts_are_compared_before_anything_is_compiled(monkeypatch, table, entry, said):
    monkeypatch.setattr(Chains, "compile", None)  # never reached
    with pytest.raises(
        Refused, match=f"(?s)host 1 is here, host 0 there, and they differ.*{said}.*Start all hosts alike"
    ):
        home(Beside(table=table, entry=entry)).run(request())


def test_hosts_that_do_the_same_go_on(tmp_path):
    run = home(Beside()).run(request())
    assert run.num_draws == 20


@pytest.mark.parametrize("at_once", [1, 7, 10**6])
def test_what_processes_agree_on_changes_no_draw(at_once):
    runtime = simulate.Simulate()
    runtime.agree = lambda wish: Wish(at_once, wish.save)
    np.testing.assert_array_equal(runtime.run(request()).kept, simulate.Simulate().run(request()).kept)


def test_a_run_that_is_to_stop_has_saved_all_that_it_has_drawn_and_goes_on_from_there(tmp_path):
    runtime = simulate.Simulate()
    runtime.agree = lambda wish: Wish(6, False, stop=True)
    with pytest.raises(cs.runs.Stopped):
        runtime.run(request(out=tmp_path / "run"))
    assert cs.load(tmp_path / "run").num_draws == 6
    run = simulate.Simulate().run(request(out=tmp_path / "run", resume=True))
    np.testing.assert_array_equal(run.kept[:], simulate.Simulate().run(request()).kept)


def test_nothing_is_kept_of_a_chunk_on_which_processes_do_not_agree(tmp_path):
    runtime, asked = simulate.Simulate(), []

    def agree(wish):
        asked.append(wish)
        if len(asked) == 4:  # before the first chunk, and after the third
            raise OutOfStep("it is apart")
        return Wish(6, True)

    runtime.agree = agree
    with pytest.raises(OutOfStep):
        runtime.run(request(out=tmp_path / "run"))
    assert cs.load(tmp_path / "run").num_draws == 12
    run = simulate.Simulate().run(request(out=tmp_path / "run", resume=True))
    np.testing.assert_array_equal(run.kept[:], simulate.Simulate().run(request()).kept)


def test_a_process_that_need_ask_nobody_saves_every_chunk_while_that_costs_little(tmp_path, monkeypatch):
    saved = []
    save = RunFolder.save

    def watched(self, progress, state):
        saved.append((progress.drawn, state is not None))
        return save(self, progress, state)

    monkeypatch.setattr(RunFolder, "save", watched)
    monkeypatch.setattr(folder, "SAMPLING_SHARE", 0)
    monkeypatch.setattr(Chains, "iterations_at_once", lambda self: 5)
    simulate.Simulate().run(request(out=tmp_path / "run"))
    assert saved == [(5, True), (10, True), (15, True), (20, True)]
