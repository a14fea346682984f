"""Own variables: one chain of θ and of all agents' groups, as one agent that holds everything would draw it."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import consilience as cs
from consilience.neighbors import Alone, LaneNeighbors
from consilience.samplers.base import own_key, private_key

from ..halves import checkerboard
from .hierarchy import (
    GROUPS,
    OF_GROUP,
    POSTERIOR,
    SETTINGS,
    SHARED,
    advanced,
    in_one,
    joint_logdensity,
    joint_momentum,
    log_likelihood,
    log_prior,
    own_log_prior,
    simulation,
)

RING = cs.Network.ring(5)
NETWORKS = {"ring": RING, "path": cs.Network.path(5), "star": cs.Network.star(5)}
MASS = np.array([0.5, 1.0, 2.0, 0.75, 0.5, 1.5])  # M⁻¹ of θ and of one group: float32 holds these
STEP = 0.15
GIVEN = {
    "nuts": cs.nuts(STEP, inverse_mass_matrix=MASS, max_num_doublings=6),
    "hmc": cs.hmc(STEP, inverse_mass_matrix=MASS, num_integration_steps=5),
}


def blackjax_draws(name, chain_key, draws, start):
    """The chain of BlackJAX's own kernel on one vector, with the momenta that agents draw apart."""
    from blackjax.mcmc import hmc, metrics, nuts

    mass = jnp.concatenate([MASS[:SHARED], jnp.tile(MASS[SHARED:], sum(GROUPS))])
    metric = metrics.default_metric(mass)._replace(sample_momentum=lambda key, _: joint_momentum(key, mass))
    logdensity = joint_logdensity()

    def step(key, state):
        if name == "nuts":
            return nuts.build_kernel()(key, state, logdensity, STEP, metric, 6)[0]
        for_jitter, for_step = jax.random.split(key)
        size = STEP * (1 + 0.2 * jax.random.uniform(for_jitter, minval=-1.0))
        return hmc.build_kernel()(for_step, state, logdensity, size, metric, 5)[0]

    def iterate(state, t):
        state = step(jax.random.fold_in(jax.random.fold_in(chain_key, t), 0), state)  # its first attempt
        return state, state.position

    return jax.jit(lambda: jax.lax.scan(iterate, hmc.init(start, logdensity), jnp.arange(draws))[1])()


@pytest.mark.parametrize(("name", "network"), checkerboard(list(GIVEN), NETWORKS))
def test_the_chain_is_blackjax_s_on_the_joint_vector(name, network):
    with jax.enable_x64(True):
        run = simulation(GIVEN[name], network)
        start = in_one(np.asarray(run.positions)[None, :, :SHARED], _own_start(run))[0, 0]
        found = in_one(*advanced(run, 100))[:, 0]
        wanted = blackjax_draws(name, run.inputs.chain_keys[0], 100, jnp.asarray(start))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-8)
    assert np.ptp(found, axis=0).min() > 0.1  # it moved, in every number


def _own_start(run):
    own = np.asarray(run.positions)[0, SHARED:].reshape(1, 1, 1, -1, OF_GROUP)
    return np.broadcast_to(own, (1, 1, len(GROUPS), *own.shape[3:]))


@pytest.mark.parametrize("sampler", checkerboard(GIVEN))
def test_room_for_groups_that_an_agent_does_not_have_changes_nothing(sampler):
    with jax.enable_x64(True):
        (shared, own), (same, roomy) = (advanced(simulation(sampler, RING, room=room), 30) for room in (None, 7))
    np.testing.assert_allclose(same, shared, rtol=0, atol=1e-9)
    np.testing.assert_allclose(in_one(same, roomy), in_one(shared, own), rtol=0, atol=1e-9)
    for agent, count in enumerate(GROUPS):
        assert not roomy[:, :, agent, count:].any()  # and stays at zero


