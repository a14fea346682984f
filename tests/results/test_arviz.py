"""What `to_arviz` gives is what ArviZ's own functions expect, of one chain on all agents and of a chain on each."""

from dataclasses import dataclass, replace
from itertools import pairwise

import arviz_base
import arviz_stats
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import xarray
from numpyro.infer.util import log_density

import consilience as cs
from consilience.results.pointwise import log_likelihoods

from .compared import arviz_compare

ROWS, AGENTS = 240, 4
NAMES = ("north", "east", "south", "west")
LENGTH = {"num_warmup": 100, "num_samples": 100, "num_chains": 2, "progress": False}
GROUPS = {
    "posterior",
    "sample_stats",
    "log_likelihood",
    "log_prior",
    "posterior_predictive",
    "observed_data",
    "constant_data",
}
FEW_DRAWS = pytest.mark.filterwarnings("ignore:Estimated shape parameter")


def study(batch):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    with numpyro.plate("rows", len(batch["dose"])):
        numpyro.sample("effect", dist.Normal(batch["x"] @ w + batch["dose"], sigma), obs=batch["effect"])


def unequal_shards(data, *cuts):
    ends = [0, *cuts, len(next(iter(data.values())))]
    return cs.shard(data, len(ends) - 1, by=[range(*both) for both in pairwise(ends)])


def study_data():
    random = np.random.default_rng(3)
    x, dose = random.standard_normal((ROWS, 2)), random.standard_normal(ROWS)
    return {"x": x, "dose": dose, "effect": x @ [1.0, -0.5] + dose + 0.7 * random.standard_normal(ROWS)}


STUDY = unequal_shards(study_data(), 30, 90, 170)
PLAIN = cs.Posterior(
    lambda w: -0.5 * jnp.sum(w**2),
    lambda w, batch: jax.scipy.stats.norm.logpdf(batch["effect"], batch["x"] @ w + batch["dose"], 0.7),
    observed="effect",
)


@pytest.fixture(scope="module")
def one_chain():
    """A chain that all agents hold."""
    return cs.sample(cs.Posterior.from_numpyro(study), STUDY, cs.Network.ring(AGENTS), cs.nuts(), **LENGTH)


@pytest.fixture(scope="module")
def own_chains():
    """A chain of its own on every agent."""
    run = cs.sample(PLAIN, STUDY, cs.Network.ring(AGENTS), cs.published(2e-3), init=np.zeros(2), **LENGTH)
    return replace(run, names=NAMES)


@pytest.fixture(scope="module")
def tree(one_chain):
    return one_chain.to_arviz(log_likelihood=True, posterior_predictive=True)


def likelihood_by_hand(w, sigma):
    [batch] = cs.pool(STUDY)
    mean = w @ batch["x"].T + batch["dose"]
    return -0.5 * ((batch["effect"] - mean) / sigma) ** 2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)


def tree_by_hand(draws, log_likelihood):
    return arviz_base.from_dict({"posterior": draws, "log_likelihood": {"effect": log_likelihood}})


