"""An object that is fitted again while others predict with it."""

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from sklearn.naive_bayes import GaussianNB

from calibrant import CalibratedClassifier, TemperatureScaling
from calibrant import _gate as gate
from calibrant.errors import ShapeError
from calibrators.catalogue import CALIBRATORS, make
from conftest import simulate

pytestmark = [
    pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

each = pytest.mark.parametrize("cls", CALIBRATORS)


@each
def test_a_refit_in_the_middle_of_a_prediction_changes_nothing_in_it(cls, monkeypatch):
    p, y = simulate(200, 3)
    others = simulate(200, 5)
    calibrator = make(cls).fit(p, y)
    wanted = calibrator.predict_proba(p)
    labels = calibrator.predict(p)
    check_rows = gate.check_rows

    def refit(*arguments):
        monkeypatch.setattr(gate, "check_rows", check_rows)
        calibrator.fit(*others)
        return check_rows(*arguments)

    for method, expected in (("predict_proba", wanted), ("predict", labels)):
        calibrator.fit(p, y)
        monkeypatch.setattr(gate, "check_rows", refit)
        assert getattr(calibrator, method)(p).tobytes() == expected.tobytes()
        assert len(calibrator.classes_) == 5


def test_a_refit_of_a_classifier_in_the_middle_of_a_prediction_changes_nothing_in_it(monkeypatch):
    p, y = simulate(300, 3)
    model = CalibratedClassifier(GaussianNB(), TemperatureScaling()).fit(p, y)
    labels = model.predict(p)
    predict = GaussianNB.predict_proba

    def refit(self, X):
        monkeypatch.setattr(GaussianNB, "predict_proba", predict)
        model.fit(*simulate(300, 5))
        return predict(self, X)

    monkeypatch.setattr(GaussianNB, "predict_proba", refit)
    assert model.predict(p).tolist() == labels.tolist()
    assert len(model.classes_) == 5


@pytest.mark.parametrize("name", ["TemperatureScaling", "MatrixScaling", "StructuredScaling"])
def test_threads_predict_while_others_fit_other_classes(name):
    cls = next(cls for cls in CALIBRATORS if cls.__name__ == name)
    sets = {k: simulate(60, k) for k in (3, 40)}
    wanted = {k: make(cls).fit(*sets[k]).predict_proba(sets[k][0]).tobytes() for k in sets}
    calibrator = make(cls).fit(*sets[3])
    stop, has_predicted = Event(), {k: Event() for k in sets}

    def predict(k):
        while not stop.is_set():
            try:
                assert calibrator.predict_proba(sets[k][0]).tobytes() == wanted[k]
                has_predicted[k].set()
            except ShapeError:  # it is fitted to the other number of classes
                pass

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor() as pool:
            predictions = [pool.submit(predict, k) for k in sets]
            try:
                for n_fits, k in enumerate([3, 40] * 1000):
                    calibrator.fit(*sets[k])
                    if n_fits > 20 and all(event.is_set() for event in has_predicted.values()):
                        break
            finally:
                stop.set()
            assert [p.result() for p in predictions] == [None, None]
        assert all(event.is_set() for event in has_predicted.values())
    finally:
        sys.setswitchinterval(interval)
