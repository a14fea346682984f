"""Runs of models with variables that stay with their owner: what is kept and shown, on disk and not, and refused."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import consilience as cs
from consilience._refused import Refused
from consilience.runs.member import Member
from consilience.runs.request import Length, Request
from consilience.runs.segment import Terms

RING = cs.Network.ring(3)
WARDS = {"Basel": ["east", "west"], "Lyon": ["south"], "Turin": ["a", "b", "c"]}


def log_prior(params):
    return -0.5 * params["mu"] ** 2


def own_log_prior(own, params):
    return -0.5 * (own["level"] - params["mu"]) ** 2 - 0.5 * own["shape"] @ own["shape"]


def log_likelihood(params, own, batch):
    return -0.5 * (batch["y"] - own["level"] - own["shape"].sum(axis=1)) ** 2


def hospitals(wards=WARDS):
    random = np.random.default_rng(0)
    return {
        name: {"ward": np.array(own * 4), "y": random.normal(size=4 * len(own)).astype(np.float32)}
        for name, own in wards.items()
    }


SETTINGS = {"own_log_prior": own_log_prior, "own_init": {"shape": np.zeros(2), "level": 0.0}, "group": "ward"}
POSTERIOR = cs.Posterior(log_prior, log_likelihood, init={"mu": 0.0}, **SETTINGS)
GOOD = {
    "posterior": POSTERIOR,
    "shards": hospitals(),
    "network": RING,
    "sampler": cs.hmc(num_integration_steps=4),
    "num_warmup": 60,
    "num_samples": 40,
    "num_chains": 2,
    "progress": False,
}


def sample(**options):
    return cs.sample(**{**GOOD, **options})


@pytest.fixture(scope="module")
def run():
    return sample()


class TestWhatIsKept:
    def test_shared_parameters_are_there_once_and_own_ones_by_agent(self, run):
        assert run.kept.shape == (40, 2, 1, 1)
        assert run.draws["mu"].shape == (3, 2, 40)
        assert {name: own["level"].shape for name, own in run.own.items()} == {
            "Basel": (2, 40, 2),
            "Lyon": (2, 40, 1),
            "Turin": (2, 40, 3),
        }
        assert run.own["Turin"]["shape"].shape == (2, 40, 3, 2)
        assert {*run.raw_stats} == {
            *("acceptance_rate", "energy", "is_accepted", "is_divergent", "num_integration_steps"),
            *("redone", "out_of_step", "step_size", "logdensity"),
        }
        assert all(values.shape == (40, 2, 1) for values in run.raw_stats.values())
        assert "18 of agents' own" in repr(run)

    def test_groups_have_their_labels_in_order(self, run):
        assert run.own_groups == {"Basel": ("east", "west"), "Lyon": ("south",), "Turin": ("a", "b", "c")}

    def test_own_draws_go_with_the_rows_of_their_group(self):
        """Rows of one ward, far from all others, pull that ward's level alone."""
        far = hospitals()
        far["Turin"]["y"] = far["Turin"]["y"] + np.where(far["Turin"]["ward"] == "a", 30, 0).astype(np.float32)
        own = sample(shards=far, num_samples=200, num_warmup=100).own
        levels = {name: values["level"].mean(axis=(0, 1)) for name, values in own.items()}
        assert levels["Turin"][0] > 4 > max(levels["Turin"][1:].max(), levels["Basel"].max(), levels["Lyon"].max())

    @pytest.mark.parametrize("kind", ["numbers", "frames", "shuffled"])
    def test_labels_may_be_of_any_kind(self, run, kind):
        if kind == "numbers":
            shards = {
                name: {**shard, "ward": 7 * np.unique(shard["ward"], return_inverse=True)[1] - 3}
                for name, shard in GOOD["shards"].items()
            }
        elif kind == "frames":
            shards = {name: pd.DataFrame(shard) for name, shard in GOOD["shards"].items()}
        else:  # of several kinds, which have no order but that of the rows
            mixed = {"east": 1, "west": "1", "south": 2.5, "a": "z", "b": (1, 2), "c": 0}
            shards = {}
            for name, shard in GOOD["shards"].items():
                ward = np.empty(len(shard["ward"]), object)
                ward[:] = [mixed[label] for label in shard["ward"]]
                shards[name] = {**shard, "ward": ward}
        other = sample(shards=shards)
        np.testing.assert_array_equal(other.own["Turin"]["shape"], run.own["Turin"]["shape"])
        wanted = {
            "numbers": (-3, 4, 11),
            "frames": ("a", "b", "c"),
            "shuffled": ("z", "(1, 2)", 0),
        }
        assert other.own_groups["Turin"] == wanted[kind]

    def test_without_groups_every_agent_is_one(self):
        shards = [{"y": shard["y"]} for shard in GOOD["shards"].values()]
        run = sample(posterior=replace(POSTERIOR, group=None), shards=shards)
        assert {name: own["level"].shape for name, own in run.own.items()} == {
            f"agent {k}": (2, 40, 1) for k in range(3)
        }
        assert run.own_groups == {f"agent {k}": (f"agent {k}",) for k in range(3)}

    def test_very_unequal_shards_are_computed_by_size_to_the_same_draws(self, run):
        shards = hospitals()
        shards["Lyon"] = {"ward": np.array(["south"] * 300), "y": np.zeros(300, np.float32)}
        many = sample(shards=shards)
        padded = {name: {k: np.concatenate([v, v[:0]]) for k, v in shard.items()} for name, shard in shards.items()}
        assert many.own["Turin"]["level"].shape == (2, 40, 3)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("consilience.model.shards.MOST_PADDED", 1e9)  # all are padded to one length
            same = sample(shards=padded)
        np.testing.assert_allclose(many.draws["mu"], same.draws["mu"], atol=1e-3)
        np.testing.assert_allclose(many.own["Turin"]["level"], same.own["Turin"]["level"], atol=1e-3)

    def test_a_likelihood_of_a_whole_site_may_have_own_variables(self):
        whole = replace(POSTERIOR, per_row=False, log_likelihood=lambda *given: log_likelihood(*given).sum())
        one = {name: {key: values[:4] for key, values in shard.items()} for name, shard in hospitals().items()}
        given = {"shards": one, "num_samples": 10, "num_warmup": 0, "sampler": cs.hmc(0.1, num_integration_steps=4)}
        np.testing.assert_allclose(
            sample(posterior=whole, **given).own["Turin"]["level"], sample(**given).own["Turin"]["level"], atol=1e-5
        )

    def test_what_is_kept_and_averaged_is_of_shared_parameters(self):
        run = sample(keep=lambda params: {"twice": 2 * params["mu"]}, moments=True)
        assert run.draws["twice"].shape == (3, 2, 40)
        np.testing.assert_allclose(run.moments.mean["mu"], run.draws["twice"].mean(axis=2) / 2, atol=1e-5)
        assert run.own["Lyon"]["level"].shape == (2, 40, 1)


