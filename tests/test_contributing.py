"""CONTRIBUTING.md: the sampler to start from runs as it stands there, and is right; what is named is there."""

import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import consilience as cs
from consilience._refused import Refused

from .samplers.harness import draws, draws_after
from .statistical import assert_caught, assert_right
from .targets import ONE_CHAIN, linear_regression
from .test_imports import LAYERS

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
((TITLE, CODE),) = re.findall(r'^```python title="([^"]+)"\n(.*?)^```$', PAGE, flags=re.S | re.M)
TARGET = linear_regression(4)
RING = cs.Network.ring(4)
FAULT = ("noise.log_uniform <= log_ratio", "noise.log_uniform <= 0.5 * log_ratio")


@pytest.fixture(params=["as it stands", "with a fault"])
def sampler(request, monkeypatch):
    """The class in the page, as if it were a module of the package."""
    code = CODE.replace(*FAULT) if request.param == "with a fault" else CODE
    assert CODE.count(FAULT[0]) == 1
    return request.param, as_module(code, monkeypatch).RandomWalk


def as_module(code, monkeypatch):
    module = ModuleType("consilience." + TITLE.removesuffix(".py").replace("/", "."))
    module.__package__ = module.__name__.rpartition(".")[0]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code, str(ROOT / "CONTRIBUTING.md"), "exec"), vars(module))
    return module


def test_the_sampler_leaves_the_posterior_invariant_and_a_faulty_one_does_not(sampler):
    kind, random_walk = sampler
    check = assert_right if kind == "as it stands" else assert_caught
    check(lambda seed: draws_after(TARGET, RING, random_walk(0.2), steps=30, seed=seed), TARGET)


def test_the_sampler_draws_what_one_agent_with_all_data_would_and_counts_what_it_sends(monkeypatch):
    random_walk = as_module(CODE, monkeypatch).RandomWalk(0.2)
    options = {"init": TARGET.mean.astype(np.float32), "num_samples": 50, "progress": False}
    run = cs.sample(TARGET.posterior, TARGET.shards, RING, random_walk, **(ONE_CHAIN | options))
    alone = draws(TARGET, cs.Network.complete(1), random_walk, num_samples=50)
    assert 0.1 < run.acceptance < 0.9
    np.testing.assert_array_equal(run.draws, np.broadcast_to(run.draws[:1], run.draws.shape))
    np.testing.assert_allclose(run.draws[0], alone[0], atol=1e-5)
    assert run.traffic.rounds > 0
    with pytest.raises(Refused, match=r"random_walk: step_size = 0: a positive number is needed"):
        as_module(CODE, monkeypatch).RandomWalk(0)


def test_the_tree_of_packages_is_the_one_that_is_checked():
    (tree,) = re.findall(r"^```\n(network/.*?)^```$", PAGE, flags=re.S | re.M)
    assert re.findall(r"^(\w+)/", tree, flags=re.M) == LAYERS


def test_files_and_targets_that_are_named_are_there():
    package = ROOT / "src" / "consilience"
    folders = (ROOT, package, package.parent, ROOT / "tests" / "samplers")
    for path in re.findall(r"`([\w/]+\.(?:py|md|toml))`", PAGE):
        assert any((folder / path).exists() for folder in folders), path
    for target in re.findall(r"`make ([a-z-]+)", PAGE):
        assert f"\n{target}:" in (ROOT / "Makefile").read_text(), target
