"""What a run leaves: draws, diagnostics, cost."""

from .run import Run
from .summary import Summary

__all__ = ["Run", "Summary"]
