"""`cs.surrogate`: its parts against what they approximate, its draws against exact ones, its certificate tried."""

import re
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base import array_stats
from jax import lax
from scipy.stats import chi2

import consilience as cs
from consilience._refused import Refused
from consilience.model import Layout
from consilience.neighbors import AGENTS, Alone
from consilience.neighbors.lanes import LaneNeighbors
from consilience.samplers import fitting, proposals, surrogate, weights
from consilience.samplers.expansion import Derivatives, Expansion, Hill, climb, derivatives_in, expand, other_mode
from consilience.samplers.proposals import ROUNDS, Crowd, Normal, draw_crowd, draw_normal, gather, settle
from consilience.samplers.split import QUARTER, flow_of, rotation, steps_of
from consilience.samplers.starting import MOST_DENSE, has_normal_prior

from ..statistical import assert_caught, assert_right
from ..targets import Target, linear_regression, log_gamma
from .harness import Lanes, draws, simulation

RING = cs.Network.ring(6)
FEW = partial(cs.surrogate, 100)


# --- the likelihood's expansion -------------------------------------------------------------------


def test_derivatives_in_the_likelihood_s_coordinates_are_those_of_the_likelihood_itself():
    random = np.random.default_rng(0)
    q = jnp.asarray(random.standard_normal(4))
    table = jnp.asarray(random.standard_normal((30, 3)))

    def coordinates(q):  # of one mean and two effects in their standardised form, as a hierarchy has them
        return jnp.stack([q[0], jnp.exp(q[1]) * q[2], jnp.exp(q[1]) * q[3]])

    def of_coordinates(phi):
        return -jnp.logaddexp(0.0, table @ phi).sum()

    def derivatives(function, at):
        return Derivatives(function(at), jax.grad(function)(at), jax.hessian(function)(at))

    found = derivatives_in(coordinates, q, derivatives(lambda q: of_coordinates(coordinates(q)), q))
    for one, other in zip(found, derivatives(of_coordinates, coordinates(q)), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-3)


def test_a_quadratic_is_its_own_expansion_and_no_expansion_rises_for_ever():
    hessian = jnp.array([[-2.0, 0.5], [0.5, 1.0]])  # it rises along the second axis
    expansion = expand(None, jnp.zeros(2), Derivatives(1.0, jnp.array([0.3, 0.2]), hessian), jnp.asarray(3.0))
    assert np.linalg.eigvalsh(expansion.at_center.hessian).max() < 0
    good = jnp.array([[-2.0, 0.5], [0.5, -1.0]])
    expansion = expand(None, jnp.zeros(2), Derivatives(1.0, jnp.array([0.3, 0.2]), good), jnp.asarray(3.0))
    np.testing.assert_allclose(expansion.at(jnp.array([1.0, 2.0])), 1.7 + 0.5 * (-2 + 2 - 4), rtol=1e-5)


def test_the_mean_of_derivatives_is_that_of_the_quadratic_nearest_to_the_likelihood():
    """Over draws of a normal law, it is what least squares through the values finds; a quadratic is its own."""
    random = np.random.default_rng(0)
    points = jnp.asarray(random.standard_normal((4000, 2)))

    def quadratic(q):
        return 1.0 + q[0] - 2 * q[1] - 0.5 * (2 * q[0] ** 2 + q[0] * q[1] + q[1] ** 2)

    def quartic(q):
        return quadratic(q) - 0.1 * q[0] ** 4 + 0.1 * q[1] ** 3

    def mean(function, points):
        found = fitting.questions(function, None, Alone()).examine(points, ())[3]
        start = Expansion(jnp.ones(2), Derivatives(jnp.zeros(()), jnp.zeros(2), -jnp.eye(2)))
        return fitting.improved(start, found, 1.0, jnp.asarray(5.0))

    same = mean(quadratic, points[:3])
    np.testing.assert_allclose(
        jax.vmap(same.at)(points[:50]) - same.at(points[50]),
        jax.vmap(quadratic)(points[:50]) - quadratic(points[50]),
        atol=1e-4,
    )
    features = np.stack([np.ones(4000), *points.T, *(points.T**2), points[:, 0] * points[:, 1]], axis=1)
    nearest = np.linalg.lstsq(features, np.asarray(jax.vmap(quartic)(points)), rcond=None)[0]
    found = np.mean([mean(quartic, some).at_center.hessian for some in jnp.split(points[:640], 10)], axis=0)
    np.testing.assert_allclose(np.diag(found), 2 * nearest[3:5], atol=0.2)
    assert found[0, 0] < -2.8  # an expansion at the middle has -2


def test_trial_passes_make_a_better_surrogate_of_a_skewed_likelihood(monkeypatch):
    posterior, shards = nearly_separable()
    [whole] = cs.pool(shards)

    def log_likelihood(w):
        return posterior.log_likelihood(w, whole).sum()

    def fitted():
        ask = fitting.questions(log_likelihood, None, Alone())
        known = fitting.Known(posterior.log_prior, None, True, jnp.zeros(12), 1000, ask)
        return jax.jit(lambda key: fitting.fit_surrogate(known, key, float(chi2.ppf(0.9999, 12))))(jax.random.key(0))

    best = fitted().report
    monkeypatch.setattr(fitting, "MOST_PASSES", 1)
    first = fitted().report
    assert float(best.acceptance) > float(first.acceptance) + 0.15
    assert float(best.evenness) > 2 * float(first.evenness)


