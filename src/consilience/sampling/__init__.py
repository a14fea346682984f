"""The function `cs.sample`, and the parts of it that other runtimes need too.

preparing   a run's length, start, and what is kept of it: checked before anything runs
agreeing    checks that hosts that share a run do the same thing
drawing     the loop that takes chunks of draws to memory or disk
running     `sample` itself
"""

from .drawing import MOST_REDONE, Piece, take
from .preparing import MOST_SEED, Length, Prepared, prepare
from .running import sample

__all__ = ["MOST_REDONE", "MOST_SEED", "Length", "Piece", "Prepared", "prepare", "sample", "take"]
