"""The paper's experiments, reproduced, and that of `consilience demo`: data, models, runs, tables and figures."""

from . import bnn, boston, data, gmm, mnist_partial, mnist_ring, theorems
from .digits import DemoLengths, DemoOutcome, compare_on_digits, plot_digits
from .methods import RUNS
from .record import Options, Record
from .reproduction import Experiment, reproduce
from .summary import CLAIM_HEADER, claim_cells, method_cells, method_header, records_in, write_page

EXPERIMENTS: dict[str, Experiment] = {
    one.EXPERIMENT.name: one.EXPERIMENT for one in (gmm, boston, mnist_partial, mnist_ring, bnn, theorems)
}
