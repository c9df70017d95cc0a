"""What is refused: the error names the argument, the place, the value and the remedy.

Each case is tried with one method, since all check their input in common (last test), at fit and,
if it is about scores, at predict. A fit that fails changes nothing.
"""

from __future__ import annotations

from copy import deepcopy
from inspect import isfunction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from bad_input.promises import (
    CALIBRATORS,
    COLUMNS,
    LETTERS,
    NAMES,
    AnyCalibrator,
    DeviceTensor,
    fitted,
    fresh,
    good,
    mild,
    new_names,
    pa,
    refused,
    same_fit,
    state,
    use,
)
from calibrant import FeatureCalibrator, GroupedCalibrator, errors
from calibrant._calibrators.around import AroundWithColumns
from calibrant._calibrators.base import Calibrator
from calibrant._gate import _simplex as simplex

MEND = ("remove", "repair", "drop", "fill")
REMEDY = ("array", "frame", "collect()", "cpu()", "rows", "columns")
LOGITS, ROWS = {"scores": "logits"}, {"normalize": "rows"}
P, Y = good()


def put(place, value, base=P, dtype=None):
    """Return a copy with something at a place."""
    changed = base.astype(dtype or base.dtype)
    changed[place] = value
    return changed


def made(given):
    """Return what is given, or a fresh one of what can be read only once."""
    return given() if callable(given) else given


def logits(place, value):
    return put(place, value, good("logits")[0])


def lacking(value):
    """Return columns by name, the last of which lacks a number, or has no numbers."""
    columns = {name: P[:, j].tolist() for j, name in enumerate(COLUMNS)}
    last = [None if i == 17 else p for i, p in enumerate(P[:, 2])] if value is None else [value]
    return columns | {"f2": last if value is None else last * 200}


