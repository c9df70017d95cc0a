"""Metrics of rows in chunks: those of arrays, whatever the chunks, their order and merges."""

from __future__ import annotations

import io
import pickle
import warnings

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import errors, metrics
from calibrant.metrics import _resampling as resampling
from calibrant.metrics import _table as table
from calibrant.metrics._measures import deal_groups
from calibrant.metrics._statistics import MetricStatistics
from calibrant.metrics._table import metrics_of
from calibrant.scale._chunks import ArrayChunks
from calibrant.scale._statistics import Statistics
from conftest import each_real_file, load_real, simulate
from metrics.cases import NEED_ARRAYS, SCALARS, predictions, weighted
from scale.forged import rewritten

CHUNKED = {name: metric for name, metric in SCALARS.items() if name not in NEED_ARRAYS}
each = pytest.mark.parametrize("name", CHUNKED)


def near(value):
    return pytest.approx(value, rel=1e-12, abs=1e-12)


def count(proba, y, weight=None, parts=1, **options):
    """Statistics of every ``parts``-th row, merged."""
    found = MetricStatistics(range(proba.shape[1]), **options)
    for p in range(parts):
        own = None if weight is None else weight[p::parts]
        found.merge(found.empty().update(proba[p::parts], y[p::parts], own))
    return found


# Values


@each
@given(data=predictions(), n_rows=st.integers(1, 12))
def test_values_of_chunks_are_those_of_arrays(name, data, n_rows):
    proba, y, w = data
    classes = np.arange(proba.shape[1])
    expected = CHUNKED[name](y, proba, sample_weight=w, classes=classes)
    found = CHUNKED[name](None, ArrayChunks(proba, y, w, n_rows=n_rows), classes=classes)
    assert type(found) is float
    assert found == near(expected)


@each
@pytest.mark.parametrize("unit", [1.0, 0.01, 1e5])
def test_weights_of_any_size(name, unit):
    """Those of one row and the next may be 1e5 apart, and are on both sides of several units."""
    proba, y, w = weighted(300)
    w = unit * np.maximum(w, 0.03)
    w[::50] *= 1000.0
    expected = CHUNKED[name](y, proba, sample_weight=w)
    assert CHUNKED[name](None, ArrayChunks(proba, y, w, n_rows=77)) == near(expected)


@each_real_file
def test_values_of_real_predictions(name):
    proba, y = load_real(name)["test"]
    options = {"classes": np.arange(proba.shape[1]), "n_resamples": 0}
    found = metrics.evaluate(None, ArrayChunks(proba, y, n_rows=1234), **options)
    expected = metrics.evaluate(y, proba, **options)
    for metric, estimate in found.estimates().items():
        assert estimate.value == near(expected.estimates()[metric].value), metric
    assert found.binning_error == 0.0
    assert (found.n_rows, found.n_classes) == (expected.n_rows, expected.n_classes)


def test_a_label_of_probability_zero():
    chunks = ArrayChunks(np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]), [0, 0, 1], n_rows=1)
    for floor in (1e-12, 1e-300, 0.0):
        with np.errstate(divide="ignore"):
            expected = near((np.log(2) - np.log(floor)) / 3)
        assert metrics.negative_log_likelihood(None, chunks, min_probability=floor) == expected


def test_logits_and_masses():
    proba, y = simulate(500, 4)
    expected = count(proba, y).solve(n_resamples=0).estimates()
    with np.errstate(divide="ignore"):
        logits = np.log(proba) + 7.0
    for other, options in ((logits, {"scores": "logits"}), (3 * proba, {"normalize": "rows"})):
        found = count(other, y, **options).solve(n_resamples=0).estimates()
        for name, estimate in found.items():
            assert estimate.value == pytest.approx(expected[name].value, rel=1e-9)


# The same bits


@given(data=predictions(30), seed=st.integers(0, 99))
def test_other_chunks_agree_and_the_same_chunks_give_the_same_bits(data, seed):
    proba, y, w = data
    rng = np.random.default_rng(seed)
    w = w * rng.choice([0.3, 1.0, 5000.0], len(w))
    parts = np.array_split(rng.permutation(len(y)), rng.integers(1, len(y) + 1))
    found = []
    for _ in range(2):
        merged = MetricStatistics(range(proba.shape[1]), n_groups=5)
        for own in parts:
            merged.merge(merged.empty().update(proba[own], y[own], w[own]))
        found.append(merged)
    assert found[0].to_bytes() == found[1].to_bytes()
    expected = count(proba, y, w, n_groups=1).solve().estimates()
    for name, estimate in found[0].solve(n_resamples=0).estimates().items():
        assert estimate.value == near(expected[name].value), name


def test_neither_order_nor_equal_rows_make_groups_uneven():
    """Equal rows are dealt as if they differed; a row keeps its group in any order."""
    proba, y, _ = weighted(400, 3)
    group = deal_groups(proba, y, 8)
    order = np.random.default_rng(0).permutation(400)
    np.testing.assert_array_equal(deal_groups(proba[order].copy(), y[order], 8), group[order])
    equal = deal_groups(np.full((4000, 2), 0.5), np.zeros(4000, dtype=np.int64), 8)
    assert np.bincount(equal, minlength=8).min() > 400


