"""What importing consilience costs, and what it says when something is missing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import consilience

PACKAGE = Path(consilience.__file__).parent
LAYERS = ["network", "consensus", "posterior", "samplers", "runtimes", "results", "sampling", "peering"]
LAYERS += ["report", "experiments", "planning", "cli"]
BELOW = ["_cache", "_checks", "_compat", "_compiled", "_extras", "_lazy", "_types"]  # all layers
DOORS = {("run.py", "report")}  # run.report() is where users look for it
SOFT = (  # APIs that may change without notice: for _compat.py alone
    "jax._src",
    "jax.core",
    "jax.custom_batching",
    "jax.experimental",
    "jax.extend",
    "jax.interpreters",
    "AxisType",
    "make_mesh",
    "pure_callback(",
    "io_callback(",
    "pretty_print(",
    "shard_map(",
    "distributed.initialize(",
    "jax_cpu_enable_async_dispatch",
    "jax_enable_preemption_service",
    "blackjax.adaptation",
    "numpyro.ops",
    "arviz_stats.base",
    "LocalStore",
    "init_log_from_env_or",
)
HEAVY = (
    "blackjax",
    "numpyro",
    "arviz_base",
    "arviz_stats",
    "arviz",
    "xarray",
    "matplotlib",
    "typer",
    "rich",
    "sklearn",
    "zarr",
    "tomli_w",
    "pandas",
    "zenoh",
    "cryptography",
)
WHEN_USED = ("networkx", "scipy")  # needed, and half a second to import
BLOCK = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {(*HEAVY, "jaxtyping", "beartype")!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.split(".")[0])

sys.meta_path.insert(0, Missing())
"""
RUN = """
import numpy as np
import consilience as cs
posterior = cs.Posterior(lambda w: -0.5 * w @ w, lambda w, b: -0.5 * (b["y"] - b["x"] @ w) ** 2)
x = np.random.default_rng(0).standard_normal((40, 2)).astype(np.float32)
shards = cs.shard({"x": x, "y": x.sum(1)}, agents=4)
for sampler in (cs.published(0.05), cs.dula(1e-3)):
    run = cs.sample(posterior, shards, cs.Network.ring(4), sampler, init=np.zeros(2, np.float32), num_samples=20)
alone = cs.Network.complete(1)
hmc = cs.centralized_hmc(0.1)
run = cs.sample(posterior, cs.pool(shards), alone, hmc, init=np.zeros(2, np.float32), num_samples=20)
"""


def python(code: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_importing_consilience_imports_no_extra_and_nothing_slow():
    found = python(f"import sys, consilience; print([m for m in {HEAVY + WHEN_USED!r} if m in sys.modules])")
    assert found.stdout.strip() == "[]", found.stderr


def test_the_paper_s_samplers_need_jax_numpy_scipy_and_networkx_only():
    done = python(BLOCK + RUN)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        (RUN + "run.summary()", "report"),
        (RUN + "run.to_arviz()", "report"),
        ("import consilience as cs; cs.Network.ring(4).plot()", "report"),
        ("from consilience.experiments.images import bundled_digits; bundled_digits()", "demo"),
    ],
    ids=["summary", "to_arviz", "plot", "demo"],
)
def test_a_missing_extra_is_named_with_its_install_line(code, extra):
    done = python(BLOCK + code)
    assert f"pip install 'consilience[{extra}]'" in done.stderr


def test_the_command_without_its_extra_says_so_in_one_line():
    done = python(BLOCK + "from consilience.cli import main; main()")
    assert done.stderr.strip() == "the command line needs typer: pip install 'consilience[cli]'"
    assert done.returncode == 1


def modules():
    return sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_layers_import_only_from_those_above(path):
    layer = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if layer == "__init__":
        return  # the package's own front
    place = -1 if layer in BELOW else LAYERS.index(layer)
    parents = path.relative_to(PACKAGE).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = parents[: len(parents) + 1 - node.level]
            target = [*base, *(node.module or "").split(".")]
            other = next((part for part in target if part), "")
            if other in LAYERS and (path.name, other) not in DOORS:
                assert LAYERS.index(other) <= place, f"{path.name} imports {other}"


@pytest.mark.parametrize("name", SOFT)
def test_soft_apis_are_used_in_one_module(name):
    used = [path.relative_to(PACKAGE).as_posix() for path in modules() if name in path.read_text()]
    assert set(used) <= {"_compat.py"}


def test_no_sampler_knows_of_an_axis_of_agents():
    for path in (PACKAGE / "samplers").glob("*.py"):
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        names |= {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
        collectives = {"psum", "pmean", "pmax", "pmin", "all_gather", "all_to_all", "ppermute", "psum_scatter"}
        assert not names & (collectives | {"vmap", "axis_index", "axis_size", "AGENTS"}), path.name
