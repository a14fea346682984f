"""NumPyro models: the density is NumPyro's, no data is in what is compiled, and what cannot work says so."""

import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax.experimental import checkify
from numpyro.contrib.control_flow import scan
from numpyro.distributions.util import vec_to_tril_matrix
from numpyro.handlers import mask, reparam, scale
from numpyro.infer.reparam import LocScaleReparam
from numpyro.infer.util import log_likelihood, potential_energy

import consilience as cs
from consilience._refused import Refused
from consilience.model import Shard

ROWS = 12
RANDOM = np.random.default_rng(0)
DATA = {
    "x": RANDOM.standard_normal((ROWS, 3)).astype(np.float32),
    "y": RANDOM.standard_normal(ROWS).astype(np.float32),
    "label": (np.arange(ROWS, dtype=np.int32) * 7) % 3,
    "group": np.arange(ROWS, dtype=np.int32) % 4,
    "pair": RANDOM.standard_normal((ROWS, 2)).astype(np.float32),
    "seen": np.arange(ROWS) % 3 > 0,
    "sd": np.linspace(0.5, 2, ROWS, dtype=np.float32),
}
SHARDS = cs.shard(DATA, 3, by=[range(2), range(2, 5), range(5, ROWS)])


def rows(batch):
    return numpyro.plate("data", len(batch["y"]))


def hierarchical(batch):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    tau = numpyro.sample("tau", dist.HalfCauchy(1.0))
    with numpyro.plate("groups", 4):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
    numpyro.deterministic("largest", theta.max())
    numpyro.deterministic("fit", theta[batch["group"]])
    with rows(batch):
        numpyro.sample("y", dist.Normal(theta[batch["group"]], 1.0), obs=batch["y"])


def several_observed(batch):
    """Scalars, vectors and counts observed; the rows of one lie along its second axis."""
    w = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))
    tilt = numpyro.sample("tilt", dist.Uniform(-1, 1))
    with rows(batch):
        numpyro.sample("y", dist.Normal(batch["x"] @ w, 1.0), obs=batch["y"])
        numpyro.sample("pair", dist.MultivariateNormal(jnp.ones(2) * tilt, jnp.eye(2)), obs=batch["pair"])
        logits = jnp.stack([batch["x"] @ w, jnp.zeros(len(batch["y"])), jnp.ones(len(batch["y"]))], axis=1)
        numpyro.sample("label", dist.Categorical(logits=logits), obs=batch["label"])
        with numpyro.plate("features", 3):
            numpyro.sample("x", dist.Normal(w[:, None], 1.0), obs=batch["x"].T)


def constrained(batch):
    """Supports of every kind, one that depends on another site, and an improper one."""
    low = numpyro.sample("low", dist.Normal(0, 1))
    high = numpyro.sample("high", dist.Uniform(low, low + 2))
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(3)))
    ordered = numpyro.sample("ordered", dist.ImproperUniform(dist.constraints.ordered_vector, (), (3,)))
    corr = numpyro.sample("corr", dist.LKJCholesky(2, 1.5))
    numpyro.factor("keeps the ordered proper", -0.5 * jnp.sum(ordered**2))
    with rows(batch):
        numpyro.sample("y", dist.Normal(high + weights @ ordered, 1.0), obs=batch["y"])
        numpyro.sample("pair", dist.MultivariateNormal(0.0, scale_tril=corr), obs=batch["pair"])


def handled(batch):
    """Masks and scales from the batch, and a factor per row."""
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with rows(batch), mask(mask=batch["seen"]), scale(scale=2.0):
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=batch["y"])
        numpyro.factor("penalty", -0.1 * (batch["y"] - mu) ** 2)
    numpyro.factor("per feature", -0.1 * (batch["x"] - mu) ** 2)


def walk(batch):
    """A random walk over the groups, by numpyro's scan."""

    def step(level, _):
        level = numpyro.sample("level", dist.Normal(level, 0.5))
        return level, level

    _, levels = scan(step, 0.0, jnp.arange(4))
    with rows(batch):
        numpyro.sample("y", dist.Normal(levels[batch["group"]], 1.0), obs=batch["y"])