class TestSummary:
    def test_says_how_many_there_are_and_whether_their_owners_are_content(self):
        run = sample(sampler=cs.nuts(), num_warmup=200, num_samples=400)
        summary = run.summary()
        assert summary.names == ("mu",)
        assert [(own.agent, own.numbers, own.has_converged) for own in summary.own] == [
            ("Basel", 6, True),
            ("Lyon", 3, True),
            ("Turin", 9, True),
        ]
        assert "own variables    18 of 3 agents, R-hat at most 1.0" in str(summary)
        assert "3 of 3 owners say that theirs have converged" in str(summary)
        assert "Own variables" not in summary.verdict

    def test_names_the_owners_whose_have_not_converged(self, run):
        stuck = [np.array(draws) for draws in run.own_draws.kept]
        stuck[1][:, 1] += 50.0  # Lyon's second chain is elsewhere
        own = replace(run, own_draws=run.own_draws._replace(kept=tuple(stuck))).summary()
        assert "Own variables have not converged (" in own.verdict
        assert "Lyon: R-hat up to" in own.verdict
        assert not own.own[1].has_converged and own.own[1].r_hat > 1.5


class TestOnDisk:
    def test_a_run_goes_on_to_the_same_bits(self, run, tmp_path):
        out = tmp_path / "run"
        sample(out=out, num_samples=17)
        again = sample(out=out, resume=True)
        loaded = cs.load(out)
        for other in (again, loaded):
            np.testing.assert_array_equal(other.positions, run.positions)
            for name, own in run.own.items():
                assert {*other.own[name]} == {*own}
                for leaf, values in own.items():
                    np.testing.assert_array_equal(other.own[name][leaf], values)
            assert other.own_groups == run.own_groups
        assert loaded.summary().own == run.summary().own

    def test_is_loaded_with_its_model_and_rows_and_with_no_others(self, tmp_path):
        out = tmp_path / "run"
        sample(out=out, num_samples=5)
        loaded = cs.load(out, posterior=POSTERIOR, shards=hospitals())
        assert loaded.shards[2]["ward"].tolist() == [0, 1, 2] * 4
        other = replace(POSTERIOR, own_log_prior=lambda own, params: 2 * own_log_prior(own, params))
        with pytest.raises(Refused, match="the prior of own variables computes something else"):
            cs.load(out, posterior=other)
        moved = hospitals()
        moved["Turin"]["ward"] = np.roll(moved["Turin"]["ward"], 1)
        with pytest.raises(Refused, match="the rows of agent Turin are not those"):
            cs.load(out, shards=moved)

    def test_another_structure_of_groups_is_refused(self, tmp_path):
        out = tmp_path / "run"
        sample(out=out, num_samples=5)
        merged = hospitals({**WARDS, "Turin": ["a", "b", "b"]})
        merged["Turin"]["y"] = hospitals()["Turin"]["y"]
        with pytest.raises(Refused, match=r"groups: \[2, 1, 3\] there, \[2, 1, 2\] here"):
            sample(out=out, num_samples=5, shards=merged, resume=True)
        moved = replace(POSTERIOR, own_init={"shape": np.zeros(2), "level": 1.0})
        with pytest.raises(Refused, match="where own variables start: not as it was"):
            sample(out=out, num_samples=5, posterior=moved, resume=True)


