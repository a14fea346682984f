"""Ten models of multi-site studies, through sampling, `to_arviz` and ArviZ's LOO, without a special case."""

import warnings

import jax
import numpy as np
import pytest
from arviz_stats import loo, summary
from numpyro.handlers import seed, substitute, trace

import consilience as cs

from .study_models import MODELS, ROWS, study_shards


def pointwise(model, draws, batch):
    """Compute every row's log-likelihood by NumPyro itself, (chain, draw, row): sites that have rows, and no other."""

    def of_draw(values):
        sites = trace(substitute(seed(model, 0), data=values)).get_trace(batch)
        observed = [s for s in sites.values() if s["type"] == "sample" and s["is_observed"]]
        terms = [s["fn"].log_prob(s["value"]) for s in observed]
        return sum(term for term in terms if np.shape(term)[:1] == (ROWS,))

    return np.asarray(jax.vmap(jax.vmap(of_draw))(draws))


@pytest.mark.parametrize("name", MODELS)
def test_the_evidence_is_that_of_the_pooled_rows(name):
    model, columns = MODELS[name]
    shards = study_shards(columns)
    with jax.enable_x64(True):
        posterior = cs.Posterior.from_numpyro(model)
        length = {"num_warmup": 60, "num_samples": 60, "num_chains": 2, "progress": False}
        run = cs.sample(posterior, shards, cs.Network.star(4), cs.nuts(), **length)
        tree = run.to_arviz(log_likelihood=True)
        [batch] = cs.pool(shards)
        draws = {key: value[0] for key, value in run.draws.items()}
        expected = pointwise(model, draws, batch)
    [observed] = tree["log_likelihood"].data_vars.values()
    assert observed.shape == (2, 60, ROWS)
    np.testing.assert_allclose(observed.values, expected, rtol=1e-8, atol=1e-8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of k̂: sixty draws are few
        warnings.simplefilter("ignore", RuntimeWarning)  # of R-hat: zeros of a Cholesky factor have none
        found, table = loo(tree, pointwise=True), summary(tree)
    assert found.n_data_points == ROWS
    assert np.isfinite(found.elpd)
    assert len(table) == sum(leaf[0, 0, 0].size for leaf in jax.tree.leaves(run.draws))
