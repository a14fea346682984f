"""What importing consilience costs, and what it says when something is missing."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import consilience

PACKAGE = Path(consilience.__file__).parent
LAYERS = ["network", "neighbors", "model", "samplers", "engine", "store", "report", "results", "peers", "runs"]
LAYERS += ["planning", "experiments", "cli"]
BELOW = [
    "_cache",
    "_checks",
    "_compat",
    "_compiled",
    "_extras",
    "_intervals",
    "_keys",
    "_lazy",
    "_refused",
    "_signals",
    "_tables",
    "_types",
]  # all layers
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
    "msgspec",
    "markupsafe",
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


def imports_of_others(path):
    """Yield (package, module in it or "", names) for every import of another package that happens at run time."""
    parts = path.relative_to(PACKAGE).parent.parts
    tree = ast.parse(path.read_text())
    guards = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    for_types = {id(inner) for guard in guards for node in guard.body for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level and id(node) not in for_types:
            target = [*parts[: len(parts) + 1 - node.level], *(node.module or "").split(".")]
            target = [part for part in target if part]
            names = [alias.name for alias in node.names]
            if not target:  # whole packages
                yield from ((name, "", []) for name in names if name in LAYERS)
            elif target[0] in LAYERS and target[0] != parts[0]:
                yield target[0], ".".join(target[1:]), names


@cache
def names_of_front(package):
    """Return the names that a package's `__init__` imports from its own modules, or assigns."""
    tree = ast.parse((PACKAGE / package / "__init__.py").read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level]
    assigned = {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}
    return assigned | {alias.asname or alias.name for node in imports for alias in node.names}


INSIDE = [path for path in modules() if path.parent != PACKAGE]


@pytest.mark.parametrize("path", INSIDE, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_layers_import_only_from_those_above(path):
    layer = path.relative_to(PACKAGE).parts[0]
    for other, _, _ in imports_of_others(path):
        assert LAYERS.index(other) < LAYERS.index(layer), f"{path.name} imports {other}"


@pytest.mark.parametrize("path", INSIDE, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_package_is_used_through_its_front_only(path):
    for other, module, names in imports_of_others(path):
        assert not module, f"{path.name} reaches into {other}.{module} for {', '.join(names)}"
        assert set(names) <= names_of_front(other), f"{path.name} uses what {other} does not name"


def test_modules_of_the_root_import_no_layer():
    for path in modules():
        if path.parent == PACKAGE and path.name != "__init__.py":
            assert path.stem in BELOW
            assert not [node for node in ast.walk(ast.parse(path.read_text())) if imports_a_layer(node)], path.name


def imports_a_layer(node):
    return isinstance(node, ast.ImportFrom) and node.level == 1 and (node.module or "").split(".")[0] in LAYERS


@pytest.mark.parametrize("name", SOFT)
def test_soft_apis_are_used_in_one_module(name):
    used = [path.relative_to(PACKAGE).as_posix() for path in modules() if name in path.read_text()]
    assert set(used) <= {"_compat.py"}


def test_no_sampler_knows_of_an_axis_of_agents():
    for path in (PACKAGE / "samplers").glob("*.py"):
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        names |= {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
        names |= {node.arg for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.keyword)}
        collectives = {"psum", "pmean", "pmax", "pmin", "all_gather", "all_to_all", "ppermute", "psum_scatter"}
        assert not names & (collectives | {"axis_name", "axis_index", "axis_size", "AGENTS"}), path.name
