"""Fits to chunks of rows: partial_fit day after day, statistics that were merged elsewhere."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

import calibrant
from calibrant import _simplex as simplex
from calibrant import errors, model_file
from calibrant._calibrators.methods import methods
from calibrant.datasets import simulated_scores
from calibrant.scale._chunks import ArrayChunks
from calibrant.scale._statistics import Statistics

SCORES, Y = simulated_scores(1200)
DAYS = [(SCORES[i::3], Y[i::3]) for i in range(3)]
INCREMENTAL = [cls for cls in methods().values() if hasattr(cls(), "partial_fit")]
OTHERS = [cls for cls in methods().values() if cls not in INCREMENTAL]


def test_the_methods_of_the_paper_add_days():
    assert {cls.method for cls in INCREMENTAL} >= {
        "na-fir", "scir", "fir", "ts", "vs", "spline", "structured",
    }  # fmt: skip


@pytest.mark.parametrize("cls", INCREMENTAL)
def test_days_add_up_to_the_fit_of_all_rows(cls):
    whole, daily = cls().fit(SCORES, Y), cls()
    for scores, y in DAYS:
        assert daily.partial_fit(scores, y, classes=[0, 1, 2]) is daily
    assert_array_equal(daily.predict_proba(SCORES), whole.predict_proba(SCORES))
    assert daily.statistics_.n_rows == len(Y)


@pytest.mark.filterwarnings("ignore::calibrant.errors.SampledRowsWarning")
@pytest.mark.parametrize("cls", INCREMENTAL)
def test_days_of_more_rows_than_are_kept_come_in_any_order(cls):
    days = [cls().statistics([0, 1, 2], max_rows=400).update(*day) for day in DAYS]
    one = days[0].empty().merge(days[0]).merge(days[1]).merge(days[2])
    other = days[0].empty().merge(days[2]).merge(days[0]).merge(days[1])
    assert not one.kept.is_complete
    assert one.to_bytes() == other.to_bytes()
    assert_array_equal(one.solve()(SCORES), other.solve()(SCORES))
    near = cls().fit(SCORES, Y).predict_proba(SCORES)
    far = cls().fit_statistics(one).predict_proba(SCORES)
    assert abs(far - near).mean() < 0.05


def test_old_days_may_weigh_less():
    first, second = DAYS[0], (SCORES[1::3], np.roll(Y[1::3], 1))  # the world has changed
    calibrator = calibrant.TemperatureScaling().partial_fit(*second, classes=[0, 1, 2])
    calibrator.partial_fit(*first, decay=0.0)
    new = calibrant.TemperatureScaling().fit(*first)
    assert_array_equal(calibrator.predict_proba(SCORES), new.predict_proba(SCORES))
    assert calibrator.statistics_.n_rows == len(first[1])
    half = calibrant.TemperatureScaling().partial_fit(*first).partial_fit(*DAYS[1], decay=0.5)
    weight = np.repeat([0.5, 1.0], [len(first[1]), len(DAYS[1][1])])
    both = [np.concatenate(pair) for pair in zip(first, DAYS[1], strict=True)]
    same = calibrant.TemperatureScaling().fit(*both, weight)
    assert half.temperature_ == pytest.approx(same.temperature_, rel=1e-9)


def test_what_is_remembered_is_pickled_but_not_saved():
    calibrator = calibrant.FlattenedIsotonic().partial_fit(*DAYS[0])
    again = pickle.loads(pickle.dumps(calibrator))
    again.partial_fit(*DAYS[1])
    assert again.statistics_.n_rows == 800
    assert calibrator.statistics_.n_rows == 400
    loaded = model_file.loads(model_file.dumps(calibrator))
    assert_array_equal(loaded.predict_proba(SCORES), calibrator.predict_proba(SCORES))
    assert not hasattr(loaded, "statistics_")
    assert not hasattr(clone(calibrator), "statistics_")
    calibrator.fit(SCORES, Y)
    assert not hasattr(calibrator, "statistics_")


def test_a_day_that_is_refused_changes_nothing():
    calibrator = calibrant.FlattenedIsotonic().partial_fit(*DAYS[0])
    before = calibrator.statistics_.to_bytes(), calibrator.map_
    bad = DAYS[1][0].copy()
    bad[3, 1] = np.nan
    with pytest.raises(errors.NonFiniteError, match=r"scores\[3, 1\]"):
        calibrator.partial_fit(bad, DAYS[1][1])
    with pytest.raises(errors.LabelError, match="not among the classes"):
        calibrator.partial_fit(DAYS[1][0], DAYS[1][1] + 1)
    with pytest.raises(
        errors.ParameterError, match="classes are not 0, 1, 2, as in the first call"
    ):
        calibrator.partial_fit(*DAYS[1], classes=[3, 4, 5])
    with pytest.raises(errors.ParameterError, match="decay"):
        calibrator.partial_fit(*DAYS[1], decay=1.5)
    assert (calibrator.statistics_.to_bytes(), calibrator.map_) == before


def test_bytes_are_read_by_a_process_that_has_imported_no_method(tmp_path):
    file = tmp_path / "statistics"
    file.write_bytes(calibrant.VectorScaling().statistics([0, 1, 2]).update(SCORES, Y).to_bytes())
    code = (
        "import sys, pathlib; from calibrant.scale._statistics import Statistics; "
        "found = Statistics.from_bytes(pathlib.Path(sys.argv[1]).read_bytes()); "
        "print(found.method, found.n_rows, type(found.solve()).__name__)"
    )
    command = [sys.executable, "-c", code, str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["vs", "1200", "AffineMap"], ran.stderr


@pytest.mark.parametrize("cls", INCREMENTAL)
def test_a_loaded_model_goes_on_from_statistics(cls):
    night = cls().partial_fit(*DAYS[0], classes=[0, 1, 2]).partial_fit(*DAYS[1])
    model, data = model_file.dumps(night), night.statistics_.to_bytes()
    night.partial_fit(*DAYS[2], decay=0.5)
    loaded = model_file.loads(model).fit_statistics(statistics := Statistics.from_bytes(data))
    statistics.update(*DAYS[2])  # the caller's own
    assert loaded.statistics_.n_rows == 800
    loaded.partial_fit(*DAYS[2], decay=0.5)
    assert loaded.statistics_.to_bytes() == night.statistics_.to_bytes()
    assert_array_equal(loaded.predict_proba(SCORES), night.predict_proba(SCORES))


def test_without_statistics_days_begin_anew_with_a_word():
    fitted = calibrant.FlattenedIsotonic().fit(SCORES, Y)
    daily = calibrant.FlattenedIsotonic().partial_fit(*DAYS[1])
    for calibrator in (fitted, model_file.loads(model_file.dumps(daily))):
        said = r"no statistics .* \(fit and model files keep none\).* fit_statistics"
        with pytest.warns(errors.ForgottenRowsWarning, match=said):
            calibrator.partial_fit(*DAYS[0])
        assert calibrator.statistics_.n_rows == 400


def test_a_fit_to_chunks_holds_none_of_what_was_counted():
    chunks = ArrayChunks(SCORES, Y, n_rows=500)
    assert not hasattr(calibrant.FlattenedIsotonic().fit(chunks, None), "statistics_")
    rows = calibrant.OneVsRestBeta()
    assert not hasattr(rows.fit_statistics(chunks.count(rows.statistics(chunks))), "statistics_")


def test_the_first_day_must_tell_the_classes():
    few = Y < 2
    names = np.array(["ant", "bee", "cow"])
    with pytest.raises(errors.LabelError, match="pass classes="):
        calibrant.FlattenedIsotonic().partial_fit(SCORES[few], names[Y[few]])
    daily = calibrant.FlattenedIsotonic().partial_fit(SCORES[few], names[Y[few]], classes=names)
    daily.partial_fit(SCORES[~few], names[Y[~few]])
    whole = calibrant.FlattenedIsotonic().fit(SCORES, names[Y])
    assert_array_equal(daily.predict_proba(SCORES), whole.predict_proba(SCORES))


@pytest.mark.parametrize("cls", OTHERS)
def test_other_methods_take_chunks_while_all_rows_fit(cls):
    assert not hasattr(cls(), "partial_fit")
    if cls.method == "auto":  # takes a second
        return
    far = cls().fit(ArrayChunks(SCORES, Y, n_rows=500), None)
    assert_array_equal(far.predict_proba(SCORES), cls().fit(SCORES, Y).predict_proba(SCORES))


def test_statistics_of_another_method_are_refused():
    statistics = calibrant.FlattenedIsotonic().statistics([0, 1, 2]).update(SCORES, Y)
    with pytest.raises(errors.ParameterError, match="not for TemperatureScaling"):
        calibrant.TemperatureScaling().fit_statistics(statistics)
    with pytest.raises(errors.ShapeError, match="there is nothing to fit"):
        calibrant.FlattenedIsotonic().fit_statistics(statistics.empty())


def test_chunks_hold_their_own_labels():
    chunks = ArrayChunks(SCORES, Y, n_rows=500)
    with pytest.raises(errors.ParameterError, match="chunks with labels"):
        calibrant.FlattenedIsotonic().fit(chunks, Y)


@pytest.mark.parametrize(
    ("calibrator", "scores", "y", "warning"),
    [
        (calibrant.FlattenedIsotonic(), SCORES, np.zeros_like(Y), errors.SingleClassWarning),
        (
            calibrant.FlattenedIsotonic(),
            np.roll(SCORES, 1, axis=1),
            Y,
            errors.ColumnMismatchWarning,
        ),
        (calibrant.TemperatureScaling(scores="logits"), SCORES, Y, errors.ScoresKindWarning),
    ],
)
def test_what_is_hardly_meant_is_said_of_the_whole_and_not_of_chunks(
    calibrator, scores, y, warning, monkeypatch
):
    chunks = ArrayChunks(scores, y, n_rows=300)
    statistics = calibrator.statistics([0, 1, 2])
    said = []
    with monkeypatch.context() as patch:
        patch.setattr(simplex, "warn_of_batch", said.append)  # takes time
        counted = chunks.count(statistics)
    assert not said
    calibrator.set_params(classes=[0, 1, 2])
    for fit in (
        lambda: calibrator.fit_statistics(counted),
        lambda: calibrator.fit(chunks, None),
        lambda: clone(calibrator).partial_fit(scores, y),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit()
        assert [one.category for one in caught].count(warning) == 1


def test_a_rare_class_among_rows_that_were_not_kept_is_a_class():
    y = np.zeros(len(Y), dtype=np.int64)
    empty = calibrant.FlattenedIsotonic().statistics([0, 1, 2], max_rows=10)
    kept = empty.empty().update(SCORES, y).kept_batch().scores
    dropped = np.flatnonzero(~np.isin(SCORES[:, 0], kept[:, 0]))
    y[dropped[:2]] = 1, 2
    counted = empty.empty().update(SCORES, y)
    assert set(counted.kept_batch().class_index) == {0, 1, 2}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrant.FlattenedIsotonic().fit_statistics(counted)
    assert errors.SingleClassWarning not in [one.category for one in caught]


@pytest.mark.parametrize(
    ("counted", "name"),
    [
        (calibrant.NormalizationAwareIsotonic(prior_strength=5.0), "prior"),
        (calibrant.TemperatureScaling(tol=1e-4), "tol"),
        (calibrant.TemperatureScaling(scores="logits"), "scores"),
    ],
)
def test_statistics_of_other_parameters_are_refused(counted, name):
    """They would be solved with their own, whatever the calibrator says of itself."""
    p, y = simulated_scores(300)
    found = counted.statistics(range(3)).update(p if name != "scores" else np.log(p), y)
    with pytest.raises(errors.ParameterError, match=f"counted with {name}.*count the rows again"):
        type(counted)().fit_statistics(found)


def test_auto_fits_its_stages_to_all_rows():
    chunks = ArrayChunks(SCORES, Y, n_rows=250)
    empty = calibrant.AutoCalibrator().statistics(chunks, max_rows=300)
    counted = chunks.count(empty)
    said = "300 of 1,200 rows, .* first stages were fitted to all rows, weights and later"
    with pytest.warns(errors.SampledRowsWarning, match=said):
        whole = calibrant.AutoCalibrator().fit_statistics(counted, chunks)
    with pytest.warns(errors.SampledRowsWarning, match="300 of 1,200"):
        sample = calibrant.AutoCalibrator().fit_statistics(counted)
    assert_array_equal(whole.weights_, sample.weights_)
    stage = next(path[0] for path in whole.paths_ if path[0].method == "structured")
    alone = calibrant.StructuredScaling().fit(SCORES, Y)
    difference = stage.predict_proba(SCORES) - alone.predict_proba(SCORES)
    assert abs(difference).mean() < 0.01
    loaded = model_file.loads(model_file.dumps(whole))
    assert_array_equal(loaded.predict_proba(SCORES), whole.predict_proba(SCORES))


@pytest.mark.parametrize(
    ("prior_rows", "said"),
    [
        (2.0, "methods with partial_fit use all rows"),
        (0.0, "first stages but two-class were fitted to all rows, weights"),
    ],
)
def test_auto_names_the_stages_that_know_the_kept_rows_alone(prior_rows, said):
    p, y = simulated_scores(1200, tilt=(1.0, 1.0))
    chunks = ArrayChunks(p, y, n_rows=250)
    auto = calibrant.AutoCalibrator(prior_rows=prior_rows)
    counted = chunks.count(auto.statistics(chunks, max_rows=300))
    with pytest.warns(errors.SampledRowsWarning, match=said):
        auto.fit_statistics(counted, chunks)