NOT_FINITE = (errors.NonFiniteError, "scores[17, 2]", MEND)
OFF = (errors.RangeError, "[0, 1]", "scores='logits'")
SUM = (errors.RangeError, "normalize='rows'")
NO_NUMBERS = (errors.ContainerError, "scores", ("f2", "much", "numbers"))
SCORES = {  # scores, error with parts of its message, and parameters if any
    "nan": (put((17, 2), np.nan), *NOT_FINITE, "nan"),
    "inf": (put(([17, 90], [2, 0]), np.inf), *NOT_FINITE, "inf"),
    "minus infinity": (put((17, 2), -np.inf), *NOT_FINITE, "-inf"),
    "nan among masses": (put((17, 2), np.nan), *NOT_FINITE, "nan", ROWS),
    "nan among logits": (logits((17, 2), np.nan), *NOT_FINITE, "nan", LOGITS),
    "inf among logits": (logits((17, 2), np.inf), *NOT_FINITE, "inf", LOGITS),
    "no finite logit": (logits(11, -np.inf), errors.DataError, "scores[11", "-inf", MEND, LOGITS),
    "logits whose squares overflow": (
        *(logits((0, 0), 1e160), errors.RangeError, "scores[0, 0]", "1e+160"),
        *("between -1e+100 and 1e+100", LOGITS),
    ),
    "logits as probabilities": (
        *(good("logits")[0], errors.RangeError, "scores[0, 0]", "did you mean scores='logits'?"),
    ),
    "a row sum that is too low": (put(23, 0.9989 * mild()[23], mild()), *SUM, "[23]", "0.9989"),
    "a row sum that is too high": (put(23, 1.0011 * mild()[23], mild()), *SUM, "[23]", "1.0011"),
    "three decimals": (put(199, [0.335, 0.334, 0.334]), *SUM, "scores[199]"),  # explain 0.0015
    "two decimals": (put(199, [0.34, 0.34, 0.34]), *SUM, "scores[199]"),  # 0.01 at most
    "zeros": (put(31, 0.0), errors.RangeError, "scores[31", "not a distribution", MEND),
    "masses of zero": (put(31, 0.0), errors.RangeError, "scores[31", "not a", MEND, ROWS),
    "below zero": (put(8, [-1.1e-4, 1.0, 0.0]), *OFF, "scores[8, 0]", "-0.00011"),
    "above one": (put(8, [0.0, 1.3, 0.0]), *OFF, "scores[8, 1]", "1.3"),
    "negative masses": (
        *(put(8, [-0.3, 1.0, 0.3]), errors.RangeError, "scores[8, 0]", "-0.3"),
        *("scores='logits'", ROWS),
    ),
    "percent": (
        *(np.round(100 * P).astype(np.uint8), errors.DataError, "scores[0", "percent", "100"),
    ),
    "missing in a frame": (pd.DataFrame(lacking(None)), *NOT_FINITE),
    "missing in a nullable frame": (pd.DataFrame(lacking(None)).astype("Float64"), *NOT_FINITE),
    "missing in objects": (pd.DataFrame(lacking(None), dtype=object).to_numpy(), *NOT_FINITE),
    "missing in polars": (pl.DataFrame(lacking(None)), *NOT_FINITE),
    "text in pandas": (pd.DataFrame(lacking("much")), *NO_NUMBERS),
    "text in polars": (pl.DataFrame(lacking("much")), *NO_NUMBERS),
    "sparse": (sparse.csr_array(P), errors.ContainerError, "scores", "parse", ".toarray()"),
    "masked": (np.ma.array(P), errors.ContainerError, "scores", "masked", "drop"),
    "a generator": (lambda: (row for row in P), errors.DataError, "scores", REMEDY),
    "a mapping": ({j: P[:, j] for j in range(3)}, errors.DataError, "scores", REMEDY),
    "None": (None, errors.DataError, "scores", REMEDY),
    "a text": ("probabilities", errors.DataError, "scores", REMEDY),
    "a lazy frame": (pl.DataFrame(P).lazy(), errors.DataError, "scores", REMEDY),
    "ragged": ([[0.5, 0.5, 0.0], [1.0, 0.0]], errors.DataError, "scores", REMEDY),
    "a tensor on a device": (DeviceTensor(P), errors.DataError, "scores", REMEDY),
    "complex": (P.astype(complex), errors.ContainerError, "scores", "complex128", "numbers"),
    "numbers as text": (P.astype("U8"), errors.ContainerError, "scores", "<U8", "numbers"),
    "dates": (P.astype("i8").astype("M8[s]"), errors.ContainerError, "datetime64", "numbers"),
    "an object": (put((6, 1), "much", dtype=object), errors.ContainerError, "scores", "'much'"),
    "a cube": (P.reshape(1, 200, 3), errors.ShapeError, "scores", "(1, 200, 3)", "row"),
    "images": (  # (N, C, H, W), as networks for segmentation return it, or with the classes last
        *(P.reshape(5, 8, 5, 3).transpose(0, 3, 1, 2), errors.ShapeError, "(N, C, H, W)"),
        "np.moveaxis(np.asarray(scores), 1, -1).reshape(-1, 3)",
    ),
    "a vector": (P[:, 0], errors.ShapeError, "(200,)", "np.column_stack([1 - p, p])"),
    "a column": (P[:, :1], errors.ShapeError, "(200, 1)", "np.column_stack([1 - p, p])"),
    "a column of logits": (
        *(P[:, :1], errors.ShapeError, "(200, 1)", "np.column_stack([np.zeros_like(z), z])"),
        LOGITS,
    ),
}
if pa:
    SCORES["text in arrow"] = (pa.table(lacking("much")), *NO_NUMBERS)
    SCORES["missing in arrow"] = (pa.table(lacking(None)), *NOT_FINITE)


def text(value):
    return put(12, value, LETTERS[Y].astype(object))


def number(value):
    return put(12, value, Y.astype(float))


