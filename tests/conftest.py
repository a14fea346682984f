"""Shapes are checked here and nowhere else: every call inside samplers and consensus against its annotations."""

import matplotlib
from jaxtyping import install_import_hook

matplotlib.use("Agg")
install_import_hook(["consilience.samplers", "consilience.consensus"], "beartype.beartype")
