"""What metrics refuse, and in which words."""

import numpy as np
import pytest

from calibrant import errors, metrics
from conftest import refuses
from metrics.cases import SCALARS, weighted

each = pytest.mark.parametrize("metric", SCALARS.values(), ids=SCALARS)
PROBA, Y, _ = weighted()


def broken(row, column, value):
    proba = PROBA.copy()
    proba[row, column] = value
    return proba


@pytest.mark.parametrize(
    ("proba", "error", "facts"),
    [
        (broken(7, 2, np.nan), errors.NonFiniteError, {"row": 7, "column": 2}),
        (broken(599, 0, -0.5), errors.RangeError, {"row": 599, "column": 0, "value": -0.5}),
        (broken(3, 1, 0.9), errors.RangeError, {"row": 3, "column": None}),
        (PROBA[:, :1][:0], errors.ShapeError, {}),
        (PROBA[:599], errors.ShapeError, {}),
        (PROBA[None], errors.ShapeError, {}),
        ([[0.5, 0.5], [1.0]], errors.ShapeError, {}),
        (PROBA.astype(str), errors.ContainerError, {}),
        (PROBA[:, :3] / PROBA[:, :3].sum(axis=1, keepdims=True), errors.LabelError, {}),
        (PROBA[:, 0], errors.LabelError, {}),
    ],
)
def test_bad_probabilities_are_refused_with_their_place_and_the_metric_s_names(proba, error, facts):
    with pytest.raises(error) as info:
        metrics.accuracy(Y, proba)
    assert {name: getattr(info.value, name) for name in facts} == facts
    assert "y_proba" in str(info.value)
    assert "scores" not in str(info.value)


@each
def test_every_metric_reads_labels_weights_and_each_cell_that_way(metric):
    with refuses("scores", errors.NonFiniteError, row=599, column=0):
        metric(Y, broken(599, 0, np.nan))
    with refuses("y", errors.LabelError):
        metric(np.where(Y == 0, np.nan, Y), PROBA)
    with refuses("sample_weight", errors.WeightError):
        metric(Y, PROBA, sample_weight=-np.ones(600))
    with refuses("y", errors.LabelError):
        metric(Y, PROBA, classes=[5, 6, 7, 8])


@pytest.mark.parametrize("w", [np.zeros(600), -np.ones(600), np.ones(599), np.ones((600, 1)), "x"])
def test_bad_weights_are_refused(w):
    with pytest.raises(errors.WeightError):
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
        lambda: metrics.evaluate(Y, PROBA, ordered="yes"),
        lambda: metrics.evaluate(Y, PROBA, strategy="mass"),
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
        with refuses("y_true"):
            metrics.accuracy(read, **options)
    with pytest.raises(errors.ContainerError):
        metrics.accuracy(Y)