MISSING = (errors.LabelError, "y[12]", MEND)
UNKNOWN = (errors.LabelError, "y[12]", "classes")
OTHER_TYPE = (errors.LabelError, ("y", "labels"), "classes")
UNTOLD = (errors.LabelError, "y", "pass classes=")
NOT_ROWS = (errors.DataError, "y", "200", "row")
LABELS = {
    "nan": (number(np.nan), *MISSING),
    "inf": (number(np.inf), *MISSING),
    "None": (text(None).tolist(), *MISSING),
    "nan in objects of text": (text(np.nan), *MISSING),
    "nan in numpy's text": ([*LETTERS[Y[:12]], float("nan"), *LETTERS[Y[13:]]], *MISSING),
    "pandas NA": (pd.Series(number(np.nan)).astype("Int64"), *MISSING),
    "pandas nullable text": (pd.Series(text(pd.NA), dtype="string"), *MISSING),
    "a category": (pd.Categorical(text(None)), *MISSING),
    "polars text": (pl.Series(text(None).tolist()), *MISSING),
    "an unknown text": (text("dog"), *UNKNOWN, "'dog'", {"classes": NAMES}),
    "an unknown number": (put(12, 3, Y), *UNKNOWN, "3", {"classes": [0, 1, 2]}),
    "text for numbers": (Y.astype(str), *OTHER_TYPE, {"classes": [0, 1, 2]}),
    "bytes for text": (LETTERS.astype("S")[Y], *OTHER_TYPE, {"classes": NAMES}),
    "too few classes": (LETTERS[Y], errors.ParameterError, "classes", {"classes": NAMES[:2]}),
    "classes twice": (LETTERS[Y], errors.ParameterError, "classes", {"classes": ["a", "b", "a"]}),
    "classes of several types": (
        *(LETTERS[Y], errors.ParameterError, "classes", {"classes": ["ant", 1, None]}),
    ),
    "an absent class": (LETTERS[np.where(Y == 1, 0, Y)], *UNTOLD),
    "an absent number": (np.array([3, 5, 9])[np.where(Y == 1, 0, Y)], *UNTOLD),
    "one-hot rows": (np.eye(3)[Y], errors.ShapeError, "y", "(200, 3)", "argmax", "idxmax"),
    "a fraction": (number(0.5), errors.LabelError, "y[12]", "0.5", "class labels"),
    "masked": (np.ma.array(LETTERS[Y]), errors.ContainerError, "y", "masked", "drop"),
    "too few": (Y[:199], *NOT_ROWS),
    "three dimensions": (np.zeros((200, 3, 1)), *NOT_ROWS),
    "ragged rows": ([[0, 1, 0]] * 199 + [[1]], *NOT_ROWS),
    "a generator": (lambda: iter(range(200)), *NOT_ROWS),
    "four labels": (put(3, 9, Y), errors.LabelError, "y", "4", "3", "column"),
    "mixed types": (text(7), errors.LabelError, "y", "type"),
    "no labels": (None, errors.LabelError, "y", "None"),
    "complex": (Y.astype(complex), errors.DataError, "y", "complex", "class labels"),
}

ONES = np.ones(200)
NEGATIVE = (errors.WeightError, "sample_weight[57]", "finite", "negative")
SHAPE = (errors.WeightError, "sample_weight", "per row")
WEIGHTS = {
    "negative": (put(57, -1e-300, ONES), *NEGATIVE, "-1e-300"),
    "infinite": (put([57, 120], np.inf, ONES), *NEGATIVE, "inf"),
    "nan": (put(57, np.nan, ONES), *NEGATIVE, "nan"),
    "too few": (ONES[1:], *SHAPE, "(199,)"),
    "a column": (ONES[:, None], *SHAPE, "(200, 1)"),
    "a number": (np.array(1.0), *SHAPE, "()"),
    "text": (["heavy"] * 200, errors.WeightError, "sample_weight"),
    "pandas NA": (pd.Series([1.0] * 199 + [pd.NA], dtype="Float64"), errors.WeightError, "weight"),
    "complex": (np.full(200, 1 + 1j), errors.WeightError, "sample_weight"),
    "a generator": (lambda: (1.0 for _ in range(200)), errors.WeightError, "sample_weight"),
    "all zero": (np.zeros(200), errors.WeightError, "sample_weight", "zero"),
    "a class without one": (Y != 1, *UNTOLD),
    "masked": (np.ma.array(ONES), errors.ContainerError, "sample_weight", "masked", "drop"),
}


