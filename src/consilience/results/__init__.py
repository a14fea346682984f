"""What a run leaves: draws, diagnostics, cost."""

from .run import Moments, Run
from .stored import load
from .summary import Summary

__all__ = ["Moments", "Run", "Summary", "load"]
