"""Shards stacked by size: every agent's density and derivatives are those of its own rows, and few rows are padded."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import consilience as cs
from consilience.model import Layout, LocalLogDensity, Shard, ShardsBySize, stack_by_size, stack_on_host
from consilience.neighbors import AGENTS
from consilience.samplers import gradient_and_curvature

POSTERIOR = cs.Posterior(
    lambda params: -0.5 * params["w"] @ params["w"] - jnp.cosh(params["b"]),
    lambda params, batch: -jnp.logaddexp(0.0, batch["x"] @ params["w"] + params["b"] ** 2) * batch["y"],
)
LENGTHS = (5, 200, 7, 90, 6, 85, 4)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def shards_of(lengths):
    random = np.random.default_rng(0)
    return [{"x": random.standard_normal((rows, 3)), "y": random.exponential(size=rows)} for rows in lengths]


def density_of(shard, one_copy=False):
    layout = Layout.of({"b": jnp.zeros(()), "w": jnp.zeros(3)})  # in double precision
    return LocalLogDensity(POSTERIOR, layout, shard, len(LENGTHS), one_copy)


def points(*shape):
    return jnp.asarray(np.random.default_rng(1).standard_normal((*shape, 4)))


def padded_rows(stacked):
    return sum(part.batch["y"].size for part in stacked.classes)


def in_lanes(of_density, stacked, one_copy, *arguments):
    """`of_density(logdensity, *arguments)` of all agents, as lanes; with one copy all have the same arguments."""

    def lane(shard, *arguments):
        return of_density(density_of(shard, one_copy), *arguments)

    axes = [None if one_copy else 0] * len(arguments)
    return jax.jit(jax.vmap(lane, in_axes=(stacked.lane_axes, *axes), axis_name=AGENTS))(stacked, *arguments)


def one_by_one(of_density, one_copy, *arguments):
    """The same, of every agent alone with its own rows."""
    found = []
    for agent, shard in enumerate(shards_of(LENGTHS)):
        own = (argument if one_copy else argument[agent] for argument in arguments)
        found.append(of_density(density_of(Shard(shard, None)), *own))
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *found)


OF_DENSITY = {
    "value": lambda density, w, _: density(w),
    "gradient": lambda density, w, _: jax.grad(density)(w),
    "value and gradient": lambda density, w, _: jax.value_and_grad(density)(w),
    "directional derivative": lambda density, w, p: jax.jvp(density, (w,), (p,)),
    "gradient and curvature": gradient_and_curvature,
    "Hessian, forward over reverse": lambda density, w, _: jax.hessian(density)(w),
    "Hessian, reverse over reverse": lambda density, w, _: jax.jacrev(jax.grad(density))(w),
    "third derivative": lambda density, w, p: jax.jvp(jax.hessian(density), (w,), (p,)),
    "start": lambda density, w, _: density.start_values(w),
    "minibatch": lambda density, w, p: density.minibatch(w, jax.nn.sigmoid(p)),
    "minibatch's gradient": lambda density, w, p: jax.grad(density.minibatch)(w, jax.nn.sigmoid(p)),
}


@pytest.mark.parametrize("one_copy", [True, False], ids=["one copy", "a copy each"])
@pytest.mark.parametrize("name", OF_DENSITY)
def test_every_agent_s_density_and_derivatives_are_those_of_its_own_rows(name, one_copy):
    stacked = stack_by_size(shards_of(LENGTHS))
    assert isinstance(stacked, ShardsBySize)
    arguments = points(2) if one_copy else points(2, len(LENGTHS))
    found = in_lanes(OF_DENSITY[name], stacked, one_copy, *arguments)
    right = one_by_one(OF_DENSITY[name], one_copy, *arguments)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10), found, right)


@pytest.mark.parametrize("one_copy", [True, False], ids=["one copy", "a copy each"])
def test_chains_around_the_agents_change_nothing(one_copy):
    stacked = stack_by_size(shards_of(LENGTHS))
    arguments = points(2, 3) if one_copy else points(2, 3, len(LENGTHS))

    def of_chain(*arguments):
        return in_lanes(gradient_and_curvature, stacked, one_copy, *arguments)

    together = jax.vmap(of_chain)(*arguments)
    for chain in range(3):
        alone = of_chain(*(argument[chain] for argument in arguments))
        jax.tree.map(
            lambda a, b, chain=chain: np.testing.assert_allclose(a[chain], b, rtol=1e-10, atol=1e-10), together, alone
        )


def test_a_gradient_of_all_agents_passes_over_their_rows_once():
    """Neither a lane's cotangent nor its shard gets an axis of agents beside that of the lanes."""
    stacked = stack_by_size(shards_of(LENGTHS))
    operations = {
        name: jax.jit(lambda *a, f=f: in_lanes(f, stacked, False, *a)).lower(*points(2, len(LENGTHS))).cost_analysis()
        for name, f in OF_DENSITY.items()
        if name in ("value", "gradient", "gradient and curvature")
    }
    flops = {name: cost["flops"] for name, cost in operations.items()}
    assert flops["gradient"] < 4 * flops["value"]
    assert flops["gradient and curvature"] < 8 * flops["value"]


@pytest.mark.parametrize(
    ("lengths", "classes"),
    [
        (LENGTHS, 3),
        ([50] * 19 + [20_000], 2),
        (range(10, 2000, 7), 4),
        ([100] * 10 + [1000] * 10, 2),
    ],
    ids=["three sizes", "one large", "evenly spread", "two sizes"],
)
def test_agents_of_about_one_size_are_stacked_together_and_few_rows_are_padded(lengths, classes, monkeypatch):
    monkeypatch.setattr("consilience.model.shards.MOST_PADDED", 1.25)
    stacked = stack_by_size(shards_of(lengths))
    assert len(stacked.classes) == classes
    assert padded_rows(stacked) <= 1.25 * sum(lengths)
    assert sorted(stacked.order) == [*range(len(lengths))]
    for agent, shard in enumerate(shards_of(lengths)):
        place, part = int(stacked.own[agent]), 0
        while place >= len(stacked.classes[part].batch["y"]):
            place, part = place - len(stacked.classes[part].batch["y"]), part + 1
        np.testing.assert_array_equal(stacked.classes[part].batch["x"][place][: len(shard["x"])], shard["x"])


@pytest.mark.parametrize(
    "lengths", [[30] * 5, [12, 13, 14, 15], [100, 100, 100, 160], [1, 2, 9], [40]], ids=lambda lengths: str(lengths)
)
def test_shards_that_are_nearly_equal_or_small_are_padded_to_one_length(lengths):
    found, right = stack_by_size(shards_of(lengths)), stack_on_host(shards_of(lengths))
    assert isinstance(found, Shard)
    jax.tree.map(np.testing.assert_array_equal, found, right)


def test_the_padded_form_is_that_of_padded_shards():
    form, right = stack_by_size(shards_of(LENGTHS)).padded_form, stack_on_host(shards_of(LENGTHS))
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), form) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), right
    )


def test_agents_of_a_class_share_one_program():
    def program(lengths):
        stacked = stack_by_size(shards_of(lengths))
        arguments = points(2, len(lengths))
        axes = (stacked.lane_axes, 0, 0)

        def lane(shard, w, p):
            return gradient_and_curvature(density_of(shard), w, p)

        return len(jax.make_jaxpr(jax.vmap(lane, in_axes=axes, axis_name=AGENTS))(stacked, *arguments).eqns)

    assert program([5] * 4 + [300]) == program([5] * 40 + [300])