class TestAgents:
    def test_agents_that_hold_one_chain_are_shown_as_that_chain(self, one_chain):
        for agent in (0, 2, "agent 3", "all"):
            tree = one_chain.to_arviz(agent=agent)
            assert tree.posterior.w.dims == ("chain", "draw", "w_dim_0")
            assert {values.dims for values in tree.sample_stats.data_vars.values()} == {("chain", "draw")}
            np.testing.assert_array_equal(tree.posterior.w, one_chain.draws["w"][1])

    def test_of_agents_with_chains_of_their_own_one_is_shown(self, own_chains):
        assert np.ptp(own_chains.draws, axis=0).max() > 0
        for agent, number in ((0, 0), (2, 2), (np.int64(1), 1), ("west", 3)):
            tree = own_chains.to_arviz(agent=agent)
            assert tree.posterior.attrs["agent"] == NAMES[number]
            np.testing.assert_array_equal(tree.posterior.params, own_chains.draws[number])
            for name in ("acceptance_rate", "disagreement"):
                assert tree.sample_stats[name].dims == ("chain", "draw")
                np.testing.assert_array_equal(tree.sample_stats[name], own_chains.stats[name][number])
        xarray.testing.assert_identical(own_chains.to_arviz(), own_chains.to_arviz(agent="north"))

    def test_all_of_them_are_along_an_axis_that_says_what_it_is_not_for(self, own_chains):
        tree = own_chains.to_arviz(agent="all", posterior_predictive=False)
        assert tree.posterior.params.dims == ("agent", "chain", "draw", "params_dim_0")
        np.testing.assert_array_equal(tree.posterior.params.sel(agent="east"), own_chains.draws[1])
        np.testing.assert_array_equal(tree.sample_stats.disagreement, own_chains.stats["disagreement"])
        assert "take one agent's for loo" in tree.posterior.attrs["note"]
        assert arviz_stats.rhat(tree).params.dims == ("agent", "params_dim_0")

    def test_predictions_of_all_agents(self, own_chains):
        posterior = replace(PLAIN, predictive=lambda key, w, batch: {"effect": batch["x"] @ w})
        tree = replace(own_chains, posterior=posterior).to_arviz(agent="all", posterior_predictive=True)
        assert dict(tree.posterior_predictive.effect.sizes) == {"agent": 4, "chain": 2, "draw": 100, "example": ROWS}
        expected = own_chains.draws[2] @ cs.pool(STUDY)[0]["x"].T
        np.testing.assert_allclose(tree.posterior_predictive.effect.sel(agent="south"), expected, atol=1e-5)

    def test_new_observations_have_noise(self, own_chains):
        posterior = cs.Posterior.regressor(lambda w, x: x @ w, noise_sd=2.0, y="effect")
        run = replace(own_chains, posterior=posterior)
        tree = run.to_arviz(posterior_predictive=True, seed=1)
        noise = tree.posterior_predictive.effect - run.draws[0] @ cs.pool(STUDY)[0]["x"].T
        assert float(noise.std()) == pytest.approx(2, abs=0.05)
        again = run.to_arviz(posterior_predictive=True, seed=2)
        assert (again.posterior_predictive.effect != tree.posterior_predictive.effect).mean() > 0.9

    def test_refusals(self, own_chains, one_chain):
        with pytest.raises(ValueError, match=r'log_likelihood=True with agent="all": .*Write agent=0'):
            own_chains.to_arviz(log_likelihood=True, agent="all")
        with pytest.raises(ValueError, match=r"agent = 'nord': .* Write agent='north', or a number from 0 to 3"):
            own_chains.to_arviz(agent="nord")
        for agent in (4, -1, True, 0.0):
            with pytest.raises(ValueError, match=rf"agent = {agent!r}: a whole number from 0 to 3 is needed"):
                one_chain.to_arviz(agent=agent)
        with pytest.raises(ValueError, match=r"loaded without its data. Write cs\.load\(path, posterior="):
            replace(one_chain, shards=None).to_arviz(log_likelihood=True)
        with pytest.raises(ValueError, match="cannot draw observations"):
            own_chains.to_arviz(posterior_predictive=True)