# --- weights ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [0.3, 0.6, 0.9, 1.5])
def test_the_tail_s_shape_is_that_of_the_large_weights(shape):
    log_weights = shape * np.random.default_rng(0).exponential(size=4000)  # Pareto weights
    found = float(weights.pareto_k(jnp.asarray(log_weights)))
    upper, lower = (float(np.ravel(array_stats.psislw(sign * log_weights[None], axis=-1)[1])[0]) for sign in (-1, 1))
    assert abs(found - upper) < 0.06
    assert abs(found - lower) > 0.2


def test_weights_that_are_bounded_have_no_tail_however_far_below_some_of_them_are():
    random = np.random.default_rng(0)
    log_weights = np.where(random.uniform(size=4000) < 0.05, -random.exponential(20, 4000), 1e-4 * random.random(4000))
    assert log_weights.std() > weights.FLAT
    assert float(weights.pareto_k(jnp.asarray(log_weights))) == 0


def test_weights_of_impossible_proposals_are_worth_nothing_and_no_failure_later():
    """So that a later pass, which has some that are possible, is better than this one."""
    found = weights.report_on(jnp.full(200, -jnp.inf))
    assert not found.is_good
    assert (float(found.evenness), float(found.acceptance), float(found.largest_share)) == (0, 0, 1)


def test_a_surrogate_that_has_shrunk_to_a_point_is_none_although_its_weights_are_even(monkeypatch):
    """Proposals that are all the same number look perfect: only that others have found far more mass tells."""
    one = jnp.ones(2)
    ask = fitting.questions(lambda w: -jnp.sum((w - one) ** 4), None, Alone())
    known = fitting.Known(lambda w: -0.5 * jnp.vdot(w, w), None, True, one, 1000, ask)

    def expansion(curvature):
        return Expansion(one, Derivatives(jnp.zeros(()), jnp.zeros(2), -curvature * jnp.eye(2)))

    def passes_from(curvature):
        crowd = gather(fitting.normal_of(known, expansion(curvature), one), jax.random.key(1), 0)
        return fitting._passes(known, expansion(curvature), crowd, jax.random.key(0))

    monkeypatch.setattr(fitting, "improved", lambda *_: expansion(1e18))
    found, passes = passes_from(1.0)
    assert passes == fitting.MOST_PASSES
    assert found.expansion.at_center.hessian[0, 0] == -1
    shrunk, _ = passes_from(1e18)
    assert shrunk.report.evenness > fitting.GOOD_EVENNESS


def test_acceptance_is_that_of_an_independence_sampler():
    own = np.random.default_rng(0).gamma(0.5, size=60)
    ratios = np.minimum(1, own[None, :] / own[:, None])
    expected = (own[:, None] * ratios).sum() / (own.sum() * len(own))
    np.testing.assert_allclose(weights.expected_acceptance(jnp.asarray(own)), expected, rtol=1e-5)


def test_proposals_have_the_density_that_is_said_of_them():
    law = Normal(jnp.array([1.0, -1.0]), jnp.array([[2.0, 0.0], [0.6, 0.5]]))
    q, log_g = draw_normal(law, jax.random.key(0), 200_000)
    other = jax.vmap(lambda at: law._replace(root=1.2 * law.root).log_density(at))(q)
    assert abs(float(jnp.exp(other - log_g).mean()) - 1) < 0.02  # ∫ another density = 1


def settled_crowd(log_surrogate, key, number):
    crowd = gather(Normal(jnp.zeros(2), jnp.eye(2)), key, number)
    return settle(log_surrogate, crowd, key, ROUNDS)


def test_a_crowd_settles_from_far_off_and_a_surrogate_s_mass_is_known():
    """Started where the density is zero or all but zero; what normalises it is known to be Γ(3)/8 · √(2π)."""

    def log_surrogate(w):
        return jnp.where(w[1] > 30, -jnp.inf, 3 * w[0] - 2 * jnp.exp(w[0]) - 0.5 * (w[1] - w[0]) ** 2)

    crowd = gather(Normal(jnp.array([2.0, 25.0]), 20 * jnp.eye(2)), jax.random.key(0), 1000)
    settled = jax.jit(partial(settle, log_surrogate))(crowd, jax.random.key(1), ROUNDS)
    assert np.isfinite(settled.positions).all()
    assert abs(float(jnp.exp(settled.positions[:, 0]).mean()) - 1.5) < 0.15
    assert abs(float(settled.log_constant) - np.log(2 / 8 * np.sqrt(2 * np.pi))) < 0.1


def test_draws_that_count_do_not_choose_when_they_are_taken():
    def log_surrogate(w):
        return -0.5 * jnp.vdot(w, w)

    crowd = settled_crowd(log_surrogate, jax.random.key(0), 500)
    draw = jax.jit(lambda crowd: draw_crowd(log_surrogate, crowd, jax.random.key(1), 500))
    once, *_, enough = draw(crowd)
    assert int(enough) == 1  # a trial pass has found out
    for times in (1, 3):
        found, *_, still = draw(crowd._replace(forgetting=jnp.int32(times)))
        assert int(still) == times
        assert (found == once).all() == (times == 1)  # of the same key, and run for as long


