"""dmala: gradient tracking put right. Agents decide as one, stay together, and come close to the posterior."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import consilience as cs
from consilience.neighbors import LaneNeighbors
from consilience.network import averaging

from ..statistical import assert_caught, assert_right
from ..targets import linear_regression, log_gamma
from .harness import draws, draws_after, noise_of, simulation
from .reference import Regression, averaging_matrix
from .reference import dmala as reference

RING = cs.Network.ring(5)
PATH = cs.Network.path(5)


@pytest.mark.parametrize("energy", ["exact", "trapezoid"])
@pytest.mark.parametrize(("network", "rounds"), [(RING, "auto"), (RING, 1), (PATH, 2)], ids=["exact", "one", "two"])
@pytest.mark.filterwarnings("ignore:dmala. rounds")
def test_equals_the_algorithm_in_plain_numpy(network, rounds, energy):
    target = linear_regression(5)
    inverse_mass = np.array([0.5, 1.0, 2.0])
    A = np.full((5, 5), 0.2) if rounds == "auto" else averaging_matrix(network.weights, rounds)
    with jax.enable_x64(True):
        sampler = cs.dmala(0.1, inverse_mass_matrix=inverse_mass, rounds=rounds, energy=energy)
        run = simulation(target, network, sampler, start=target.mean)
        noise = noise_of(run, 60)
        chunk = run.advance(60, 1)
    expected, log_ratios = reference(target, A, noise, target.mean, 0.1, inverse_mass, energy)
    np.testing.assert_allclose(chunk.positions[:, 0], expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(
        chunk.stats["acceptance_rate"][:, 0], np.exp(log_ratios)[:, None].repeat(5, 1), rtol=1e-5
    )
    assert 0 < chunk.stats["is_accepted"].mean() < 1


def test_tracked_gradients_add_up_to_the_posterior_s_at_every_iteration():
    target = linear_regression(5)
    with jax.enable_x64(True):
        run = simulation(target, PATH, cs.dmala(), chains=2, num_warmup=60)
        for _ in range(80):
            run.advance(1, 1)
            position, tracked = np.asarray(run.state.position), np.asarray(run.state.gradient)
            for chain in range(2):
                slopes = Regression(target).gradients(position[chain])
                np.testing.assert_allclose(tracked[chain].sum(axis=0), slopes.sum(axis=0), atol=1e-9)


class TestDecisionsInSinglePrecision:
    """The sums that decide differ between agents in their last bits, as they do without a tree."""

    SAMPLER = cs.dmala(0.12, inverse_mass_matrix=1.0)

    @staticmethod
    def differ(monkeypatch, error):
        total = LaneNeighbors.total

        def nearly(self, x):
            return jax.tree.map(lambda s: s * (1 + error * jnp.sin(1e3 * s + self.index)), total(self, x))

        monkeypatch.setattr(LaneNeighbors, "total", nearly)

    def chunks(self, iterations):
        run = simulation(linear_regression(5), RING, self.SAMPLER, start=linear_regression(5).mean)
        return [run.advance(1000, iterations // 10_000) for _ in range(10)]

    def test_are_always_agreed_and_agents_do_not_drift_apart(self, monkeypatch):
        self.differ(monkeypatch, 1e-6)
        chunks = self.chunks(100_000)
        accepted = np.concatenate([c.stats["is_accepted"][:, 0] for c in chunks])
        np.testing.assert_array_equal(accepted, np.broadcast_to(accepted[:, :1], accepted.shape))
        assert 0.2 < accepted.mean() < 0.95
        apart = [np.ptp(c.positions, axis=2).mean() for c in chunks]
        assert max(apart) < 1e-5
        assert apart[-1] < 3 * apart[0]

    @pytest.mark.parametrize("agreed", [True, False])
    def test_taken_by_each_for_itself_they_would_break_the_tracking(self, monkeypatch, agreed):
        """With errors large enough to show within a test's time, and 900 iterations, before g is anchored anew."""
        target = linear_regression(5)
        self.differ(monkeypatch, 1e-2)
        if not agreed:
            monkeypatch.setattr(LaneNeighbors, "all", lambda self, flag: flag)
        run = simulation(target, RING, self.SAMPLER, start=target.mean, chains=10)
        run.advance(1, 900)
        tracked, position = np.asarray(run.state.gradient).sum(axis=1), np.asarray(run.state.position)
        slopes = np.stack([Regression(target).gradients(w).sum(axis=0) for w in position])
        assert (np.abs(tracked - slopes).max() < 0.02) == agreed  # of gradients around ten


