"""Results of a run: its draws, diagnostics, predictions and cost, in memory or on disk."""

from .checks import PredictiveCheck
from .held_out import seen_classes
from .loading import load, moments_of, stored_run
from .predictions import PredictedInterval
from .predictive import classification_scores, with_strange
from .run import Moments, Run
from .scores import ClassificationScores, CumulativeAccuracy, RegressionScores, Reliability, save_scores
from .summary import Summary

__all__ = [
    "ClassificationScores",
    "CumulativeAccuracy",
    "Moments",
    "PredictedInterval",
    "PredictiveCheck",
    "RegressionScores",
    "Reliability",
    "Run",
    "Summary",
    "classification_scores",
    "load",
    "moments_of",
    "save_scores",
    "seen_classes",
    "stored_run",
    "with_strange",
]