def test_local_chains_forget_where_they_began():
    """Proposals under a prior that is not normal come from chains that have settled, and are independent of them."""

    def log_surrogate(w):
        return 3 * w[0] - 2 * jnp.exp(w[0]) - 0.5 * (w[1] - w[0]) ** 2

    def draw(key):
        return draw_crowd(log_surrogate, settled_crowd(log_surrogate, key, 2000), jax.random.fold_in(key, 1), 2000)

    found, log_g, local, _ = jax.jit(draw)(jax.random.key(0))
    assert local.have_settled
    # Weights make of proposals what they were drawn for: exp(w) ~ Gamma(3, 2), whose mean is 3/2.
    log_weights = jax.vmap(log_surrogate)(found) - log_g
    own = jnp.exp(log_weights - log_weights.max())
    assert abs(float(jnp.average(jnp.exp(found[:, 0]), weights=own)) - 1.5) < 0.1


def test_chains_that_have_not_settled_are_told_from_those_that_have():
    """Of a crowd that lies beside its density, or is narrower than it, chains end elsewhere or farther out."""
    law = Normal(jnp.zeros(2), jnp.eye(2))

    @jax.jit
    def drawn(shift, scale):
        positions = shift + scale * jax.random.normal(jax.random.key(0), (512, 2))
        crowd = Crowd(positions, law, jnp.float32(0.5), jnp.float32(0), jnp.int32(1))
        return draw_crowd(law.log_density, crowd, jax.random.key(1), 2000)[2]

    assert drawn(0.0, 1.0).have_settled
    for shift, scale in ((0.5, 1.0), (0.0, 0.6)):
        found = drawn(shift, scale)
        assert found.r_hat > 1.01
        assert not found.have_settled


# --- split trajectories ----------------------------------------------------------------------------


def test_the_flow_of_a_normal_surrogate_is_a_rotation_and_reverses():
    z, p = jnp.array([0.3, -1.2]), jnp.array([0.7, 0.4])
    flow = flow_of(lambda z: -0.5 * jnp.vdot(z, z))
    for one, other in zip(flow(z, p, jnp.float32(0.7)), rotation(z, p, jnp.float32(0.7)), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-3)
    ahead, momentum = flow(z, p, jnp.float32(0.7))
    back, _ = flow(ahead, -momentum, jnp.float32(0.7))
    np.testing.assert_allclose(back, z, atol=1e-6)


@pytest.mark.parametrize("largest", [0.05, 0.4, 0.8, 1.0, 3.0, 1e6])
def test_a_trajectory_never_turns_farther_than_a_quarter(largest):
    """By half a turn a chain would go from z to -z, and means would look better than they are."""
    step, number = steps_of(jnp.float32(largest))
    assert float(step * number) <= np.pi / 2 + 1e-6
    assert float(step * number) > np.pi / 4 or int(number) == 32
    assert float(step) <= largest


# --- draws -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("correction", ["scored", "split"])
def test_leaves_the_posterior_invariant(correction):
    """Under a prior that is not normal; of others tests/test_invariance.py has more."""
    target = log_gamma(6)

    def after(seed):
        options = {"num_chains": 1000, "num_warmup": 0, "num_samples": 1, "thin": 4}
        return draws(target, RING, FEW(correction=correction), init=target.exact, seed=seed, **options)

    assert_right(after, target)


def test_scored_draws_are_right_over_a_long_run():
    target = log_gamma(6)
    assert_right(lambda seed: draws(target, RING, FEW(), seed=seed, num_chains=8, num_samples=3000), target)


@pytest.mark.parametrize("correction", ["scored", "split"])
def test_a_sampler_that_always_accepts_is_caught(correction, monkeypatch):
    """The tests above have power: without their decision, neither correction is right."""
    target = log_gamma(6)
    if correction == "scored":
        monkeypatch.setattr(jax.random, "exponential", lambda key, shape, dtype: jnp.full(shape, 1e9, dtype))
    else:
        import blackjax.mcmc.hmc as hmc

        def accept(key, delta, start, end):
            return end, (jnp.array(True), jnp.float32(1.0), None)

        # In one step: the larger its error, the more there is to reject.
        monkeypatch.setattr(surrogate, "steps_of", lambda step: (jnp.full_like(step, QUARTER), jnp.int32(1)))
        build = partial(hmc.hmc_proposal, sample_proposal=accept)
        monkeypatch.setattr(hmc, "build_kernel", partial(hmc.build_kernel, build_proposal=build))

    def long_run(seed):
        options = {"num_chains": 8, "num_warmup": 0, "num_samples": 3000 if correction == "scored" else 10_000}
        return draws(target, RING, FEW(correction=correction), seed=seed, **options)

    assert_caught(long_run, target)


