"""Methods under CalArena's contract, and as calibrators of probmetrics."""

import importlib
import sys
from types import ModuleType

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

import calibrant
from calibrant import errors
from calibrant._calibrators.methods import make_calibrator, methods
from calibrant.export import ArenaCalibrator
from conftest import simulate

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")

P, Y = simulate(300, 4)
SINGLE = P.astype(np.float32)
LABELS = Y.astype(np.int32)


@pytest.mark.parametrize("method", methods())
def test_every_method_answers_as_itself(method):
    found = ArenaCalibrator(method).fit(SINGLE, LABELS).predict_proba(SINGLE)
    rows = SINGLE.astype(np.float64)
    own = make_calibrator(method, classes=np.arange(4)).fit(rows, Y)
    np.testing.assert_array_equal(found, own.predict_proba(rows))
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-9)


def test_classes_may_lack_labels():
    seen = Y != 3
    found = ArenaCalibrator("vs").fit(SINGLE[seen], LABELS[seen]).predict_proba(SINGLE)
    assert found.shape == P.shape
    assert ArenaCalibrator("ts").fit(SINGLE[seen], LABELS[seen]).calibrator_.classes_.tolist() == [
        *range(4)
    ]


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_one_column_is_the_second_of_two_classes(shape):
    p, y = simulate(300, 2)
    alone = p[:, 1].reshape(shape)
    found = ArenaCalibrator("fir").fit(alone, y).predict_proba(alone)
    both = np.stack([1 - p[:, 1], p[:, 1]], axis=1)
    np.testing.assert_array_equal(found, calibrant.FlattenedIsotonic().fit(both, y).transform(both))


def test_calibrators_with_parameters_are_left_as_they_were():
    given = calibrant.TemperatureScaling(prior_strength=0.0)
    found = ArenaCalibrator(given).fit(SINGLE, LABELS)
    assert found.calibrator_.prior_strength == 0.0
    assert not hasattr(given, "map_")
    assert given.classes is None
    assert clone(found).calibrator.prior_strength == 0.0


def test_what_cannot_be_is_said():
    with pytest.raises(errors.ParameterError, match="scores='logits'; CalArena gives prob"):
        ArenaCalibrator(calibrant.TemperatureScaling(scores="logits")).fit(SINGLE, LABELS)
    with pytest.raises(errors.ParameterError, match="'magic'"):
        ArenaCalibrator("magic").fit(SINGLE, LABELS)
    with pytest.raises(NotFittedError):
        ArenaCalibrator().predict_proba(SINGLE)


@pytest.fixture
def adapter(monkeypatch):
    """Our module beside a stand-in for theirs, which calls as theirs does."""

    class Calibrator(BaseEstimator):
        def fit(self, X, y):
            self.classes_ = list(range(X.shape[-1]))
            self._fit_impl(X, y)
            return self

        def predict_proba(self, X):
            return self._predict_proba_impl(X)

    package, inside = ModuleType("probmetrics"), ModuleType("probmetrics.calibrators")
    inside.Calibrator = Calibrator
    package.calibrators = inside
    monkeypatch.setitem(sys.modules, "probmetrics", package)
    monkeypatch.setitem(sys.modules, "probmetrics.calibrators", inside)
    name = "calibrant.export.probmetrics"
    monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module(name)
    sys.modules.pop(name, None)


def test_every_method_is_an_entry(adapter):
    entries = adapter.calibrators()
    assert list(entries) == [f"calibrant-{method}" for method in methods()]
    assert entries["calibrant-ts"]() is not entries["calibrant-ts"]()
    assert type(entries["calibrant-scir"]().calibrator) is methods()["scir"]


def test_theirs_calls_ours(adapter):
    one = adapter.calibrator("ts", prior_strength=0.0)
    found = clone(one).fit(SINGLE, LABELS).predict_proba(SINGLE)
    own = ArenaCalibrator(calibrant.TemperatureScaling(prior_strength=0.0)).fit(SINGLE, LABELS)
    np.testing.assert_array_equal(found, own.predict_proba(SINGLE))
    base = adapter.theirs.Calibrator
    assert type(one).fit is base.fit
    assert type(one).predict_proba is base.predict_proba