@FEW_DRAWS
class TestEvidence:
    def test_240_rows_of_four_agents_are_240_observations(self, one_chain, tree):
        w, sigma = (np.asarray(one_chain.draws[name][0], float) for name in ("w", "sigma"))
        expected = likelihood_by_hand(w, sigma[..., None])
        np.testing.assert_allclose(tree.log_likelihood.effect, expected, rtol=1e-4, atol=1e-4)
        self.assert_same_evidence(tree, tree_by_hand({"w": w, "sigma": sigma}, expected))

    @pytest.mark.parametrize("agent", [0, "west"])
    def test_all_rows_are_evaluated_on_the_draws_of_the_agent_that_is_shown(self, own_chains, agent):
        w = np.asarray(own_chains.draws[0 if agent == 0 else 3], float)
        found = own_chains.to_arviz(log_likelihood=True, agent=agent)
        expected = likelihood_by_hand(w, 0.7)
        np.testing.assert_allclose(found.log_likelihood.effect, expected, rtol=1e-4, atol=1e-4)
        self.assert_same_evidence(found, tree_by_hand({"params": w}, expected))

    @staticmethod
    def assert_same_evidence(tree, by_hand):
        found, expected = arviz_stats.loo(tree, pointwise=True), arviz_stats.loo(by_hand, pointwise=True)
        assert (found.n_data_points, found.n_samples) == (ROWS, 200)
        assert found.elpd == pytest.approx(expected.elpd, rel=1e-5)
        assert found.se == pytest.approx(expected.se, rel=1e-4)
        assert found.p == pytest.approx(expected.p, rel=1e-2)

    def test_rows_are_the_agents_own_one_agent_after_the_other(self, own_chains, tree):
        np.testing.assert_array_equal(tree.log_likelihood.example, np.arange(ROWS))
        counts = [30, 60, 80, 70]
        owner = own_chains.to_arviz(log_likelihood=True).log_likelihood.owner
        np.testing.assert_array_equal(owner, np.repeat(NAMES, counts))
        np.testing.assert_array_equal(tree.observed_data.owner, np.repeat([f"agent {k}" for k in range(4)], counts))

    def test_an_agent_s_own_rows_have_the_same_log_likelihoods(self, own_chains):
        found = log_likelihoods(own_chains, STUDY[2], agent="south")
        assert set(found) == {"effect"}
        pooled = own_chains.to_arviz(log_likelihood=True, agent=2).log_likelihood.effect
        np.testing.assert_allclose(found["effect"], pooled.sel(example=pooled.owner == "south"), rtol=1e-5)

    @pytest.mark.filterwarnings("ignore:The inplace keyword")  # of pandas, as ArviZ calls it
    def test_models_are_compared(self, one_chain, tree):
        def without_x(batch):
            w = numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1))
            sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
            numpyro.sample("effect", dist.Normal(batch["dose"] + 0 * w[0], 1 + sigma), obs=batch["effect"])

        other = replace(one_chain, posterior=cs.Posterior.from_numpyro(without_x).bind(STUDY[0]))
        trees = {"without": other.to_arviz(log_likelihood=True), "with": tree}
        table = arviz_compare(trees)
        assert list(table.index) == ["with", "without"]
        for name, compared in trees.items():
            assert table.elpd[name] == pytest.approx(arviz_stats.loo(compared).elpd, abs=0.1)

    def test_loo_pit_is_uniform_where_the_model_is_right(self, tree):
        pit = arviz_stats.loo_pit(tree).effect.values
        assert pit.shape == (ROWS,)
        assert np.abs(np.sort(pit) - (np.arange(ROWS) + 0.5) / ROWS).max() < 1.9 / np.sqrt(ROWS)  # Kolmogorov, 0.1 %

    def test_sensitivity_to_the_prior_is_small_beside_that_to_240_rows(self, tree):
        prior, likelihood = (arviz_stats.psense(tree, group=group) for group in ("prior", "likelihood"))
        assert set(prior.data_vars) == {"w", "sigma"}
        assert prior.w.max() < likelihood.w.min()
        assert set(arviz_stats.psense_summary(tree).index) == {"w[0]", "w[1]", "sigma"}


