"""What metrics refuse, and in which words."""

import numpy as np
import pytest

from calibrant import errors, metrics
from metrics.cases import SCALARS, weighted

each = pytest.mark.parametrize("metric", SCALARS.values(), ids=SCALARS)
PROBA, Y, _ = weighted()


def broken(row, column, value):
    proba = PROBA.copy()
    proba[row, column] = value
    return proba


@pytest.mark.parametrize(
    ("proba", "error", "message"),
    [
        (broken(7, 2, np.nan), errors.NonFiniteError, r"y_proba\[7, 2\] is nan"),
        (broken(599, 0, -0.5), errors.RangeError, r"y_proba\[599, 0\] is -0.5.*for logits, pass"),
        (broken(3, 1, 0.9), errors.RangeError, r"y_proba\[3\] sums to .*; divide rows by"),
        (PROBA[:, :1][:0], errors.ShapeError, "y_proba has no rows"),
        (PROBA[:599], errors.ShapeError, "y_true has shape .* but y_proba has 599 rows"),
        (PROBA[None], errors.ShapeError, "y_proba has shape"),
        ([[0.5, 0.5], [1.0]], errors.ShapeError, "y_proba has rows of different lengths"),
        (PROBA.astype(str), errors.ContainerError, "y_proba has dtype"),
        (PROBA[:, :3] / PROBA[:, :3].sum(axis=1, keepdims=True), errors.LabelError, "4 distinct"),
        (
            PROBA[:, 0],
            errors.LabelError,
            "4 distinct labels but y_proba is for 2",
        ),
    ],
)
def test_bad_probabilities_are_refused_with_place_and_remedy(proba, error, message):
    with pytest.raises(error, match=message) as info:
        metrics.accuracy(Y, proba)
    assert "scores" not in str(info.value)


@each
def test_every_metric_reads_labels_weights_and_each_cell_that_way(metric):
    with pytest.raises(errors.NonFiniteError, match=r"y_proba\[599, 0\] is nan"):
        metric(Y, broken(599, 0, np.nan))
    with pytest.raises(errors.LabelError, match=r"y_true\[\d+\] is nan"):
        metric(np.where(Y == 0, np.nan, Y), PROBA)
    with pytest.raises(errors.WeightError, match="sample_weight"):
        metric(Y, PROBA, sample_weight=-np.ones(600))
    with pytest.raises(errors.LabelError, match="not among the classes"):
        metric(Y, PROBA, classes=[5, 6, 7, 8])


@pytest.mark.parametrize("w", [np.zeros(600), -np.ones(600), np.ones(599), np.ones((600, 1)), "x"])
def test_bad_weights_are_refused(w):
    with pytest.raises(errors.WeightError, match=r"[Ss]ample.weight"):
        metrics.accuracy(Y, PROBA, sample_weight=w)


@pytest.mark.parametrize(
    "call",
    [
        lambda: metrics.confidence_ece(Y, PROBA, n_bins=0),
        lambda: metrics.confidence_ece(Y, PROBA, n_bins=2.5),
        lambda: metrics.confidence_ece(Y, PROBA, strategy="kmeans"),
        lambda: metrics.classwise_ece(Y, PROBA, norm="l3"),
        lambda: metrics.classwise_ece(Y, PROBA, n_bins=True),
        lambda: metrics.thresholded_ece(Y, PROBA, n_bins="15"),
        lambda: metrics.negative_log_likelihood(Y, PROBA, min_probability=-1e-9),
        lambda: metrics.calibration_test(Y, PROBA, metric="top"),
        lambda: metrics.calibration_test(Y, PROBA, n_resamples=0),
        lambda: metrics.calibration_test(Y, PROBA, random_state="seed"),
        lambda: metrics.evaluate(Y, PROBA, n_resamples=-1),
        lambda: metrics.evaluate(Y, PROBA, confidence_level=95),
        lambda: metrics.reliability_curve(Y, PROBA, kind="unknown"),
        lambda: metrics.reliability_curve(Y, PROBA, kind=4),
    ],
)
def test_bad_parameters_are_refused(call):
    with pytest.raises(errors.ParameterError):
        call()


def test_a_column_of_labels_is_read_with_a_warning():
    with pytest.warns(errors.DataConversionWarning):
        assert metrics.accuracy(Y[:, None], PROBA) == metrics.accuracy(Y, PROBA)


def test_predictions_are_not_given_labels_again():
    read = metrics.Predictions.read(Y, PROBA)
    for options in ({"y_proba": PROBA}, {"sample_weight": np.ones(600)}, {"classes": range(4)}):
        with pytest.raises(errors.ParameterError, match="of their own"):
            metrics.accuracy(read, **options)
    with pytest.raises(errors.ContainerError, match="y_proba is None"):
        metrics.accuracy(Y)