def without_plates(batch):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    sigma = numpyro.sample("sigma", dist.LogNormal(0, 1))
    numpyro.sample("y", dist.Normal(mu, sigma), obs=batch["y"])


def known_noise(batch):
    """Eight schools: a dummy row has a standard deviation of zero."""
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with rows(batch):
        numpyro.sample("y", dist.Normal(mu, batch["sd"]), obs=batch["y"])


def correlated(batch):
    """A correlation matrix, whose transform fills a triangle."""
    corr = numpyro.sample("corr", dist.LKJ(3, 2.0))
    with rows(batch):
        numpyro.sample("x", dist.MultivariateNormal(jnp.zeros(3), corr), obs=batch["x"])


def triangular(batch):
    """Triangles that the model fills itself, and a latent one."""
    low = numpyro.sample("low", dist.Normal(0, 1).expand([3]).to_event(1))
    scale_tril = numpyro.sample("tril", dist.ImproperUniform(dist.constraints.lower_cholesky, (), (2, 2)))
    numpyro.factor("keeps it proper", -0.5 * jnp.sum(scale_tril**2))
    theta = vec_to_tril_matrix(low, diagonal=-1)[2]
    with rows(batch):
        numpyro.sample("y", dist.Normal(theta[batch["label"]], 1.0), obs=batch["y"])
        numpyro.sample("pair", dist.MultivariateNormal(0.0, scale_tril=scale_tril), obs=batch["pair"])


decentered = reparam(hierarchical, config={"theta": LocScaleReparam(0)})
MODELS = {
    "hierarchical": hierarchical,
    "several observed": several_observed,
    "constrained": constrained,
    "handled": handled,
    "walk": walk,
    "without plates": without_plates,
    "known noise": known_noise,
    "decentered": decentered,
    "correlated": correlated,
    "triangular": triangular,
}
POSTERIORS = {name: cs.Posterior.from_numpyro(model) for name, model in MODELS.items()}


def start(posterior, seed):
    return jax.jit(posterior.init)(jax.random.key(seed))


@pytest.mark.parametrize("name", MODELS)
def test_the_density_and_its_gradient_are_numpyro_s(name):
    posterior = POSTERIORS[name].bind(SHARDS[0])

    def ours(params):
        return posterior.log_prior(params) + posterior.log_likelihood(params, DATA).sum()

    def numpyros(params):
        return -potential_energy(MODELS[name], (DATA,), {}, params)

    params = start(posterior, 1)
    (value, slope), (expected, expected_slope) = (jax.jit(jax.value_and_grad(f))(params) for f in (ours, numpyros))
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), slope, expected_slope)


def test_there_is_one_number_for_every_row_and_it_is_that_row_s():
    posterior = POSTERIORS["several observed"].bind(SHARDS[0])
    params = start(posterior, 1)
    latents = {name: leaf[None] for name, leaf in posterior.constrain(params).items()}
    of_sites = log_likelihood(several_observed, latents, DATA, batch_ndims=1)
    expected = of_sites["y"][0] + of_sites["pair"][0] + of_sites["label"][0] + of_sites["x"][0].sum(axis=0)
    np.testing.assert_allclose(jax.jit(posterior.log_likelihood)(params, DATA), expected, rtol=1e-5)


def test_draws_show_constrained_sites_and_what_follows_from_them_alone():
    posterior = POSTERIORS["hierarchical"].bind(SHARDS[0])
    shown = posterior.constrain(start(posterior, 0))
    assert {name: leaf.shape for name, leaf in shown.items()} == {"mu": (), "tau": (), "theta": (4,), "largest": ()}
    assert shown["tau"] > 0
    assert posterior.dims == {"theta": ("groups",)}
    assert POSTERIORS["decentered"].bind(SHARDS[0]).dims == {"theta_decentered": ("groups",), "theta": ("groups",)}
    constrained = POSTERIORS["constrained"].bind(SHARDS[0])
    shown = constrained.constrain(start(constrained, 0))
    assert shown["low"] < shown["high"] < shown["low"] + 2
    assert np.diff(shown["ordered"]).min() > 0
    np.testing.assert_allclose(shown["weights"].sum(), 1, rtol=1e-6)


