"""One chain on all agents: it is the chain of the pooled data, agents stay in step, and every evaluation is counted."""

from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base import array_stats

import consilience as cs
from consilience._refused import Refused
from consilience.engine import Chunk
from consilience.neighbors import LaneNeighbors, Traffic
from consilience.runs.driver import check_in_step
from consilience.samplers.adaptation import Schedule, WindowAdaptation

from ..halves import checkerboard
from ..targets import ONE_CHAIN, linear_regression, log_gamma
from .harness import draws, simulation

ALONE = cs.Network.complete(1)
RING = cs.Network.ring(5)
NETWORKS = {
    "ring": RING,
    "path": cs.Network.path(5),
    "star": cs.Network.star(5),
    "grid": cs.Network.grid(2, 3),
    "random": cs.Network.erdos_renyi(5, 0.6, seed=1),
}
GIVEN = {
    "nuts": cs.nuts(0.1, inverse_mass_matrix=[1.0, 0.5, 2.0]),
    "hmc": cs.hmc(0.1, inverse_mass_matrix=[1.0, 0.5, 2.0], num_integration_steps=4),
    "mala": cs.mala(0.15, inverse_mass_matrix=[1.0, 0.5, 2.0]),
}
SELF_TUNING = {
    "nuts": cs.nuts(),
    "hmc": cs.hmc(num_integration_steps=4),
    "mala": cs.mala(),
    "dense": cs.nuts(dense_mass=True),
}


class TestTheChainOfThePooledData:
    @pytest.mark.parametrize(("sampler", "network"), checkerboard(GIVEN, NETWORKS))
    def test_draw_for_draw(self, sampler, network):
        target = linear_regression(network.size)
        with jax.enable_x64(True):
            together = simulation(target, network, sampler, chains=2).advance(100, 1)
            pooled = simulation(target, ALONE, sampler, chains=2).advance(100, 1)
        np.testing.assert_allclose(together.positions, pooled.positions, rtol=0, atol=1e-8)
        assert np.ptp(together.positions, axis=0).min() > 0.01  # it moved

    @pytest.mark.parametrize("name", GIVEN)
    def test_is_blackjax_s_own(self, name):
        """On the pooled data's log density, with nothing of ours in between: the step of iteration t, at its first
        attempt, has the key fold_in(fold_in(chain, t), 0).
        """
        from blackjax.mcmc import hmc, nuts

        target, mass = linear_regression(5), np.array([1.0, 0.5, 2.0])
        pooled = cs.pool(target.shards)[0]

        def logdensity(w):
            return -0.5 * jnp.sum((pooled["y"] - pooled["x"] @ w) ** 2) - 0.5 * w @ w

        def step(key, state):
            if name == "nuts":
                return nuts.build_kernel()(key, state, logdensity, 0.1, mass)[0]
            if name == "mala":
                return hmc.build_kernel()(key, state, logdensity, 0.15, mass, 1)[0]
            for_jitter, for_step = jax.random.split(key)
            step_size = 0.1 * (1 + 0.2 * jax.random.uniform(for_jitter, minval=-1.0))
            return hmc.build_kernel()(for_step, state, logdensity, step_size, mass, 4)[0]

        with jax.enable_x64(True):
            run = simulation(target, RING, GIVEN[name])
            found = run.advance(40, 1).positions[:, 0, 0]
            state, its_step = hmc.init(jnp.zeros(3), logdensity), jax.jit(step)
            for t, position in enumerate(found):
                state = its_step(jax.random.fold_in(jax.random.fold_in(run.inputs.chain_keys[0], t), 0), state)
                np.testing.assert_allclose(position, state.position, rtol=0, atol=1e-8)
        assert np.ptp(found, axis=0).min() > 0.01

    @pytest.mark.parametrize("sampler", checkerboard(SELF_TUNING))
    def test_tuned_alike_at_first_and_in_law_later(self, sampler):
        """Adaptation amplifies rounding, so that later draws agree in law only."""
        target = linear_regression(5)
        with jax.enable_x64(True):
            runs = [simulation(target, n, sampler, chains=4, num_warmup=400) for n in (RING, ALONE)]
            first = [run.advance(10, 1) for run in runs]
            np.testing.assert_allclose(first[0].positions, first[1].positions, rtol=0, atol=1e-8)
            for run in runs:
                run.advance(1, 390)
            later = [run.advance(1000, 1).positions[:, :, 0] for run in runs]
        axes = {"chain_axis": 1, "draw_axis": 0}
        errors = [array_stats.mcse(x, method="mean", **axes) for x in later]
        z = (later[0].mean(axis=(0, 1)) - later[1].mean(axis=(0, 1))) / np.hypot(*errors)
        assert np.abs(z).max() < 4

    @pytest.mark.parametrize("sampler", SELF_TUNING.values(), ids=SELF_TUNING)
    def test_bit_for_bit_the_same_on_agents_that_each_compute_it(self, sampler):
        target = linear_regression(5)
        run = simulation(target, RING, sampler, chains=2, num_warmup=150, one_copy=False)
        positions = np.concatenate([run.advance(150, 1).positions, run.advance(200, 1).positions])
        assert positions.shape[2] == 5
        np.testing.assert_array_equal(positions, np.broadcast_to(positions[:, :, :1], positions.shape))
        for leaf in jax.tree.leaves(run.state.adaptation):
            np.testing.assert_array_equal(leaf, np.broadcast_to(leaf[:, :1], leaf.shape))

    def test_one_copy_is_what_every_agent_would_have_computed(self):
        target = linear_regression(5)
        with jax.enable_x64(True):
            one, each = (simulation(target, RING, GIVEN["nuts"], one_copy=c).advance(100, 1) for c in (True, False))
        assert (one.positions.shape[2], each.positions.shape[2]) == (1, 5)
        np.testing.assert_allclose(each.positions, np.broadcast_to(one.positions, each.positions.shape), atol=1e-8)
        assert one.traffic == each.traffic