class TestWarmUp:
    def test_all_agents_have_the_same_step_size_and_mass(self):
        target = linear_regression(5)
        run = simulation(target, PATH, cs.dmala(rounds=4), chains=2, num_warmup=1000)
        run.advance(1, 1000)
        found = run.state.adaptation
        for leaf in (found.step_size, found.inverse_mass_matrix):
            np.testing.assert_array_equal(leaf, np.broadcast_to(leaf[:, :1], leaf.shape))
        scale = np.asarray(found.inverse_mass_matrix)[0, 0] / np.diag(target.covariance)
        assert (scale > 0.5).all() and (scale < 2).all()
        accepted = run.advance(1000, 1).stats["is_accepted"].mean()
        assert 0.5 < accepted < 0.85  # for 0.65

    def test_windows_end_with_one_exact_sum(self):
        given, tuned = (
            simulation(linear_regression(5), RING, s, num_warmup=100) for s in (cs.dmala(0.1, 1.0), cs.dmala())
        )
        more = tuned.advance(1, 100).traffic.messages - given.advance(1, 100).traffic.messages
        assert more == 3 * 4  # one window in a hundred iterations: masses up and down, the root's step size down
        assert tuned.advance(10, 1).traffic == given.advance(10, 1).traffic


def test_rounding_does_not_move_the_tracked_sum_away():
    """In single precision, with agents whose own gradients are large and cancel."""
    target = linear_regression(5)
    shards = [{"x": s["x"], "y": s["y"] + 300 * (-1) ** i * (i < 4)} for i, s in enumerate(target.shards)]
    run = simulation(replace(target, shards=shards), PATH, cs.dmala(0.1, 1.0), start=target.mean)
    apart = []
    for _ in range(10):
        run.advance(1, 5000)
        tracked = np.asarray(run.state.gradient, float).sum(axis=(0, 1))
        apart.append(np.abs(tracked - np.asarray(run.state.local_gradient, float).sum(axis=(0, 1))).max())
    largest = np.abs(np.asarray(run.state.local_gradient)).max()
    assert largest > 1000
    assert max(apart) < 1e-5 * largest


@pytest.mark.parametrize("network", [RING, PATH, cs.Network.star(6), cs.Network.complete(4)], ids=lambda n: n.name)
def test_cost_is_two_averagings_a_sum_and_a_decision(network):
    target = linear_regression(network.size)
    rounds = averaging(network).rounds
    run = simulation(target, network, cs.dmala(0.1, 1.0))
    traffic = run.advance(10, 1).traffic
    per_round = 2 * len(network.edges)
    assert traffic.rounds == 10 * (2 * rounds + 2 * network.tree.depth + network.diameter)
    assert traffic.messages == 10 * ((2 * rounds + network.diameter) * per_round + 2 * (network.size - 1))
    vectors, number, decision = 2 * rounds * per_round * 3 * 4, 2 * (network.size - 1) * 4, network.diameter * per_round
    assert traffic.bytes == 10 * (vectors + number + decision)


class TestTheLaw:
    def test_exact_energy_is_right_where_the_trapezoid_is_caught(self):
        target = log_gamma(5)
        right, wrong = (cs.dmala(1.2, inverse_mass_matrix=1.0, energy=e) for e in ("exact", "trapezoid"))
        assert_right(lambda seed: draws_after(target, RING, right, 10, seed), target)
        assert_caught(lambda seed: draws_after(target, RING, wrong, 10, seed), target)

    def test_trapezoid_is_right_for_a_gaussian(self):
        target = linear_regression(5)
        sampler = cs.dmala(0.15, inverse_mass_matrix=1.0, energy="trapezoid")
        assert_right(lambda seed: draws_after(target, RING, sampler, 10, seed), target)

    def test_one_agent_alone_runs_plain_mala(self):
        target = linear_regression(1)
        sampler = cs.dmala(0.3, inverse_mass_matrix=1.0)
        assert_right(lambda seed: draws_after(target, cs.Network.complete(1), sampler, 10, seed), target)


class TestSettings:
    def test_too_few_rounds_run_with_a_warning_that_names_the_contraction(self):
        with pytest.warns(UserWarning, match=r"rounds = 1 shrink .* δ = 0.54 .* Use rounds=2 or more"):
            draws(linear_regression(5), RING, cs.dmala(0.1, rounds=1), num_samples=5)

    def test_enough_rounds_do_not_warn(self):
        draws(linear_regression(5), RING, cs.dmala(0.1, rounds=2), num_samples=5)

    def test_others_than_the_first_two_have_names(self):
        with pytest.raises(TypeError, match="positional"):
            cs.dmala(0.1, 1.0, 3)

    def test_says_what_it_is(self):
        assert "by gossip, so that" in cs.dmala().bias
        assert "here " in cs.dmala(0.1).resolve(PATH, 3).bias
        assert "trapezoid" in cs.dmala(energy="trapezoid").bias

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: cs.dmala(step_size=0), "dmala: step_size = 0: a positive number is needed"),
            (lambda: cs.dmala(rounds=0), r'dmala: rounds \(a number, or "auto"\) = 0'),
            (lambda: cs.dmala(rounds="many"), r"dmala: rounds .*'many'"),
            (lambda: cs.dmala(energy="hessian"), "energy = 'hessian': not one of 'exact', 'trapezoid'"),
            (lambda: cs.dmala(target_acceptance=2), "target_acceptance = 2: a number between 0 and 1 is needed"),
        ],
    )
    def test_are_checked_where_they_are_written(self, make, message):
        with pytest.raises(ValueError, match=message):
            make()
