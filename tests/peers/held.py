"""One peer, as `consilience peer` runs it, whose run is not over before a test is done with it, however fast it draws.

Every few draws are saved before the next are drawn. Before its last draws the agent waits, as long as there is a file
named hold where it was started.
"""

import time
from pathlib import Path

from consilience.engine import Chains
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
Chains.iterations_at_once = lambda self: CHUNK
agree = Segment.agree


def held(self, wish):
    sink, draws = self.job.sink, self.job.request.length.num_samples
    while not sink.is_due or (
        draws - sink.progress.drawn <= LAST and HOLD.exists() and not self._is_to_stop()  # all has been saved
    ):
        time.sleep(0.005)
    return agree(self, wish._replace(save=True))


Segment.agree = held

if __name__ == "__main__":
    main()
