"""Dask collections: the same fits as in memory, lazy predictions, errors that name the chunk."""

from __future__ import annotations

import warnings

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import calibrant
from array_chunks import ArrayChunks
from calibrant import errors, metrics
from calibrant.datasets import simulated_scores
from calibrant.scale import RowSample
from calibrant.scale import dask as on_dask
from calibrant.scale.dask import DaskChunks
from conftest import refuses

SCORES, Y = simulated_scores(3000)
CHUNKED, LABELS = da.from_array(SCORES, chunks=(700, 3)), da.from_array(Y, chunks=500)
NAMES = np.array(["ant", "bee", "cow"])
SCORES_FRAME = pd.DataFrame(SCORES, columns=NAMES)
FRAME = SCORES_FRAME.assign(label=NAMES[Y])


@pytest.fixture(autouse=True)
def _in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.mark.parametrize(
    "method",
    [calibrant.NormalizationAwareIsotonic, calibrant.FlattenedIsotonic, calibrant.OneVsRestBeta],
)
def test_a_fit_to_chunks_is_the_fit_in_memory(method):
    near, far = method().fit(SCORES, Y), method().fit(CHUNKED, LABELS)
    assert_allclose(far.predict_proba(SCORES), near.predict_proba(SCORES), rtol=0, atol=1e-9)
    assert_array_equal(far.classes_, near.classes_)
    other = method().fit(CHUNKED.rechunk((311, 3))[::-1], LABELS[::-1])
    assert_array_equal(other.predict_proba(SCORES), far.predict_proba(SCORES))


def test_predictions_are_lazy_and_chunked_as_the_scores_are():
    calibrator = calibrant.TemperatureScaling().fit(SCORES, Y)
    for method in ("predict_proba", "transform", "predict_log_proba", "predict"):
        lazy = getattr(calibrator, method)(CHUNKED)
        assert isinstance(lazy, da.Array)
        assert lazy.chunks[0] == CHUNKED.chunks[0]
        now = getattr(calibrator, method)(SCORES)
        assert lazy.dtype == now.dtype
        assert_array_equal(lazy.compute(), now)
    assert calibrator.predict_proba(CHUNKED.astype(np.float32)).dtype == np.float32


def test_data_frames_have_names_and_chunks_of_unknown_size():
    frame = dd.from_pandas(FRAME, npartitions=4)
    columns = ["cow", "ant", "bee"]  # another order
    calibrator = calibrant.FlattenedIsotonic()
    with pytest.warns(errors.ColumnOrderWarning):
        calibrator.fit(frame[columns], frame["label"])
    here = calibrant.FlattenedIsotonic().fit(FRAME[list(NAMES)], FRAME["label"])
    assert calibrator.classes_.tolist() == NAMES.tolist()
    with pytest.warns(errors.ColumnOrderWarning):
        lazy = calibrator.predict_proba(frame[columns])
    assert_array_equal(lazy.compute(), here.predict_proba(FRAME[list(NAMES)]))
    with pytest.warns(errors.ColumnOrderWarning):
        labels = calibrator.predict(frame[columns]).compute()
    assert_array_equal(labels, here.predict(FRAME[list(NAMES)]))


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # in Dask
def test_frames_of_parquet_are_read_once_and_cut_alike(tmp_path):
    # Of the labels alone Dask would make fewer chunks.
    for i in range(20):
        day = FRAME[150 * i : 150 * (i + 1)].assign(weight=2.0)
        day.to_parquet(tmp_path / f"{i:02}.parquet", index=False)
    frame = dd.read_parquet(tmp_path)
    assert len(frame["label"].to_delayed()) < frame.npartitions
    here = calibrant.FlattenedIsotonic().fit(FRAME[list(NAMES)], FRAME["label"])
    for weight in (None, frame["weight"]):
        far = calibrant.FlattenedIsotonic().fit(frame[list(NAMES)], frame["label"], weight)
        assert far.classes_.tolist() == NAMES.tolist()
        rows = far.predict_proba(FRAME[list(NAMES)])
        assert_array_equal(rows, here.predict_proba(FRAME[list(NAMES)]))
    lazy = far.predict_proba(frame[list(NAMES)]).compute()
    assert_array_equal(lazy, rows)