def test_no_data_is_in_what_is_compiled():
    """Every agent reads the same program off its own data."""
    programs, batch = [], Shard(jax.tree.map(jnp.asarray, DATA), None)
    for shard in SHARDS:
        posterior = cs.Posterior.from_numpyro(hierarchical).bind(shard)
        params = start(posterior, 0)
        programs.append(str(jax.make_jaxpr(posterior.local_logdensity, static_argnums=2)(params, batch, 3)))
    assert programs[0] == programs[1] == programs[2]


def test_bound_twice_to_data_of_one_form_it_is_one_posterior():
    posterior = POSTERIORS["hierarchical"]
    assert posterior.bind(SHARDS[0]) is posterior.bind(SHARDS[2])
    with jax.enable_x64(True):
        wide = posterior.bind(jax.tree.map(lambda leaf: leaf.astype(float) if leaf.dtype.kind == "f" else leaf, DATA))
        assert start(wide, 0)["theta"].dtype == np.float64
    assert wide is not posterior.bind(SHARDS[0])


def test_new_observations_are_drawn_for_rows_without_any():
    posterior = POSTERIORS["several observed"].bind(SHARDS[0])
    params = start(posterior, 1)
    keys = jax.random.split(jax.random.key(0), 4000)
    draws = jax.jit(jax.vmap(lambda key: posterior.predictive(key, params, {"x": DATA["x"]})))(keys)
    assert {name: leaf.shape[1:] for name, leaf in draws.items()} == {
        "y": (ROWS,),
        "pair": (ROWS, 2),
        "label": (ROWS,),
        "x": (ROWS, 3),
    }
    shown = posterior.constrain(params)
    np.testing.assert_allclose(draws["y"].mean(axis=0), DATA["x"] @ shown["w"], atol=6 / np.sqrt(4000))
    np.testing.assert_allclose(draws["pair"].mean(axis=0), np.full((ROWS, 2), shown["tilt"]), atol=6 / np.sqrt(4000))
    np.testing.assert_allclose(draws["x"].mean(axis=0), np.tile(shown["w"], (ROWS, 1)), atol=6 / np.sqrt(4000))
    full = posterior.predictive(jax.random.key(3), params, DATA)
    assert np.array_equal(full["y"], posterior.predictive(jax.random.key(3), params, {"x": DATA["x"]})["y"])
    with pytest.raises(ValueError, match=r"data to predict for: .* predicts from 'x', which they do not have"):
        posterior.predictive(jax.random.key(0), params, {"y": DATA["y"]})


def test_rows_without_the_agent_s_number_are_refused_where_a_model_predicts_from_it():
    def model(batch):
        with numpyro.plate("sites", 2):
            offset = numpyro.sample("offset", dist.Normal(0, 1))
        with numpyro.plate("rows", len(batch["y"])):
            numpyro.sample("y", dist.Normal(offset[batch["agent"]], 1), obs=batch["y"])

    unbound, rows = cs.Posterior.from_numpyro(model), {"y": np.zeros(4)}
    for subject, call in {
        "data to predict for": lambda posterior: posterior.predictive(jax.random.key(0), start(posterior, 0), rows),
        "batch": lambda _: unbound.prior_predictive(rows),
    }.items():
        with pytest.raises(
            Refused, match=rf'{subject}: .*agent.*Say whose each row is.*Write {{\*\*rows, "agent": np.full\('
        ):
            call(unbound.bind({**rows, "agent": np.zeros(4, int)}))