class TestGroups:
    def test_groups_and_names_are_those_of_the_schema(self, tree):
        assert set(tree.children) == GROUPS
        assert tree.posterior.attrs["sampler"] == "nuts"
        for group in ("log_likelihood", "posterior_predictive", "observed_data"):
            assert list(tree[group].data_vars) == ["effect"]
        assert set(tree.constant_data.data_vars) == {"x", "dose"}
        assert tree.posterior_predictive.effect.dims == tree.log_likelihood.effect.dims == ("chain", "draw", "example")
        [pooled] = cs.pool(STUDY)
        np.testing.assert_array_equal(tree.observed_data.effect, pooled["effect"])
        np.testing.assert_array_equal(tree.constant_data.x, pooled["x"])

    def test_the_prior_is_site_by_site_and_without_jacobians(self, one_chain, tree):
        for name, prior in (("w", dist.Normal(0, 1)), ("sigma", dist.HalfNormal(1.0))):
            expected = prior.log_prob(one_chain.draws[name][0])
            expected = expected.sum(axis=-1) if name == "w" else expected
            np.testing.assert_allclose(tree.log_prior[name], expected, rtol=1e-4, atol=1e-5)

    def test_what_the_sampler_says_has_arviz_s_names(self, one_chain, tree):
        stats = tree.sample_stats
        own = {"redone", "out_of_step"}
        assert set(stats.data_vars) == own | {
            *("acceptance_rate", "diverging", "energy", "lp", "n_steps", "step_size", "tree_depth")
        }
        assert stats.diverging.dtype == bool
        assert stats.n_steps.dtype.kind == stats.tree_depth.dtype.kind == "i"
        np.testing.assert_array_equal(stats.n_steps, one_chain.stats["num_integration_steps"][0])
        assert (2.0 ** (stats.tree_depth - 1) <= stats.n_steps).all() and (stats.n_steps < 2.0**stats.tree_depth).all()
        np.testing.assert_allclose(arviz_stats.bfmi(tree)["energy"], one_chain.summary().e_bfmi, rtol=1e-4)

    def test_lp_is_the_log_density_of_what_is_sampled(self, one_chain, tree):
        def joint(w, sigma):  # of w and log sigma
            value = log_density(study, (cs.pool(STUDY)[0],), {}, {"w": w, "sigma": sigma})[0]
            return value + jnp.log(sigma)

        expected = jax.vmap(jax.vmap(joint))(one_chain.draws["w"][0], one_chain.draws["sigma"][0])
        np.testing.assert_allclose(tree.sample_stats.lp, expected, rtol=1e-4)
        np.testing.assert_array_equal(one_chain.to_arviz().sample_stats.lp, tree.sample_stats.lp)
        recorded = {name: values for name, values in one_chain.raw_stats.items() if name != "logdensity"}
        computed = replace(one_chain, raw_stats=recorded)
        np.testing.assert_allclose(computed.to_arviz(log_likelihood=True).sample_stats.lp, expected, rtol=1e-4)
        assert "lp" not in computed.to_arviz().sample_stats

    def test_averages_over_thinned_iterations_are_not_shown_as_the_draw_s_own(self, one_chain):
        raw = {**one_chain.raw_stats, "is_divergent": np.full((100, 2, 1), 0.5)}
        tree = replace(one_chain, thin=2, raw_stats=raw).to_arviz()
        assert tree.sample_stats.diverging.all()
        assert "energy" not in tree.sample_stats and "lp" not in tree.sample_stats
        lp = replace(one_chain, thin=2).to_arviz(log_likelihood=True).sample_stats.lp
        np.testing.assert_allclose(lp, one_chain.to_arviz().sample_stats.lp, rtol=1e-4)

    def test_figures_of_chains_that_were_combined_are_not_those_of_the_draws(self):
        sampler = cs.consensus_monte_carlo()
        run = cs.sample(
            PLAIN, STUDY, cs.Network.ring(AGENTS), sampler, init=np.zeros(2), **{**LENGTH, "num_samples": 20}
        )
        assert (run.copies, run.raw_stats["logdensity"].shape[2]) == (1, AGENTS)
        assert not run.to_arviz().sample_stats.data_vars
        tree = run.to_arviz(log_likelihood=True)
        w = np.asarray(run.draws[0], float)
        expected = likelihood_by_hand(w, 0.7).sum(axis=-1) - 0.5 * (w**2).sum(axis=-1)
        np.testing.assert_allclose(tree.sample_stats.lp, expected, rtol=1e-4)

    def test_diagnostics_and_figures_find_what_they_need(self, tree):
        assert len(arviz_stats.summary(tree)) == 3
        assert arviz_stats.ess(tree).w.shape == arviz_stats.rhat(tree).w.shape == (2,)
        # What plot_forest and plot_trace, plot_ppc and plot_energy take out of a tree:
        assert arviz_base.extract(tree).w.dims == ("w_dim_0", "sample")
        assert arviz_base.extract(tree, group="posterior_predictive").dims == ("example", "sample")
        assert arviz_base.extract(tree, group="observed_data", combined=False).dims == ("example",)
        for name, group in tree.children.items():
            assert group.attrs["sample_dims"] == ([] if "data" in name else ["chain", "draw"]), (
                name
            )  # as ArviZ 1 has it
        assert arviz_base.extract(tree, group="sample_stats", var_names="energy", combined=False).shape == (2, 100)
        assert arviz_base.extract(tree, group="sample_stats", var_names="diverging").dtype == bool
        labels = arviz_base.dataset_to_dataarray(tree.posterior.dataset).label.values
        assert set(labels) == {"w[0]", "w[1]", "sigma"}

    def test_labels_are_the_run_s(self, one_chain):
        run = replace(
            one_chain,
            dims={"w": ("covariate",)},
            coords={"covariate": ("age", "weight"), "elsewhere": ("a", "b", "c")},
            columns={"x": ("age", "weight")},
            names=NAMES,
        )
        tree = run.to_arviz()
        assert set(arviz_stats.summary(tree).index) == {"w[age]", "w[weight]", "sigma"}
        assert tree.constant_data.x.dims == ("example", "covariate")
        np.testing.assert_array_equal(tree.constant_data.x.sel(covariate="weight"), cs.pool(STUDY)[0]["x"][:, 1])
        assert set(tree.observed_data.owner.values) == set(NAMES)
        alone = replace(run, coords={}, dims={}).to_arviz().constant_data.x
        assert alone.dims == ("example", "x_dim_0") and alone.x_dim_0.values.tolist() == ["age", "weight"]