def read(case):
    """Return what is given, the error, parts of its message, the kind, and other parameters."""
    given, error, *parts = case
    options = dict(parts.pop()) if isinstance(parts[-1], dict) else {}
    return made(given), error, parts, options.pop("scores", "probabilities"), options


@new_names
@pytest.mark.parametrize("case", SCORES.values(), ids=SCORES)
def test_bad_scores_are_refused_at_predict(case):
    given, error, parts, kind, options = read(case)
    with refused(error, *parts):
        use(AnyCalibrator, "predict_proba", given, kind, **options)


ARGUMENTS = {
    "scores": (SCORES, lambda given: (given, Y)),
    "labels": (LABELS, lambda given: (P, given)),
    "weights": (WEIGHTS, lambda given: (P, LETTERS[Y], given)),
}
CASES = {
    f"{name}: {words}": (case, arguments)
    for name, (cases, arguments) in ARGUMENTS.items()
    for words, case in cases.items()
}


@pytest.mark.parametrize(("case", "arguments"), CASES.values(), ids=CASES)
def test_bad_input_is_refused_at_fit_which_leaves_what_was_fitted(case, arguments):
    """To the bit: every attribute, and what it predicts."""
    given, error, parts, kind, options = read(case)
    estimator = deepcopy(fitted(AnyCalibrator, kind)).set_params(**options)
    other, before = deepcopy(estimator), state(estimator)
    with refused(error, *parts):
        estimator.fit(*arguments(given))
    assert state(estimator) == before
    assert same_fit(estimator, other, fresh(kind))


def test_a_bad_cell_is_named_by_its_row_in_the_whole_matrix(monkeypatch):
    """Rows may be worked off in parts, the caller's numbers count."""
    monkeypatch.setattr(simplex, "CHUNK_BYTES", 1000)
    with refused(errors.NonFiniteError, "scores[195, 1]", "nan", MEND):
        use(AnyCalibrator, "predict_proba", put((195, 1), np.nan))


@pytest.mark.parametrize("shape", [(0, 3), (5, 0), (0, 0), (0,)])
def test_a_fit_to_nothing_is_refused(shape):
    with refused(errors.ShapeError, str(shape), ("0 sample", "0 feature", "scores")):
        AnyCalibrator().fit(np.empty(shape), np.zeros(shape[0], dtype=int))


CHECKS = {"gate", "check_is_fitted"}
DOORS = [
    name
    for name, value in vars(Calibrator).items()
    if isfunction(value) and (CHECKS & {*value.__code__.co_names} or not name.startswith("_"))
]


def _subclasses(cls):
    for sub in cls.__subclasses__():
        yield sub
        yield from _subclasses(sub)


def test_no_calibrator_has_a_way_in_of_its_own():
    """Each checks by ``fit``, ``predict_proba`` and the like of ``Calibrator``, and no other."""
    assert {"fit", "predict_proba", "predict", "transform", "predict_log_proba"} <= {*DOORS}
    ours = {cls for cls in _subclasses(Calibrator) if cls.__module__.startswith("calibrant.")}
    found = {*ours, *CALIBRATORS}  # the latter so that all are loaded, and no other test's own
    found -= {AroundWithColumns, FeatureCalibrator, GroupedCalibrator}  # they take more than scores
    assert len(found) > 20
    for calibrator in found:
        for name in DOORS:
            assert getattr(calibrator, name) is getattr(Calibrator, name), (calibrator, name)