def test_they_can_be_sent():
    proba, y, w = weighted(300)
    found = count(proba, y, np.maximum(w, 0.01))
    for copy in (pickle.loads(pickle.dumps(found)), MetricStatistics.from_bytes(found.to_bytes())):
        assert copy.to_bytes() == found.to_bytes()
        assert copy.solve(n_resamples=20) == found.solve(n_resamples=20)
        assert copy.calibration_test() == found.calibration_test()
    with pytest.raises(errors.StatisticsError, match="metrics with 4 classes, not Statistics"):
        Statistics.from_bytes(found.to_bytes())


def test_old_rows_can_be_weighted_down():
    proba, y, w = weighted(300)
    w = np.maximum(w, 0.01)
    old, new = (slice(None, 100), slice(100, None))
    found = MetricStatistics(range(4)).update(proba[old], y[old], w[old]).scale(0.25)
    found.merge(MetricStatistics(range(4)).update(proba[new], y[new], w[new]))
    w[old] *= 0.25
    expected = metrics.evaluate(y, proba, sample_weight=w, n_resamples=0).estimates()
    for name, estimate in found.solve(n_resamples=5).estimates().items():
        assert estimate.value == pytest.approx(expected[name].value, rel=1e-9), name
    fresh = count(proba, y)
    assert found.scale(0.0).merge(count(proba, y)).to_bytes() == fresh.to_bytes()


# Bytes of strangers


def forged(statistics, **changed):
    """Bytes of statistics with some arrays changed, or left out if they are None."""
    with np.load(io.BytesIO(statistics.to_bytes())) as found:
        arrays = {name: own for name, own in {**found, **changed}.items() if own is not None}
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def test_damaged_arrays_are_refused():
    good = count(*simulate(50, 3), n_groups=4)
    assert MetricStatistics.from_bytes(forged(good)).n_rows == 50
    n_tried = 0
    arrays = [
        (f"{name}/{key}", own)
        for name, state in good.parts.items()
        for key, own in state.arrays().items()
    ]
    for key, values in arrays:
        damaged = [values.astype(np.complex128), np.full(values.shape, "x"), values[..., None]]
        damaged += [values[:-1], np.concatenate([values, values]), None]
        damaged += [np.full_like(values, np.nan)] if values.dtype == np.float64 else []
        damaged += [-values - 1] if values.dtype == np.int64 else []
        for bad in damaged:
            with pytest.raises(errors.StatisticsError):
                MetricStatistics.from_bytes(forged(good, **{key: bad}))
            n_tried += 1
    assert n_tried > 50


def test_damaged_options_are_refused():
    good = count(*simulate(50, 3), n_groups=4)
    bins, groups = (0, 10**15, "15"), (0, 2000, None)
    changes = [{"n_bins": n} for n in bins] + [{"n_groups": n} for n in groups] + [{"more": 1}]
    for options in changes:
        data = rewritten(good.to_bytes(), {"options": good.options | options})
        with pytest.raises(errors.StatisticsError):
            MetricStatistics.from_bytes(data)


# Intervals


def test_intervals_need_groups_and_few_have_wider_ones():
    """Student's quantile of five degrees of freedom is 2.5706; groups change no value."""
    assert resampling._stretch(6, 0.95) == pytest.approx(np.sqrt(6 / 5) * 2.5706 / 1.9600, rel=1e-4)
    assert (resampling._stretch(1, 0.95), resampling._stretch(2, 1.0)) == (1.0, np.sqrt(2))
    assert count(np.array([[0.3, 0.7]]), np.array([1])).solve().accuracy == (1.0, 1.0, 1.0)
    one, few, many = (count(*simulate(800, 4), n_groups=g).solve().estimates() for g in (1, 5, 64))
    assert all(one[name].value == few[name].value == many[name].value for name in metrics_of(4))
    found = count(*simulate(50, 3), n_groups=1)
    assert found.solve().n_resamples == 0
    with pytest.raises(errors.ParameterError, match="n_groups=64"):
        found.solve(n_resamples=10)
    for bad in ({"n_resamples": -1}, {"confidence_level": 2.0}, {"random_state": "seed"}):
        with pytest.raises(errors.ParameterError, match=next(iter(bad))):
            count(*simulate(50, 3)).solve(**bad)
    with pytest.raises(errors.ParameterError, match="n_resamples"):
        found.calibration_test(n_resamples=0)
    assert table.usual_groups(10, 15) == 64
    assert table.usual_groups(10_000, 15) == 8


# Warnings and refusals


@pytest.mark.parametrize("n_rows", [600, 50])
def test_shuffled_columns_are_noticed_as_in_memory(n_rows):
    proba, y = simulate(600, 6)
    labels = np.array(list("abcdef"))[y]
    shuffled = proba[:, [1, 2, 3, 4, 5, 0]]
    told = []
    for data in ((labels, shuffled), (None, ArrayChunks(shuffled, labels, n_rows=n_rows))):
        with pytest.warns(errors.ColumnMismatchWarning) as found:
            metrics.evaluate(*data, n_resamples=0)
        assert found[0].filename == __file__
        told.append(str(found[0].message))
    assert told[0] == told[1]
    metrics.evaluate(None, ArrayChunks(proba, labels, n_rows=n_rows), n_resamples=0)


