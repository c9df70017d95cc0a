"""Scores, calibration errors, intervals and tests of predicted probabilities."""

from calibrant._predictions import Predictions
from calibrant.metrics._binary import binary_summary
from calibrant.metrics._calibration_error import (
    classwise_ece,
    confidence_ece,
    positive_ece,
    thresholded_ece,
)
from calibrant.metrics._cumulative import class_shares, cumulative_differences
from calibrant.metrics._evaluation import evaluate
from calibrant.metrics._reliability import reliability_curve
from calibrant.metrics._scores import (
    accuracy,
    brier_score,
    negative_log_likelihood,
    ranked_probability_score,
    score_decomposition,
)
from calibrant.metrics._significance import calibration_test
from calibrant.metrics._smooth import kernel_density_ece, smooth_ece

__all__ = [
    "Predictions",
    "accuracy",
    "binary_summary",
    "brier_score",
    "calibration_test",
    "class_shares",
    "classwise_ece",
    "confidence_ece",
    "cumulative_differences",
    "evaluate",
    "kernel_density_ece",
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