def test_without_a_plate_new_observations_have_the_rows_of_the_observed():
    posterior = POSTERIORS["without plates"].bind(SHARDS[0])
    drawn = posterior.predictive(jax.random.key(0), start(posterior, 0), DATA)["y"]
    assert drawn.shape == (ROWS,)
    assert len(np.unique(drawn)) == ROWS


def test_data_may_be_a_tuple_and_starts_constrained():
    def model(batch):
        x, y = batch
        w = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))
        sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
        with numpyro.plate("data", len(y)):
            numpyro.sample("y", dist.Normal(x @ w, sigma), obs=y)

    data = (DATA["x"], DATA["y"])
    task = cs.Regression(lambda draw, x: x @ draw["w"], lambda draw: draw["sigma"])
    posterior = cs.Posterior.from_numpyro(model, init={"sigma": 0.5}, task=task).bind(data)
    one, other = (posterior.constrain(start(posterior, k)) for k in range(2))
    np.testing.assert_allclose([one["sigma"], other["sigma"]], 0.5, rtol=1e-6)
    assert not np.array_equal(one["w"], other["w"])
    params = start(posterior, 0)
    posterior.check_data("agent 0", params, data)
    assert posterior.task is task
    assert posterior.predictive(jax.random.key(0), params, data)["y"].shape == (ROWS,)


def bad(statement):
    """A model of mu and y with another statement between them."""

    def model(batch):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        extra = statement(batch, mu)
        mu = mu if extra is None else mu + extra
        with rows(batch):
            numpyro.sample("y", dist.Normal(mu, 1.0), obs=batch["y"])

    return model


def per_row(batch, _):
    with rows(batch):
        numpyro.sample("effect", dist.Normal(0, 1))


def some_unobserved(batch, mu):
    with rows(batch):
        numpyro.sample("dose", dist.Normal(mu, 1), obs=batch["y"], obs_mask=batch["y"] > 0)


def own_groups(batch, _):
    with numpyro.plate("groups", int(batch["group"].max()) + 1):
        return numpyro.sample("theta", dist.Normal(0, 1))[batch["group"]]


def own_groups_by_numpy(batch, _):
    with numpyro.plate("groups", len(np.unique(batch["group"]))):
        return numpyro.sample("theta", dist.Normal(0, 1))[batch["group"]]


def subsampled(batch, _):
    with numpyro.plate("others", 4, subsample_size=2):
        numpyro.sample("theta", dist.Normal(0, 1))


def scaled(batch, _):
    with scale(scale=0.5):
        numpyro.sample("theta", dist.Normal(0, 1))


def empirical_prior(batch, _):
    numpyro.sample("theta", dist.Normal(batch["y"].mean(), 1))


def prior_by_rows(batch, _):
    numpyro.sample("theta", dist.Normal(0, 1 / len(batch["y"])))


def two_columns(batch, mu):
    numpyro.sample("again", dist.Normal(mu, 1.0), obs=batch["y"][:, None] - batch["y"])


def only_latent(batch):
    numpyro.sample("mu", dist.Normal(0, 1))


def only_observed(batch):
    numpyro.sample("y", dist.Normal(0, 1), obs=batch["y"])


def one_site_a_row(batch):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    for row in range(len(batch["y"])):
        numpyro.sample(f"y{row}", dist.Normal(mu, 1.0), obs=batch["y"][row])


