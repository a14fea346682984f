"""A predictive that is averaged while the run goes on scores as one that is computed from the draws."""

import jax
import numpy as np
import pytest

import consilience as cs
from consilience.experiments.running import (
    RUNNING_ACCURACY,
    RUNNING_NLL,
    RunningClasses,
    final_scores,
    own_scores,
    some_parameters,
    variance_ratios,
)

POSTERIOR = cs.Posterior.classifier(lambda p, x: x @ p["w"] + p["b"])
INIT = {"w": np.zeros((4, 3), np.float32), "b": np.zeros(3, np.float32)}


def rows(count, seed):
    random = np.random.default_rng(seed)
    labels = random.integers(3, size=count)
    x = random.normal(size=(count, 4)) + np.eye(3, 4)[labels] * 1.5
    return {"x": x.astype(np.float32), "y": labels.astype(np.int32)}


TEST = rows(50, 1)
VIEWS = cs.shard(TEST, 3, by="features", blocks=[1, 1, 2])
STRANGE = rows(30, 2)["x"] + 3


@pytest.fixture(scope="module", params=[cs.published(0.05), cs.nuts()], ids=["published", "nuts"])
def run(request):
    running = RunningClasses(POSTERIOR, TEST, STRANGE, VIEWS)
    shards = cs.shard(rows(120, 0), 3, by="label")
    found = cs.sample(
        POSTERIOR,
        shards,
        cs.Network.complete(3),
        request.param,
        init=INIT,
        num_samples=40,
        num_warmup=50,
        num_chains=2,
        moments=running.moments,
        watch=running.watch,
        progress=False,
    )
    return running, found


def of_chain(run, chain, view):
    """The predictive of every agent, from one chain's draws: (agent, row, class)."""
    return np.stack(
        [
            np.mean(
                jax.vmap(lambda p: POSTERIOR.task.probabilities(p, view))(
                    jax.tree.map(lambda leaf, agent=agent: leaf[agent, chain], run.draws)
                ),
                axis=0,
            )
            for agent in range(run.network.size)
        ]
    )


def test_scores_are_those_of_the_draws(run):
    running, run = run
    scores = running.scores(run)
    for chain, found in enumerate(scores):
        alone = of_chain(run, chain, TEST["x"])
        right = (alone.argmax(axis=-1) == TEST["y"]).mean(axis=1)
        nll = -np.log(alone[:, np.arange(50), TEST["y"]]).mean(axis=1)
        np.testing.assert_allclose(found.accuracy, right, atol=1e-6)
        np.testing.assert_allclose(found.nll, nll, rtol=1e-4)
        np.testing.assert_allclose(run.stats[RUNNING_ACCURACY][:, chain, -1], right, atol=1e-6)
        np.testing.assert_allclose(run.stats[RUNNING_NLL][:, chain, -1], nll, rtol=1e-4)
        np.testing.assert_allclose(found.cumulative.nll[-1], nll, rtol=1e-4)
        assert found.seen == ((0,), (1,), (2,))
        assert found.ood_auroc.shape == (3,)
    assert run.evaluation.nll == pytest.approx(np.mean([s.nll for s in scores], axis=0))
    bins = [s.reliability for s in scores]
    held = np.sum([b.count for b in bins], axis=0)
    right = np.nansum([b.count * b.accuracy for b in bins], axis=0)
    there = held > 0
    np.testing.assert_allclose(run.evaluation.reliability.accuracy[there], right[there] / held[there])
    np.testing.assert_allclose(run.evaluation.reliability.count, held / 2)


def test_scores_of_all_chains_are_near_those_of_evaluate(run):
    """Two ways to the same draws; only the averaging over chains differs."""
    running, run = run
    (seeds, pooled) = running.scores(run), run.evaluate(TEST, ood=STRANGE)
    assert np.mean([s.nll for s in seeds]) == pytest.approx(pooled.nll.mean(), rel=0.02)
    assert np.mean([s.ood_auroc for s in seeds]) == pytest.approx(pooled.ood_auroc.mean(), abs=0.02)


def test_an_agent_s_own_score_is_of_what_it_sees(run):
    _, run = run
    own = final_scores(own_scores(run, RUNNING_ACCURACY))
    for chain in range(2):
        expected = [
            (of_chain(run, chain, view["x"])[agent].argmax(axis=-1) == TEST["y"]).mean()
            for agent, view in enumerate(VIEWS)
        ]
        assert own[chain] == pytest.approx(np.mean(expected), abs=1e-6)
    assert own.mean() < final_scores(run.stats[RUNNING_ACCURACY]).mean()


def test_a_wider_run_has_a_larger_ratio(run):
    from dataclasses import replace

    _, run = run
    reference = run.positions[run.num_draws // 2 :].var(axis=0).mean(axis=(0, 1))
    assert variance_ratios(run, reference).mean() == pytest.approx(1, abs=0.05)
    wide = replace(run, kept=2 * np.asarray(run.kept))
    np.testing.assert_allclose(variance_ratios(wide, reference), 4 * variance_ratios(run, reference), rtol=1e-5)


def test_some_parameters_are_evenly_spaced_over_all():
    found = some_parameters({"a": np.arange(1000.0), "b": np.arange(1000.0, 2050.0)})["some"]
    np.testing.assert_array_equal(found, np.arange(0, 2050, 10))
    assert len(some_parameters({"a": np.arange(5.0)})["some"]) == 5