class TestRefusals:
    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"own_init": None}, r"own_init is missing: it says what variables a group has"),
            ({"own_log_prior": None}, r"own_init: there is no own_log_prior"),
            ({"own_log_prior": 1.0}, r"own_log_prior: it is a float, not a function"),
            ({"own_log_prior": lambda own: 0.0}, r"own_log_prior: it cannot be called as own_log_prior\(own, params\)"),
            (
                {"group": ["hospital", "ward"]},
                r"group = .*: groups of groups are not sampled yet.*Write group=\"ward\"",
            ),
            ({"log_likelihood": lambda params, batch: batch["y"]}, r"as log_likelihood\(params, own, batch\)"),
        ],
    )
    def test_of_a_posterior(self, given, message):
        functions = {"log_prior": log_prior, "log_likelihood": log_likelihood, "init": {"mu": 0.0}}
        with pytest.raises(Refused, match=message):
            cs.Posterior(**{**functions, **SETTINGS, **given})

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"own_log_prior": lambda own, params: own["shape"]}, r"one real number for one group; it returned \(2,\)"),
            ({"own_log_prior": lambda own, params: jnp.log(own["level"])}, r"own_log_prior: it is -inf at own_init"),
            ({"own_init": {"shape": np.zeros(2), "level": 0}}, r"own_init: level has dtype int"),
            ({"log_likelihood": lambda p, own, batch: own["shape"]}, r"log_likelihood\(params, own, batch\): it must"),
            ({"group": "word"}, r"Basel: its data have no 'word', .* Write group='ward'"),
        ],
    )
    def test_of_what_its_functions_return(self, given, message):
        with pytest.raises(Refused, match=message):
            sample(posterior=replace(POSTERIOR, **given))

    def test_of_rows_without_a_label(self):
        shards = hospitals()
        shards["Lyon"]["ward"] = np.array([1.0, np.nan, 1.0, 1.0])
        with pytest.raises(Refused, match="Lyon: ward has rows without a label"):
            sample(shards=shards)

    @pytest.mark.parametrize(
        "sampler", [cs.mala(), cs.surrogate(), cs.dmala(), cs.published(0.1), cs.consensus_monte_carlo()]
    )
    def test_of_samplers_that_do_not_move_them(self, sampler):
        with pytest.raises(
            Refused, match=rf"{sampler.name}: it samples parameters that all agents share.*cs\.nuts\(\)"
        ):
            sample(sampler=sampler)

    @pytest.mark.parametrize("sampler", [cs.nuts(dense_mass=True), cs.hmc(0.1, inverse_mass_matrix=np.eye(4))])
    def test_of_a_dense_mass(self, sampler):
        with pytest.raises(
            Refused, match=r"variables that stay with different owners\. Write cs\.\w+\(\), with a diag"
        ):
            sample(sampler=sampler)

    def test_of_a_start_from_a_surrogate(self):
        with pytest.raises(Refused, match=r"nuts: start='surrogate': it fits parameters that all agents share"):
            sample(sampler=cs.nuts(start="surrogate"))

    def test_of_a_mass_for_other_numbers_than_those_shared_and_of_one_group(self):
        with pytest.raises(Refused, match="inverse_mass_matrix is for 5 parameters, the model has 4"):
            sample(sampler=cs.hmc(0.1, inverse_mass_matrix=np.ones(5)))

    def test_of_peers_without_masks(self):
        request = Request(POSTERIOR, [], RING, cs.nuts(), Length(1, 1, 1, 1, 0))
        with pytest.raises(Refused, match=r"mask: a part of a sum can give .*consilience init --mask, for 3 agents"):
            Member(None, None, Terms("wait", 1.0, False), request, print)

    def test_of_log_likelihoods_of_rows(self, run):
        for ask in (run.loo, lambda: run.to_arviz(log_likelihood=True)):
            with pytest.raises(Refused, match="own variables: log-likelihoods of rows need"):
                ask()


def test_the_page_has_what_owners_say(run, tmp_path):
    page = run.report(tmp_path / "page.html").read_text()
    assert f"Own variables: </strong>{run.summary().of_own}." in page
    assert "18 of 3 agents, R-hat at most" in page


@pytest.mark.parametrize("is_on_disk", [False, True])
def test_arviz_has_own_variables_by_agent_and_group(run, is_on_disk, tmp_path):
    tree = (sample(out=tmp_path / "run") if is_on_disk else run).to_arviz()
    assert {*tree.posterior.data_vars} == {"mu"}
    assert tree.posterior["mu"].shape == (2, 40)
    turin = tree["own/Turin"]
    assert turin["shape"].dims == ("chain", "draw", "group", "shape_dim_0")
    np.testing.assert_array_equal(turin["level"].sel(group="b"), run.own["Turin"]["level"][:, :, 1])
    assert {*tree["own"].children} == {*WARDS}