def nearly_separable(agents=4, dimension=12, rows=40, seed=0):
    """Make a logistic regression in which a plane nearly tells the outcomes apart."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((agents * rows, dimension)).astype(np.float32)
    y = (x @ np.full(dimension, 1.5) + 0.1 * random.standard_normal(len(x)) > 0).astype(np.float32)
    posterior = cs.Posterior(
        lambda w: -0.5 * jnp.vdot(w, w) / 25,
        lambda w, batch: batch["y"] * (batch["x"] @ w) - jnp.logaddexp(0.0, batch["x"] @ w),
        init=np.zeros(dimension, np.float32),
    )
    return posterior, cs.shard({"x": x, "y": y}, agents, by="iid")


@pytest.fixture(scope="module")
def logistic():
    """A run by scored proposals, of a model in which they are good: ten sums or so."""
    random = np.random.default_rng(1)
    x = random.standard_normal((300, 5)).astype(np.float32)
    y = (random.uniform(size=300) < 1 / (1 + np.exp(-x @ [1.0, -0.5, 0.3, 0.0, 0.8]))).astype(np.float32)
    posterior, _ = nearly_separable(dimension=5)
    shards = cs.shard({"x": x, "y": y}, 4, by="iid")
    return cs.sample(posterior, shards, cs.Network.ring(4), cs.surrogate(), num_samples=1000, progress=False)


def test_a_thousand_effective_draws_cost_tens_of_sums(logistic):
    found = logistic.summary()
    assert found.columns["ess_bulk"].min() > 1000 and found.columns["ess_tail"].min() > 1000
    assert found.certificate.holds, found.certificate
    sums = int(logistic.stats["surrogate_sums"][0, 0, 0]) + 1
    assert sums <= 40
    # A sum goes up the tree and down, after its points have come down. The root says where a climb would go on, whether
    # a trial pass was the last, and at the end what the surrogate is.
    passes = logistic.traffic.rounds / logistic.network.tree.depth - 3 * sums - 2
    assert passes in range(1, fitting.MOST_PASSES + 1)
    assert "scored proposals" in str(found) and "k̂ of weights" in str(found)


def test_its_certificate_is_that_of_the_draws(logistic):
    log_weights = logistic.stats["log_weight"][0]
    assert log_weights.shape == (4, 1000)
    assert len(np.unique(log_weights)) > 3000  # each proposal is used once, and by one chain; rounding makes some alike
    moved = np.diff(logistic.draws[0], axis=1).any(axis=-1)
    np.testing.assert_array_equal(moved, logistic.stats["is_accepted"][0, :, 1:].astype(bool))


def test_no_proposal_is_used_twice_and_none_of_the_trial_that_chose_the_surrogate():
    """Each block of each chain has proposals of its own."""
    target = linear_regression(6)
    run = simulation(target, RING, FEW(correction="scored"), target.mean, chains=2)
    blocks = []
    for _ in range(2):
        run.advance(100, 1)
        blocks.append(np.asarray(run.state.block.proposals).reshape(-1, 3))
    trial = np.asarray(run.state.fit.trial[0]).reshape(-1, 3)
    rows = np.concatenate([*blocks, np.unique(trial, axis=0)])
    assert len(blocks[0]) == 200
    assert len(np.unique(rows, axis=0)) == len(rows)


def test_proposals_are_no_chain():
    """Taken in the order of one chain they would be each near the one before, and draws too."""
    law = Normal(jnp.zeros(2), jnp.array([[2.0, 0.0], [0.6, 0.5]]))
    q = np.asarray(draw_normal(law, jax.random.key(0), 4000)[0])
    for lag in (1, 2, 5):
        assert abs(np.corrcoef(q[lag:].T, q[:-lag].T)[:2, 2:]).max() < 5 / np.sqrt(4000)


def test_agents_that_start_apart_go_on_from_where_the_root_is(monkeypatch):
    """Where a chain starts is each agent's own computation, whose rounding may choose another trial proposal."""
    monkeypatch.setattr(surrogate, "choose", lambda key, log_weights: lax.axis_index(AGENTS))
    never = -50.0  # less than nought, so that no proposal is taken and all stay where they started
    monkeypatch.setattr(jax.random, "exponential", lambda key, shape, dtype: jnp.full(shape, never, dtype))
    target = linear_regression(3)
    run = simulation(target, cs.Network.path(3), FEW(correction="scored"), one_copy=False, num_warmup=1)
    found = run.advance(5, 1).positions
    assert (found == found[:, :, :1]).all()


def test_all_agents_use_the_root_s_surrogate(monkeypatch):
    """Local chains that round apart go different ways: agents would move in coordinates of their own."""
    settle = proposals.settle

    def settled(log_surrogate, crowd, key, rounds):
        own = jax.random.fold_in(key, lax.axis_index("agents"))
        return settle(log_surrogate, crowd, own, rounds)

    monkeypatch.setattr(fitting, "settle", settled)

    def fitted(share):
        ask = fitting.questions(lambda w: share * (3 * w[0] - 2 * jnp.exp(w[0])), None, Lanes())
        known = fitting.Known(lambda w: 0.0 * w[0], None, False, jnp.zeros(1), 200, ask)
        return fitting.shared(known, fitting.fit_surrogate(known, jax.random.key(0), 15.0))

    fit = jax.jit(jax.vmap(fitted, axis_name="agents"))(jnp.full(3, 1 / 3))
    for leaf in jax.tree.leaves(fit):
        assert (leaf == leaf[:1]).all()


def test_impossible_proposals_are_refused_where_a_chain_is_at_an_impossible_place_too():
    """As where no sum fits into masks: all weights are nought then, and draws would be the surrogate's."""
    nowhere = replace(linear_regression(3), posterior=cs.Posterior(*NOWHERE))
    run = simulation(nowhere, cs.Network.path(3), FEW(correction="scored"), np.full(3, 5.0))
    found = run.advance(20, 1)
    assert not found.stats["is_accepted"].any()
    assert (found.positions == 5).all()