def test_many_classes_are_not_counted_by_prediction(monkeypatch):
    monkeypatch.setattr(table, "MOST_CLASSES_CROSSED", 5)
    proba, y = simulate(300, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        count(proba[:, ::-1].copy(), y).solve()
    with pytest.raises(ValueError, match="classes"):
        table.Confusion(6)


def test_classes_are_told_by_labels_as_in_memory():
    proba, y = simulate(200, 3)
    names = np.array(["ant", "bee", "cow"])
    expected = metrics.accuracy(y, proba)
    assert metrics.accuracy(None, ArrayChunks(proba, names[y], n_rows=9)) == expected
    order = [2, 0, 1]
    chunks = ArrayChunks(proba[:, order], names[y], n_rows=9)
    assert metrics.accuracy(None, chunks, classes=names[order]) == expected
    assert metrics.accuracy(None, ArrayChunks(proba, np.minimum(y, 1), n_rows=9)) <= 1.0
    with pytest.raises(errors.LabelError, match=r"y_true has 2 distinct labels .*classes="):
        metrics.accuracy(None, ArrayChunks(proba, names[np.minimum(y, 1)], n_rows=9))
    with pytest.raises(errors.ParameterError, match="one label for each of the 3 columns"):
        metrics.accuracy(None, ArrayChunks(proba, y, n_rows=9), classes=[0, 1])


def test_one_column_is_the_positive_class():
    rng = np.random.default_rng(0)
    p = rng.random((300, 1))
    y = np.where(rng.random(300) < p[:, 0], "bad", "good")
    told = {"pos_label": "bad"}
    expected = metrics.evaluate(y, p, n_resamples=0, **told).estimates()
    chunks = ArrayChunks(p, y, n_rows=77)
    found = metrics.evaluate(None, chunks, n_resamples=0, **told).estimates()
    assert "positive_ece" in found
    for name, estimate in found.items():
        assert estimate.value == near(expected[name].value)
    for name in ("smooth_ece", "kuiper_error", "positive_ece"):
        function = getattr(metrics, name)
        assert function(None, chunks, **told) == near(function(y, p, **told))
    with pytest.raises(errors.LabelError, match="pass pos_label='good' or pos_label='bad'"):
        metrics.brier_score(None, chunks)


def test_bad_input_names_the_chunk_and_leaves_everything_as_it_was():
    proba, y = simulate(100, 3)
    proba[77, 1] = np.nan
    with pytest.raises(errors.NonFiniteError, match=r"chunk 7, row 7, row 77 of all: "):
        metrics.evaluate(None, ArrayChunks(proba, y, n_rows=10))
    proba, y = simulate(100, 3)
    with pytest.raises(errors.WeightError, match="negative"):
        metrics.accuracy(None, ArrayChunks(proba, y, -np.ones(100), n_rows=10))
    with pytest.raises(errors.ShapeError, match="no chunk has a row"):
        metrics.accuracy(None, ArrayChunks(proba, y, np.zeros(100), n_rows=10))
    with pytest.raises(errors.ShapeError, match="no rows were counted"):
        MetricStatistics(range(3)).solve()
    with pytest.raises(errors.ParameterError, match="labels and weights"):
        metrics.accuracy(y, ArrayChunks(proba, y, n_rows=10))
    found = count(proba, y)
    before = found.to_bytes()
    with pytest.raises(errors.RangeError, match="y_proba"):
        found.update(np.where(np.arange(100)[:, None] == 99, 2.0, proba), y)
    assert found.to_bytes() == before


# Dask


def test_dask_collections():
    proba, y, w = weighted(500, 3)
    w = np.maximum(w, 0.01)
    expected = metrics.evaluate(y, proba, sample_weight=w, n_resamples=0)
    rows, labels, weight = (da.from_array(a, chunks=120) for a in (proba, y, w))
    frame = dd.from_pandas(
        pd.DataFrame(proba, columns=["a", "b", "c"]).assign(y=np.array(list("abc"))[y], w=w),
        npartitions=3,
    )
    rows = rows.rechunk({1: -1})
    with dask.config.set(scheduler="synchronous"):
        found = [
            metrics.evaluate(own_y, own_rows, sample_weight=own_weight, n_resamples=0)
            for own_y, own_rows, own_weight in (
                (labels, rows, weight),
                (y, rows, w),
                (frame["y"], frame[["a", "b", "c"]], frame["w"]),
            )
        ]
        assert type(metrics.accuracy(labels, rows)) is float
        positive = da.from_array(proba[:, 1] / proba[:, :2].sum(axis=1), chunks=99)
        binary = da.from_array(y > 0, chunks=99)
        one = metrics.brier_score(binary, positive)
        assert one == near(metrics.brier_score(y > 0, positive.compute()))
    for result in found:
        for name, estimate in result.estimates().items():
            assert estimate.value == near(expected.estimates()[name].value)