class TestWhatIsSent:
    FEW, MANY = (1, 1, 1, 1, 1), (30, 1, 9, 2, 5)

    @pytest.mark.parametrize("sampler", GIVEN.values(), ids=GIVEN)
    def test_no_form_of_a_message_tells_how_many_own_variables_there_are(self, sampler):
        few, many = (simulation(sampler, RING, groups, num_warmup=20) for groups in (self.FEW, self.MANY))
        for exchanges in ("start_exchanges", "exchanges"):
            ours, theirs = (getattr(run._traced, exchanges) for run in (few, many))
            assert [e[:1] + e[2:] for e in ours] == [e[:1] + e[2:] for e in theirs]
            assert ours

    @pytest.mark.parametrize("name", GIVEN)
    def test_one_message_a_leapfrog_step(self, name):
        """A pass up and one down the ring's tree, of depth 2. The root's θ goes down after every draw of nuts, and of
        hmc with the last sum, which is known.
        """
        run = simulation(GIVEN[name], RING, chains=1)
        chunk = run.advance(50, 1)
        steps = round(float(chunk.stats["num_integration_steps"].sum()))
        assert steps > 50
        assert chunk.traffic.rounds == 4 * steps + (2 * 50 if name == "nuts" else 0)
        assert run.start_traffic.rounds == 4
        numbers = {"nuts": SHARED + 3 + 2 * 7, "hmc": SHARED + 3}[name]
        assert [e.message_bytes for e in run._traced.exchanges if e.kind == "sum"] == [4 * numbers]

    @pytest.mark.parametrize("name", GIVEN)
    def test_own_variables_on_another_scale_change_no_message(self, name, monkeypatch):
        """z' = s z + c, with its prior and likelihood rewritten and its mass to go with it: what each agent sends is
        the same to rounding, so that nobody learns s or c. In its own numbers, the chain is another.
        """
        scale, shift = 3.0, -2.0
        messages = {True: [], False: []}
        total = LaneNeighbors.total

        def run(is_scaled):
            def sent(self, x, at=None):
                numbers = jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(x)])
                jax.debug.callback(record, self.index, jax.lax.bitcast_convert_type(numbers, jnp.int32))
                return total(self, x, at)

            def record(agent, halves):  # of doubles, which jax's other threads would make singles
                messages[is_scaled].append(np.append(agent, np.ascontiguousarray(halves).view(float)))

            monkeypatch.setattr(LaneNeighbors, "total", sent)
            posterior, mass = POSTERIOR, jnp.asarray(MASS)
            if is_scaled:
                back = partial(jax.tree.map, lambda leaf: (leaf - shift) / scale)
                posterior = cs.Posterior(
                    log_prior,
                    lambda params, own, batch: log_likelihood(params, back(own), batch),
                    own_log_prior=lambda own, params: own_log_prior(back(own), params),
                    **{**SETTINGS, "own_init": jax.tree.map(lambda leaf: scale * leaf + shift, SETTINGS["own_init"])},
                )
                mass = mass.at[SHARED:].multiply(scale**2)
            sampler = replace(GIVEN[name], inverse_mass_matrix=mass)
            drawn = advanced(simulation(sampler, RING, posterior=posterior), 10)
            jax.effects_barrier()
            rows = np.array(messages[is_scaled][-1:])  # of one length but for the start's
            rows = np.array([row for row in messages[is_scaled] if len(row) == rows.shape[1]])
            return drawn, rows[np.lexsort(rows.T[::-1].round(6))]

        with jax.enable_x64(True):
            ((shared, own), plain), ((same, scaled), others) = run(False), run(True)
        assert len(plain) >= 5 * 10 * (5 if name == "hmc" else 3)
        np.testing.assert_allclose(others, plain, rtol=0, atol=1e-8)
        assert plain[:, 1:].any(axis=0).sum() >= SHARED + 3  # forces and energies were in them
        with_energies = plain[:, 1 + SHARED : 4 + SHARED].any(axis=1).sum()
        assert with_energies == (5 * 10 if name == "hmc" else len(plain))  # of hmc, the last message of each trajectory
        np.testing.assert_allclose(same, shared, atol=1e-9)
        np.testing.assert_allclose(in_one(same, scaled)[..., SHARED:], scale * in_one(same, own)[..., SHARED:] + shift)


