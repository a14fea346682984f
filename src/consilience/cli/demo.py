"""The command `consilience demo`: agents on a ring learn handwritten digits."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from rich.table import Table
from typer import Option

from .._compiled import keep_compiled_code
from ..store import check_folder
from .errors import FOR_PAGES, check_extras, exit_on_error
from .options import Quick, Quiet, json_option
from .output import new_table

if TYPE_CHECKING:
    from ..experiments import DemoOutcome

RESULTS = "results.json"
FIGURE = "figure.png"
REPORT = "report.html"


def demo(
    out: Annotated[Path, Option(help="Folder for the page, the figure and the table.")] = Path("demo-output"),
    seed: Annotated[int, Option(help="The same seed gives the same draws.", min=0, max=2**32 - 1)] = 0,
    quick: Quick = False,
    as_json: Annotated[bool, json_option("the table")] = False,
    quiet: Quiet = False,
) -> None:
    """Let five agents on a ring, with two classes of handwritten digits each, learn all ten together.

    Runs exact decentralized NUTS, exact draws from a surrogate, the corrected decentralized MALA, the paper's
    samplers, and an exact reference on pooled data, in minutes. Prints a table, and saves it with a figure and a
    page about all runs.

    Example: consilience demo --out demo-output --seed 1
    """
    with exit_on_error():
        check_extras(demo=FOR_PAGES)
        check_folder(out, "--out DIR")
        out.mkdir(parents=True, exist_ok=True)
    keep_compiled_code()
    from ..experiments import DemoLengths, compare_on_digits, plot_digits
    from ..report import report

    began = time.perf_counter()
    lengths = DemoLengths(10, 50, 25, 2, 10, 20, 10, 2, 2) if quick else DemoLengths()
    outcome = compare_on_digits(lengths, seed, progress=not quiet)
    rows = [asdict(row) for row in outcome.rows]
    (out / RESULTS).write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    plot_digits(outcome, out / FIGURE)
    report(outcome.runs, out / REPORT, "Five agents on a ring, two digits each")
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        console = Console()
        console.print(_table(outcome))
        if quiet:
            return
        _print_notes(console, outcome)
        seconds = time.perf_counter() - began
        console.print(f"{out / REPORT}, {out / FIGURE} and {out / RESULTS} written, {seconds:.0f} s.")
        if quick:
            print("Far too few iterations to mean anything: leave out --quick for a result.")


def _table(outcome: DemoOutcome) -> Table:
    header = ["sampler", "accuracy", "NLL", "var/ref", "ESS", "accept", "rounds", "MB"]
    table = new_table(header, header[:1], title="Digits, five agents on a ring, two classes each", pad_edge=False)
    for row in outcome.rows:
        table.add_row(
            row.sampler,
            f"{row.accuracy:.3f}",
            f"{row.nll:.3f}",
            f"{row.variance_ratio:.2f}",
            f"{row.ess:.0f}",
            "-" if row.acceptance is None else f"{row.acceptance:.2f}",
            f"{row.rounds:,}",
            f"{row.megabytes:,.0f}",
        )
    return table


def _print_notes(console: Console, outcome: DemoOutcome) -> None:
    console.print(
        "Accuracy and NLL on held-out images of all ten classes, averaged over the agents. var/ref: variance of the "
        "draws over that of an exact run on pooled data, averaged over parameters; 1 is right, less is overconfident. "
        "ESS: effective draws of a typical parameter. MB: sent by all agents together.",
        style="dim",
    )
    for row in outcome.rows:
        if row.bias:
            console.print(f"[yellow]{row.sampler}[/]: {row.bias}")
