"""One peer, as `consilience peer` runs it, whose run is not over before a test is done with it, however fast it draws.

Every few draws are saved before the next are drawn. Before its last draws the agent waits, as long as there is a file
named hold where it was started.
"""

import time
from pathlib import Path

from consilience.engine import Engine
from consilience.runs import member
from consilience.runs.segment import Segment
from consilience.store import folder as store

from .agent import main  # no summary

CHUNK = 20  # draws
LAST = 3 * CHUNK
HOLD = Path("hold")

assert store.SAMPLING_SHARE > 0, "how often is saved is said elsewhere now: set it there"
assert member.LONGEST_LINGER > 0, "how long an agent says that all is done is said elsewhere now: set it there"
store.SAMPLING_SHARE = 0
member.LONGEST_LINGER = 600.0
Engine.iterations_at_once = lambda self: CHUNK
pieces = Segment.pieces


def held(self, is_to_stop, report):
    drawn = self.store.progress.drawn
    for piece in pieces(self, is_to_stop, report):
        yield piece
        drawn += len(piece.chunk.positions)
        is_near_the_end = self.task.length.num_samples - drawn <= LAST
        while not self.store.is_due or (is_near_the_end and HOLD.exists() and not is_to_stop()):
            time.sleep(0.005)


Segment.pieces = held

if __name__ == "__main__":
    main()