class TestAgentsStayInStep:
    def test_the_root_s_state_is_followed_in_what_all_share_alone(self, monkeypatch):
        """Agent 2 computes differently in the last bit, as another processor would."""
        total = LaneNeighbors.total

        def rounded_differently(self, x, at=None):
            return jax.tree.map(
                lambda s: jnp.where(self.index == 2, s * (1 + np.finfo(s.dtype).eps), s), total(self, x, at)
            )

        monkeypatch.setattr(LaneNeighbors, "total", rounded_differently)
        run = simulation(cs.nuts(inverse_mass_matrix=1.0), RING, num_warmup=50)
        run.advance(1, 200)
        position = np.asarray(run.state.inner.position)[0]
        np.testing.assert_array_equal(position[:, :SHARED], np.tile(position[:1, :SHARED], (5, 1)))
        assert len({tuple(own) for own in position[:, SHARED : SHARED + OF_GROUP]}) == 5
        for leaf in jax.tree.leaves((run.state.adaptation, run.state.inner.logdensity)):
            np.testing.assert_array_equal(leaf, np.broadcast_to(leaf[:, :1], leaf.shape))

    @pytest.mark.parametrize("sampler", checkerboard(GIVEN))
    def test_where_an_iteration_is_redone_every_owner_keeps_its_own_start(self, sampler, monkeypatch):
        follow = LaneNeighbors.follow_root
        run = simulation(sampler, RING)
        run.advance(20, 1)
        before = run.snapshot()

        def apart(self, *arguments):
            followed, alike = follow(self, *arguments)
            return followed, jnp.zeros_like(alike)

        monkeypatch.setattr(LaneNeighbors, "follow_root", apart)
        never = simulation(sampler, RING)
        never.restore(before)
        state = jax.tree.map(np.array, never.state.inner)
        chunk = never.advance(1, 1)
        assert chunk.stats["out_of_step"].all()
        assert len(np.unique(state.position)) > 30
        jax.tree.map(np.testing.assert_array_equal, never.state.inner, state)


def test_a_private_key_follows_from_all_of_an_agent_s_secret():

    def made(index, *secret, key_of=private_key):
        agent = type("Agent", (Alone,), {"index": jnp.int32(index), "secret": secret})()
        return tuple(jax.random.key_data(key_of(jax.random.key(0), agent)).tolist())

    assert made(1) == made(1, key_of=own_key)
    assert len({made(0), made(1), made(0, 5), made(1, 5), made(1, 5, 6), made(1, 5, 7), made(1, 4, 7)}) == 7


def test_masses_of_own_variables_are_found_by_their_owners():
    """Of θ they are the same everywhere, of z those of its own posterior, which for `slope` has more rows to go by."""
    run = simulation(cs.nuts(), RING, chains=2, num_warmup=600)
    run.advance(1, 600)
    found = np.asarray(run.state.adaptation.inverse_mass_matrix)
    np.testing.assert_array_equal(found[:, :, :SHARED], np.tile(found[:, :1, :SHARED], (1, 5, 1)))
    shared, own = advanced(run, 1000)
    variance = in_one(shared, own).var(axis=(0, 1))
    masses = in_one(found[None, :, 0, :SHARED], found[None, :, :, SHARED:].reshape(1, 2, 5, -1, OF_GROUP)).mean((0, 1))
    assert np.ptp(np.log(variance)) > 1.5
    np.testing.assert_allclose(masses, variance, rtol=0.6)
    assert np.corrcoef(np.log(masses), np.log(variance))[0, 1] > 0.9
