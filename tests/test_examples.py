"""The examples run, small; what they print is for users."""

import importlib
from pathlib import Path

import jax
import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize("name", ["flax_network", "equinox_network"])
def test_a_network_is_sampled_and_scored(name, monkeypatch, capsys):
    monkeypatch.syspath_prepend(EXAMPLES)
    run = importlib.import_module(name).main(hidden=3, num_warmup=5, num_samples=2, progress=False)
    assert "accuracy" in capsys.readouterr().out
    shapes = sorted(leaf.shape[3:] for leaf in jax.tree.leaves(run.draws))
    assert sum(int(np.prod(shape)) for shape in shapes) == 64 * 3 + 3 + 3 * 10 + 10
