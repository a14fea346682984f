"""The list of planted faults is in order. That each of them is found is what `make mutants` shows, in half an hour."""

from collections import Counter

import pytest

from .mutants.__main__ import CAUGHT, MISSED, Outcome, verdict_of
from .mutants.faults import Fault, check_tests, planted, read_faults

FAULTS = read_faults()
AREAS = (
    *("samplers", "consensus", "network", "posterior", "numpyro", "store"),
    *("peers", "scores", "diagnostics", "runtimes", "traffic", "planning"),
)
SAMPLERS = (
    *("nuts", "hmc", "mala", "dmala", "published", "dula", "desgld", "desghmc", "diging", "extra"),
    *("consensus-mc", "centralized-hmc"),
)


def test_every_fault_can_be_planted_and_its_tests_are_there():
    for fault in FAULTS:
        planted(fault)
        check_tests(fault)


def test_there_are_enough_of_them_with_names_of_their_own_in_every_area():
    assert len(FAULTS) >= 45
    assert max(Counter(fault.name for fault in FAULTS).values()) == 1
    assert {fault.area for fault in FAULTS} == {*AREAS}
    for sampler in SAMPLERS:
        assert any(fault.name.startswith(sampler) for fault in FAULTS), sampler
    for fault in FAULTS:
        assert fault.breaks.endswith(".") and fault.tests, fault.name


def fault(**changes):
    good = {
        "name": "x",
        "area": "network",
        "file": "network/tree.py",
        "old": "np.argmin(",
        "new": "np.argmax(",
        "breaks": "All.",
        "tests": ("network/test_tree.py::test_known_trees",),
    }
    return Fault(**{**good, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"old": "nothing like this"}, "occurs 0 times"),
        ({"old": "agent"}, "occurs [0-9]+ times"),
        ({"new": "np.argmin("}, "two different pieces of a line"),
        ({"new": "np.argmin( "}, "two different pieces of a line"),
        ({"tests": ("network/test_tree.py::test_nothing",)}, "there is no test_nothing in tests/network/test_tree.py"),
    ],
)
def test_a_fault_that_would_prove_nothing_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        planted(fault(**changes)), check_tests(fault(**changes))


def test_a_fault_is_caught_by_a_test_that_fails_and_by_nothing_else():
    line = "FAILED tests/a.py::test_b[c - d] - {}"
    assert verdict_of(fault(), Outcome(1, line.format("assert 1 == 2"), 1.0)) == CAUGHT
    assert verdict_of(fault(), Outcome(1, "ERROR tests/a.py::test_b - ValueError: no", 1.0)) == CAUGHT
    assert verdict_of(fault(), Outcome(0, "1 passed", 1.0)) == MISSED
    assert verdict_of(fault(hangs=True), Outcome(None, "", 1.0)) == CAUGHT
    for wrong in (
        Outcome(1, line.format("ModuleNotFoundError: No module named 'x'"), 1.0),
        Outcome(1, line.format("NameError: name 'x' is not defined"), 1.0),
        Outcome(1, "Traceback (most recent call last)", 1.0),
        Outcome(2, "ERROR tests/a.py - ImportError", 1.0),
        Outcome(5, "no tests ran", 1.0),
        Outcome(None, "", 1.0),
    ):
        assert verdict_of(fault(), wrong) not in (CAUGHT, MISSED)