class TestAgentsStayInStep:
    """Agent 2 computes differently in the last bit, as another processor would."""

    @pytest.fixture
    def unlike(self, monkeypatch):
        total = LaneNeighbors.total

        def rounded_differently(self, x, at=None):
            return jax.tree.map(
                lambda s: jnp.where(self.index == 2, s * (1 + np.finfo(s.dtype).eps), s), total(self, x)
            )

        monkeypatch.setattr(LaneNeighbors, "total", rounded_differently)

    def positions(self, iterations=2000):
        sampler = cs.nuts(inverse_mass_matrix=1.0)  # the step size is tuned: that amplifies differences
        run = simulation(linear_regression(5), RING, sampler, num_warmup=200, one_copy=False)
        run.advance(1, 200)
        chunks = [run.advance(1000, 1) for _ in range(iterations // 1000)]
        return np.concatenate([c.positions for c in chunks]), sum(c.stats["redone"][:, :, 0].sum() for c in chunks)

    def test_positions_are_the_same_for_ever_and_next_to_nothing_is_redone(self, unlike):
        positions, redone = self.positions()
        np.testing.assert_array_equal(positions, np.broadcast_to(positions[:, :, :1], positions.shape))
        assert redone <= 2

    def test_without_the_root_to_follow_they_would_part(self, unlike, monkeypatch):
        def follow_nobody(self, x, digest=(), after=None):
            return x, jnp.array(True)

        monkeypatch.setattr(LaneNeighbors, "follow_root", follow_nobody)
        positions, _ = self.positions(1000)
        assert np.ptp(positions[-100:], axis=2).max() > 1e-3  # of an sd of 0.13, and four digits above rounding

    def test_an_iteration_with_different_turns_is_redone_with_another_key(self, monkeypatch):
        """Agent 2's energies are off by a third for some positions: its decisions differ now and then."""
        total = LaneNeighbors.total

        def wrong_now_and_then(self, x, at=None):
            sums = total(self, x)
            off = (self.index == 2) & (jnp.sin(1e4 * sums[0]) > 0.9)
            return jax.tree.map(lambda s: jnp.where(off, s * 1.3, s), sums)

        monkeypatch.setattr(LaneNeighbors, "total", wrong_now_and_then)
        sampler = cs.hmc(0.1, inverse_mass_matrix=1.0, num_integration_steps=2)
        run = simulation(linear_regression(5), RING, sampler, one_copy=False, start=linear_regression(5).mean)
        chunk = run.advance(500, 1)
        assert 10 < chunk.stats["redone"][:, 0, 0].sum() < 400
        assert not chunk.stats["out_of_step"].any()
        np.testing.assert_array_equal(
            chunk.positions, np.broadcast_to(chunk.positions[:, :, :1], chunk.positions.shape)
        )
        attempts, rest = divmod(chunk.traffic.messages, 2 * 2 * 4)
        assert rest == 0
        assert attempts >= 500 + chunk.stats["redone"][:, 0, 0].sum()  # every one is paid for

    def test_turns_that_the_position_does_not_show_are_seen(self, monkeypatch):
        """Agent 2 counts other steps now and then, and ends where all do."""

        class State(NamedTuple):
            position: jax.Array

        class Info(NamedTuple):
            num_integration_steps: jax.Array

        def counting(logdensity):
            def step(key, state):
                position = state.position + 0.01 * jax.random.normal(key, state.position.shape)
                return State(position), Info(jnp.where(logdensity(position) < 0, 1, 2))

            return SimpleNamespace(init=State, step=step)

        total = LaneNeighbors.total

        def wrong_now_and_then(self, x, at=None):
            found = total(self, x)
            return jnp.where((self.index == 2) & (jnp.sin(1e4 * found) > 0.9), -found, found)

        monkeypatch.setattr(LaneNeighbors, "total", wrong_now_and_then)
        sampler = cs.decentralize(counting, evaluations=lambda info: 1)
        stats = simulation(linear_regression(5), RING, sampler, one_copy=False).advance(200, 1).stats
        assert 5 < stats["redone"][:, 0, 0].sum() < 150
        assert set(np.unique(stats["num_integration_steps"])) == {1.0}

    def test_agents_that_never_agree_stay_where_they_were_and_stop_the_run(self, monkeypatch):
        total = LaneNeighbors.total

        def wrong(self, x, at=None):
            return jax.tree.map(lambda s: jnp.where(self.index == 2, 3 * s, s), total(self, x))

        monkeypatch.setattr(LaneNeighbors, "total", wrong)
        target = linear_regression(5)
        sampler = cs.hmc(0.02, 1.0, num_integration_steps=3)
        run = simulation(target, RING, sampler, one_copy=False, start=target.mean + 0.2)
        chunk = run.advance(50, 1)
        lost = chunk.stats["out_of_step"][1:, 0, 0] == 1
        assert lost.any()
        np.testing.assert_array_equal(chunk.positions[1:][lost], chunk.positions[:-1][lost])
        with pytest.raises(RuntimeError, match="fell out of step"):
            check_in_step(chunk, (0, 0))

    def test_a_position_that_is_not_a_number_is_no_disagreement(self):
        class State(NamedTuple):
            position: jax.Array

        def runaway(logdensity):
            return SimpleNamespace(
                init=State, step=lambda key, state: (State(1e30 * jax.grad(logdensity)(state[0])), ())
            )

        sampler = cs.decentralize(runaway)
        with pytest.warns(UserWarning, match="the sampler diverged"):
            found = draws(linear_regression(5), RING, sampler, num_samples=5)
        assert not np.isfinite(found).all()

    def test_a_run_that_is_redone_too_often_stops(self):
        def chunk(redone):
            return Chunk(np.zeros((100, 4, 1, 1)), {"redone": np.full((100, 4, 1), redone)}, 1000, Traffic())

        assert check_in_step(chunk(0.0), (0, 0)) == (0, 4000)
        assert check_in_step(chunk(0.0005), (0, 0)) == (2, 4000)
        with pytest.raises(RuntimeError, match=r"fell out of step in 9 of 8000 iterations.*jax \d.* on "):
            check_in_step(chunk(0.001), (5, 4000))


class TestCost:
    @pytest.mark.parametrize(("step_size", "doublings"), [(0.5, 10), (0.02, 10), (0.02, 3), (5.0, 10)])
    def test_nuts_tells_its_evaluations_by_doublings(self, step_size, doublings):
        import blackjax

        seen = []

        def logdensity(w):
            jax.debug.callback(lambda _: seen.append(1), w[0])
            return -0.5 * jnp.vdot(w, w) - 0.1 * jnp.sum(w**4)

        kernel = blackjax.nuts(logdensity, step_size, np.ones(3), max_num_doublings=doublings)
        step, sampler = jax.jit(kernel.step), cs.nuts(max_num_doublings=doublings)
        state, sizes = kernel.init(jnp.ones(3)), []
        for key in jax.random.split(jax.random.key(0), 30):
            jax.effects_barrier()
            seen.clear()
            state, info = step(key, state)
            jax.effects_barrier()
            by_doublings = np.asarray(sampler.evaluations(info))
            assert by_doublings.sum() == len(seen) == info.num_integration_steps
            assert (by_doublings <= 2 ** np.arange(doublings)).all()
            sizes.append(len(seen))
        assert sum(sizes) >= 30

    def test_a_leapfrog_step_is_a_sum_over_the_tree_and_all_else_rides_on_sums(self):
        network, d, iterations, chains = cs.Network.path(6), 3, 20, 2
        sampler = cs.hmc(0.05, inverse_mass_matrix=1.0, num_integration_steps=3)
        run = cs.sample(
            linear_regression(6).posterior,
            linear_regression(6).shards,
            network,
            sampler,
            init=np.zeros(d, np.float32),
            num_samples=iterations,
            num_warmup=0,
            num_chains=chains,
            progress=False,
        )
        depth = network.tree.depth
        assert depth == 3
        assert run.traffic.rounds == 2 * depth + iterations * 3 * 2 * depth  # the start, and every step
        assert run.traffic.messages == 2 * 5 + iterations * 3 * 2 * 5
        # Up (ℓ, ∇ℓ) and down again; and of where they were evaluated the greatest and the least up, a verdict down.
        mark = 2 * 4 + 1
        one_sum = 2 * 5 * 4 * (1 + d) + 5 * mark
        # With one of an iteration: the digest, a projection, is_accepted, is_divergent, the number of steps, is_finite;
        # and the root's state, with its acceptance rate, its energy, and those decisions.
        state = 4 * (d + 1 + d) + 4 + 4 + 1 + 1 + 4
        assert run.traffic.bytes == chains * (one_sum + iterations * (3 * one_sum + 5 * (5 * mark + state)))

    def test_a_trajectory_whose_length_nobody_knows_beforehand_sends_its_state_alone(self):
        run = simulation(linear_regression(5), RING, cs.nuts(0.1, 1.0)).advance(20, 1)
        steps = int(run.stats["num_integration_steps"].sum())
        assert run.traffic.rounds == 4 * steps + 20 * 2
        assert run.traffic.messages == 8 * steps + 20 * 4

    def test_chains_double_side_by_side(self):
        target = linear_regression(5)
        one, two = (simulation(target, RING, GIVEN["nuts"], chains=c).advance(50, 1) for c in (1, 2))
        steps = two.stats["num_integration_steps"][:, :, 0]
        longest, all_steps = steps.max(axis=1).sum(), steps.sum()
        evaluations = (two.traffic.rounds - 50 * 2) / (2 * 2)
        assert longest <= evaluations < all_steps
        assert one.traffic.bytes < two.traffic.bytes

    def test_what_is_tuned_is_sent_during_warm_up_only(self):
        tuned, given = (
            simulation(linear_regression(5), RING, sampler, num_warmup=50)
            for sampler in (cs.mala(), cs.mala(0.1, inverse_mass_matrix=1.0))
        )
        assert tuned.advance(1, 50).traffic.bytes > given.advance(1, 50).traffic.bytes
        assert tuned.advance(10, 1).traffic == given.advance(10, 1).traffic

    def test_the_start_is_paid_for(self):
        for sampler in (cs.nuts(0.1), cs.dmala(0.1)):
            traffic = simulation(linear_regression(5), RING, sampler, chains=2).start_traffic
            assert (traffic.rounds, traffic.messages) == (4, 8)
            where = 0 if sampler.name == "dmala" else 4 * (2 * 4 + 1)
            assert traffic.bytes == 2 * (8 * 4 * (3 if sampler.name == "dmala" else 4) + where)


class TestWarmUp:
    @pytest.mark.parametrize("dense", [False, True], ids=["diagonal", "dense"])
    @pytest.mark.parametrize("length", [10, 60, 150, 700])
    def test_is_blackjax_s_window_adaptation(self, length, dense):
        from blackjax.adaptation import window_adaptation

        random = np.random.default_rng(0)
        positions, rates = random.standard_normal((length, 3)), random.uniform(size=length)
        with jax.enable_x64(True):
            with pytest.warns(DeprecationWarning, match="base"):
                init, update, final = window_adaptation.base(not dense, 0.7)
            ours = WindowAdaptation(Schedule.of(length), 0.7, None, None, dense, jnp.zeros(3))
            state, mine = init(jnp.zeros(3), 1.0), ours.init()
            schedule = window_adaptation.build_schedule(length)
            step, my_step = jax.jit(update), jax.jit(lambda *args: ours.update(*args))
            for k in range(length):
                np.testing.assert_allclose(mine.step_size, state.step_size, rtol=1e-12)
                np.testing.assert_allclose(mine.inverse_mass_matrix, state.inverse_mass_matrix, rtol=1e-12)
                state = step(state, schedule[k], positions[k], rates[k])
                mine = my_step(mine, jnp.int32(k), positions[k], jnp.asarray(rates[k]))
            step_size, inverse_mass = final(state)
        np.testing.assert_allclose(mine.step_size, step_size, rtol=1e-12)
        np.testing.assert_allclose(mine.inverse_mass_matrix, inverse_mass, rtol=1e-12)
        assert (np.asarray(mine.inverse_mass_matrix) != (np.eye(3) if dense else 1.0)).any() == (length >= 20)

    def test_finds_the_posterior_s_scales_and_then_leaves_them_alone(self):
        target = linear_regression(5)
        run = simulation(target, RING, cs.nuts(dense_mass=True), chains=2, num_warmup=1000)
        run.advance(1, 1000)
        found = np.asarray(run.state.adaptation.inverse_mass_matrix)
        np.testing.assert_allclose(
            found, np.broadcast_to(target.covariance, found.shape), atol=0.4 * target.covariance.max()
        )
        before = jax.tree.map(np.asarray, run.state.adaptation)
        run.advance(50, 1)
        jax.tree.map(np.testing.assert_array_equal, before, jax.tree.map(np.asarray, run.state.adaptation))

    @pytest.mark.parametrize("target_acceptance", [0.5, 0.9])
    def test_proposals_are_taken_about_as_often_as_was_asked_for(self, target_acceptance):
        """A chain's rate has a sd of 0.06 around 0.5 and of 0.01 around 0.94, so the mean of four is well inside."""
        sampler = cs.mala(target_acceptance=target_acceptance)
        run = simulation(linear_regression(5), RING, sampler, chains=4, num_warmup=1000)
        run.advance(1, 1000)
        rate = run.advance(1000, 1).stats["acceptance_rate"].mean()
        assert rate == pytest.approx(target_acceptance, abs=0.15)

    def test_what_is_given_is_not_tuned(self):
        target = linear_regression(5)
        given_step = simulation(target, RING, cs.nuts(0.25), num_warmup=200)
        given_mass = simulation(target, RING, cs.nuts(inverse_mass_matrix=2.0), num_warmup=200)
        assert set(np.unique(given_step.advance(200, 1).stats["step_size"])) == {0.25}
        given_mass.advance(1, 200)
        np.testing.assert_array_equal(given_mass.state.adaptation.inverse_mass_matrix, np.full((1, 3), 2.0))
        assert given_mass.state.adaptation.step_size != 1.0
        assert not np.array_equal(given_step.state.adaptation.inverse_mass_matrix, np.ones((1, 3)))

    def test_cut_anywhere_it_is_the_same(self):
        target = linear_regression(5)
        whole = simulation(target, RING, cs.nuts(), num_warmup=150)
        cut = simulation(target, RING, cs.nuts(), num_warmup=150)
        expected = whole.advance(200, 1).positions
        np.testing.assert_array_equal(
            np.concatenate([cut.advance(n, 1).positions for n in (1, 80, 68, 2, 49)]), expected
        )

    def test_without_a_step_size_and_without_a_warm_up_nothing_starts(self):
        target = linear_regression(5)
        for sampler in (cs.nuts(), cs.hmc(), cs.mala(), cs.dmala()):
            with pytest.raises(ValueError, match=rf"{sampler.name}: .*num_warmup=500, or give cs.{sampler.name}\(step"):
                draws(target, RING, sampler, num_samples=10)


class TestDecentralize:
    def test_blackjax_s_nuts_is_cs_nuts(self):
        import blackjax

        target = linear_regression(5)
        samplers = (
            cs.decentralize(lambda logdensity: blackjax.nuts(logdensity, 0.1, np.ones(3))),
            cs.nuts(0.1, inverse_mass_matrix=1.0),
        )
        theirs, ours = (draws(target, RING, sampler, num_samples=50) for sampler in samplers)
        np.testing.assert_allclose(theirs, ours, atol=1e-5)

    def test_a_kernel_that_asks_for_values_alone_draws_the_chain_of_the_pooled_data(self):
        import blackjax

        walk = blackjax.mcmc.random_walk.normal(0.1 * np.ones(3))
        sampler = cs.decentralize(lambda logdensity: blackjax.additive_step_random_walk(logdensity, walk))
        target = linear_regression(5)
        with jax.enable_x64(True):
            together, pooled = (simulation(target, network, sampler).advance(200, 1) for network in (RING, ALONE))
        np.testing.assert_allclose(together.positions, pooled.positions, rtol=0, atol=1e-8)
        assert 0.1 < together.stats["is_accepted"].mean() < 0.9

    def test_any_kernel_is_counted_by_what_it_says_it_evaluates(self):
        import blackjax

        target = log_gamma(4)
        network = cs.Network.star(4)

        def run(**options):
            sampler = cs.decentralize(lambda logdensity: blackjax.mala(logdensity, 0.2), **options)
            options = {"init": np.zeros(1, np.float32), "num_samples": 30, "progress": False}
            return cs.sample(target.posterior, target.shards, network, sampler, **(ONE_CHAIN | options))

        assert run().traffic.messages == 2 * 3 + 30 * (2 * 3 + 3)
        assert run(evaluations=lambda info: 5).traffic.messages == 2 * 3 + 30 * (5 * 2 * 3 + 3)
        named = run(name="langevin", bias="it is none of ours.")
        assert named.sampler.name == "langevin"
        assert "biased by design: it is none of ours." in str(named.summary())

    @pytest.mark.parametrize("kernel", ["barker", "rmh", "elliptical", "ghmc", "dynamic_hmc", "mclmc"])
    def test_kernels_of_all_kinds_run(self, kernel):
        import blackjax

        ones = np.ones(3)
        builders = {
            "barker": lambda f: blackjax.barker_proposal(f, 0.1),
            "rmh": lambda f: blackjax.additive_step_random_walk(f, blackjax.mcmc.random_walk.normal(0.1 * ones)),
            "elliptical": lambda f: blackjax.elliptical_slice(f, mean=np.zeros(3), cov=np.eye(3)),
            "ghmc": lambda f: blackjax.ghmc(f, 0.1, ones, 0.5, 0.1),
            "dynamic_hmc": lambda f: blackjax.dynamic_hmc(f, 0.1, ones),
            "mclmc": lambda f: blackjax.mclmc(f, L=1.0, step_size=0.1),
        }
        target = linear_regression(5)
        found = draws(target, RING, cs.decentralize(builders[kernel]), num_samples=20)
        assert np.isfinite(found).all()
        assert np.ptp(found, axis=2).min() > 0
        np.testing.assert_array_equal(found, np.broadcast_to(found[:1], found.shape))

    def test_refuses_what_is_no_kernel(self):
        target = linear_regression(5)
        with pytest.raises((Refused, TypeError), match=r"takes a function.*lambda logdensity|kernel_builder"):
            cs.decentralize(3)
        with pytest.raises(Refused, match=r"returned a int without init"):
            draws(target, RING, cs.decentralize(lambda logdensity: 3), num_samples=5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cs.nuts(step_size=-1), "nuts: step_size = -1: a positive number is needed"),
        (lambda: cs.nuts(target_acceptance=1.0), "nuts: target_acceptance = 1.0: a number between 0 and 1 is needed"),
        (lambda: cs.nuts(max_num_doublings=0), "nuts: max_num_doublings = 0"),
        (lambda: cs.hmc(num_integration_steps=0), "hmc: num_integration_steps = 0"),
        (lambda: cs.hmc(step_size_jitter=1.0), "hmc: step_size_jitter = 1.0: a number from 0 up to 1 is needed"),
        (lambda: cs.mala(inverse_mass_matrix=[-1.0]), "mala: inverse_mass_matrix must be positive"),
    ],
)
def test_settings_are_checked_where_they_are_written(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_jitter_keeps_hmc_from_going_round_in_circles():
    """On a Gaussian with its own covariance as mass every trajectory is a circle; this one is a whole turn."""
    target = linear_regression(5)
    circle = {"step_size": 2 * np.pi / 10, "inverse_mass_matrix": target.covariance, "num_integration_steps": 10}
    steady, jittered = (
        draws(target, RING, cs.hmc(step_size_jitter=jitter, **circle), num_samples=3000)[0, :, :, 0]
        for jitter in (0.0, 0.2)
    )
    effective = [float(array_stats.ess(x, chain_axis=0, draw_axis=1, method="bulk")) for x in (steady, jittered)]
    assert effective[1] > 5 * effective[0]


def test_a_mass_for_another_model_is_refused():
    with pytest.raises(ValueError, match="nuts: inverse_mass_matrix is for 2 parameters, the model has 3"):
        draws(linear_regression(5), RING, cs.nuts(0.1, inverse_mass_matrix=[1.0, 2.0]), num_samples=5)
