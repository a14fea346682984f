"""`cs.sample`, and the parts of it that other runtimes need too.

preparing   length, start, what is kept: checked before anything runs
agreeing    what hosts that share a run must have alike
drawing     chunks, to where they belong
running     `sample` itself
"""

from .drawing import MOST_REDONE, Piece, take
from .preparing import MOST_SEED, Length, Prepared, prepare
from .running import sample

__all__ = ["MOST_REDONE", "MOST_SEED", "Length", "Piece", "Prepared", "prepare", "sample", "take"]