REFUSED = {
    "a latent per row": (bad(per_row), r"'effect': it has values for each row, shape \(2,\) for 2.*numpyro\.plate\("),
    "an obs_mask": (bad(some_unobserved), r"the obs_mask of 'dose': .*handlers\.mask\(mask=batch\[\.\.\.\]\)"),
    "an agent's own groups": (bad(own_groups), r"looks at values in Python.*plate\(\"groups\", 12\)"),
    "groups by numpy": (bad(own_groups_by_numpy), r"looks at values.*theta\[batch\[\"group\"\]\]"),
    "discrete": (
        bad(lambda b, m: numpyro.sample("component", dist.Bernoulli(0.5)) * 1.0),
        r"'component': a discrete latent variable.*MixtureSameFamily",
    ),
    "subsample": (bad(subsampled), r"'others': the plate takes a subsample.*Leave subsample_size out"),
    "param": (bad(lambda b, m: numpyro.param("c", 1.0)), r"'c': a numpyro\.param.*numpyro\.sample\('c', prior\)"),
    "scaled": (bad(scaled), r"'theta': its prior is scaled.*numpyro\.factor"),
    "empirical prior": (bad(empirical_prior), r"the prior of 'theta': it depends on the batch"),
    "prior by rows": (bad(prior_by_rows), r"the prior of 'theta': it depends on the batch"),
    "fixed observation": (
        bad(lambda b, m: numpyro.sample("c", dist.Normal(m, 1), obs=0.5)),
        r"'c': it observes nothing of the batch.*numpyro\.factor\(\"c\"",
    ),
    "one number for all rows": (
        bad(lambda b, m: numpyro.factor("all", -jnp.sum((b["y"] - m) ** 2))),
        r"log density of 'all': its shape is \(\) for 2 rows and \(\) for 3; .*independent given the parameters",
    ),
    "rows in the event": (
        bad(lambda b, m: numpyro.sample("gp", dist.Normal(m, 1).expand(b["y"].shape).to_event(1), obs=b["y"])),
        r"log density of 'gp': its shape is \(\)",
    ),
    "rows by rows": (bad(two_columns), r"'again': it is a table of rows by rows, shape \(2, 2\)"),
    "standardised in the model": (
        bad(lambda b, m: m * (b["y"] - b["y"].mean())),
        r"depends on the other rows of its batch.*before they are dealt out",
    ),
    "nothing observed": (only_latent, r"observes nothing\. Write .*obs=batch\[\"y\"\]"),
    "nothing latent": (only_observed, r"no latent variables"),
    "one site a row": (one_site_a_row, r"'y2' is there for one batch and not for another.*Write one site"),
}


@pytest.mark.parametrize(("model", "message"), REFUSED.values(), ids=REFUSED)
def test_a_model_that_agents_cannot_share_is_refused(model, message):
    with pytest.raises(ValueError, match=message):
        cs.Posterior.from_numpyro(model).bind(SHARDS[0])


def test_a_plate_of_fixed_size_over_the_rows_is_told_from_the_error():
    def model(batch):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        with numpyro.plate("data", 12):
            numpyro.sample("y", dist.Normal(mu, 1.0), obs=batch["y"])

    with pytest.raises((ValueError, TypeError)) as refused:
        cs.Posterior.from_numpyro(model).bind(SHARDS[0])
    assert 'takes its size from the batch: numpyro.plate("data", len(batch["y"]))' in "".join(refused.value.__notes__)


def changed(agent, name, row, value):
    shards = [{key: leaf.copy() for key, leaf in shard.items()} for shard in SHARDS]
    shards[agent][name][row] = value
    return shards[agent]


BAD_ROWS = {
    "label": ("several observed", "label", 3, r"clinic-b: 'label' is 3 in row 4, which its distribution cannot give"),
    "infinite": ("several observed", "y", np.inf, r"clinic-b: 'y' is inf in row 4"),
    "group": ("hierarchical", "group", 4, r"clinic-b: row 4 leads .* not there, out-of-bounds .* index 4.* the plate"),
}


