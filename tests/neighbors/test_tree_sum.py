"""The order in which peers add up: floating-point sums have other bits in another one."""

import numpy as np
import pytest

import consilience as cs

from .test_collectives import Room


def added_up(tree, values, agent, children=sorted):
    """The sum of what an agent and all below it have, in plain numpy."""
    total = values[agent]
    for child in children(tree.children(agent)):
        total = total + added_up(tree, values, child, children)
    return total


@pytest.mark.parametrize("network", [cs.Network.star(5), cs.Network.ring(6), cs.Network.grid(3, 3)], ids=repr)
def test_children_are_added_in_ascending_order_on_top_of_the_parent_s_own(network):
    tree = network.tree
    values = np.random.default_rng(0).standard_normal((network.size, 200)).astype(np.float32)
    right = added_up(tree, values, tree.root)
    assert not np.array_equal(right, added_up(tree, values, tree.root, lambda found: sorted(found)[::-1]))
    for [found] in Room(network).all(lambda c, k: c.total([values[k]])):
        np.testing.assert_array_equal(found, right)