@pytest.fixture
def days(tmp_path):
    """A collection of 25 Parquet files, of which Dask reads several at once for a few columns."""
    for i in range(25):
        day = FRAME[120 * i : 120 * (i + 1)].assign(
            weight=1.0 + i, positive=Y[120 * i :][:120] == 0
        )
        day.to_parquet(tmp_path / f"{i:02}.parquet", index=False)
    return dd.read_parquet(tmp_path)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # in Dask
def test_what_was_just_calibrated_is_scored_by_labels_of_the_same_frame(days):
    calibrator = calibrant.TemperatureScaling().fit(days[list(NAMES)], days["label"])
    lazy, rows = calibrator.predict_proba(days[list(NAMES)]), calibrator.predict_proba(SCORES_FRAME)
    assert (lazy.npartitions, [*lazy.columns]) == (25, [*NAMES])
    assert len({len(days[one].to_delayed()) for one in ("label", list(NAMES))}) == 2
    for name in ("negative_log_likelihood", "confidence_ece", "brier_score"):
        metric = getattr(metrics, name)
        assert metric(days["label"], lazy) == pytest.approx(metric(FRAME["label"], rows), rel=1e-12)
    weight = np.repeat(np.arange(1.0, 26.0), 120)
    found = metrics.accuracy(days["label"], lazy, sample_weight=days["weight"])
    assert found == pytest.approx(metrics.accuracy(FRAME["label"], rows, sample_weight=weight))
    found = metrics.brier_score(days["positive"], days["ant"])
    assert found == pytest.approx(metrics.brier_score(Y == 0, SCORES[:, 0]), rel=1e-12)


def test_labels_and_weights_may_be_in_memory_or_chunked_in_another_way():
    weight = np.random.default_rng(0).integers(0, 3, len(Y)).astype(float)
    here = calibrant.FlattenedIsotonic().fit(SCORES, Y, weight)
    for y, w in [(Y, weight), (LABELS, da.from_array(weight, chunks=77)), (Y.tolist(), weight)]:
        far = calibrant.FlattenedIsotonic().fit(CHUNKED, y, w)
        assert_array_equal(far.predict_proba(SCORES), here.predict_proba(SCORES))


@pytest.mark.parametrize("digits", [None, 1])
def test_a_sample_of_chunks_is_that_of_all_rows(digits):
    scores = SCORES if digits is None else np.round(SCORES, digits) + 0.01
    scores = scores / scores.sum(axis=1, keepdims=True)
    whole = RowSample([0, 1, 2], max_cells=900).update(scores, Y)
    for size in (100, 700):
        chunks = DaskChunks(da.from_array(scores, chunks=(size, -1)), Y)
        sample = chunks.sample([0, 1, 2], max_cells=900)
        for name in ("scores", "class_index", "weight", "unit"):
            assert_array_equal(getattr(sample.batch(), name), getattr(whole.batch(), name))


def test_a_chunk_without_weight_or_without_rows_is_none():
    weight = np.ones(len(Y))
    weight[:700] = 0.0
    sieved = CHUNKED[da.from_array(weight, chunks=700) > 0]  # of unknown sizes, the first empty
    labels = LABELS.rechunk(700)[da.from_array(weight, chunks=700) > 0]
    here = calibrant.FlattenedIsotonic().fit(SCORES[700:], Y[700:])
    for far in (
        calibrant.FlattenedIsotonic().fit(CHUNKED, LABELS, weight),
        calibrant.FlattenedIsotonic().fit(sieved, labels),
    ):
        assert_array_equal(far.predict_proba(SCORES), here.predict_proba(SCORES))
    found = metrics.accuracy(LABELS, CHUNKED, sample_weight=weight)
    assert found == pytest.approx(metrics.accuracy(Y[700:], SCORES[700:]))
    with pytest.raises(errors.ShapeError):
        calibrant.FlattenedIsotonic(classes=[0, 1, 2]).fit(CHUNKED, LABELS, 0 * weight)


