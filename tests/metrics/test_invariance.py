"""What holds for every metric: order, chunks, weights, containers, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from array_chunks import ArrayChunks
from calibrant import errors, metrics
from calibrant.scale import RowSample
from conftest import refuses
from metrics.cases import IN_ORDER, ORDERED, SCALARS, predictions, weighted

each = pytest.mark.parametrize("metric", SCALARS.values(), ids=SCALARS)
PROBA, Y, _ = weighted()


@each
@given(data=predictions(), seed=st.integers(0, 9))
def test_order_of_rows_does_not_matter(metric, data, seed):
    proba, y, w = data
    order = np.random.default_rng(seed).permutation(len(y))
    classes = np.arange(proba.shape[1])
    expected = metric(y, proba, sample_weight=w, classes=classes)
    found = metric(y[order], proba[order], sample_weight=w[order], classes=classes)
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("name", SCALARS)
def test_chunks_give_what_arrays_give(name):
    metric, (proba, y, w) = SCALARS[name], weighted()
    expected = metric(y, proba, sample_weight=w)
    for n_rows in (77, 600):
        chunks = ArrayChunks(proba, y, w, n_rows=n_rows)
        assert metric(chunks) == pytest.approx(expected, rel=1e-12, abs=1e-14)
    assert metric(metrics.Predictions.read(y, proba, sample_weight=w)) == expected


@pytest.mark.parametrize("name", [name for name in SCALARS if name not in IN_ORDER])
def test_sums_of_chunks_count_every_row(name, monkeypatch):
    """Also those that a sample of the rows would not have."""
    metric, (proba, y, _) = SCALARS[name], weighted()
    monkeypatch.setattr(RowSample, "update", None)  # no row is kept
    chunks = ArrayChunks(proba, y, n_rows=50)
    expected = metric(y, proba)
    assert metric(chunks) == pytest.approx(expected, rel=1e-12, abs=1e-14)


@each
@given(data=predictions())
def test_weights_are_repetitions_and_zero_is_removal(metric, data):
    proba, y, w = data
    classes = np.arange(proba.shape[1])
    found = metric(y, proba, sample_weight=w, classes=classes)
    repeated = metric(np.repeat(y, w), np.repeat(proba, w, axis=0), classes=classes)
    assert found == pytest.approx(repeated, rel=1e-12, abs=1e-14)
    assert found == metric(y[w > 0], proba[w > 0], sample_weight=w[w > 0], classes=classes)


@each
def test_scale_of_weights_does_not_matter(metric):
    proba, y, w = weighted()
    expected = pytest.approx(metric(y, proba, sample_weight=w), rel=1e-12)
    assert metric(y, proba, sample_weight=1024 * w) == expected
    same = metric(y, proba, sample_weight=np.full(len(y), 0.3))
    assert same == pytest.approx(metric(y, proba), rel=1e-12)


@each
def test_extreme_weights_are_finite(metric):
    proba, y, w = weighted()
    for scale in (1e-300, 1e290):
        assert np.isfinite(metric(y, proba, sample_weight=scale * w))
    w[0] = 1e30
    assert np.isfinite(metric(y, proba, sample_weight=w))


@each
def test_one_column_is_of_the_class_that_labels_or_pos_label_tell(metric):
    """Not of the label sorted last, which would make "good" the event of a credit file."""
    rng = np.random.default_rng(0)
    p = rng.random(300)
    is_bad = rng.random(300) < p
    y = np.where(is_bad, "bad", "good")
    expected = metric(is_bad, np.column_stack([1 - p, p]))
    for column in (p, p[:, None], p.tolist(), pd.Series(p)):
        assert metric(y, column, pos_label="bad") == expected
    assert metric(y, p, pos_label="bad", classes=["bad", "good"]) == expected
    assert metric(y, p, classes=["good", "bad"]) == expected
    for labels in (is_bad, is_bad.astype(float), np.where(is_bad, 1, -1)):
        assert metric(labels, p) == expected
    for labels in (y, np.where(is_bad, 2, 1)):
        with pytest.raises(errors.LabelError):
            metric(labels, p)
    with refuses("pos_label", value="ugly"):
        metric(y, p, pos_label="ugly")
    with refuses("pos_label", value="bad"):
        metric(y, np.column_stack([p, 1 - p]), pos_label="bad")


@each
def test_layout_container_and_kind_of_labels_do_not_matter_and_nothing_is_modified(metric):
    proba, y, w = weighted()
    before = proba.copy(), y.copy(), w.copy()
    expected = metric(y, proba, sample_weight=w)
    wide = np.zeros((len(y), 9))
    wide[:, 1::2] = proba
    frozen = proba.copy()
    frozen.setflags(write=False)
    same = [np.asfortranarray(proba), wide[:, 1::2], frozen, proba.astype(">f8"), proba.tolist()]
    for other in (*same, pd.DataFrame(proba)):
        assert metric(y, other, sample_weight=w) == expected
    letters = np.array(list("abcd"))[y]
    for labels, told in ((letters, None), ((7 * y + 3) % 4, [3, 2, 1, 0])):
        assert metric(labels, proba, sample_weight=w, classes=told) == expected
    frame = pd.DataFrame(proba, columns=list("abcd"))[list("dbca")]
    with pytest.warns(errors.ColumnOrderWarning):
        assert metric(letters, frame, sample_weight=w) == pytest.approx(expected, rel=1e-14)
    metric(y, (unnormalised := proba * (1 - 1e-4)), sample_weight=w)
    np.testing.assert_array_equal(unnormalised, proba * (1 - 1e-4))
    for a, b in zip(before, (proba, y, w), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", [name for name in SCALARS if name not in ORDERED])
def test_order_of_classes_does_not_matter(name):
    metric = SCALARS[name]
    proba, y, w = weighted()
    order = np.array([2, 0, 3, 1])
    expected = pytest.approx(metric(y, proba, sample_weight=w), rel=1e-12)
    assert metric(np.argsort(order)[y], proba[:, order], sample_weight=w) == expected


QUICK = {"n_resamples": 20}
RESULTS = {
    "evaluate": metrics.evaluate,
    "calibration_test": metrics.calibration_test,
    "reliability_curve": metrics.reliability_curve,
}
each_result = pytest.mark.parametrize("function", RESULTS.values(), ids=RESULTS)


@each_result
def test_seeds_decide_and_threads_do_not(function):
    proba, y, w = weighted(300)
    found = function(y, proba, sample_weight=w, **QUICK)
    assert repr(function(y, proba, sample_weight=w, n_jobs=2, **QUICK)) == repr(found)
    assert repr(function(y, proba, sample_weight=w, random_state=1, **QUICK)) != repr(found)


@each_result
def test_results_are_frozen_and_plain(function):
    proba, y, _ = weighted(100)
    found = function(y, proba, **QUICK)
    plain = found.to_dict()
    assert json.loads(json.dumps(plain)).keys() == plain.keys()
    for name in plain:
        with pytest.raises(AttributeError):
            setattr(found, name, 1.0)
        value = getattr(found, name)
        assert not (isinstance(value, np.ndarray) and value.flags.writeable)


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