class TestNames:
    """Names of the observed variable, for each kind of posterior."""

    @staticmethod
    def groups(posterior, shards, like):
        run = replace(like, posterior=posterior, shards=shards)
        tree = run.to_arviz(log_likelihood=True)
        return [
            list(tree[group].data_vars) if group in tree.children else []
            for group in ("log_likelihood", "observed_data", "constant_data")
        ]

    def test_a_task_s_outcome(self, own_chains):
        posterior = cs.Posterior.regressor(lambda w, x: x @ w, y="effect")
        assert self.groups(posterior, STUDY, own_chains) == [["effect"], ["effect"], ["dose", "x"]]
        labelled = [{"inputs": shard["x"], "sick": (shard["dose"] > 0).astype(int)} for shard in STUDY]
        posterior = cs.Posterior.classifier(lambda w, x: jnp.stack([0 * x @ w, x @ w], axis=1), x="inputs", y="sick")
        assert self.groups(posterior, labelled, own_chains) == [["sick"], ["sick"], ["inputs"]]
        pairs = [(shard["x"], shard["effect"]) for shard in STUDY]
        posterior = cs.Posterior.regressor(lambda w, x: x @ w)
        assert self.groups(posterior, pairs, own_chains) == [["y"], ["y"], ["0"]]

    def test_a_likelihood_of_one_s_own(self, own_chains):
        def posterior(name, **options):
            return cs.Posterior(PLAIN.log_prior, lambda w, batch: batch["x"] @ w - batch[name], **options)

        assert self.groups(posterior("effect", observed="effect"), STUDY, own_chains) == [
            *(["effect"], ["effect"], ["dose", "x"])
        ]
        with_y = [{"x": shard["x"], "y": shard["effect"]} for shard in STUDY]
        assert self.groups(posterior("y"), with_y, own_chains) == [["y"], ["y"], ["x"]]
        assert self.groups(posterior("effect"), STUDY, own_chains) == [
            *(["log_likelihood"], [], ["dose", "effect", "x"])
        ]
        axes = [{"x": shard["x"], "draw": shard["effect"], "owner": shard["dose"]} for shard in STUDY]
        assert self.groups(posterior("draw", observed="draw"), axes, own_chains) == [
            *(["data.draw"], ["data.draw"], ["data.owner", "x"])
        ]

    def test_a_name_that_no_array_of_the_data_has_is_refused(self):
        with pytest.raises(ValueError, match=r"observed = 'efect': .*there are dose, effect, x.*observed='effect'"):
            cs.sample(
                replace(PLAIN, observed="efect"), STUDY, cs.Network.ring(4), cs.dmala(), init=np.zeros(2), **LENGTH
            )


@dataclass(frozen=True, eq=False)
class OfSites(cs.Posterior):
    """A likelihood that is one number for all rows of a site."""

    per_row: bool = False


def test_where_a_likelihood_is_of_a_site_the_site_is_one_observation(own_chains):
    def likelihood(w, batch):
        left = batch["effect"] - batch["x"] @ w
        return -0.5 * (left**2).sum() / len(left)  # not that of rows from other sites beside

    posterior = OfSites(
        PLAIN.log_prior, likelihood, observed="effect", predictive=lambda key, w, batch: {"effect": batch["x"] @ w}
    )
    run = replace(own_chains, posterior=posterior)
    tree = run.to_arviz(log_likelihood=True, posterior_predictive=True)
    assert tree.log_likelihood.effect.dims == ("chain", "draw", "owner")
    left = [shard["effect"] - run.draws[0] @ shard["x"].T for shard in STUDY]
    for name, one in zip(NAMES, left, strict=True):
        expected = -0.5 * (one**2).mean(axis=-1)
        np.testing.assert_allclose(tree.log_likelihood.effect.sel(owner=name), expected, rtol=1e-4)
    assert list(tree.observed_data.effect.sizes.values()) == [ROWS]
    np.testing.assert_allclose(
        tree.posterior_predictive.effect, run.draws[0] @ cs.pool(STUDY)[0]["x"].T, rtol=1e-4, atol=1e-5
    )


