"""Scores, calibration errors, intervals and tests of predicted probabilities."""

from calibrant.metrics.calibration_error import (
    classwise_ece,
    confidence_ece,
    positive_ece,
    thresholded_ece,
)
from calibrant.metrics.cross_fitted import cross_fitted_decomposition
from calibrant.metrics.cumulative import (
    cumulative_differences,
    kolmogorov_smirnov_error,
    kuiper_error,
)
from calibrant.metrics.decomposition import score_decomposition
from calibrant.metrics.evaluate import evaluate
from calibrant.metrics.improvement import post_hoc_improvement
from calibrant.metrics.kernel_density import kernel_density_ece
from calibrant.metrics.reliability import reliability_curve
from calibrant.metrics.scores import accuracy, brier_score, negative_log_likelihood
from calibrant.metrics.shares import class_shares
from calibrant.metrics.significance import calibration_test
from calibrant.metrics.smooth import smooth_ece
from calibrant.metrics.statistics import MetricStatistics
from calibrant.metrics.variational import variational_errors

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
    "reliability_curve",
    "score_decomposition",
    "smooth_ece",
    "thresholded_ece",
    "variational_errors",
]


def __dir__() -> list[str]:
    return __all__
