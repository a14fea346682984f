"""`consilience reproduce`"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from .._extras import require
from .ending import choose_from, errors_are_said
from .output import QUIET
from .writing import check_folder

if TYPE_CHECKING:
    from ..experiments.reproduction import Record

ALL = "all"
PAGE = "index.html"


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
    """Run the paper's experiments: its methods at its settings, and beside them what can be had.

    Writes a record, a figure and a report on the runs of each, and one page about all. A run that was interrupted is
    gone on with by the same command.

    Example: consilience reproduce mnist-ring --scale small
    """
    folder = out or Path("reproduction") / (scale.value + "-quick" * quick)

    def what_now() -> str:
        return f"What has been drawn is in {folder}; another folder is --out DIR." if folder.exists() else ""

    with errors_are_said(hint=what_now):
        for module in ("sklearn", "arviz_stats", "matplotlib"):  # before the first draw, not after the last
            require(module, "demo")
        check_folder(folder, "--out DIR")
        from ..experiments import data
        from ..experiments.catalogue import EXPERIMENTS
        from ..experiments.reproduction import Options
        from ..experiments.reproduction import reproduce as run_experiment
        from ..experiments.summary import write_page

        for name in names:
            if name not in EXPERIMENTS and name != ALL:
                raise ValueError(f"there is no experiment {name!r}. {choose_from(name, [*EXPERIMENTS, ALL])}")
        chosen = [one for one in EXPERIMENTS.values() if one.name in names or ALL in names]
        if scale is Scale.paper:
            for needed in sorted({name for one in chosen for name in one.data}):
                data.fetch(needed)
        records = []
        for experiment in chosen:
            options = Options(
                scale.value, seeds, folder / experiment.name, precision.value, not (quiet or as_json), quick
            )
            record = run_experiment(experiment, options)
            records.append(record)
            if not as_json:
                show(record)
        write_page(records, folder, folder / PAGE)
    if as_json:
        print(json.dumps([json.loads(record.to_json()) for record in records], indent=1, ensure_ascii=False))
    else:
        print(f"{folder / PAGE} written.")


def show(record: Record) -> None:
    """The tables of a record, on the terminal."""
    from ..experiments.summary import CLAIM_HEADER, claim_cells, method_cells, method_header

    console = Console()
    console.print(f"[bold]{record.title}[/] ({record.scale} scale, {record.seconds:,.0f} s)")
    console.print(f"{record.data}.", highlight=False)
    if record.rows:
        console.print(_table(method_header(record), method_cells(record), numbers=True))
    console.print(_table(CLAIM_HEADER, claim_cells(record.claims), numbers=False))
    for note in record.notes:
        console.print(note, style="dim")
    console.print()


def _table(header: Sequence[str], rows: list[list[str]], numbers: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for place, name in enumerate(header):
        is_number = numbers and place > 1 and name != "target"
        table.add_column(name, justify="right" if is_number else "left", no_wrap=numbers, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
