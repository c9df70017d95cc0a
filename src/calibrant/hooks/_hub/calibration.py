"""Calibration as a module of Hugging Face's ``evaluate``: ``evaluate.load(module_path())``."""

from __future__ import annotations

import datasets
import evaluate

from calibrant.metrics import brier_score, classwise_ece, confidence_ece, negative_log_likelihood

DESCRIPTION = "Calibration errors and proper scores of predicted probabilities, by calibrant."
INPUTS = """
Args:
    predictions: probabilities of the classes, a list for each row.
    references: number of the right class of each row, from 0.
    n_bins: number of bins of the calibration errors, 15 by default.
Returns:
    confidence_ece, classwise_ece, negative_log_likelihood and brier_score.
"""


class Calibration(evaluate.Metric):
    """Calibration errors and proper scores."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="",
            inputs_description=INPUTS,
            features=datasets.Features(
                {
                    "predictions": datasets.Sequence(datasets.Value("float64")),
                    "references": datasets.Value("int64"),
                }
            ),
        )

    def _compute(
        self, predictions: list[list[float]], references: list[int], n_bins: int = 15
    ) -> dict[str, float]:
        classes = range(len(predictions[0]))
        return {
            "confidence_ece": confidence_ece(
                references, predictions, n_bins=n_bins, classes=classes
            ),
            "classwise_ece": classwise_ece(references, predictions, n_bins=n_bins, classes=classes),
            "negative_log_likelihood": negative_log_likelihood(
                references, predictions, classes=classes
            ),
            "brier_score": brier_score(references, predictions, classes=classes),
        }