NOWHERE = (lambda w: -0.5 * jnp.vdot(w, w), lambda w, batch: batch["y"] - jnp.inf)


LYING = cs.Posterior(
    lambda w: -0.5 * jnp.vdot(w, w),
    # Value and gradient are right, and so the posterior is; what the Hessian adds is not there.
    lambda w, batch: (
        -0.5 * (batch["y"] - batch["x"] @ w) ** 2 + batch["lie"] * jnp.sum((w - lax.stop_gradient(w)) ** 2)
    ),
)


def lied_about(target, lie):
    shards = [
        shard | {"lie": np.full(len(shard["y"]), lie * (i == 0), np.float32)} for i, shard in enumerate(target.shards)
    ]
    return replace(target, posterior=LYING, shards=shards)


@pytest.mark.parametrize("correction", ["scored", "split"])
def test_a_lying_hessian_costs_acceptance_and_no_exactness(correction):
    """Of one agent, as if there were more data than there are: draws are those of the sums of log-likelihoods."""
    target = linear_regression(6)
    lied = lied_about(target, -5.0)

    def after(seed):
        options = {"num_chains": 2000, "num_warmup": 0, "num_samples": 1, "thin": 4}
        return draws(lied, RING, FEW(correction=correction), init=target.exact, seed=seed, **options)

    assert_right(after, target)


def test_a_hessian_that_lies_away_all_data_ends_the_run_before_the_first_draw():
    target = linear_regression(6)
    lied = lied_about(target, 5.0)
    with pytest.raises(Refused, match="no mode was reached"):
        draws(lied, RING, FEW(), num_chains=2, num_warmup=0, num_samples=10)


def test_where_scored_proposals_fail_the_network_corrects_the_force():
    posterior, shards = nearly_separable(dimension=20, rows=10)
    length = {"num_samples": 600, "num_warmup": 200, "num_chains": 2, "progress": False}
    run = cs.sample(posterior, shards, cs.Network.path(4), cs.surrogate(), **length)
    assert run.stats["surrogate_split"].all()
    found = run.summary()
    assert "split trajectories, in which the network corrects the force" in str(found)
    assert run.acceptance > 0.6
    reference = cs.sample(posterior, cs.pool(shards), cs.Network.complete(1), cs.nuts(), **length)
    apart = (run.draws[0].mean(axis=(0, 1)) - reference.draws[0].mean(axis=(0, 1))) / reference.draws[0].std(
        axis=(0, 1)
    )
    assert np.abs(apart).max() < 0.35


def hierarchy(agents=3, groups=6, rows=90, seed=0):
    """Make a normal hierarchy in its standardised form, whose likelihood sees the effects."""
    random = np.random.default_rng(seed)
    effects = random.standard_normal(groups)
    group = np.arange(rows) % groups
    y = (1 + 0.7 * effects[group] + random.standard_normal(rows)).astype(np.float32)

    def effect(params):
        return {"mean": params["mean"], "effect": jnp.exp(params["log_sd"]) * params["z"]}

    def log_prior(params):
        scale = params["log_sd"]
        return -0.5 * (params["mean"] ** 2 / 25 + jnp.vdot(params["z"], params["z"])) + scale - 0.5 * jnp.exp(2 * scale)

    def log_likelihood(params, batch):
        found = effect(params)
        return -0.5 * (batch["y"] - found["mean"] - found["effect"][batch["group"]]) ** 2

    zero = np.float32(0)
    init = {"log_sd": zero, "mean": zero, "z": np.zeros(groups, np.float32)}
    shards = cs.shard({"y": y, "group": group.astype(np.int32)}, agents, by="iid")
    return cs.Posterior(log_prior, log_likelihood, init=init), effect, shards


def test_a_hierarchy_is_sampled_in_the_coordinates_that_its_likelihood_sees():
    posterior, effect, shards = hierarchy()
    length = {"num_samples": 500, "num_warmup": 0, "num_chains": 2, "progress": False}
    network = cs.Network.ring(3)
    inside = cs.Posterior(posterior.log_prior, posterior.log_likelihood, init=posterior.init, coordinates=effect)
    run = cs.sample(inside, shards, network, cs.surrogate(500), **length)
    assert not run.stats["surrogate_split"].any()
    assert run.acceptance > 0.8  # of a likelihood that is quadratic in them
    reference = cs.sample(
        posterior, cs.pool(shards), cs.Network.complete(1), cs.nuts(), **(length | {"num_warmup": 500})
    )
    for name, values in reference.draws.items():
        apart = (run.draws[name].mean(axis=(0, 1, 2)) - values.mean(axis=(0, 1, 2))) / values.std(axis=(0, 1, 2))
        assert np.abs(apart).max() < 0.35, name


# --- the alarm -------------------------------------------------------------------------------------


def two_modes(mass, dimension, at=4.0):
    """Make log-likelihoods with modes of sd 1 at ±4 along every axis, the second one of so much mass."""
    center = jnp.full(dimension, at)

    def log_likelihood(w):
        apart = [-0.5 * jnp.sum((w - sign * center) ** 2) for sign in (1, -1)]
        return jnp.logaddexp(jnp.log1p(-mass) + apart[0], jnp.log(mass) + apart[1])

    return log_likelihood


