"""The command `consilience reproduce`: the paper's experiments."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from .._compiled import keep_compiled_code
from .._extras import check_installed
from ..experiments import (
    CLAIM_HEADER,
    EXPERIMENTS,
    RUNS,
    Experiment,
    Options,
    Record,
    claim_cells,
    data,
    method_cells,
    method_header,
    records_in,
    write_page,
)
from ..experiments import reproduce as run_experiment
from ..store import RUN
from .ending import INTERRUPTED, choose_from, end, errors_are_said
from .output import QUIET
from .writing import check_folder

ALL = "all"
PAGE = "index.html"
UNLIMITED = 10_000  # columns


class Scale(StrEnum):
    small = "small"
    paper = "paper"


class Precision(StrEnum):
    float32 = "float32"
    tf32 = "tf32"


def reproduce(
    names: Annotated[
        list[str], typer.Argument(help="gmm, boston, mnist-partial, mnist-ring, bnn, theory, or all.", metavar="NAME")
    ],
    scale: Annotated[
        Scale, typer.Option(help="small: each in two minutes on two cores. paper: in full; the images need a GPU.")
    ] = Scale.small,
    seeds: Annotated[
        int | None, typer.Option(help="Independent chains; left out, the experiment's own.", min=1)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for all; left out, reproduction/SCALE.", show_default=False)
    ] = None,
    precision: Annotated[
        Precision, typer.Option(help="Of products on a GPU: tf32 is faster, and has 11 bits.")
    ] = Precision.float32,
    quick: Annotated[
        bool, typer.Option("--quick", help="A hundredth of the iterations: a look, not a result.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the records as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help=QUIET)] = False,
) -> None:
    """Run the paper's experiments: its methods at its settings, and beside them exact ones.

    Writes a record, a figure and a report on the runs of each, and one page about all. A run that was interrupted is
    gone on with by the same command.

    Example: consilience reproduce mnist-ring --scale small
    """
    folder = out or Path("reproduction") / (scale.value + "-quick" * quick)

    def what_now() -> str:
        drawn = any(folder.glob(f"*/{RUNS}/*/{RUN}"))
        return f"{folder} has what was drawn: the same command goes on with it, --out DIR starts anew." * drawn

    try:
        with errors_are_said(hint=what_now):
            chosen = _chosen(names)
            _check(chosen, scale, folder)
            keep_compiled_code()
            records = []
            for experiment in chosen:
                place = folder / experiment.name
                options = Options(scale.value, seeds, place, precision.value, not (quiet or as_json), quick)
                records.append(run_experiment(experiment, options))
                if not as_json:
                    show(records[-1])
            write_page(records_in(folder, EXPERIMENTS), folder, folder / PAGE)
    except KeyboardInterrupt:
        end(INTERRUPTED, "interrupted.", what_now())
    if as_json:
        print(json.dumps([json.loads(record.to_json()) for record in records], indent=1, ensure_ascii=False))
    else:
        print(f"{folder / PAGE} written.")


def _chosen(names: list[str]) -> list[Experiment]:
    for name in names:
        if name not in EXPERIMENTS and name != ALL:
            raise ValueError(f"there is no experiment {name!r}. {choose_from(name, [*EXPERIMENTS, ALL])}")
    return [one for one in EXPERIMENTS.values() if one.name in names or ALL in names]


def _check(chosen: list[Experiment], scale: Scale, folder: Path) -> None:
    """Refuse missing packages and data, and an unusable folder, before the first draw and not after the last."""
    for module in ("sklearn", "arviz_stats", "matplotlib"):
        check_installed(module, "demo")
    check_folder(folder, "--out DIR")
    if scale is Scale.paper:
        data.fetch(*sorted({name for one in chosen for name in one.data}))


def show(record: Record) -> None:
    """Print the tables of a record on the terminal."""
    console = Console(highlight=False)
    console.print(f"[bold]{record.title}[/] ({record.scale} scale, {record.seconds:,.0f} s)")
    console.print(f"{record.data}.")
    if record.rows:
        _show_methods(console, method_header(record), method_cells(record))
    if record.claims:
        table = _table(CLAIM_HEADER)
        for cells in claim_cells(record.claims):
            table.add_row(*cells)
        console.print(table)
    for note in record.notes:
        console.print(note, style="dim")
    console.print()


def _show_methods(console: Console, header: list[str], rows: list[list[str]]) -> None:
    """Print methods as a table, or where that is too wide, as a paragraph each: no digit is cut off."""
    table = _table(header, numbers_from=header.index("settings") + 1)
    for cells in rows:
        table.add_row(*cells)
    if Console(width=UNLIMITED).measure(table).maximum <= console.width:
        console.print(table)
        return
    for name, *cells in rows:
        said = ", ".join(f"{column} {cell}" for column, cell in zip(header[1:], cells, strict=True))
        console.print(f"[bold]{name}[/]: {said}")
    console.print()


def _table(header: Sequence[str], numbers_from: int | None = None) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for place, name in enumerate(header):
        is_number = numbers_from is not None and place >= numbers_from and name != "target"
        table.add_column(name, justify="right" if is_number else "left", no_wrap=numbers_from is not None)
    return table
