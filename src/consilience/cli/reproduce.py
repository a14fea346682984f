"""The command `consilience reproduce`: the paper's experiments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from rich.console import Console
from typer import Argument, Option

from .._compiled import keep_compiled_code
from .._refused import Refused
from .._tables import choose_from
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
from ..store import RUN, check_folder
from .errors import FOR_PAGES, check_extras, exit_on_error
from .options import Quick, Quiet, json_option
from .output import new_table

ALL = "all"
PAGE = "index.html"
Scale: TypeAlias = Literal["small", "paper"]
UNLIMITED = 10_000  # columns


def reproduce(
    names: Annotated[
        list[str], Argument(help="gmm, boston, mnist-partial, mnist-ring, bnn, theory, or all.", metavar="NAME")
    ],
    scale: Annotated[
        Scale, Option(help="small: each in two minutes on two cores. paper: in full; the images need a GPU.")
    ] = "small",
    seeds: Annotated[int | None, Option(help="Independent chains; left out, the experiment's own.", min=1)] = None,
    out: Annotated[
        Path | None, Option(help="Folder for all; left out, reproduction/SCALE.", show_default=False)
    ] = None,
    precision: Annotated[
        Literal["float32", "tf32"], Option(help="Of products on a GPU: tf32 is faster, and has 11 bits.")
    ] = "float32",
    quick: Quick = False,
    as_json: Annotated[bool, json_option("the records")] = False,
    quiet: Quiet = False,
) -> None:
    """Run the paper's experiments: its methods at its settings, and beside them exact ones.

    Writes a record, a figure and a report on the runs of each, and one page about all. A run that was interrupted is
    gone on with by the same command.

    Example: consilience reproduce mnist-ring --scale small
    """
    folder = out or Path("reproduction") / (scale + "-quick" * quick)

    def what_now() -> str:
        drawn = any(folder.glob(f"*/{RUNS}/*/{RUN}"))
        return f"{folder} has what was drawn: the same command goes on with it, --out DIR starts anew." * drawn

    with exit_on_error(hint=what_now):
        chosen = _chosen(names)
        _check(chosen, scale, folder)
        keep_compiled_code()
        records = []
        for experiment in chosen:
            place = folder / experiment.name
            options = Options(scale, seeds, place, precision, not (quiet or as_json), quick)
            records.append(run_experiment(experiment, options))
            if not as_json:
                show(records[-1])
        write_page(records_in(folder, EXPERIMENTS), folder, folder / PAGE)
    if as_json:
        print(json.dumps([json.loads(record.to_json()) for record in records], indent=1, ensure_ascii=False))
    else:
        print(f"{folder / PAGE} written.")


def _chosen(names: list[str]) -> list[Experiment]:
    for name in names:
        if name not in EXPERIMENTS and name != ALL:
            raise Refused("", f"there is no experiment {name!r}", choose_from(name, [*EXPERIMENTS, ALL]))
    return [one for one in EXPERIMENTS.values() if one.name in names or ALL in names]


def _check(chosen: list[Experiment], scale: Scale, folder: Path) -> None:
    """Refuse missing packages and data, and an unusable folder, before the first draw and not after the last."""
    check_extras(demo=FOR_PAGES)
    check_folder(folder, "--out DIR")
    if scale == "paper":
        data.fetch(*sorted({name for one in chosen for name in one.data}))


def show(record: Record) -> None:
    """Print the tables of a record on the terminal."""
    console = Console(highlight=False)
    console.print(f"[bold]{record.title}[/] ({record.scale} scale, {record.seconds:,.0f} s)")
    console.print(f"{record.data}.")
    if record.rows:
        _show_methods(console, method_header(record), method_cells(record))
    if record.claims:
        table = new_table(CLAIM_HEADER, CLAIM_HEADER, CLAIM_HEADER, pad_edge=False)
        for cells in claim_cells(record.claims):
            table.add_row(*cells)
        console.print(table)
    for note in record.notes:
        console.print(note, style="dim")
    console.print()


def _show_methods(console: Console, header: list[str], rows: list[list[str]]) -> None:
    """Print methods as a table, or where that is too wide, as a paragraph each: no digit is cut off."""
    left = [*header[: header.index("settings") + 1], "target"]
    table = new_table(header, left, pad_edge=False)
    for cells in rows:
        table.add_row(*cells)
    if Console(width=UNLIMITED).measure(table).maximum <= console.width:
        console.print(table)
        return
    for name, *cells in rows:
        said = ", ".join(f"{column} {cell}" for column, cell in zip(header[1:], cells, strict=True))
        console.print(f"[bold]{name}[/]: {said}")
    console.print()
