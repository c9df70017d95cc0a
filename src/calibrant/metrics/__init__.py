"""Scores, calibration errors, intervals and tests of predicted probabilities."""

from calibrant.metrics._calibration_error import (
    classwise_ece,
    confidence_ece,
    positive_ece,
    thresholded_ece,
)
from calibrant.metrics._cross_fitted import (
    cross_fitted_decomposition,
    score_decomposition,
    variational_errors,
)
from calibrant.metrics._cumulative import (
    class_shares,
    cumulative_differences,
    kolmogorov_smirnov_error,
    kuiper_error,
)
from calibrant.metrics._reliability import reliability_curve
from calibrant.metrics._scores import (
    accuracy,
    brier_score,
    negative_log_likelihood,
    post_hoc_improvement,
    ranked_probability_score,
)
from calibrant.metrics._significance import calibration_test
from calibrant.metrics._smooth import kernel_density_ece, smooth_ece
from calibrant.metrics._statistics import MetricStatistics, evaluate

__all__ = [
    "MetricStatistics",
    "accuracy",
    "brier_score",
    "calibration_test",
    "class_shares",
    "classwise_ece",
    "confidence_ece",
    "cross_fitted_decomposition",
    "cumulative_differences",
    "evaluate",
    "kernel_density_ece",
    "kolmogorov_smirnov_error",
    "kuiper_error",
    "negative_log_likelihood",
    "positive_ece",
    "post_hoc_improvement",
    "ranked_probability_score",
    "reliability_curve",
    "score_decomposition",
    "smooth_ece",
    "thresholded_ece",
    "variational_errors",
]


def __dir__() -> list[str]:
    return __all__
