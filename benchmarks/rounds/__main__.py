"""The command line."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path

from . import __doc__ as description
from .cells import FULL, QUICK, all_cells
from .runs import Book, run_all

ROOT = Path(__file__).parent.parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rounds", description=description)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cells at a time, a core each")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, and nothing else")
    parser.add_argument("--out", type=Path, help="folder of rounds.md and rounds.json; docs, or build with --quick")
    parser.add_argument(
        "--only", default="", help="cells whose 'model / method' contains one of these, split by commas"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no cell after so long")
    given = parser.parse_args()
    cells = all_cells(QUICK if given.quick else FULL)
    wanted = given.only.split(",")
    if not any(part in cell.name for part in wanted for cell in cells):
        sys.exit(f"no cell is called {given.only!r}")
    book = Book(given.out or ROOT / ("build/rounds" if given.quick else "docs"), cells)
    run_all(book, given.jobs, wanted, given.seconds, say=partial(print, flush=True))


if __name__ == "__main__":
    main()
