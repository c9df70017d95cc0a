"""Calibration maps as lines."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from calibrant import (
    AutoCalibrator,
    CalibratedClassifier,
    Chain,
    FlattenedIsotonic,
    Mixture,
    MonotoneSpline,
    OneVsRestIsotonic,
    SortedCumulativeIsotonic,
    StructuredScaling,
    TemperatureScaling,
    VectorScaling,
)
from calibrant import _maps as maps
from calibrant.plots import compute_map, draw_map
from conftest import refuses, simulate


@pytest.fixture(scope="module")
def data():
    return simulate(1000, 4)


def treads(curve):
    """Middle and height of each step."""
    flat = (curve.x[:-1] < curve.x[1:]) & (curve.y[:-1] == curve.y[1:])
    return (curve.x[:-1] + curve.x[1:])[flat] / 2, curve.y[:-1][flat]


def test_step_maps_are_the_fitted_functions(data):
    fitted = FlattenedIsotonic().fit(*data)
    found = compute_map(fitted)
    (curve,) = found.curves
    assert (found.kind, found.is_log) == ("step", True)
    middle, height = treads(curve)
    assert np.allclose(fitted.step_function_(middle), height)
    assert len(middle) >= np.count_nonzero(fitted.step_function_.values) - 1
    fitted = SortedCumulativeIsotonic().fit(*data)
    found = compute_map(fitted)
    assert found.kind == "ranks"
    assert [curve.name for curve in found.curves] == ["r = 1", "r = 2", "r = 3"]
    for rank, curve in enumerate(found.curves, start=1):
        middle, height = treads(curve)
        assert np.allclose(fitted.step_function_(middle, rank), height)
        assert (curve.x[0], curve.x[-1]) == (0.0, 1.0)


@pytest.mark.parametrize(
    "method",
    [TemperatureScaling, StructuredScaling, VectorScaling, OneVsRestIsotonic, AutoCalibrator],
)
def test_the_map_of_two_classes_is_the_curve_from_p_to_q(method):
    scores, y = simulate(1000, 2)
    fitted = method().fit(scores, y)
    picture = compute_map(fitted)
    (curve,) = picture.curves
    assert (picture.x_label, picture.y_label) == (
        "probability of 1 before",
        "probability of 1 after",
    )
    rows = np.column_stack([1 - curve.x, curve.x])
    assert np.allclose(fitted.predict_proba(rows)[:, 1], curve.y, atol=1e-6)
    assert curve.x.min() == 0.0
    assert np.count_nonzero(curve.x < 1e-3) > 50  # rare classes are looked at closely
    of_logits = method(scores="logits").fit(np.log(scores), y)
    assert np.allclose(compute_map(of_logits).curves[0].y, curve.y, atol=1e-6)


class Holder(BaseEstimator):
    """A method that nothing knows of, but that it holds a map of scores of three classes."""

    def fit(self, fitted):
        self.map_, self.classes_ = fitted, np.arange(3)
        return self


class Reverse(maps.CalibrationMap):
    kind = "probabilities"

    def __call__(self, rows):
        return (1 - rows) / 2


@pytest.mark.parametrize(
    ("fitted", "kind"),
    [
        (maps.TemperatureMap(0.5, -700.0), "section"),
        (maps.TopLabelMap((maps.Histogram([0.0], [0.5], [1.0]),)), "section"),
        (Reverse(), "section"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_map_is_drawn_by_its_type_whatever_holds_it(fitted, kind):
    found = compute_map(Holder().fit(fitted))
    assert found.kind == kind
    ax = draw_map(found, title="map")
    assert ax.get_xlabel() == found.x_label
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["unchanged", *(curve.name for curve in found.curves)]


COMPOSED = [
    (Mixture([TemperatureScaling(), FlattenedIsotonic()]), ["any class"]),
    (Chain([VectorScaling(), FlattenedIsotonic()]), ["a", "b", "c", "d"]),
    (VectorScaling(), ["a", "b", "c", "d"]),
    (MonotoneSpline(), ["any class"]),
    (AutoCalibrator(candidates=(), cv=2), ["any class"]),
]


@pytest.mark.parametrize("kind", ["probabilities", "logits"])
@pytest.mark.parametrize(
    ("method", "curves"), COMPOSED, ids=["Mixture", "Chain", "VS", "Spline", "Auto"]
)
def test_a_map_without_a_picture_of_its_own_is_a_section(data, method, curves, kind):
    scores, y = data
    names = list("wxyz")  # which a plain matrix lacks
    frame = pd.DataFrame(scores if kind == "probabilities" else np.log(scores), columns=names)
    fitted = clone(method).set_params(scores=kind).fit(frame, np.array(list("abcd"))[y])
    found = compute_map(fitted)
    assert found.kind == "section"
    assert [curve.name for curve in found.curves] == curves
    for curve in found.curves:
        column = max(0, "abcd".find(curve.name))
        rows = np.repeat((1 - curve.x)[:, None] / 3, 4, axis=1)
        rows[:, column] = curve.x
        given = rows if kind == "probabilities" else np.log(rows)
        after = fitted.predict_proba(pd.DataFrame(given, columns=names))
        assert np.allclose(after[:, column], curve.y, atol=1e-3)
    assert draw_map(found).get_ylabel() == "probability after"


def test_a_classifier_has_no_map_of_scores_and_what_is_not_fitted_none():
    with pytest.raises(NotFittedError):
        compute_map(TemperatureScaling())
    classifier = CalibratedClassifier(LogisticRegression(), "ts", cv=2)
    classifier.fit(*simulate(200, 3))
    with refuses("calibrator"):
        compute_map(classifier)
    assert compute_map(classifier.calibrated_classifiers_[0].calibrator).kind == "section"


def test_many_classes_have_quantiles():
    many = compute_map(OneVsRestIsotonic().fit(*simulate(2000, 9)))
    assert "over 9 classes" in many.note
    median, high, low = (curve.y for curve in many.curves)
    assert np.all((low <= median) & (median <= high))
