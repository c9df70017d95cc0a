"""Class labels of every type and parameters of every kind come back as they were."""

import numpy as np
import pandas as pd
import pytest

import calibrant
from calibrant.errors import ModelFileError
from calibrant.model_file import _format as limits
from calibrant.model_file import dumps, loads
from model_file.catalogue import breaks, same, scores_of

LABELS = {
    "str": np.array(["ant", "bée", "蜂"]),
    "object": np.array(["ant", "", "c" * 1024], dtype=object),
    "int64": np.array([-5, 0, 2**62]),
    "uint64": np.array([0, 7, 2**62], dtype=np.uint64),
    "float64": np.array([-1.0, 0.0, 1e300]),
    "bytes": np.array([b"\xff", b"b", b"\x00c"]),
    "null at the end": np.array(["a", "b", "c\0"], dtype=object),
    "objects of int": np.array([10**15, 2, 3], dtype=object),
}


def fit(labels, **parameters):
    scores, y = scores_of()
    return calibrant.TemperatureScaling(**parameters).fit(scores, np.asarray(labels)[y])


@pytest.mark.parametrize("name", LABELS)
def test_labels_keep_value_and_type(name):
    before = fit(LABELS[name], classes=LABELS[name])
    after = loads(dumps(before))
    assert same(before.classes_, after.classes_)
    assert [type(c) for c in after.classes_.tolist()] == [type(c) for c in before.classes_.tolist()]
    assert same(before.classes, after.classes)
    scores, _ = scores_of()
    assert after.predict(scores).tolist() == before.predict(scores).tolist()


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["a", "b", "c" * 1025]),
        np.array(["a", "b", "\ud800"], dtype=object),
        np.array([0, 1, 2**64 - 1], dtype=np.uint64),
        np.array([0, 1, 2**70], dtype=object),
        np.array(["a", "b", 3], dtype=object),
        np.array(["2001-01-01", "2001-01-02", "2001-01-03"], dtype="datetime64[D]"),
        np.array([(1, 2), (3, 4), (5, 6), 0], dtype=object)[:3],
        ["a", "b", "c"],
    ],
    ids=str,
)
def test_labels_that_cannot_come_back_are_refused(labels):
    calibrator = fit(["a", "b", "c"])
    calibrator.classes_ = labels
    with pytest.raises(ModelFileError):
        dumps(calibrator)


def test_text_that_numpy_would_blow_up_is_refused(monkeypatch):
    monkeypatch.setattr(limits, "MAX_LABEL_TABLE", 1000)
    assert loads(dumps(fit(["a", "b", "c" * 80]))).classes_[2] == "c" * 80
    with breaks("labels"):
        dumps(fit(["a", "b", "c" * 90]))
    assert dumps(fit(np.array(["a", "b", "c" * 90], dtype=object)))


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({"tol": np.float64(1e-3)}, {"tol": 1e-3}),
        ({"classes": [float("inf"), 1.0]}, {"classes": [float("inf"), 1.0]}),
        ({"tol": np.int32(2)}, {"tol": 2}),
        ({"normalize": np.str_("rows")}, {"normalize": "rows"}),
        ({"classes": ("a", "b", "c")}, {"classes": ("a", "b", "c")}),
        ({"classes": [True, 2, 0.5]}, {"classes": [True, 2, 0.5]}),
        ({"classes": pd.Index([1, 2, 3])}, {"classes": np.array([1, 2, 3])}),
    ],
)
def test_parameters_come_back_as_plain_values(given, stored):
    calibrator = fit(["a", "b", "c"]).set_params(**given)
    found = loads(dumps(calibrator)).get_params()
    assert same({name: found[name] for name in stored}, stored)


@pytest.mark.parametrize(
    "value", [{"a": 1}, object(), 1j, np.eye(2), 2**64, [{1}], lambda: None, print]
)
def test_parameters_that_are_not_plain_are_refused(value):
    calibrator = fit(["a", "b", "c"])
    calibrator.classes = value
    with breaks("savable"):
        dumps(calibrator)


def test_lists_are_saved_as_deep_as_they_are_loaded():
    calibrator, value = fit(["a", "b", "c"]), 0
    for _ in range(limits.MAX_LISTS):
        value = [value]
    calibrator.classes = value
    assert loads(dumps(calibrator)).classes == value
    calibrator.classes = [value]
    with breaks("savable"):
        dumps(calibrator)


def test_parameters_in_infinite_depth_are_refused():
    chain = calibrant.Chain([calibrant.TemperatureScaling()]).fit(*scores_of())
    chain.calibrators.append(chain)
    with breaks("parts"):
        dumps(chain)
