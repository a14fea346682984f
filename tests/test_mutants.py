"""The list of planted faults is in order. That each of them is found is what `make mutants` shows, in half an hour."""

import re
from collections import Counter

import pytest

from .limit import complaint
from .mutants.__main__ import CAUGHT, MISSED, Outcome, table, verdict_of
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
KINDS = {  # what a list that is worth its name has to hold, and the faults that are of it
    "samplers": {
        "sign": ("dula-drift-sign", "network-gradient-sign", "published-energy-sign"),
        "temperature": (
            *("dula-temperature", "desgld-temperature", "desghmc-temperature"),
            *("diging-temperature", "extra-temperature"),
        ),
        "drift": ("dmala-drift-of-one-agent", "diging-tracker-forgets", "published-tracking-dropped"),
        "half a kick": ("centralized-hmc-half-a-kick", "dmala-half-a-kick"),
        "energy": ("dmala-energy", "dmala-trapezoid-sign", "centralized-hmc-kinetic-energy-lost"),
        "agreement": ("dmala-decides-alone", "different-turns-accepted", "disagreement-kept"),
        "adaptation": ("adaptation-target", "adaptation-window-short", "adaptation-never-ends"),
    },
    "consensus": {
        "a lost child": ("tree-sum-loses-a-child",),
        "wrong weights": ("gossip-weights-misplaced", "peers-weights-reversed", "devices-weights-misplaced"),
        "order": (
            *("gossip-rows-mixed-up", "tree-sum-in-another-order"),
            *("devices-partners-out-of-order", "devices-received-out-of-order"),
        ),
    },
    "posterior": {
        "the prior counted twice": ("prior-counted-m-times", "minibatch-prior-m-times"),
        "a mask dropped": ("padding-mask-dropped", "minibatch-of-padding"),
    },
    "store": {
        "a lost fsync": ("fsync-lost", "folder-fsync-lost", "new-folder-fsync-lost"),
        "a checkpoint before its draws": ("checkpoint-before-its-draws",),
        "a skipped compare": ("another-run-continued", "other-data-continued"),
    },
    "peers": {
        "a skipped signature": ("signature-unchecked", "certificate-unchecked"),
        "an old epoch": ("old-epoch-is-ready", "old-epoch-taken", "another-epoch-taken"),
        "a dropped mask": ("mask-dropped",),
    },
    "scores": {"classification": ("nll-sign", "brier-averaged", "ece-unweighted"), "regression": ("regression-nll",)},
    "diagnostics": {"ESS and R-hat": ("ess-along-the-wrong-axis", "r-hat-of-the-best-agent"), "sd": ("sd-of-blocks",)},
}


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


@pytest.mark.parametrize(("area", "kind"), [(area, kind) for area, kinds in KINDS.items() for kind in kinds])
def test_there_are_faults_of_every_kind(area, kind):
    areas = {fault.name: fault.area for fault in FAULTS}
    assert {areas.get(name) for name in KINDS[area][kind]} == {area}


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
    assert verdict_of(Outcome(1, line.format("assert 1 == 2"), 1.0)) == CAUGHT
    assert verdict_of(Outcome(1, "ERROR tests/a.py::test_b - ValueError: no", 1.0)) == CAUGHT
    assert verdict_of(Outcome(0, "1 passed", 1.0)) == MISSED
    for wrong in (
        Outcome(1, line.format("ModuleNotFoundError: No module named 'x'"), 1.0),
        Outcome(1, line.format("NameError: name 'x' is not defined"), 1.0),
        Outcome(1, "Traceback (most recent call last)", 1.0),
        Outcome(2, "ERROR tests/a.py - ImportError", 1.0),
        Outcome(5, "no tests ran", 1.0),
        Outcome(None, "", 1.0),
    ):
        assert verdict_of(wrong) not in (CAUGHT, MISSED)


def test_a_test_that_takes_too_long_has_found_nothing():
    said = complaint("tests/a.py::test_b", 1e6, 1.0)
    assert verdict_of(Outcome(1, f"{said}\nFAILED tests/a.py::test_b", 1.0)) == "took too long"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("FAILED tests/a.py::test_b - assert 1 == 2", "assert 1 == 2"),
        ("FAILED tests/a.py::test_b[c - d] - assert [1] == 2", "assert [1] == 2"),
        ("FAILED tests/a.py::test_b[c - d]", ""),
        ("E   assert 1 == 2\nE    +  where\nFAILED tests/a.py::test_b[c]", "assert 1 == 2"),
        (
            "E   AssertionError: \nE   Not equal to tolerance\nE   \nE   Mismatched\n"
            "FAILED tests/a.py::test_b - AssertionError: ",
            "AssertionError: Not equal to tolerance",
        ),
        ("1 passed", ""),
    ],
)
def test_the_reason_is_what_the_failing_test_says(said, reason):
    outcome = Outcome(1, said, 1.0)
    assert outcome.reason == reason
    if outcome.failure:
        row = table([fault()], [(CAUGHT, outcome)]).splitlines()[-1]
        assert re.search(rf"\| `a\.py::test_b(\[c( - d)?\])?` \| `{re.escape(reason)}` \|", row)


def test_a_row_of_the_table_stays_one_row():
    outcome = Outcome(1, f"FAILED tests/a.py::test_b - assert a | {'b' * 1000}", 1.0)
    head, _, row = table([fault()], [(CAUGHT, outcome)]).splitlines()
    assert row.replace("\\|", "").count("|") == head.count("|") and len(row) < 400
    assert "**NOT CAUGHT**" in table([fault()], [(MISSED, Outcome(0, "1 passed", 1.0))])
