"""Scores, calibration errors, intervals and tests of predicted probabilities."""

from calibrant._predictions import Predictions
from calibrant.metrics._binary import binary_summary
from calibrant.metrics._calibration_error import ClassBins as ClassBins
from calibrant.metrics._calibration_error import check_bins as check_bins
from calibrant.metrics._calibration_error import (
    classwise_ece,
    confidence_ece,
    positive_ece,
    thresholded_ece,
)
from calibrant.metrics._calibration_error import errors_in as errors_in
from calibrant.metrics._evaluation import LARGEST_SHARE as LARGEST_SHARE
from calibrant.metrics._evaluation import Confusion as Confusion
from calibrant.metrics._evaluation import Evaluation as Evaluation
from calibrant.metrics._evaluation import GroupTable as GroupTable
from calibrant.metrics._evaluation import evaluate
from calibrant.metrics._evaluation import warn_of_mismatch as warn_of_mismatch
from calibrant.metrics._intervals import Seed as Seed
from calibrant.metrics._intervals import check_level as check_level
from calibrant.metrics._intervals import row_sums as row_sums
from calibrant.metrics._intervals import share_interval as share_interval
from calibrant.metrics._intervals import standard_error as standard_error
from calibrant.metrics._intervals import student as student
from calibrant.metrics._intervals import student_interval as student_interval
from calibrant.metrics._scores import LogLoss as LogLoss
from calibrant.metrics._scores import (
    accuracy,
    brier_score,
    negative_log_likelihood,
    ranked_probability_score,
    score_decomposition,
)
from calibrant.metrics._segments import SegmentTable as SegmentTable
from calibrant.metrics._segments import calibration_segments
from calibrant.metrics._significance import CalibrationTest as CalibrationTest
from calibrant.metrics._significance import ReliabilityCurve as ReliabilityCurve
from calibrant.metrics._significance import calibration_test, reliability_curve
from calibrant.metrics._table import METRICS as METRICS
from calibrant.metrics._table import Metric as Metric
from calibrant.metrics._table import headline as headline
from calibrant.metrics._table import metrics_of as metrics_of
from calibrant.metrics._unbinned import ClassShares as ClassShares
from calibrant.metrics._unbinned import class_shares, cumulative_differences, smooth_ece
from calibrant.metrics._unbinned import holm as holm

# Names "x as x" are for other rooms of this package; they are not public.
__all__ = [
    "Predictions",
    "accuracy",
    "binary_summary",
    "brier_score",
    "calibration_segments",
    "calibration_test",
    "class_shares",
    "classwise_ece",
    "confidence_ece",
    "cumulative_differences",
    "evaluate",
    "negative_log_likelihood",
    "positive_ece",
    "ranked_probability_score",
    "reliability_curve",
    "score_decomposition",
    "smooth_ece",
    "thresholded_ece",
]


def __dir__() -> list[str]:
    return __all__
