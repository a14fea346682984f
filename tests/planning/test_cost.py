"""The clocks of `CostModel` against a simulation of agents that send and wait, message by message."""

import networkx as nx
import numpy as np
import pytest

import consilience as cs
from consilience.neighbors import HEADER
from consilience.planning.cost import COMPUTE, LATENCY, MEASURED, Constants, CostModel, bytes_on_the_wire
from consilience.planning.demand import Collective, Demand
from consilience.planning.links import LinkSpeeds

SLOW = Constants(hop=3e-4, hop_byte=2e-9, message=4e-4, message_byte=1e-9, room_byte=0.0, noise_byte=0.0)
ITERATION = (
    *(Collective("gossip", 3, 40_000), Collective("sum", 1, 900, 1_700), Collective("flood", 1, 1)),
    Collective("pass", 1, 90_000),
)


class Window:
    """Of one direction of a link."""

    first = 10 * 1448

    def __init__(self):
        self.used, self.longest = np.inf, 0.0

    def held_up(self, now, size, latency, bandwidth):
        size = bytes_on_the_wire(size)
        if size <= self.first:
            return 0.0
        self.longest = max(self.longest, size)
        room, then, time_out = 2 * self.longest, self.used + 0.2 + 2 * latency, 0.2 + 2 * latency
        while then <= now:
            then, room = then + time_out, room / 2
        room, waited, left = max(room, self.first), 0.0, size
        while left > room:
            left -= room
            waited += max(0.0, 2 * latency - 8 * room / bandwidth)
            room *= 2
        self.used = now + waited
        return waited


class Agent:
    """Does one thing at a time; `program` yields what it waits for."""

    def __init__(self, crew, index):
        self.crew, self.index, self.time = crew, index, 0.0

    def send(self, to, size):
        for place, other in enumerate(sorted(to)):
            self.time += SLOW.further(size) if place else 0.0
            self.crew.sent[self.index] += size + HEADER.size
            latency, bandwidth = self.crew.speeds[frozenset((self.index, other))]
            wire = latency + 8 * bytes_on_the_wire(size) / bandwidth
            wire += self.crew.windows[self.index, other].held_up(self.time, size, latency, bandwidth)
            self.crew.mail.setdefault((self.index, other), []).append(self.time + wire + SLOW.alone(size))

    def take(self, senders, size):
        for place, other in enumerate(sorted(senders)):
            while not self.crew.mail.get((other, self.index)):
                yield
            self.time += SLOW.further(size) if place else 0.0
            self.time = max(self.time, self.crew.mail[other, self.index].pop(0))

    def program(self, gradients, iterations):
        network = self.crew.network
        tree, neighbors = network.tree, network.neighbors(self.index)
        parent = [] if self.index == tree.root else [tree.parent[self.index]]
        children = tree.children(self.index)

        def up(size):
            yield from self.take(children, size)
            self.send(parent, size)

        def down(size):
            yield from self.take(parent, size)
            self.send(children, size)

        def gossip(size):
            self.send(neighbors, size)
            yield from self.take(neighbors, size)

        for _ in range(iterations):
            self.time += gradients
            for _ in range(3):
                yield from gossip(40_000)
            yield from up(900)
            yield from down(1_700)
            for _ in range(network.diameter):
                yield from gossip(1)
            yield from down(90_000)
            self.crew.ends[self.index].append(self.time)


class Crew:
    """Runs the agents' programs until all have ended; every link keeps the order of its messages."""

    def __init__(self, network, links):
        self.network, self.mail = network, {}
        self.windows = {(i, j): Window() for edge in network.edges for i, j in (edge, edge[::-1])}
        speeds = zip(links.latency, links.bandwidth, strict=True)
        self.speeds = {frozenset(edge): speed for edge, speed in zip(network.edges, speeds, strict=True)}
        self.ends = {agent: [] for agent in range(network.size)}
        self.sent = np.zeros(network.size)

    def run(self, gradients, iterations):
        running = [Agent(self, agent).program(gradients, iterations) for agent in range(self.network.size)]
        while running:
            running = [program for program in running if next(program, self) is not self]
        return np.array([self.ends[agent] for agent in range(self.network.size)]).max(axis=0)


def networks():
    graphs = [nx.random_labeled_tree(9, seed=1), nx.gnp_random_graph(10, 0.4, seed=2), nx.wheel_graph(8)]
    return [cs.Network.ring(5), cs.Network.star(6), *map(cs.Network.from_networkx, graphs)]


