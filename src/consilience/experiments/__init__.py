"""The paper's experiments, reproduced, and that of `consilience demo`: data, models, runs, tables and figures."""

from . import data
from .catalogue import EXPERIMENTS
from .digits import DemoLengths, DemoOutcome, compare_on_digits
from .digits_figure import plot_digits
from .methods import RUNS
from .record import Options, Record
from .reproduction import Experiment, reproduce
from .summary import CLAIM_HEADER, claim_cells, method_cells, method_header, records_in, write_page

__all__ = [
    "CLAIM_HEADER",
    "EXPERIMENTS",
    "RUNS",
    "DemoLengths",
    "DemoOutcome",
    "Experiment",
    "Options",
    "Record",
    "claim_cells",
    "compare_on_digits",
    "data",
    "method_cells",
    "method_header",
    "plot_digits",
    "records_in",
    "reproduce",
    "write_page",
]
