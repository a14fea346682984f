"""The command `consilience report`: a page about one run or several."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from .._checks import nearest
from .._refused import Refused
from ..results import Run, load
from ..store import RUN
from .errors import check_page, exit_on_error
from .options import Quiet, json_option
from .output import print_json, run_data

WIDTH = 98  # characters
MADE_BY = "A run is made by: consilience run FILE.toml"


def report(
    runs: Annotated[list[Path], Argument(help="Folders of runs.", metavar="RUN")],
    out: Annotated[Path, Option(help="The page.")] = Path("report.html"),
    title: Annotated[str | None, Option(help="Of the page.")] = None,
    as_json: Annotated[bool, json_option("every run's summary and scores")] = False,
    quiet: Quiet = False,
) -> None:
    """Write one page about one run, or about several side by side; it needs nothing but a browser.

    Example: consilience report runs/nuts runs/dmala --out comparison.html
    """
    with exit_on_error():
        from ..report import report as write_page

        loaded = {name: load_run(folder) for name, folder in zip(_names(runs), runs, strict=True)}
        check_page(out, "--out FILE.html")
        written = write_page(loaded, out, title)
        data = {name: run_data(run) for name, run in loaded.items()} if as_json else {}
    if as_json:
        print_json({"runs": data, "report": str(written)})
    elif quiet:
        print(written)
    else:
        for name, run in loaded.items():
            print(f"{name}: {run!r}")
            print(textwrap.indent(textwrap.fill(run.summary().verdict, WIDTH), "  "))
        print(f"\n{written} written.")


def _names(folders: Sequence[Path]) -> list[str]:
    """Return the folders' own names where they differ, else their paths."""
    names = [folder.resolve().name for folder in folders]
    return names if len(set(names)) == len(names) else [str(folder) for folder in folders]


def load_run(folder: Path) -> Run:
    """Load the run in a folder; where there is none, refuse, with the folder that was probably meant."""
    if (folder / RUN).is_file():
        return load(folder)
    if folder.is_file():
        fix = f"Did you mean {folder.parent}?" if (folder.parent / RUN).is_file() else MADE_BY
        raise Refused("", f"{folder} is a file, and the folder of a run is needed", fix)
    there = sorted(str(path.parent) for path in folder.parent.glob(f"*/{RUN}"))
    near = nearest(str(folder), there)
    fix = f"Did you mean {near}?" if near else f"There are {', '.join(there[:8])}." if there else ""
    raise Refused("", f"{folder} holds no run", fix or MADE_BY)
