"""What plans take from runs that were made."""

import jax.numpy as jnp
import numpy as np
import pytest

import consilience as cs
from consilience.planning.trial import trial_of

from ..targets import ONE_CHAIN

SHARDS = [np.full(4, agent, dtype=np.float32) for agent in range(3)]


def saved(folder, sampler, **options):
    posterior = cs.Posterior(lambda w: -0.5 * w @ w, lambda w, x: -0.5 * (x - w.sum()) ** 2)
    network = cs.Network.ring(3)
    cs.sample(
        posterior,
        SHARDS,
        network,
        sampler,
        init=jnp.zeros(2),
        out=folder,
        progress=False,
        **(ONE_CHAIN | options),
    )
    return cs.load(folder)


def test_gradients_are_those_of_the_longest_chain_and_thinned_runs_know_fewer(tmp_path):
    sampler = cs.nuts(0.2, inverse_mass_matrix=1.0)
    all_of_them = saved(tmp_path / "all", sampler, num_samples=300, num_chains=4)
    thinned = saved(tmp_path / "thinned", sampler, num_samples=30, num_chains=4, thin=10)
    steps = all_of_them.raw_stats["num_integration_steps"][:, :, 0]
    full, part = trial_of(all_of_them), trial_of(thinned)
    assert full.evaluations == pytest.approx(steps.max(axis=1).mean()) and not full.are_averages
    assert part.evaluations < full.evaluations and part.are_averages
    assert not trial_of(saved(tmp_path / "one", sampler, num_samples=30, thin=10)).are_averages


def test_a_setting_that_is_not_recorded_is_said(tmp_path):
    run = saved(tmp_path / "run", cs.published(0.01, rounds=lambda t: 2), num_samples=20)
    with pytest.raises(ValueError, match="a setting that is not recorded"):
        trial_of(run)