@pytest.mark.parametrize(("name", "column", "value", "message"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_an_agent_s_impossible_rows_are_refused(name, column, value, message):
    posterior = POSTERIORS[name].bind(SHARDS[0])
    params = start(posterior, 0)
    for agent, shard in enumerate(SHARDS):
        posterior.check_data(f"agent {agent}", params, shard)
    with pytest.raises(ValueError, match=message):
        posterior.check_data("clinic-b", params, changed(2, column, 4, value))


COUPLED = {
    "centred": lambda b, m: m * (b["x"][:, 0] - b["x"][:, 0].mean()),
    "scaled": lambda b, m: m * b["y"] / b["y"].std(),
    "lagged and masked": lambda b, m: m * jnp.where(b["seen"], b["y"] - jnp.roll(b["y"], 1), 0),
    "group sizes": lambda b, m: m * jnp.bincount(b["group"], length=4)[b["group"]],
    "share": lambda b, m: m * b["seen"].mean(),
    "number of rows": lambda b, m: m * len(b["y"]),
}


@pytest.mark.parametrize("coupling", COUPLED.values(), ids=COUPLED)
def test_rows_that_are_not_apart_are_seen_in_one_row_as_in_many_and_each_time(coupling):
    posterior = cs.Posterior.from_numpyro(bad(coupling), init={"mu": 0.0})
    for batch in (jax.tree.map(lambda leaf: leaf[:1], DATA), DATA):
        with pytest.raises(ValueError, match="depends on the other rows of its batch"):
            posterior.bind(batch)


@pytest.mark.parametrize("name", ["constrained", "correlated", "triangular"])
def test_triangles_are_no_fault_of_a_row(name):
    posterior = POSTERIORS[name].bind(SHARDS[0])
    posterior.check_data("agent 2", start(posterior, 0), SHARDS[2])


@pytest.mark.parametrize("says", ["außerhalb des Feldes", ""])
def test_indices_are_checked_whatever_the_checker_s_words_are(says, monkeypatch):
    posterior = POSTERIORS["hierarchical"].bind(SHARDS[0])
    params = start(posterior, 0)
    monkeypatch.setattr(checkify.Error, "get", lambda error: says)
    posterior.check_data("clinic-b", params, SHARDS[2])
    with pytest.raises(Refused, match=rf"clinic-b: row 4 leads the model to an element that is not there, {says}"):
        posterior.check_data("clinic-b", params, changed(2, "group", 4, 4))


def test_a_row_s_own_index_is_told_from_one_that_a_dummy_row_leads_to():
    def shifted(batch):
        theta = numpyro.sample("theta", dist.Normal(0, 1).expand([4]).to_event(1))
        with rows(batch):
            numpyro.sample("y", dist.Normal(theta[batch["group"] - 10], 1.0), obs=batch["y"])

    posterior = cs.Posterior.from_numpyro(shifted).bind(SHARDS[0])
    shard = {**SHARDS[0], "group": np.array([10, 13], np.int32)}
    posterior.check_data("agent 0", start(posterior, 0), shard)
    with pytest.raises(ValueError, match=r"row 1 leads .* index 4 .*jnp\.clip\(index, 0, len\(theta\) - 1\)"):
        posterior.check_data("agent 0", start(posterior, 0), {**shard, "group": np.array([10, 14], np.int32)})


def test_a_correlation_matrix_is_sampled():
    sampled = cs.sample(
        POSTERIORS["correlated"],
        SHARDS,
        cs.Network.ring(3),
        cs.mala(step_size=0.01),
        num_samples=5,
        num_warmup=0,
        num_chains=1,
        progress=False,
    )
    corr = sampled.draws["corr"]
    assert corr.shape == (3, 1, 5, 3, 3)
    np.testing.assert_allclose(np.diagonal(corr, axis1=-2, axis2=-1), 1, rtol=1e-5)


def test_what_is_masked_may_be_anything():
    posterior = POSTERIORS["handled"].bind(SHARDS[0])
    assert not SHARDS[2]["seen"][1]
    posterior.check_data("agent 2", start(posterior, 0), changed(2, "y", 1, np.inf))


@pytest.mark.parametrize(
    ("init", "message"),
    [
        ({"sd": 1.0}, r"init: there is no latent site 'sd'; there are mu, tau, theta"),
        ({"theta": 1.0}, r"init: 'theta' has shape \(\), and in the model \(4,\)"),
        ({"tau": -1.0}, r"init: 'tau' is outside of its prior's support"),
    ],
)
def test_bad_starts_are_refused(init, message):
    with pytest.raises(ValueError, match=message):
        cs.Posterior.from_numpyro(hierarchical, init=init).bind(SHARDS[0])


def test_columns_as_arguments_are_told_from_the_error():
    def of_columns(x, y=None, width=1.0):
        w = numpyro.sample("w", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(w * x[:, 0], width), obs=y)

    def of_a_dict(likelihood):
        def model(x, y=None):
            w = numpyro.sample("w", dist.Normal(0, 1))
            numpyro.sample("y", likelihood(w, x["x"][:, 0]), obs=y)

        return model

    hint = 'For model(x, y) write cs.Posterior.from_numpyro(lambda batch: model(batch["x"], batch["y"])).'
    of_python = TypeError if sys.version_info < (3, 12) else KeyError  # whether a slice, as a key, has a hash
    renamed = {"inputs": SHARDS[0]["x"], "y": SHARDS[0]["y"]}
    with pytest.raises(of_python) as failed:
        cs.Posterior.from_numpyro(of_columns).bind(renamed)
    assert hint in "".join(failed.value.__notes__)
    for likelihood in (
        lambda w, x: dist.Normal(w * x, 1.0),
        lambda w, x: dist.Normal(w, 1.0),
        lambda w, x: dist.Bernoulli(logits=w * x),
    ):
        with pytest.raises(ValueError, match=re.escape(hint)):
            cs.Posterior.from_numpyro(of_a_dict(likelihood)).bind(SHARDS[0])
    cs.Posterior.from_numpyro(lambda batch: of_columns(batch["x"], batch["y"])).bind(SHARDS[0])


def test_without_numpyro_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpyro", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'consilience\[numpyro\]'"):
        cs.Posterior.from_numpyro(hierarchical)


def test_what_is_no_model_of_a_batch_is_refused():
    with pytest.raises(Refused, match=r"from_numpyro\(lambda batch: model\(batch\[\"x\"\], batch\[\"y\"\]\)\)"):
        cs.Posterior.from_numpyro(lambda x, y: None)
    with pytest.raises(Refused, match="the model: it is a str"):
        cs.Posterior.from_numpyro("model")
    with pytest.raises(Refused, match=r"Write posterior\.bind\(batch\)"):
        POSTERIORS["walk"].log_prior({})


def test_draws_over_a_ring_are_named_and_constrained():
    run = cs.sample(
        POSTERIORS["hierarchical"],
        SHARDS,
        cs.Network.ring(3),
        cs.mala(),
        num_warmup=20,
        num_samples=10,
        num_chains=2,
        progress=False,
    )
    assert {name: leaf.shape for name, leaf in run.draws.items()} == {
        "mu": (3, 2, 10),
        "tau": (3, 2, 10),
        "theta": (3, 2, 10, 4),
        "largest": (3, 2, 10),
    }
    assert run.draws["tau"].min() > 0
    np.testing.assert_array_equal(run.draws["largest"], run.draws["theta"].max(axis=-1))
    assert run.to_arviz()["posterior"]["theta"].dims == ("chain", "draw", "groups")


def test_an_impossible_row_is_refused_before_the_first_draw(monkeypatch):
    monkeypatch.setattr("consilience.engine.Chains.advance", None)  # never reached
    shards = [SHARDS[0], changed(1, "group", 2, 7), SHARDS[2]]
    with pytest.raises(ValueError, match=r"agent 1: row 2 leads the model to an element that is not there"):
        cs.sample(
            POSTERIORS["hierarchical"],
            shards,
            cs.Network.ring(3),
            cs.nuts(),
            num_samples=1,
            num_chains=1,
            num_warmup=1,
            progress=False,
        )


def test_the_way_back_from_draws_to_parameters():
    for name in ("constrained", "decentered", "walk"):
        posterior = POSTERIORS[name].bind(SHARDS[0])
        params = start(posterior, 2)
        back = jax.jit(lambda p, posterior=posterior: posterior.unconstrain(posterior.constrain(p)))(params)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3), back, params)
