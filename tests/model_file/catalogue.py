"""A small fitted calibrator of every kind, and how to tell whether two are the same."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest

import calibrant
from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.composition import Composition
from calibrant.errors import ModelFileError
from conftest import every_method, simulate

ELSEWHERE = {"features", "grouped", "masked"}
"""Those that need features or groups, or rows without labels on zeros, have tests of their own."""
CLASS_OF = {method: cls for method, cls in every_method().items() if method not in ELSEWHERE}
METHODS = tuple(CLASS_OF)
KINDS = ("probabilities", "logits")
SMALL = {
    "vs": {"max_rounds": 15},
    "ms": {"max_rounds": 15, "odir": 0.1},
    "dirichlet": {"max_rounds": 15},
    "bbq-ovr": {"spread": 1.0},
    "m2b-hb": {"per_class": True},
    "scw": {"n_groups": 2},
    "auto": {"cv": 2},
    "prior-shift": {"alpha": 1.0},
}


def make(method, **parameters):
    """Return an unfitted calibrator that is quick to fit."""
    cls = CLASS_OF[method]
    if issubclass(cls, Composition):
        parts = [calibrant.VectorScaling(max_rounds=50), ("last", calibrant.FlattenedIsotonic())]
        return cls(parts, **parameters)
    return cls(**SMALL.get(method, {}) | parameters)


def quietly(function, *arguments, **named):
    """Call without the warnings that little data causes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **named)


@cache
def scores_of(kind="probabilities", n_rows=300, n_classes=3, seed=0):
    """Scores of a kind, with labels."""
    p, y = simulate(n_rows, n_classes, seed)
    return (p if kind == "probabilities" else np.log(p)), y


@cache
def fitted(method, kind="probabilities"):
    """Return a fitted calibrator; do not change it."""
    calibrator = quietly(make(method, scores=kind).fit, *scores_of(kind))
    if method == "prior-shift":
        scores, y = scores_of(kind)
        calibrator.adapt(scores[y > 0])
    if method == "auto":  # paths of one and two stages, whatever was chosen
        first = fitted("structured", kind)
        calibrator.paths_ = [[fitted("ts", kind)], [first], [first, fitted("na-fir")]]
        calibrator.weights_ = np.array([0.5, 0.25, 0.25])
        calibrator.map_ = calibrator._compose()
    return calibrator


def same(one, two):
    """Whether two parameters, or calibrators by their parameters, are equal."""
    if isinstance(one, Calibrator):
        return type(one) is type(two) and same(one.get_params(), two.get_params())
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list | tuple):
        return type(one) is type(two) and len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, np.ndarray):
        return isinstance(two, np.ndarray) and one.dtype == two.dtype and np.array_equal(one, two)
    return type(one) is type(two) and (one == two or one != one)  # noqa: PLR0124  (NaN)


def probe(calibrator, n_rows=20, seed=1):
    """Rows that a calibrator takes: ordinary ones, corners, ties and tiny values."""
    rng = np.random.default_rng(seed)
    k = calibrator.n_features_in_
    if calibrator.scores == "logits":
        return np.vstack([rng.normal(0, 5, (n_rows, k)), np.zeros((1, k)), 100 * np.eye(k)[:4]])
    rows = np.vstack([rng.dirichlet(np.ones(k), n_rows), np.full((1, k), 1 / k), np.eye(k)[:4]])
    tiny = rng.dirichlet(np.ones(k), 4) ** 40 + 1e-300
    return np.vstack([rows, tiny / tiny.sum(axis=1, keepdims=True)])


def assert_same_calibrator(one, two):
    """Same class, parameters, classes and columns, and the same predictions to the bit."""
    assert type(one) is type(two)
    assert same(one.get_params(), two.get_params())
    assert same(one.classes_, two.classes_)
    rows = probe(one)
    assert one.predict_proba(rows).tobytes() == two.predict_proba(rows).tobytes()
    assert one.predict(rows).tolist() == two.predict(rows).tolist()


def breaks(rule):
    """Expect that a file or a calibrator is refused, which breaks a rule of the format."""
    return pytest.raises(ModelFileError, check=lambda error: error.rule == rule)
