"""What `cs.sample` refuses before the first draw, and says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import consilience as cs

from ..targets import REGRESSION, linear_regression

RING = cs.Network.ring(4)
TARGET = linear_regression(4)
GOOD = {
    "posterior": REGRESSION,
    "shards": TARGET.shards,
    "network": RING,
    "sampler": cs.published(0.05),
    "init": np.zeros(3, np.float32),
    "num_samples": 5,
    "num_warmup": 0,
    "num_chains": 1,
    "progress": False,
}


def poisoned(agent, value):
    shards = [dict(s) for s in TARGET.shards]
    shards[agent]["y"] = np.where(np.arange(len(shards[agent]["y"])) == 2, value, shards[agent]["y"])
    return shards


def prior(w):
    return -0.5 * jnp.vdot(w, w)


REFUSED = {
    "infinite likelihood": ({"shards": poisoned(2, np.float32(np.inf))}, r"agent 2: the log-likelihood is -inf at"),
    "NaN data": ({"shards": poisoned(3, np.float32(np.nan))}, r"agent 3: y has NaN in 1 of 15 rows, .* row 2"),
    "start off the prior": (
        {
            "posterior": cs.Posterior(lambda w: jnp.log(w[0]), REGRESSION.log_likelihood),
            "init": -np.ones(3, np.float32),
        },
        r"log_prior: it is nan at the start of chain 0\. Choose an init inside",
    ),
    "kink at the start": (
        {"posterior": cs.Posterior(prior, lambda w, b: b["y"] * 0 + jnp.sqrt(jnp.abs(w[0])))},
        r"agent 0: the gradient of the log density is inf",
    ),
    "summed likelihood": (
        {"posterior": cs.Posterior(prior, lambda w, b: REGRESSION.log_likelihood(w, b).sum())},
        r"one number per example, shape \(15,\).*float32 of shape \(\)\. Leave out the sum",
    ),
    "matrix likelihood": (
        {"posterior": cs.Posterior(prior, lambda w, b: b["x"] * w)},
        r"float32 of shape \(15, 3\)\. Sum over other axes",
    ),
    "whole-number likelihood": (
        {"posterior": cs.Posterior(prior, lambda w, b: jnp.zeros(15, int))},
        r"must return real numbers",
    ),
    "prior of nothing": ({"posterior": cs.Posterior(lambda w: None, REGRESSION.log_likelihood)}, r"A flat prior is"),
    "seed": ({"seed": 2**32}, r"seed = 4294967296: a whole number from 0 to 4294967295"),
    "no seed": ({"seed": None}, r"seed = None"),
    "vector prior": ({"posterior": cs.Posterior(lambda w: -(w**2), REGRESSION.log_likelihood)}, r"Add \.sum\(\)"),
    "whole-number start": ({"init": np.zeros(3, int)}, r"params has dtype int"),
    "too few shards": ({"shards": TARGET.shards[:3]}, r"3 shards for 4 agents"),
    "samples": ({"num_samples": 0}, r"num_samples = 0: a whole number of at least 1"),
    "warmup": ({"num_warmup": -1}, r"num_warmup = -1"),
    "chains": ({"num_chains": 1.0}, r"num_chains = 1\.0"),
    "thin": ({"thin": True}, r"thin = True"),
    "network": ({"network": RING.graph}, r"network: it is a Graph. .*cs\.Network\.from_networkx"),
    "out": ({"out": 3}, r'out = 3: a folder is needed. Write out="runs/first"'),
    "keep": ({"keep": 3}, "keep = 3: not a list of names, nor a function"),
    "watch": ({"watch": 3, "moments": True}, "watch = 3: a function of the running mean is needed"),
    "sampler": ({"sampler": cs.published}, r"sampler: it is the class Published.*sampler=cs\.published\(\.\.\.\)"),
    "posterior": ({"posterior": prior}, r"posterior: it is a function. .*cs\.Posterior\(log_prior, log_likelihood\)"),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused_before_the_first_draw(change, message, monkeypatch):
    monkeypatch.setattr("consilience.engine.Chains.advance", None)  # never reached
    with pytest.raises((ValueError, TypeError), match=message):
        cs.sample(**{**GOOD, **change})


def test_divergence_is_said_aloud():
    with pytest.warns(UserWarning, match=r"the sampler diverged: agent \d, chain 0 is not finite from draw \d+ on"):
        run = cs.sample(**{**GOOD, "sampler": cs.dula(1e3), "num_samples": 400})
    assert any("diverged" in text for text in run.summary().warnings)


def test_draws_that_stay_finite_while_the_gradient_is_nan_are_reported():
    # The data pull the last coordinate to 1, past the point where this prior has a gradient.
    posterior = cs.Posterior(lambda w: prior(w) + jnp.sqrt(0.5 - w[2]), REGRESSION.log_likelihood)
    with pytest.warns(UserWarning, match="the sampler diverged"):
        run = cs.sample(**{**GOOD, "posterior": posterior, "num_samples": 300})
    assert np.isfinite(run.draws).all()
    assert any("diverged" in text for text in run.summary().warnings)


def test_a_flat_prior_may_be_a_plain_zero():
    flat = cs.Posterior(lambda w: 0, REGRESSION.log_likelihood)
    assert np.isfinite(cs.sample(**{**GOOD, "posterior": flat}).draws).all()


@jax.tree_util.register_pytree_node_class
class CallableParams:
    """Parameters that can be called, as neural networks are."""

    def __init__(self, w):
        self.w = w

    def __call__(self, x):
        return x @ self.w

    def tree_flatten(self):
        return (self.w,), None

    @classmethod
    def tree_unflatten(cls, _, leaves):
        return cls(*leaves)


def test_a_callable_pytree_is_a_start_and_not_a_function_that_makes_one():
    posterior = cs.Posterior(lambda m: -0.5 * jnp.vdot(m.w, m.w), lambda m, b: -0.5 * (b["y"] - m(b["x"])) ** 2)
    run = cs.sample(**{**GOOD, "posterior": posterior, "init": CallableParams(jnp.zeros(3))})
    plain = cs.sample(**GOOD)
    np.testing.assert_allclose(run.draws.w, plain.draws, rtol=1e-5)


@pytest.mark.parametrize("wrap", [lambda w: {"w": w}, lambda w: (w,), lambda w: [w]], ids=["dict", "tuple", "list"])
def test_one_array_in_a_container_is_a_start(wrap):
    def array(params):
        return jax.tree.leaves(params)[0]

    posterior = cs.Posterior(lambda p: prior(array(p)), lambda p, b: REGRESSION.log_likelihood(array(p), b))
    run = cs.sample(**{**GOOD, "posterior": posterior, "init": wrap(np.zeros(3, np.float32))})
    assert array(run.draws).shape == (4, 1, 5, 3)


def test_parameters_may_be_any_pytree():
    def likelihood(params, batch):
        x, y = batch
        return -0.5 * (y - x @ params["w"] - params["bias"][0]) ** 2

    posterior = cs.Posterior(lambda p: -0.5 * (jnp.vdot(p["w"], p["w"]) + p["bias"][0] ** 2), likelihood)
    shards = [(s["x"], s["y"]) for s in TARGET.shards]
    init = {"w": np.zeros(3, np.float32), "bias": (0.0,)}
    run = cs.sample(posterior, shards, RING, cs.published(0.05), init=init, num_samples=6, num_chains=2, progress=False)
    assert run.draws["w"].shape == (4, 2, 6, 3)
    assert run.draws["bias"][0].shape == (4, 2, 6)


def test_the_generator_of_random_numbers_is_the_one_that_is_set_now():
    """Not the one that was set when keys were first made, which jax would go on with."""

    def draws():
        return cs.sample(**GOOD).positions

    before = draws()
    with jax.default_prng_impl("rbg"):
        other = draws()
    assert not np.array_equal(before, other)
    np.testing.assert_array_equal(draws(), before)