@pytest.mark.parametrize("network", networks(), ids=lambda network: network.name)
@pytest.mark.parametrize("seed", range(3))
def test_an_iteration_takes_as_long_as_agents_that_send_and_wait(network, seed):
    random = np.random.default_rng(seed)
    edges = len(network.edges)
    links = LinkSpeeds(random.uniform(0.0, 0.05, edges), random.uniform(1e6, 1e8, edges))
    model, gradients = CostModel(network, links, SLOW), 0.003
    crew = Crew(network, links)
    ends = crew.run(gradients, 4)
    cost = model.iteration_cost(Demand(ITERATION, 1.0, 4, 0), gradients)
    assert cost.seconds == pytest.approx((ends[3] - ends[1]) / 2, rel=1e-9)
    assert cost.parts[COMPUTE] <= gradients * (1 + 1e-9)
    np.testing.assert_allclose(4 * model.bytes_sent(*ITERATION), crew.sent)
    once = Crew(network, links).run(0.0, 1)
    assert model.collective_cost(*ITERATION).seconds == pytest.approx(once[0], rel=1e-9)


@pytest.mark.parametrize("network", networks(), ids=lambda network: network.name)
def test_a_gather_takes_as_long_as_agents_that_pass_on_what_they_have(network):
    """Of equal links, without software: a round is the longest message's, over whatever link."""
    free = Constants(*[0.0] * len(MEASURED))
    model, size = CostModel(network, LinkSpeeds.alike(network, 0.02, 1e6), free), 500
    known = {agent: {agent} for agent in range(network.size)}
    seconds, sent = 0.0, np.zeros(network.size)
    for links in network.gathering.rounds:
        before = {agent: set(numbers) for agent, numbers in known.items()}
        for (sender, receiver), sources in links.items():
            assert receiver in network.neighbors(sender) and set(sources) <= before[sender]
            assert not set(sources) & before[receiver]  # nothing is sent twice
            known[receiver] |= set(sources)
            sent[sender] += len(sources) * size + HEADER.size
        seconds += 0.02 + 8 * bytes_on_the_wire(max(map(len, links.values())) * size) / 1e6
    assert all(numbers == set(range(network.size)) for numbers in known.values())
    assert model.collective_cost(Collective("gather", 1, size)).seconds == pytest.approx(seconds, rel=1e-9)
    np.testing.assert_allclose(model.bytes_sent(Collective("gather", 1, size)), sent)


def test_many_rounds_are_as_many_times_one_round():
    network = cs.Network.path(6)
    links = LinkSpeeds.alike(network, 0.01, 1e7)
    model = CostModel(network, links)
    one, many = (model.collective_cost(Collective("gossip", rounds, 1000)).seconds for rounds in (100, 1000))
    assert many / one == pytest.approx(10, rel=1e-2)
    few, more = (model.collective_cost(Collective("sum", sums, 1000, 1000)).seconds for sums in (1.0, 1.5))
    assert more / few == pytest.approx(1.5, rel=1e-2)


def test_time_is_what_the_slowest_way_takes():
    network = cs.Network.star(5)
    latency = np.array([0.01, 0.02, 0.03, 0.5])
    free = Constants(*[0.0] * len(MEASURED))
    model = CostModel(network, LinkSpeeds(latency, np.full(4, np.inf)), free)
    assert model.collective_cost(Collective("sum", 1, 100, 100)).parts[LATENCY] == pytest.approx(2 * 0.5)
    assert model.collective_cost(Collective("gossip", 3, 100)).seconds == pytest.approx(3 * 0.5)


def test_a_window_that_was_idle_holds_up_long_messages_and_no_others():
    network = cs.Network.ring(5)
    model = CostModel(network, LinkSpeeds.alike(network, 0.02, 50e6))
    times = {
        (size, quiet): model.iteration_cost(Demand((Collective("sum", 1, size, size),), 0.0, 4, 0), 0.0, quiet).seconds
        for size in (2_600, 100_000)
        for quiet in (0.0, 0.3, 0.6)
    }
    assert times[2_600, 0.6] == times[2_600, 0.0]
    assert times[100_000, 0.6] > times[100_000, 0.0] + 4 * 2 * 0.02  # a round trip for each of four messages, at least


def test_one_agent_sends_nothing():
    network = cs.Network.complete(1)
    model = CostModel(network, LinkSpeeds.alike(network, 0.02, 1e6))
    assert model.iteration_cost(Demand(ITERATION, 2.0, 4, 0), 0.5).seconds == pytest.approx(1.0)