def climb_of(log_likelihood, start, data=lambda key: None):
    """Climb alone under a normal prior, as a fit begins; the second mode's mass, the best end, whether it is a mode."""
    dimension = len(start)

    def log_prior(w):
        return -0.5 * jnp.vdot(w, w) / 100

    def climbed(key):
        ask = fitting.questions(partial(log_likelihood, data=data(jax.random.fold_in(key, 1))), None, Alone())
        known = fitting.Known(log_prior, None, True, jnp.asarray(start, jnp.float32), 100, ask)
        hill = Hill(None, log_prior, float(chi2.ppf(0.9999, dimension)))
        ends = climb(fitting._starts(known, key), hill, ask.tell, ask.derive)
        best, second = other_mode(ends, hill)
        return second, ends.q[best], ends.is_mode[best]

    return lambda number: jax.jit(lambda keys: jax.lax.map(climbed, keys))(jax.random.split(jax.random.key(0), number))


@pytest.mark.parametrize(("mass", "dimension"), [(0.5, 2), (0.01, 2), (0.5, 10), (0.01, 10)])
def test_a_second_mode_raises_the_alarm(mass, dimension):
    """Of 100 sets of starts. With one in a hundred deaf to it, more than five would be once in 1800 times."""
    second, _, _ = climb_of(lambda w, data: two_modes(mass, dimension)(w), np.full(dimension, 0.1))(100)
    assert (np.asarray(second) > fitting.SECOND_MODE_LIMIT).sum() >= 95


@pytest.mark.parametrize("at", [4.0, 2.2])
def test_a_start_on_a_saddle_s_top_hides_no_mode(at):
    """The first start is half way between two modes, where the slope is nought: it stays there, and others climb.

    Half way between near ones the hill is high, and flat in one direction: by its width it would have the most mass.
    """
    second, end, is_mode = climb_of(lambda w, data: two_modes(0.5, 2, at)(w), np.zeros(2))(20)
    assert is_mode.all()
    assert (np.abs(np.abs(end) - at) < 0.1).all()
    assert (np.asarray(second) > 0.9).all()


@pytest.mark.parametrize("dimension", [2, 4, 10])
def test_one_mode_never_raises_it(dimension):
    """Of 100 logistic regressions, each with data of its own, some of which a plane tells apart."""

    def data(key):
        for_x, for_w, for_y = jax.random.split(key, 3)
        x = jax.random.normal(for_x, (40, dimension))
        odds = x @ (2 * jax.random.normal(for_w, (dimension,)))
        return x, jax.random.bernoulli(for_y, jax.nn.sigmoid(odds)).astype(float)

    def log_likelihood(w, data):
        x, y = data
        return jnp.sum(y * (x @ w) - jnp.logaddexp(0.0, x @ w))

    second, _, is_mode = climb_of(log_likelihood, np.zeros(dimension), data)(100)
    assert is_mode.all()
    assert (np.asarray(second) > fitting.SECOND_MODE_LIMIT).sum() == 0


def test_a_run_with_a_second_mode_says_so():
    target = Target(
        cs.Posterior(
            lambda w: -0.5 * jnp.vdot(w, w) / 100,
            lambda w, batch: batch["share"] * two_modes(0.3, 2)(w),
            init=np.ones(2, np.float32),
        ),
        [{"share": np.full(1, 0.5, np.float32)}] * 2,
        np.ones(2),
        np.eye(2),
        None,
    )
    options = {"num_samples": 300, "num_chains": 2, "progress": False}
    run = cs.sample(target.posterior, target.shards, cs.Network.path(2), FEW(), **options)
    found = run.summary()
    assert not found.certificate.holds
    assert "other modes: one with" in found.verdict and "certificate does not hold" in found.verdict


@pytest.mark.parametrize(
    "log_likelihood",
    [
        lambda w, batch: batch["share"] * 10 * w[0] * w[1],
        lambda w, batch: batch["share"] * jnp.where(w[0] > 100, w[0], w[0] ** 2),
        lambda w, batch: batch["share"] * jnp.sum(jnp.abs(w - w) ** 1.5),
    ],
    ids=["saddle", "rises to a cliff", "no second derivatives"],
)
def test_a_model_without_a_mode_is_refused_and_told_of_nuts(log_likelihood):
    posterior = cs.Posterior(lambda w: -0.5 * jnp.vdot(w, w) / 100, log_likelihood, init=np.ones(2, np.float32))
    shards = [{"share": np.full(1, 0.5, np.float32)}] * 2
    options = {"num_samples": 300, "num_chains": 2, "num_warmup": 0, "progress": False}
    with pytest.raises(ValueError, match=r"surrogate: no mode was reached from 8 starts.*cs\.nuts\(\)"):
        cs.sample(posterior, shards, cs.Network.path(2), FEW(), **options)


@pytest.fixture(scope="module")
def easy():
    """A run of a normal posterior, of which all of the certificate holds."""
    target = linear_regression(6)
    options = {"init": np.zeros(3, np.float32), "num_chains": 2, "num_samples": 500, "progress": False}
    return cs.sample(target.posterior, target.shards, RING, FEW(), num_warmup=3, **options)


def failing(run):
    return [check.name for check in run.summary().certificate.checks if not check.holds]


