"""What agreeing costs, in numbers that can be counted by hand, and networks written in a word."""

import pytest

import consilience as cs
from consilience._refused import Refused
from consilience.network import network_from_spec
from consilience.network.plan import GOSSIP
from consilience.network.polynomial import chebyshev_rounds


def test_costs_of_a_ring_of_five():
    plan = cs.Network.ring(5).plan()
    costs = {row.method: (row.rounds, row.messages, row.bytes_per_parameter) for row in plan.rows}
    rounds = chebyshev_rounds(cs.Network.ring(5).beta, 1e-6)
    assert costs == {
        "tree": (4, 8, 32),
        "gather": (2, 20, 9 * 20),
        "finite-time": (2, 20, 80),
        "chebyshev": (rounds, 10 * rounds, 40 * rounds),
        "flooding": (2, 20, 80),
    }
    assert [choice.method for choice in plan.choices] == ["tree", "finite-time", "flooding", "tree"]
    assert plan["tree"].accuracy == "bit-identical on all agents"
    assert plan["finite-time"].accuracy.endswith("e-08 measured, float32")


def test_chebyshev_is_shown_for_gossip_where_it_is_what_gossip_takes():
    network = cs.Network.random_regular(30, 4)
    plan = network.plan()
    assert plan[GOSSIP].rounds == chebyshev_rounds(network.beta, 0.1)
    assert plan[GOSSIP].messages == plan[GOSSIP].rounds * 120
    assert float(plan[GOSSIP].accuracy.removeprefix("contraction ")) <= 0.1
    assert plan["finite-time"].use == "exact averages"
    assert plan.choices[1].method == GOSSIP
    assert plan.choices[1].why.endswith(f"the finite-time polynomial takes {plan['finite-time'].rounds}.")
    assert plan["tree"].messages == 58  # MATH: a 4-regular graph of 30


def test_the_tolerance_is_reached_as_far_as_float32_goes():
    rows = {t: cs.Network.grid(5, 6).plan(t)["chebyshev"] for t in (1e-2, 1e-5)}
    assert rows[1e-2].rounds < rows[1e-5].rounds
    assert float(rows[1e-5].accuracy.split()[0]) <= 2e-5
    assert rows[1e-5].use == "averages to 1e-05"


def test_a_polynomial_that_rounding_spoils_says_so():
    plan = cs.Network.grid(6, 16).plan()
    assert plan["finite-time"].use == "nothing: rounding spoils it"
    assert "has an error of" in plan.choices[1].why


def test_too_large_for_a_spectrum_and_for_measuring():
    plan = cs.Network.path(2049).plan()
    assert [row.method for row in plan.rows] == ["tree", "chebyshev", GOSSIP, "flooding"]
    assert plan["chebyshev"].accuracy.startswith("δ = ")
    assert "too many agents" in plan.choices[1].why


def test_one_agent_has_nothing_to_send():
    plan = cs.Network.complete(1).plan()
    assert {row.method for row in plan.rows} == {"tree", "finite-time", "chebyshev", "flooding"}
    assert {(row.rounds, row.messages, row.bytes_per_parameter) for row in plan.rows} == {(0, 0, 0)}
    assert "nothing is sent" in str(plan)


@pytest.mark.parametrize("network", [cs.Network.ring(5), cs.Network.star(300), cs.Network.complete(1)], ids=repr)
def test_it_prints_as_an_aligned_table(network):
    plan = network.plan()
    lines = str(plan).splitlines()
    assert f"Network({lines[0]})" == repr(network)
    heading = lines[2]
    for line, row in zip(lines[4:], plan.rows, strict=False):
        assert line.startswith(row.method)
        assert line[: heading.index("messages") + len("messages")].endswith(f" {row.messages:,}")
        assert line[heading.index("accuracy") :].startswith(row.accuracy)
        assert line.endswith(row.use)
    assert all(len(line) <= len(lines[3]) for line in lines)
    for choice in plan.choices:
        assert any(line.startswith(f"{choice.purpose}: {choice.method}.") for line in lines)


def test_two_agents_take_one_round():
    plan = cs.Network.path(2).plan()
    assert [plan[method].rounds for method in ("tree", "finite-time", "flooding")] == [2, 1, 1]
    assert plan.choices[1].why == "Exact up to rounding in 1 round."


def test_refused():
    with pytest.raises(ValueError, match=r"tolerance = 0: .*Write tolerance=1e-6"):
        cs.Network.ring(5).plan(0)
    with pytest.raises(Refused, match=r"'trees': not one of the methods 'tree', 'gather', 'finite-time'"):
        cs.Network.ring(5).plan()["trees"]


SPECS = {
    "complete:5": cs.Network.complete(5),
    "path:5": cs.Network.path(5),
    "star:5": cs.Network.star(5),
    " ring:5 ": cs.Network.ring(5),
    "grid:3x4": cs.Network.grid(3, 4),
    "torus:3x4": cs.Network.torus(3, 4),
    "hypercube:3": cs.Network.hypercube(3),
    "exponential:8": cs.Network.exponential(8),
    "random_regular:30x4": cs.Network.random_regular(30, 4, seed=2),
    "erdos_renyi:20x0.3": cs.Network.erdos_renyi(20, 0.3, seed=2),
    "erdos_renyi:20x1": cs.Network.erdos_renyi(20, 1),
}


@pytest.mark.parametrize(("text", "network"), SPECS.items(), ids=SPECS)
def test_a_spec_builds_what_it_names(text, network):
    built = network_from_spec(text, weights="max-degree", seed=2)
    assert (built.name, built.edges, built.rule) == (network.name, network.edges, "max-degree")


BAD = {
    "rng:7": r"there is no network 'rng'\. Write ring:7\.",
    "Ring:7": r"Write ring:7\.",
    "random-regular:30x4": r"Write random_regular:30x4\.",
    "gird:3": r"Write grid:3x4\.",
    "zzz": r"names no network\. Write one of complete:5 .* erdos_renyi:20x0\.3\.",
    "ring": r"ring takes one whole number\. Write ring:5\.",
    "ring:five": r"Write ring:5\.",
    "ring:5x6": r"one whole number\. Write ring:5\.",
    "grid:7": r"two whole numbers with an x between them\. Write grid:3x4\.",
    "grid:7,8": r"Write grid:7x8\.",
    "grid:7 × 8": r"Write grid:7x8\.",
    "erdos_renyi:20": r"a whole number and a probability.*Write erdos_renyi:20x0\.3\.",
    "ring:2": r"'ring:2': ring\(2\): a ring has three agents or more\. Write path:2, two agents that are linked\.",
    "random_regular:5x3": r"an even size × degree",
}


@pytest.mark.parametrize(("text", "message"), BAD.items(), ids=BAD)
def test_a_bad_spec_is_refused_with_the_right_one(text, message):
    with pytest.raises(ValueError, match=message):
        network_from_spec(text)


def test_bad_weights_are_refused_with_the_right_ones():
    with pytest.raises(ValueError, match=r"weights = 'metropols': not one of .* Write metropolis\."):
        network_from_spec("ring:5", weights="metropols")
    with pytest.raises(ValueError, match=r"agent 0 has 4 neighbours\. Write weights=\"metropolis\"\.$"):
        network_from_spec("star:5", weights="uniform")
