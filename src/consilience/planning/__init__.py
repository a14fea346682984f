"""Prediction of what a run by peers will cost on given links, before it is made."""

from .cost import MEASURED, PARTS, Constants, CostModel
from .demand import Demand, demand_of
from .figure import plan_figure, predict_families
from .links import LinkSpeeds, bits_per_second, read_links, seconds
from .prediction import MANY_CHAINS, AgreementMethod, Prediction, predict
from .recommendation import (
    EFFECTIVE_DRAWS,
    MOST_PARAMETERS,
    NUTS,
    SPLIT,
    STARTED,
    SURROGATE,
    Facts,
    Recommendation,
    assumed_of,
    in_words,
    recommend,
)
from .sizes import Size
from .trial import Trial, trial_of
