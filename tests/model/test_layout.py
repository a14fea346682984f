"""Any pytree becomes a vector and comes back."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from consilience.model import Layout

PARAMS = {"layer": {"w": jnp.arange(6.0).reshape(2, 3), "b": jnp.array(7.0)}, "scale": [jnp.ones(2)]}


def test_there_and_back():
    layout = Layout.of(PARAMS)
    assert layout.names == ("layer.b", "layer.w", "scale.0")
    assert layout.dimension == 9
    vector = layout.ravel(PARAMS)
    assert jax.tree.all(jax.tree.map(np.array_equal, layout.unravel(vector), PARAMS))
    many = layout.unravel(np.tile(np.asarray(vector), (4, 5, 1)))
    assert many["layer"]["w"].shape == (4, 5, 2, 3)


def test_unravelling_numpy_copies_nothing():
    layout = Layout.of(PARAMS)
    draws = np.zeros((10, 3, 9), np.float32)
    assert all(np.shares_memory(leaf, draws) for leaf in jax.tree.leaves(layout.unravel(draws)))


def test_equal_layouts_are_equal_keys():
    assert Layout.of(PARAMS) == Layout.of(PARAMS)
    assert hash(Layout.of(PARAMS)) == hash(Layout.of(PARAMS))
    assert Layout.of(PARAMS) != Layout.of({"w": jnp.zeros(9)})


def test_a_bare_number_and_a_bare_array_are_parameters():
    assert Layout.of(1.5).dimension == 1
    assert Layout.of(jnp.zeros((2, 2))).names == ("params",)
    assert Layout.of({"linear/~/w": 1.0}).names == ("linear.~.w",)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "no parameters"),
        ({"n": jnp.arange(3)}, "n has dtype int32"),
        ({"s": "text"}, "s is a str"),
        (jnp.zeros(0), "all of size zero"),
        ({"a": {"b": 1.0}, "a.b": 2.0}, "two parameters are called 'a.b'"),
        ({"draw": 1.0}, "'draw' is the name of a dimension"),
    ],
)
def test_what_cannot_be_sampled_is_refused(params, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Layout.of(params)
