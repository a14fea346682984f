"""Results of a run: its draws, diagnostics, predictions and cost, in memory or on disk."""

from .run import Moments, Run
from .stored import load
from .summary import Summary

__all__ = ["Moments", "Run", "Summary", "load"]