@pytest.mark.parametrize("names", [np.arange(4), np.arange(4).astype(object), np.array([*"abcd"])])
def test_labels_of_rows_without_weight_tell_nothing_of_the_classes(names):
    y, weight = names[Y], np.ones(len(Y))
    y[:701], weight[:701] = names[3], 0.0  # a whole chunk, and a row of the next
    for chunks in (
        DaskChunks(CHUNKED, da.from_array(y, chunks=500), da.from_array(weight, chunks=500)),
        ArrayChunks(SCORES, y, weight, n_rows=700),
    ):
        found = chunks.labels()
        assert found.tolist() == names[:3].tolist()
        assert found.dtype.kind in "iU"
    for scores in (SCORES, CHUNKED):
        with refuses("y", errors.LabelError):
            calibrant.FlattenedIsotonic().fit(scores, y, weight)


def wrong(**changes):
    """Scores, labels and weights with something wrong."""
    scores, y, weight = SCORES.copy(), Y.copy(), np.ones(len(Y))
    for array, place, value in changes.values():
        {"scores": scores, "y": y, "weight": weight}[array][place] = value
    return da.from_array(scores, chunks=(700, 3)), y, weight


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (("scores", (1417, 1), np.nan), r"^chunk 2, row 17: scores\[17, 1\] "),
        (("scores", (2999, 0), 7.0), r"^chunk 4, row 199: scores\[199, 0\] "),
        (("scores", 700, 0.0), r"^chunk 1, row 0: scores\[0\] "),
        (("y", 750, 9), r"^chunk 1, row 50: y\[50\] "),
        (("weight", 1400, -1.0), r"^chunk 2, row 0: sample_weight\[0\] "),
    ],
)
def test_a_fault_is_named_by_chunk_and_row_and_changes_nothing(fault, words):
    scores, y, weight = wrong(fault=fault)
    calibrator = calibrant.FlattenedIsotonic(classes=[0, 1, 2])
    with pytest.raises(errors.DataError, match=words):
        calibrator.fit(scores, y, weight)
    assert not hasattr(calibrator, "map_")


def test_a_fault_in_a_lazy_prediction_is_named_by_chunk():
    scores, *_ = wrong(fault=("scores", (1417, 1), np.nan))
    lazy = calibrant.FlattenedIsotonic().fit(SCORES, Y).predict_proba(scores)
    with pytest.raises(errors.NonFiniteError, match=r"chunk 2, row 17: scores\[17, 1\]"):
        lazy.compute()


@pytest.mark.parametrize("names", [None, NAMES])
def test_bad_rows_are_marked_or_left_out(names):
    scores = SCORES.copy()
    scores[[3, 1417, 2999], [0, 1, 2]] = np.nan
    scores[700] = 0.0
    bad = [3, 700, 1417, 2999]
    good = np.delete(np.arange(len(scores)), bad)
    chunked, plain = da.from_array(scores, chunks=(700, 3)), SCORES
    if names is not None:
        chunked, plain = dd.from_dask_array(chunked, columns=names), SCORES_FRAME
    calibrator = calibrant.TemperatureScaling().partial_fit(plain, Y)
    wanted = calibrator.predict_proba(plain)
    marked = on_dask.predict_proba(calibrator, chunked, on_bad_row="nan")
    found = np.asarray(marked.compute())
    assert np.flatnonzero(np.isnan(found).all(axis=1)).tolist() == bad
    assert_array_equal(found[good], wanted[good])
    left = on_dask.predict_proba(calibrator, chunked, on_bad_row="skip")
    assert names is not None or np.isnan(left.shape[0])
    assert_array_equal(left.compute(), wanted[good])
    with refuses("scores", errors.DataError):
        on_dask.predict_proba(calibrator, chunked).compute()
    with refuses("on_bad_row", value="drop"):
        on_dask.predict_proba(calibrator, chunked, on_bad_row="drop")
    assert calibrator.sample_.n_rows == len(Y)  # which are not sent to the workers


