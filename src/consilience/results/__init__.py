"""Results of a run: its draws, diagnostics, predictions and cost, in memory or on disk."""

from .certificate import Certificate, Check
from .checks import PredictiveCheck
from .comparison import ComparedModel, Comparison, check_runs, compare, comparison_of, rows_of_models
from .function_space import PredictionMixing
from .held_out import seen_classes
from .loading import load, moments_of, stored_run
from .loo import Loo, LooBasis, basis_of, loo_of
from .loo_rows import k_limit
from .loo_sums import LooSums, added_up, sums_of
from .own import own_draws
from .predictions import PredictedInterval
from .predictive import classification_scores, with_strange
from .run import Moments, Run
from .scores import ClassificationScores, CumulativeAccuracy, RegressionScores, Reliability, save_scores
from .stacking import WEIGHTS, pseudo_bma
from .summary import Summary