@pytest.mark.parametrize("chains", [1, 2])
def test_a_chain_that_never_moved_has_no_effective_draws(easy, chains):
    assert failing(easy) == []
    stuck = easy.kept.copy()
    stuck[:, 0] = stuck[0, 0]
    stats = {name: values[:, :chains] for name, values in easy.raw_stats.items()}
    assert "effective draws" in failing(replace(easy, kept=stuck[:, :chains], raw_stats=stats))


def with_figures(run, **figures):
    """Return a run whose surrogate has said something else."""
    said = {name: np.full_like(run.raw_stats[name], value) for name, value in figures.items()}
    return replace(run, raw_stats=run.raw_stats | said)


def test_its_certificate_says_of_every_item_what_was_found_and_what_is_needed(easy):
    found = easy.summary().certificate
    assert [(check.name, check.limit) for check in found.checks] == [
        ("other modes", "less than 0.001"),
        ("trial pass", ""),
        ("proposals", ""),
        ("k̂ of weights", "at most 0.67"),  # 1 - 1/log₁₀(1000)
        ("largest weight", "at most 1%"),
        ("effective draws", "at least 400"),
        ("R-hat", "at most 1.01"),
    ]
    text = str(easy.summary())
    assert "from 8 starts" in text and found.blindness in text
    assert text.count("  holds\n") == 6


@pytest.mark.parametrize(
    ("figures", "item"),
    [
        ({"surrogate_second_mode": 0.0011}, "other modes"),
        ({"surrogate_has_mode": 0}, "other modes"),
        ({"surrogate_local": 1, "surrogate_local_r_hat": 1.011}, "local chains"),
        ({"surrogate_local": 1, "surrogate_divergences": 1e-4}, "their divergences"),
        ({"surrogate_local": 1, "surrogate_correlation": 0.051}, "their memory"),
    ],
)
def test_each_item_of_the_fit_can_fail(easy, figures, item):
    assert failing(with_figures(easy, **figures)) == [item]


def test_proposals_that_remember_one_crowd_are_fewer_the_more_there_are(easy):
    """A shared memory is no matter among a thousand proposals, and half of them among a hundred thousand."""
    figures = {"surrogate_local": 1, "surrogate_correlation": 0.1}
    assert failing(with_figures(easy, **figures)) == ["their memory"]
    many = replace(with_figures(easy, **figures), thin=100)
    assert failing(many) == ["their memory", "proposals"]


@pytest.mark.parametrize(("sign", "items"), [(1, ["k̂ of weights", "largest weight"]), (-1, [])])
def test_a_heavy_upper_tail_of_the_final_weights_fails_and_a_lower_one_does_not(easy, sign, items):
    log_weights = sign * 0.9 * np.random.default_rng(1).exponential(size=easy.raw_stats["log_weight"].shape)
    assert failing(replace(easy, raw_stats=easy.raw_stats | {"log_weight": log_weights})) == items


def test_weights_that_are_nearly_the_same_have_no_tail_and_impossible_ones_no_use(easy):
    nearly = 0.09 * np.sqrt(np.abs(np.random.default_rng(0).standard_cauchy(easy.raw_stats["log_weight"].shape)))
    nearly = np.minimum(nearly, 0.4)
    assert nearly.std() < 0.1
    assert failing(replace(easy, raw_stats=easy.raw_stats | {"log_weight": nearly})) == []
    none = with_figures(easy, log_weight=surrogate.LEAST_LOG_WEIGHT)
    assert failing(none) == ["k̂ of weights", "largest weight"]


def test_draws_whose_means_alone_look_good_are_not_certified(easy):
    """Of trajectories that turn by π: z becomes -z, so that means are superefficient, and |z| moves slowly."""
    random = np.random.default_rng(0)
    size, draws = random.standard_normal(easy.kept.shape[1:]), []
    for number in range(len(easy.kept)):
        size = 0.75 * size + np.sqrt(1 - 0.75**2) * random.standard_normal(size.shape)
        draws.append((-1) ** number * size)
    turned = replace(easy, kept=np.array(draws, np.float32))
    for column in ("ess_bulk", "ess_tail"):
        assert turned.summary().columns[column].min() > 400
    assert "effective draws" in failing(turned)


def test_means_over_thinned_iterations_do_not_hide_a_heavy_tail(easy):
    """A thinned run's figures are means over iterations: the blocks' own figures count there."""
    for name, item in (("block_pareto_k", "k̂ of weights"), ("block_largest_share", "largest weight")):
        heavy = easy.raw_stats[name].copy()
        heavy[100:200, 1] = 0.9
        found = replace(easy, thin=3, raw_stats=easy.raw_stats | {name: heavy})
        assert failing(found) == [item]
    assert failing(replace(easy, thin=3)) == []
    own = easy.raw_stats["log_weight"][100:200, 0, 0]  # a block of a chain's
    share = np.exp(own - own.max()).max() / np.exp(own - own.max()).sum()
    np.testing.assert_allclose(easy.raw_stats["block_largest_share"][150, 0, 0], share, rtol=1e-5)


