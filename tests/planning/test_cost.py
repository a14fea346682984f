"""The clocks of `Roads` against a simulation of agents that send and wait, message by message."""

import networkx as nx
import numpy as np
import pytest

import consilience as cs
from consilience.planning.cost import COMPUTE, LATENCY, MEASURED, Constants, Roads, bits_on_the_wire
from consilience.planning.demand import Asked, Demand
from consilience.planning.links import Links

SLOW = Constants(hop=3e-4, hop_byte=2e-9, message=4e-4, message_byte=1e-9, room_byte=0.0, noise_byte=0.0)
ITERATION = (
    *(Asked("gossip", 3, 4000), Asked("tree pass", 2, 900), Asked("flood", 1, 1)),
    *(Asked("tree pass", 1, 40), Asked("tree pass", 1, 9000)),
)


class Agent:
    """Does one thing at a time; `program` yields what it waits for."""

    def __init__(self, crew, index):
        self.crew, self.index, self.time = crew, index, 0.0

    def send(self, to, size):
        for place, other in enumerate(sorted(to)):
            self.time += SLOW.further(size) if place else 0.0
            latency, bandwidth = self.crew.speeds[frozenset((self.index, other))]
            wire = latency + bits_on_the_wire(size) / bandwidth
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
                yield from gossip(4000)
            yield from up(900)
            yield from down(900)
            for _ in range(network.diameter):
                yield from gossip(1)
            yield from up(40)
            yield from down(9000)
            self.crew.ends[self.index].append(self.time)


class Crew:
    """Runs the agents' programs until all have ended; every link keeps the order of its messages."""

    def __init__(self, network, links):
        self.network, self.mail = network, {}
        speeds = zip(links.latency, links.bandwidth, strict=True)
        self.speeds = {frozenset(edge): speed for edge, speed in zip(network.edges, speeds, strict=True)}
        self.ends = {agent: [] for agent in range(network.size)}

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
    links = Links(random.uniform(0.0, 0.05, edges), random.uniform(1e6, 1e8, edges))
    roads, gradients = Roads(network, links, SLOW), 0.003
    ends = Crew(network, links).run(gradients, 4)
    cost = roads.iteration(Demand(ITERATION, 1.0, 4, 0), gradients)
    assert cost.seconds == pytest.approx((ends[3] - ends[1]) / 2, rel=1e-9)
    assert cost.parts[COMPUTE] <= gradients * (1 + 1e-9)
    once = Crew(network, links).run(0.0, 1)
    assert roads.alone(*ITERATION).seconds == pytest.approx(once[0], rel=1e-9)


def test_many_rounds_are_as_many_times_one_round():
    network = cs.Network.path(6)
    links = Links.alike(network, 0.01, 1e7)
    roads = Roads(network, links)
    one, many = (roads.alone(Asked("gossip", rounds, 1000)).seconds for rounds in (100, 1000))
    assert many / one == pytest.approx(10, rel=1e-2)
    few, more = (roads.alone(Asked("tree pass", 2 * sums, 1000)).seconds for sums in (1.0, 1.5))
    assert more / few == pytest.approx(1.5, rel=1e-2)


def test_time_is_what_the_slowest_way_takes():
    network = cs.Network.star(5)
    latency = np.array([0.01, 0.02, 0.03, 0.5])
    free = Constants(*[0.0] * len(MEASURED))
    roads = Roads(network, Links(latency, np.full(4, np.inf)), free)
    assert roads.alone(Asked("tree pass", 2, 100)).parts[LATENCY] == pytest.approx(2 * 0.5)
    assert roads.alone(Asked("gossip", 3, 100)).seconds == pytest.approx(3 * 0.5)


def test_one_agent_sends_nothing():
    network = cs.Network.complete(1)
    roads = Roads(network, Links.alike(network, 0.02, 1e6))
    assert roads.iteration(Demand(ITERATION, 2.0, 4, 0), 0.5).seconds == pytest.approx(1.0)
