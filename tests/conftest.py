"""What all tests share: shapes are checked, compiled code is kept, and no test may take long.

Every call inside samplers and consensus is checked against its annotations, here and nowhere else.
"""

import gc
import os
from importlib.metadata import version
from pathlib import Path

# For the processes that tests start, too. Most of the time of a test is the compiler's, and most of the compiler's is
# spent on making code fast that runs for a second: without that it takes a fifth. XLA_FLAGS="" compiles as for users.
FLAGS = "--xla_backend_optimization_level=0"
if version("jaxlib").startswith("0.10."):  # later ones end at a flag that they do not know
    FLAGS += " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
os.environ.setdefault("XLA_FLAGS", FLAGS)
os.environ.setdefault("CONSILIENCE_COMPILED", str(Path(__file__).parents[1] / ".compiled"))

import jax
import matplotlib
import pytest
from jaxtyping import install_import_hook

TESTS = Path(__file__).parent
SLOW = (  # what `make test-fast` leaves out
    "cli/test_demo.py",
    "cli/test_devices.py",
    "cli/test_reproduce.py",
    "devices/",
    "peers/test_runs.py",
    "peers/test_survival.py",
    "planning/test_demand.py",
    "planning/test_prediction.py",
    "planning/test_trial.py",
    "store/test_killing.py",
    "samplers/",
    "test_docs.py",
    "test_invariance.py",
    "test_numpyro_reference.py",
    "test_reference.py",
)

matplotlib.use("Agg")
jax.config.update("jax_num_cpu_devices", 5)  # for tests of meshes; the others use the first
SHAPES_CHECKED = (
    "samplers",
    *(f"neighbors.{name}" for name in ("alone", "edges", "gossip", "protocol")),
)
install_import_hook([f"consilience.{name}" for name in SHAPES_CHECKED], "beartype.beartype")

from consilience._compiled import FOLDER, OFF, VARIABLE, keep_compiled_code

from .limit import complaint, crowding, processor_seconds

# Tracing makes millions of objects, most of which stay: to look through them for garbage takes a tenth of the time.
gc.freeze()
gc.set_threshold(200_000, 20, 100)

keep_compiled_code()
if getattr(jax.config, FOLDER) is None:
    os.environ[VARIABLE] = OFF[0]  # the processes that tests start need not say why, each of them


def pytest_collection_modifyitems(items):
    """Mark what is slow."""
    for item in items:
        if item.path.is_relative_to(TESTS) and item.path.relative_to(TESTS).as_posix().startswith(SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Begin to measure a test."""
    item.stash[COMPUTED] = sum(processor_seconds().values())


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Fail a test that takes too long."""
    report = (yield).get_result()
    spent = item.stash[SPENT] = item.stash.get(SPENT, 0.0) + call.duration
    if call.when == "call" and report.passed and not item.get_closest_marker("soak"):
        computed = sum(processor_seconds().values()) - item.stash[COMPUTED]
        said = complaint(item.nodeid, spent, crowding(computed / max(spent, 1e-9)))
        if said:
            report.outcome, report.longrepr = "failed", said


SPENT = pytest.StashKey[float]()  # seconds, by a test and by what is made for it
COMPUTED = pytest.StashKey[float]()  # of a processor, before it began


@pytest.fixture
def compilations():
    """The durations of XLA compilations, as they happen."""
    seen = []

    def listen(event, duration, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            seen.append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield seen
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.fixture
def optimized(monkeypatch):
    """Compile to code that runs fast: where a test samples for long, that pays."""
    compile = jax.stages.Lowered.compile
    options = {"xla_backend_optimization_level": 3}
    monkeypatch.setattr(jax.stages.Lowered, "compile", lambda lowered: compile(lowered, compiler_options=options))
