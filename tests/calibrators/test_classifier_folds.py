"""Folds of CalibratedClassifier: classes that some of them lack, too many, and their warnings."""

import warnings

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from calibrant import (
    CalibratedClassifier,
    OneVsRestIsotonic,
    OneVsRestPlatt,
    StructuredScaling,
    TemperatureScaling,
)
from calibrant.errors import LabelError, MissingClassWarning, ShapeError, SmallSampleWarning
from conftest import refuses

ignored = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
ensembles = pytest.mark.parametrize("ensemble", ["auto", True, False])
methods = pytest.mark.parametrize(
    "calibrator", [TemperatureScaling(), OneVsRestPlatt(), OneVsRestIsotonic(), StructuredScaling()]
)


def three_classes(n_rows=180):
    y = np.arange(n_rows) % 3
    return np.random.default_rng(0).normal(size=(n_rows, 3)) + 2 * np.eye(3)[y], y


def one_fold_lacks(y, label):
    """Two folds; the first is trained without a class, and has rows of it to calibrate on."""
    rows = np.arange(len(y))
    half = rows % 2 == 0
    return [(rows[half & (y != label)], rows[~half]), (rows[~half], rows[half])]


# Classes that a fold lacks


@ignored
@pytest.mark.parametrize("base", [LinearSVC(random_state=0), GaussianNB()])
@methods
@pytest.mark.parametrize("ensemble", ["auto", True])
def test_a_class_that_a_fold_was_not_trained_on_has_probability_zero_there(
    base, calibrator, ensemble
):
    """As in scikit-learn; it got 0.34 to 0.68. The average over folds does not have zero."""
    X, y = three_classes()
    cv = one_fold_lacks(y, 2)
    model = CalibratedClassifier(base, calibrator, cv=cv, ensemble=ensemble).fit(X, y)
    first, second = (pair.predict_proba(X) for pair in model.calibrated_classifiers_)
    assert not first[:, 2].any()
    np.testing.assert_allclose(first.sum(axis=1), 1)
    assert second[y == 2, 2].mean() > 0.5
    out = model.predict_proba(X)
    assert (out[:, 2] > 0).all()
    assert out[y == 2, 2].mean() > 0.3
    off = np.abs(out - (first + second) / 2).max()
    assert (off <= 1e-15) == (ensemble is True)
    np.testing.assert_allclose(out.sum(axis=1), 1)
    theirs = CalibratedClassifierCV(base, cv=cv).fit(X, y).calibrated_classifiers_[0]
    assert not theirs.predict_proba(X)[:, 2].any()


@ensembles
def test_rows_of_such_a_class_are_left_out_with_a_warning(ensemble):
    """They would say that a probability of zero comes true, and spoil what the others say."""
    X, y = three_classes(600)
    model = CalibratedClassifier(GaussianNB(), "ts", cv=one_fold_lacks(y, 2), ensemble=ensemble)
    with pytest.warns(MissingClassWarning, match="StratifiedKFold") as caught:
        model.fit(X, y)
    assert [warning.filename for warning in caught] == [__file__]
    for pair in model.calibrated_classifiers_:
        assert 0.5 < pair.calibrator.temperature_ < 2


@ensembles
def test_folds_with_nothing_but_such_classes_are_refused(ensemble):
    X, y = three_classes()
    order = np.argsort(y, kind="stable")
    model = CalibratedClassifier(GaussianNB(), "ts", cv=KFold(3), ensemble=ensemble)
    with pytest.raises(LabelError, match="StratifiedKFold"):
        model.fit(X[order], y[order])


@ignored
def test_a_frozen_classifier_gives_classes_that_it_does_not_know_probability_zero():
    X, y = three_classes()
    frozen = FrozenEstimator(GaussianNB().fit(X[y != 1], y[y != 1]))
    model = CalibratedClassifier(frozen, "ts").fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2]
    assert not model.predict_proba(X)[:, 1].any()


@ignored
@ensembles
@methods
def test_a_class_that_no_fold_was_trained_on_has_probability_zero(calibrator, ensemble):
    """As of a splitter that goes by time, where a class is new; it was NaN in every column."""
    X, y = three_classes()
    rows = np.arange(len(y))
    half, is_old = rows % 2 == 0, y != 2
    cv = [(rows[half & is_old], rows[~half]), (rows[~half & is_old], rows[half])]
    model = CalibratedClassifier(GaussianNB(), calibrator, cv=cv, ensemble=ensemble).fit(X, y)
    out = model.predict_proba(X)
    np.testing.assert_allclose(out.sum(axis=1), 1)
    # If there is no ensemble, the classifier that predicts was trained on all classes.
    assert out[:, 2].any() == (ensemble is False)


# Too many folds


@pytest.mark.parametrize("cv", [101, StratifiedKFold(101), KFold(101)])
@ensembles
def test_more_folds_than_a_class_has_rows_are_refused_as_in_scikit_learn(cv, ensemble):
    X, y = make_classification(300, weights=[0.7], flip_y=0, random_state=0)
    with pytest.raises(ValueError, match="101-fold cross-validation"):
        CalibratedClassifierCV(GaussianNB(), cv=cv).fit(X, y)
    with refuses("cv", value=101):
        CalibratedClassifier(GaussianNB(), "ts", cv=cv, ensemble=ensemble).fit(X, y)


def test_labels_that_are_all_the_same_and_a_class_of_one_row_are_refused():
    X, y = three_classes(60)
    with pytest.raises(ShapeError, match="'a'"):
        CalibratedClassifier(GaussianNB()).fit(X, ["a"] * 60)
    y[0] = 7
    for cv in (None, 5):
        with refuses("cv", value=5):
            CalibratedClassifier(GaussianNB(), cv=cv).fit(X, y)


# Warnings of folds


@pytest.mark.parametrize("backend", ["loky", "threading", "sequential"])
def test_warnings_of_workers_point_to_the_line_that_asked(backend):
    X, y = three_classes(90)
    model = CalibratedClassifier(GaussianNB(), "ts", cv=3, n_jobs=2, ensemble=True)
    with parallel_config(backend=backend), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert [(w.category, w.filename) for w in caught] == [(SmallSampleWarning, __file__)]


# Several outputs


@pytest.mark.parametrize(
    ("estimator", "n_columns"),
    [
        (MultiOutputClassifier(LogisticRegression()), 2),
        (MultiOutputClassifier(LogisticRegression()), 1),
        (RandomForestClassifier(5, random_state=0), 2),
    ],
)
def test_several_outputs_are_refused_with_the_way_to_calibrate_each(estimator, n_columns):
    X, _ = three_classes()
    Y = (X[:, :2] > 0).astype(int)
    with pytest.raises(LabelError, match="MultiOutputClassifier"):
        CalibratedClassifier(estimator).fit(X, Y if n_columns == 2 else Y[:, 0])
