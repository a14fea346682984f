"""What follows from a cost: shares, bytes, the best way to agree."""

import json
from pathlib import Path

import numpy as np
import pytest

import consilience as cs
from benchmarks.plan import WITHIN, table, table_of_sums, worst
from consilience.engine import CHUNK_SECONDS
from consilience.neighbors import HEADER
from consilience.planning import MEASURED, LinkSpeeds, demand_of, predict
from consilience.planning.cost import Cost
from consilience.planning.prediction import BETWEEN_CHUNKS, per_draw

DOCS = Path(__file__).parents[2] / "docs"
RING = cs.Network.ring(5)
FOUND = json.loads((DOCS / "plan.json").read_text())


def of(sampler, latency=0.02, bandwidth=5e7, dimension=650, network=RING, **options):
    return predict(network, LinkSpeeds.alike(network, latency, bandwidth), sampler, dimension, **options)


def test_shares_are_of_the_whole_and_name_the_bottleneck():
    bottlenecks = {
        "latency": of(cs.mala(), 0.02, 1e9),
        "bandwidth": of(cs.mala(), 1e-3, 1e5),
        "compute": of(cs.mala(), 1e-3, 1e9, gradient_seconds=1.0),
        "software": of(cs.mala(), 0.0, 1e12),
    }
    for name, found in bottlenecks.items():
        assert sum(found.shares.values()) == pytest.approx(1)
        assert found.bottleneck == name


def test_twice_the_latency_is_nearly_twice_the_time_where_nothing_else_matters():
    """Not more than one draw fits between two agreements in either."""
    one, two = (of(cs.hmc(), latency, 1e12, 10).seconds for latency in (0.5, 1.0))
    assert two / one == pytest.approx(2, rel=0.01)


def test_an_agent_sends_its_part_of_the_traffic_and_headers():
    found = of(cs.dmala())
    _, messages, size = demand_of(cs.dmala(), RING, 650).traffic(RING)
    for each in BETWEEN_CHUNKS:
        sent = {"flood": 2 * 10}[each.kind] * each.times / found.draws_at_once
        messages, size = messages + sent, size + sent * each.message_bytes
    assert found.messages == pytest.approx(messages)
    assert found.megabytes_per_agent == pytest.approx((size + HEADER.size * messages) / RING.size / 1e6)


def test_the_busiest_agent_of_a_star_has_the_state_to_send_to_all():
    network, dimension = cs.Network.star(6), 650
    found = of(cs.mala(), network=network, dimension=dimension)
    [both] = demand_of(cs.mala(), network, dimension).collectives
    assert both.times == 1 and both.message_bytes < 4 * (dimension + 1) + 100 < both.back_bytes
    hub = 5 * (both.back_bytes + HEADER.size)
    [flood] = BETWEEN_CHUNKS
    hub += 5 * network.diameter * (flood.message_bytes + HEADER.size) / found.draws_at_once
    assert found.most_megabytes == pytest.approx(hub / 1e6)


def test_draws_of_half_a_second_share_an_agreement():
    cost, agreement = Cost(np.array([0.1, 0, 0, 0])), Cost(np.array([0.3, 0, 0, 0]))
    both, at_once = per_draw(cost, agreement, lambda draws: 0.002 * draws, 1000)
    assert at_once == int((CHUNK_SECONDS - 0.002) / 0.1)
    assert both.seconds == pytest.approx(0.1 + 0.002 + 0.3 / at_once)
    assert per_draw(cost, agreement, lambda _: 0.0, 2)[1] == 2
    assert per_draw(Cost(np.array([9.0, 0, 0, 0])), agreement, lambda _: 0.0, 2)[1] == 1


def test_effective_draws_are_of_all_chains():
    found = of(cs.mala(), chains=4, ess_per_draw=0.25)
    assert found.seconds_per_effective_draw == pytest.approx(found.seconds)
    assert of(cs.mala()).seconds_per_effective_draw is None


def test_replicated_chains_need_the_tree_and_averages_take_what_is_fastest():
    exact = of(cs.mala())
    assert [way.method for way in exact.methods if way.is_best] == ["tree"]
    assert min(exact.methods, key=lambda way: way.seconds).method == "finite-time"  # faster, and not for these
    plan = RING.plan()
    for way in of(cs.dmala()).methods:
        if way.method in ("finite-time", "flooding"):
            assert way.rounds == plan[way.method].rounds
    gossip = {way.purpose: way.method for way in of(cs.dmala()).methods if way.is_best}
    assert gossip == {"average of a vector": "finite-time", "decision": "flooding"}
    few = of(cs.dmala(rounds=2), network=cs.Network.ring(20))
    assert next(way.rounds for way in few.methods if way.note == "what dmala is set to") == 2
    hub = cs.Network.star(200)  # where the finite-time polynomial is spoilt by rounding
    assert next(way.method for way in of(cs.dmala(), network=hub).methods if way.is_best) == "tree"


def test_what_is_gathered_takes_the_diameter_and_no_state():
    gathered = of(cs.mala(), consensus="gather")
    per_chunk = RING.diameter / gathered.draws_at_once
    assert gathered.rounds == pytest.approx(RING.diameter + per_chunk)
    assert gathered.seconds < 0.6 * of(cs.mala()).seconds
    assert of(cs.nuts(), consensus="gather", evaluations=7).rounds < 7 * 2 + 2 + 0.1
    # Each of five agents' 651 numbers, 9 bytes each when masked, is sent four times.
    assert gathered.megabytes_per_agent * 1e6 == pytest.approx(4 * 9 * 651, rel=0.05)
    way = next(way for way in of(cs.mala()).methods if way.method == "gather")
    assert (way.rounds, way.is_best) == (2, False)


@pytest.mark.parametrize(
    ("sampler", "network", "said"),
    [
        (cs.dmala(), RING, "only masked sums are gathered, and dmala has none"),
        (cs.mala(), cs.Network.star(300), "300 agents are too many to gather"),
    ],
)
def test_a_plan_to_gather_what_nobody_gathers_is_refused(sampler, network, said):
    with pytest.raises(ValueError, match=said):
        of(sampler, network=network, consensus="gather")


def test_one_agent_waits_for_nobody():
    found = of(cs.mala(), network=cs.Network.complete(1), gradient_seconds=1e-3)
    assert (found.rounds, found.megabytes_per_agent, found.bottleneck, found.methods) == (0, 0, "compute", ())


# --- the page -------------------------------------------------------------------------------------------------


def test_the_constants_are_those_that_were_measured():
    assert FOUND["constants"] == MEASURED._asdict()


def test_the_page_has_what_was_measured():
    page = (DOCS / "plan.md").read_text()
    for line in (*table(FOUND), *table_of_sums(FOUND)):
        assert line in page
    assert worst(FOUND) <= WITHIN
    assert f"differ by at most {100 * worst(FOUND):.0f} %" in page
    assert FOUND["links"]["by"] in page


def test_a_network_that_would_take_minutes_is_refused_at_once():
    network = cs.Network.path(9000)
    with pytest.raises(ValueError, match="9,000 agents on 4,500 levels: too many"):
        predict(network, LinkSpeeds.alike(network, 0.02, 5e7), cs.mala(), 10)
