"""An object that is fitted again while others predict with it."""

import pytest
from sklearn.naive_bayes import GaussianNB

from calibrant import CalibratedClassifier, TemperatureScaling
from calibrant import _gate as gate
from calibrators.catalogue import CALIBRATORS, make, quiet
from conftest import simulate

pytestmark = quiet

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