def test_after_a_warm_up_a_chain_is_not_where_it_was_put():
    """It starts at a trial proposal, however unlikely the point is that it was given."""
    target = linear_regression(6)
    run = simulation(target, RING, FEW(correction="scored"), np.full(3, 50.0), chains=200, num_warmup=1)
    first = run.advance(2, 1).positions[1, :, 0]
    scaled = (first - target.mean) / np.sqrt(np.diag(target.covariance))
    assert np.abs(scaled).max() < 6
    assert np.abs(scaled.mean(axis=0)).max() < 5 / np.sqrt(200)


def test_a_normal_prior_makes_no_normal_surrogate_in_coordinates_of_the_likelihood_s_own():
    posterior, effect, _ = hierarchy()
    normal = cs.Posterior(
        lambda params: -0.5 * sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(params)), posterior.log_likelihood
    )
    layout = Layout.of(posterior.init)
    assert has_normal_prior(normal, layout, layout.dtype)
    assert not has_normal_prior(replace(normal, coordinates=effect), layout, layout.dtype)


# --- where it runs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("correction", ["scored", "split"])
def test_copies_of_agents_stay_alike_and_are_the_one_chain(correction):
    target = linear_regression(5)
    runs = [
        simulation(target, cs.Network.ring(5), FEW(correction=correction), target.mean, 2, one_copy=one_copy)
        for one_copy in (True, False)
    ]
    one, many = (run.advance(40, 1).positions for run in runs)
    np.testing.assert_allclose(many, np.broadcast_to(one, many.shape), rtol=2e-4, atol=2e-4)
    assert (many == many[:, :, :1]).all()


@pytest.mark.parametrize("correction", ["scored", "split"])
def test_agents_that_round_differently_end_with_the_root_s_surrogate(correction, monkeypatch):
    """Agents' processors are of different kinds: each finds another surrogate best, and its law a little elsewhere."""
    own_report, own_law = fitting.report_on, fitting.normal_of

    def report(log_weights):
        found = own_report(log_weights)
        return found._replace(evenness=found.evenness + 0.2 * lax.axis_index(AGENTS))

    def law(*arguments):
        found = own_law(*arguments)
        return found._replace(mean=found.mean + 1e-3 * lax.axis_index(AGENTS))

    monkeypatch.setattr(fitting, "report_on", report)
    monkeypatch.setattr(fitting, "normal_of", law)
    target = linear_regression(5)
    run = simulation(target, cs.Network.ring(5), FEW(correction=correction), target.mean, 2, one_copy=False)
    positions = run.advance(40, 1).positions
    assert (positions == positions[:, :, :1]).all()
    assert len(np.unique(positions[:, 0, 0])) > 10


def test_goes_on_where_it_stopped_to_the_same_bits(tmp_path):
    target = linear_regression(6)
    options = {"init": np.zeros(3, np.float32), "num_chains": 2, "num_warmup": 5, "progress": False}
    arguments = (target.posterior, target.shards, RING, FEW())
    cs.sample(*arguments, num_samples=130, out=tmp_path / "run", **options)
    resumed = cs.sample(*arguments, num_samples=250, out=tmp_path / "run", resume=True, **options)
    whole = cs.sample(*arguments, num_samples=250, **options)
    np.testing.assert_array_equal(resumed.draws, whole.draws)
    assert cs.load(tmp_path / "run").summary().certificate == whole.summary().certificate


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"num_proposals": 10}, "surrogate: num_proposals.*100"),
        ({"correction": "both"}, "surrogate: correction.*not one of 'auto', 'scored', 'split'"),
        ({"target_acceptance": 2.0}, "surrogate: target_acceptance"),
    ],
)
def test_refuses_settings_that_are_none(wrong, text):
    with pytest.raises(ValueError, match=text):
        cs.surrogate(**wrong)


def test_of_a_handful_of_draws_no_tail_is_known_and_the_certificate_says_so(easy):
    stats = {name: values[:5] for name, values in easy.raw_stats.items()}
    stats["log_weight"] = np.linspace(-3.0, 0.0, 10, dtype=np.float32).reshape(5, 2, 1)
    few = replace(easy, kept=easy.kept[:5], raw_stats=stats)
    found = few.summary().certificate
    assert not found.holds
    assert "inf, upper tail of" in str([check.found for check in found.checks])


@pytest.mark.parametrize("by", [0.0, 1.0])
def test_an_agent_that_reads_other_scores_is_found_out_with_the_block(monkeypatch, by):
    total, scores = LaneNeighbors.total, (101,)  # of a block, and of where the chain is

    def perturbed(self, x, at=None):
        found = total(self, x, at)
        if getattr(x, "shape", ()) == scores:
            found = found + jnp.where(lax.axis_index(AGENTS) == 1, by * jnp.sin(37.0 * jnp.arange(len(x))), 0)
        return found

    monkeypatch.setattr(LaneNeighbors, "total", perturbed)
    target, sampler = linear_regression(5), cs.surrogate(100, correction="scored")
    run = simulation(target, cs.Network.ring(5), sampler, target.mean, 1, one_copy=False)
    out_of_step = run.advance(5, 1).stats["out_of_step"]
    assert [each.any() for each in out_of_step] == [bool(by), False, False, False, False]


def test_models_for_whose_hessians_it_has_no_room_are_refused_with_what_takes_them():
    with pytest.raises(Refused, match="2,001 parameters.*" + re.escape('Take cs.nuts(start="surrogate")')):
        cs.surrogate().resolve(RING, MOST_DENSE + 1)
