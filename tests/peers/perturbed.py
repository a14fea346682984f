"""One peer, as `consilience peer` runs it, of which one agent computes something else than all others.

Chunks are as in `held`, without its wait. Agent 1 takes all of a sum for worse than it is: of its sum number `ONCE`, or
of every one from there on where there is a file named always. So it refuses a proposal that the others take.
"""

import sys
from pathlib import Path

import numpy as np

from consilience.engine import Chains
from consilience.neighbors import Collectives
from consilience.runs.segment import Segment
from consilience.store import folder as store

from .agent import main  # no summary

CHUNK = 20  # draws
ONCE = 150
ALWAYS = Path("always")

assert store.SAMPLING_SHARE > 0, "how often is saved is said elsewhere now: set it there"
store.SAMPLING_SHARE = 0
Chains.iterations_at_once = lambda self: CHUNK
agree, total_at = Segment.agree, Collectives.total_at
sums = 0


def saved_always(self, wish):
    return agree(self, wish._replace(save=True))


def perturbed(self, arrays, rider=()):
    global sums
    found = total_at(self, arrays, rider)
    sums += 1
    if sums == ONCE or (sums > ONCE and ALWAYS.exists()):
        found = [np.where(np.isfinite(each), each - 1e9, each) if each.ndim == 1 else each for each in found]
    return found


Segment.agree = saved_always
if any("agent1" in word for word in sys.argv):
    Collectives.total_at = perturbed

if __name__ == "__main__":
    main()
