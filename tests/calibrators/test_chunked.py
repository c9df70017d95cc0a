"""Fits to samples and chunks of rows, and partial_fit day after day: every method alike."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import calibrant
from array_chunks import ArrayChunks
from calibrant import errors, model_file
from calibrant.datasets import simulated_scores
from calibrant.scale import RowSample
from conftest import methods_alone, refuses

SCORES, Y = simulated_scores(1200)
DAYS = [(SCORES[i::3], Y[i::3]) for i in range(3)]
METHODS = [cls for cls in methods_alone().values() if cls.method != "two-class"]
each = pytest.mark.parametrize("cls", METHODS)


@each
def test_days_chunks_and_samples_give_the_fit_in_memory(cls):
    whole = cls().fit(SCORES, Y).predict_proba(SCORES)
    daily = cls()
    for scores, y in DAYS:
        assert daily.partial_fit(scores, y, classes=[0, 1, 2]) is daily
    of_chunks = cls().fit(ArrayChunks(SCORES, Y, n_rows=500))
    of_sample = cls().fit(RowSample([0, 1, 2]).update(SCORES, Y))
    assert daily.sample_.n_rows == len(Y)
    for fitted in (daily, of_chunks, of_sample):
        assert_allclose(fitted.predict_proba(SCORES), whole, rtol=0, atol=1e-9)
    assert_array_equal(daily.predict_proba(SCORES), of_chunks.predict_proba(SCORES))


@each
def test_what_is_too_much_is_sampled_and_the_report_says_so(cls):
    samples = [
        ArrayChunks(SCORES, Y, n_rows=n_rows).sample([0, 1, 2], max_cells=1200)
        for n_rows in (100, 777)
    ]
    one, two = (cls().fit(sample) for sample in samples)
    assert_array_equal(one.predict_proba(SCORES), two.predict_proba(SCORES))
    assert "fitted to 400 of 1,200 rows, sampled by content" in one.solver_report_.notes
    near = cls().fit(SCORES, Y).predict_proba(SCORES)
    assert abs(one.predict_proba(SCORES) - near).mean() < 0.15


@pytest.mark.filterwarnings("ignore::calibrant.errors.ConstantFitWarning")  # of labels that moved
def test_old_days_may_weigh_less():
    first, second = DAYS[0], (SCORES[1::3], np.roll(Y[1::3], 1))  # the world has changed
    calibrator = calibrant.TemperatureScaling().partial_fit(*second, classes=[0, 1, 2])
    calibrator.partial_fit(*first, decay=0.0)
    new = calibrant.TemperatureScaling().fit(*first)
    assert_allclose(calibrator.predict_proba(SCORES), new.predict_proba(SCORES), atol=1e-9)
    half = calibrant.TemperatureScaling().partial_fit(*first).partial_fit(*DAYS[1], decay=0.5)
    weight = np.repeat([0.5, 1.0], [len(first[1]), len(DAYS[1][1])])
    both = [np.concatenate(pair) for pair in zip(first, DAYS[1], strict=True)]
    same = calibrant.TemperatureScaling().fit(*both, weight)
    assert half.temperature_ == pytest.approx(same.temperature_, rel=1e-9)


def test_rows_are_pickled_and_not_saved():
    calibrator = calibrant.FlattenedIsotonic().partial_fit(*DAYS[0])
    again = pickle.loads(pickle.dumps(calibrator))
    again.partial_fit(*DAYS[1])
    assert (again.sample_.n_rows, calibrator.sample_.n_rows) == (800, 400)
    loaded = model_file.loads(model_file.dumps(calibrator))
    assert_array_equal(loaded.predict_proba(SCORES), calibrator.predict_proba(SCORES))
    assert not hasattr(loaded, "sample_")
    assert not hasattr(clone(calibrator), "sample_")
    calibrator.fit(SCORES, Y)
    assert not hasattr(calibrator, "sample_")


def test_a_day_that_is_refused_changes_nothing():
    calibrator = calibrant.FlattenedIsotonic().partial_fit(*DAYS[0])
    before = pickle.dumps(calibrator)
    bad = DAYS[1][0].copy()
    bad[3, 1] = np.nan
    with pytest.raises(errors.NonFiniteError):
        calibrator.partial_fit(bad, DAYS[1][1])
    with pytest.raises(errors.LabelError):
        calibrator.partial_fit(DAYS[1][0], DAYS[1][1] + 1)
    with refuses("classes"):
        calibrator.partial_fit(*DAYS[1], classes=[3, 4, 5])
    with refuses("decay"):
        calibrator.partial_fit(*DAYS[1], decay=1.5)
    assert pickle.dumps(calibrator) == before


def test_without_its_rows_partial_fit_begins_anew_with_a_word():
    fitted = calibrant.FlattenedIsotonic().fit(SCORES, Y)
    daily = calibrant.FlattenedIsotonic().partial_fit(*DAYS[1])
    for calibrator in (fitted, model_file.loads(model_file.dumps(daily))):
        with pytest.warns(errors.ForgottenRowsWarning):
            calibrator.partial_fit(*DAYS[0])
        assert calibrator.sample_.n_rows == 400


def test_the_first_day_must_tell_the_classes():
    few = Y < 2
    names = np.array(["ant", "bee", "cow"])
    with pytest.raises(errors.LabelError):
        calibrant.FlattenedIsotonic().partial_fit(SCORES[few], names[Y[few]])
    daily = calibrant.FlattenedIsotonic().partial_fit(SCORES[few], names[Y[few]], classes=names)
    daily.partial_fit(SCORES[~few], names[Y[~few]])
    whole = calibrant.FlattenedIsotonic().fit(SCORES, names[Y])
    assert_allclose(daily.predict_proba(SCORES), whole.predict_proba(SCORES), atol=1e-12)


def test_samples_of_another_kind_are_refused():
    sample = RowSample([0, 1, 2]).update(SCORES, Y)
    with refuses("scores"):
        calibrant.TemperatureScaling(scores="logits").fit(sample)
    with refuses("classes"):
        calibrant.TemperatureScaling(classes=[1, 2, 3]).fit(sample)
    with pytest.raises(errors.ShapeError):
        calibrant.TemperatureScaling().fit(RowSample([0, 1, 2]))


def test_chunks_hold_their_own_labels():
    chunks = ArrayChunks(SCORES, Y, n_rows=500)
    with pytest.raises(errors.ParameterError):
        calibrant.FlattenedIsotonic().fit(chunks, Y)
    bad = SCORES.copy()
    bad[507, 0] = np.nan
    with pytest.raises(errors.NonFiniteError, match=r"^chunk 1, row 7: scores\[7, 0\]"):
        calibrant.FlattenedIsotonic().fit(ArrayChunks(bad, Y, n_rows=500))


def test_chunks_are_predicted_lazily():
    chunks = ArrayChunks(SCORES, Y, n_rows=500)
    calibrator = calibrant.TemperatureScaling().fit(chunks)
    lazy = calibrator.predict_proba(chunks)
    assert_array_equal(np.concatenate(list(lazy)), calibrator.predict_proba(SCORES))
    labels = np.concatenate(list(calibrator.predict(chunks)))
    assert_array_equal(labels, calibrator.predict(SCORES))
