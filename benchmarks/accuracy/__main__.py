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
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=description)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cells at a time, a core each")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, and nothing else")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="folder of accuracy.md and accuracy.json; docs, or build with --quick")
    parser.add_argument("--only", default="", help="cells whose 'target / network / sampler' contains this")
    given = parser.parse_args()
    scale = QUICK if given.quick else FULL
    cells = all_cells(scale, given.seed)
    if not any(given.only in cell.name for cell in cells):
        sys.exit(f"no cell is called {given.only!r}")
    book = Book(given.out or ROOT / ("build/accuracy" if given.quick else "docs"), cells)
    run_all(book, scale, given.seed, given.jobs, given.only, say=partial(print, flush=True))


if __name__ == "__main__":
    main()