def two_outcomes(batch):
    """Two outcomes of a patient, which not all have, and a third that is a factor; two numbers are read twice."""
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    sd = numpyro.sample("sd", dist.HalfNormal(1.0))
    with numpyro.plate("rows", len(batch["first"])):
        with numpyro.handlers.mask(mask=batch["has_first"]):
            numpyro.sample("first", dist.Normal(mean, sd), obs=batch["first"])
        numpyro.factor("time", dist.Exponential(jnp.exp(mean)).log_prob(batch["time"]))
    twice = dist.Normal(mean, 1).expand([len(batch["first"]), 2]).mask(batch["has_twice"]).to_event(1)
    numpyro.sample("twice", twice, obs=batch["twice"])


@pytest.fixture(scope="module")
def masked_shards():
    random = np.random.default_rng(8)
    data = {"first": random.standard_normal(60), "twice": random.standard_normal((60, 2))}
    has = {"has_first": random.random(60) < 0.7, "has_twice": random.random((60, 2)) < 0.5}
    data["first"][~has["has_first"]] = 1e3  # whatever stands there
    return unequal_shards({**data, **has, "time": random.exponential(size=60)}, 11, 30)


@pytest.fixture(scope="module")
def masked(masked_shards):
    posterior = cs.Posterior.from_numpyro(two_outcomes)
    return cs.sample(posterior, masked_shards, cs.Network.ring(3), cs.mala(), **LENGTH)


@pytest.fixture(scope="module")
def masked_tree(masked):
    return masked.to_arviz(log_likelihood=True, posterior_predictive=True)


@FEW_DRAWS
class TestMasks:
    """Rows that a mask leaves out are no observations."""

    def test_every_variable_has_its_own_observations(self, masked_shards, masked, masked_tree):
        [data] = cs.pool(masked_shards)
        rows = {
            "first": np.flatnonzero(data["has_first"]),
            "time": np.arange(60),
            "twice": np.flatnonzero(data["has_twice"].any(axis=1)),
        }
        assert 60 > len(rows["twice"]) > 30 and 60 > len(rows["first"]) > 30
        for name, own in rows.items():
            assert arviz_stats.loo(masked_tree, var_name=name).n_data_points == len(own)
            np.testing.assert_array_equal(masked_tree.log_likelihood[f"{name}_example"], own)
            np.testing.assert_array_equal(masked_tree.observed_data[name], data[name][own])
        mean, sd = (masked.draws[name][0][..., None] for name in ("mean", "sd"))
        expected = dist.Normal(mean, sd).log_prob(data["first"][rows["first"]])
        np.testing.assert_allclose(masked_tree.log_likelihood["first"], expected, rtol=1e-3, atol=1e-4)

    def test_the_rest_is_cut_alike(self, masked_tree):
        assert set(masked_tree.constant_data.data_vars) == {"has_first", "has_twice"}
        assert masked_tree.constant_data.sizes["example"] == 60
        assert set(masked_tree.posterior_predictive.data_vars) == {"first", "twice"}
        assert masked_tree.posterior_predictive["first"].dims == ("chain", "draw", "first_example")
        assert (
            arviz_stats.loo_pit(masked_tree, var_names="first")["first"].shape
            == masked_tree.observed_data["first"].shape
        )
        assert len(arviz_stats.psense_summary(masked_tree)) == 2

    def test_one_variable_keeps_the_common_axis(self, masked_shards, masked):
        def model(batch):
            mean, sd = numpyro.sample("mean", dist.Normal(0, 1)), numpyro.sample("sd", dist.HalfNormal(1.0))
            mask = batch["has_first"]
            numpyro.sample("first", dist.Normal(mean, sd).expand([len(mask)]).mask(mask), obs=batch["first"])

        posterior = cs.Posterior.from_numpyro(model).bind(masked_shards[0])
        tree = replace(masked, posterior=posterior).to_arviz(log_likelihood=True)
        assert tree.log_likelihood["first"].dims == ("chain", "draw", "example")
        owners = np.repeat([f"agent {k}" for k in range(3)], [shard["has_first"].sum() for shard in masked_shards])
        np.testing.assert_array_equal(tree.log_likelihood.owner, owners)
        assert tree.constant_data.sizes["example"] == 60
