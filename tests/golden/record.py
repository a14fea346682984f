"""Record the draws anew: `python -m tests.golden.record`, or of some cells: `... record simulate/nuts-given 'peers/*'`.

Only where a change of the draws, or of what is sent, is meant; the commit says why.
"""

import fnmatch
import sys
import time

import jax

from .cells import CELLS, DEVICES, draw
from .recorded import write


def main(patterns: list[str]) -> None:
    jax.config.update("jax_num_cpu_devices", DEVICES)
    for pattern in patterns:
        if not fnmatch.filter(CELLS, pattern):
            sys.exit(f"{pattern}: no such cell. There are\n  " + "\n  ".join(CELLS))
    for cell in CELLS:
        if not patterns or any(fnmatch.fnmatch(cell, pattern) for pattern in patterns):
            began = time.perf_counter()
            write({cell: draw(cell)})
            print(f"{cell}  {time.perf_counter() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
