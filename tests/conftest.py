"""Shapes are checked here and nowhere else: every call inside samplers and consensus against its annotations."""

import jax
import matplotlib
import pytest
from jaxtyping import install_import_hook

matplotlib.use("Agg")
jax.config.update("jax_num_cpu_devices", 5)  # for tests of meshes; the others use the first
install_import_hook(["consilience.samplers", "consilience.consensus"], "beartype.beartype")


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