@pytest.mark.parametrize(
    ("scores", "y", "error"),
    [
        (CHUNKED.rechunk((700, 1)), LABELS, errors.ShapeError),
        (CHUNKED[CHUNKED[:, 0] > 0.2], Y, errors.ShapeError),
        (CHUNKED[CHUNKED[:, 0] > 0.2], LABELS, errors.ShapeError),
        (CHUNKED, LABELS[:-1], errors.ShapeError),
        (SCORES, LABELS, errors.ContainerError),
        (CHUNKED[:, 0], LABELS, errors.ShapeError),
        (CHUNKED, None, errors.LabelError),
        (CHUNKED, da.zeros((3000, 2)), errors.ShapeError),
    ],
)
def test_what_cannot_be_chunked_alike_is_refused(scores, y, error):
    with pytest.raises(error):
        calibrant.FlattenedIsotonic().fit(scores, y)


def test_another_number_of_classes_in_a_chunk_is_refused():
    odd = da.from_delayed(dask.delayed(np.full)((10, 4), 0.25), (10, 3), float)
    with pytest.raises(errors.ShapeError, match=r"^chunk 5: "):
        calibrant.FlattenedIsotonic().fit(
            da.concatenate([CHUNKED, odd]), np.concatenate([Y, Y[:10]])
        )


@pytest.mark.parametrize("missing", [None, np.nan])
def test_a_missing_label_is_named_by_chunk_and_row(missing):
    y = FRAME["label"].astype(object).to_numpy().copy()
    y[1417] = missing
    frame = dd.from_pandas(SCORES_FRAME.assign(label=y), npartitions=5, sort=False)
    for scores, labels, words in (
        (CHUNKED, da.from_array(y, chunks=500), "chunk 2, row 17: y"),
        (frame[list(NAMES)], frame["label"], "chunk 2, row 217: y"),
    ):
        for classes in (None, list(NAMES)):
            with pytest.raises(errors.LabelError, match=words):
                calibrant.TemperatureScaling(classes=classes).fit(scores, labels)


def test_the_prediction_of_a_frame_is_a_frame_with_columns_named_by_class():
    """Columns low, mid, high; classes high, low, mid: named by position, they would be mixed up."""
    levels = np.array(["low", "mid", "high"])
    frame = pd.DataFrame(SCORES, columns=[f"prob_{level}" for level in levels])
    frame = frame.assign(label=levels[Y], id=np.arange(len(Y)) + 10_000)
    frame.index = np.arange(len(Y))[::-1] * 3
    lazy, columns = dd.from_pandas(frame, npartitions=5, sort=False), [*frame.columns[:3]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.ColumnOrderWarning)
        calibrator = calibrant.FlattenedIsotonic().fit(lazy[columns], lazy["label"])
        calibrated = calibrator.predict_proba(lazy[columns])
        wanted = calibrator.predict_proba(frame[columns])
    assert [*calibrated.columns] == ["high", "low", "mid"]
    assert calibrated.npartitions == 5
    found = calibrated.compute()
    pd.testing.assert_frame_equal(found, pd.DataFrame(wanted, frame.index, calibrator.classes_))
    assert (found.idxmax(axis=1) == frame["label"]).mean() > 0.6
    assert_allclose(
        metrics.negative_log_likelihood(lazy["label"], calibrated),
        metrics.negative_log_likelihood(frame["label"], found),
    )
    beside = lazy[["id"]].assign(**{name: calibrated[name] for name in calibrated}).compute()
    assert_array_equal(beside["id"], frame["id"])
    assert_array_equal(beside[["high", "low", "mid"]], wanted)


def test_bad_rows_of_a_frame_keep_the_index_of_the_others():
    frame = FRAME[list(NAMES)].iloc[:40].copy()
    frame.index = np.arange(40) * 7
    frame.iloc[25, 1] = np.nan
    lazy = dd.from_pandas(frame, npartitions=4)
    calibrator = calibrant.TemperatureScaling().fit(FRAME[list(NAMES)], FRAME["label"])
    left = on_dask.predict_proba(calibrator, lazy, on_bad_row="skip").compute()
    assert_array_equal(left.index, np.delete(frame.index, 25))
    marked = on_dask.predict_proba(calibrator, lazy, on_bad_row="nan").compute()
    assert_array_equal(marked.index[marked.isna().any(axis=1)], frame.index[[25]])
    with pytest.raises(errors.NonFiniteError, match=r"^chunk 2, row 5: scores\[5, 1\] "):
        calibrator.predict_proba(lazy).compute()
