"""What is refused: the error names the argument, the place, the value and the remedy.

Each case is tried with one method, since all check their input in common (last test), at fit and,
if it is about scores, at predict. A fit that fails changes nothing.
"""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from inspect import isfunction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from bad_input.holders import COLUMNS, DeviceTensor, HalfTensor, pa
from bad_input.promises import (
    CALIBRATORS,
    KINDS,
    LETTERS,
    NAMES,
    AnyCalibrator,
    fitted,
    fresh,
    good,
    mild,
    new_names,
    refused,
    same_fit,
    state,
    use,
)
from calibrant import GroupedCalibrator, errors
from calibrant import _simplex as simplex
from calibrant._calibrators.base import Calibrator

MEND = ("remove", "repair", "drop", "fill")
REMEDY = ("array", "frame", "collect()", "cpu()", "rows", "columns")


CASES = {"scores": {}, "labels": {}, "weights": {}}


def refuse(about, name, given, error, *parts, kind="probabilities", **options):
    """Note a case: what is given, the error with parts of its message, and parameters."""
    assert name not in CASES[about]
    CASES[about][name] = given, error, parts, kind, options


bad_scores, bad_labels, bad_weights = (partial(refuse, about) for about in CASES)


def each(about):
    return pytest.mark.parametrize("case", CASES[about].values(), ids=CASES[about])


def made(given):
    """Return what is given, or a fresh one of what can be read only once."""
    return given() if callable(given) else given


def put(place, value, kind="probabilities", base=None, dtype=None):
    """Return good scores, or others, with something at a place."""
    scores = good(kind)[0] if base is None else base
    scores = scores.astype(dtype or scores.dtype)
    scores[place] = value
    return scores


for kind, value in [(k, v) for k in KINDS for v in (np.nan, np.inf)] + [(KINDS[0], -np.inf)]:
    given = put(([17, 90], [2, 0]), value, kind)
    parts = (errors.NonFiniteError, "scores[17, 2]", str(value), MEND)
    bad_scores(f"{value} among {kind}", given, *parts, kind=kind)
nan = put((17, 2), np.nan)
bad_scores("nan, rows", nan, errors.NonFiniteError, "scores[17, 2]", "nan", MEND, normalize="rows")
for size in (1e160, 1e308):  # whose squares or differences overflow
    given = put((slice(None, None, 7), slice(2)), [size, -size], "logits")
    parts = (errors.RangeError, "scores[0, 0]", f"{size:g}", "between -1e+100 and 1e+100")
    bad_scores(f"logits of {size}", given, *parts, kind="logits")
given = put(11, -np.inf, "logits")
bad_scores("all -inf", given, errors.DataError, "scores[11", "-inf", MEND, kind="logits")
given = good("logits")[0]
parts = (
    errors.RangeError,
    "scores[0, 0]",
    f"{given[0, 0]:.4f}"[:5],
    "did you mean scores='logits'?",
)
bad_scores("logits as probabilities", given, *parts)

for excess in (-0.5, -1.1e-3, 1.1e-3, 0.02):
    given = put(23, mild()[23] * (1 + excess), base=mild())
    parts = (errors.RowSumError, "scores[23]", f"{1 + excess:.6g}", "normalize='rows'")
    bad_scores(f"a row sum off by {excess}", given, *parts)
for row in (  # that no rounding explains
    [0.335, 0.334, 0.334],  # 1.003: three decimals explain 0.0015
    [0.34, 0.34, 0.34],  # 1.02: two decimals explain 0.015, but at most 0.01
):
    parts = (errors.RowSumError, "scores[199]", "normalize='rows'")
    bad_scores(f"a row {row}", put(199, row), *parts)
for normalize in (None, "rows"):
    parts = (errors.RowSumError, "scores[31", "0", "not a distribution", MEND)
    bad_scores(f"zeros, normalize={normalize}", put(31, 0.0), *parts, normalize=normalize)
for off in (-1.1e-4, -0.3, 1 + 1.1e-4, 1.3):
    given = put(8, [off, 1.0, 0.0] if off < 0 else [0.0, off, 0.0])
    parts = (f"scores[8, {int(off > 0)}]", str(off), "[0, 1]", "scores='logits'")
    bad_scores(f"a probability of {off}", given, errors.RangeError, *parts)
given, parts = put(8, [-0.3, 1.0, 0.3]), (errors.RangeError, "scores[8, 0]", "-0.3")
bad_scores("negative masses", given, *parts, "scores='logits'", normalize="rows")
for dtype in (np.int64, np.uint8, np.float32, np.float64):
    given = np.round(100 * good()[0]).astype(dtype)
    parts = (errors.DataError, "scores[0", "percent", ("100", "normalize='rows'"))
    bad_scores(f"percent in {dtype.__name__}", given, *parts)

columns = {name: good()[0][:, j].tolist() for j, name in enumerate(COLUMNS)}
columns["f2"][17] = None
LACKING = {
    "frame": pd.DataFrame(columns),
    "nullable frame": pd.DataFrame(columns).astype("Float64"),
    "array of objects": pd.DataFrame(columns, dtype=object).to_numpy(),
    "polars": pl.DataFrame(columns),
}
columns = columns | {"f2": ["much"] * 200}
TEXTS = {
    "pandas": pd.DataFrame(columns),
    "polars": pl.DataFrame(columns),
}
if pa:
    TEXTS["arrow"] = pa.table(columns)
    columns = columns | {"f2": [None if i == 17 else p for i, p in enumerate(good()[0][:, 2])]}
    LACKING |= {"arrow table": pa.table(columns), "arrow batch": pa.record_batch(columns)}
for name, given in LACKING.items():
    bad_scores(f"missing in {name}", given, errors.NonFiniteError, "scores[17, 2]", MEND)
for name, given in TEXTS.items():
    parts = (errors.ContainerError, "scores", ("f2", "much", "numbers"))
    bad_scores(f"text in {name}", given, *parts)
given = sparse.csr_array(good()[0])
bad_scores("sparse", given, errors.ContainerError, "scores", "parse", ".toarray()")
for kind in KINDS:
    given = np.ma.array(good(kind)[0])
    given[17, 2] = np.ma.masked
    parts = (errors.DataError, "scores[17, 2]", "mask", ("fill", "drop"))
    bad_scores(f"masked {kind}", given, *parts, kind=kind)
rows = good()[0]
for name, given in {
    "generator": lambda: (row for row in rows),
    "mapping": {j: rows[:, j] for j in range(3)},
    "None": None,
    "text": "probabilities",
    "number": 0.5,
    "lazy frame": pl.DataFrame(rows).lazy(),
    "ragged": [[0.5, 0.5, 0.0], [1.0, 0.0]],
    "device tensor": DeviceTensor(rows),
}.items():
    bad_scores(f"no matrix: {name}", given, errors.DataError, "scores", REMEDY)
for dtype in ("complex64", "complex128", "U8", "S8", "M8[s]", "m8[s]"):
    given = rows.astype("i8" if dtype[0] in "mM" else dtype).astype(dtype)
    bad_scores(dtype, given, errors.ContainerError, "scores", str(given.dtype), "numbers")
for value in ("0.5", b"0.5", 0.5 + 0j, {}):
    parts = (errors.ContainerError, "scores[6, 1]", repr(value), "number")
    bad_scores(f"an object {value!r}", put((6, 1), value, dtype=object), *parts)
bad_scores(
    "bfloat16", HalfTensor(rows), errors.ContainerError, "scores", "bfloat16", "pass scores.float()"
)

for given in (rows.reshape(200, 3, 1), rows.reshape(1, 200, 3), np.array(1.0)):
    parts = (errors.ShapeError, "scores", str(given.shape), ("row", "column"))
    bad_scores(f"shape {given.shape}", given, *parts)
IMAGES = {  # (N, C, H, W), as networks for segmentation return it, or with the classes last
    "np.moveaxis(np.asarray(scores), 1, -1).reshape(-1, 3)": rows.reshape(5, 8, 5, 3).transpose(
        0, 3, 1, 2
    ),
    "np.asarray(scores).reshape(-1, 3)": rows.reshape(5, 8, 5, 3),
}
for remedy, given in IMAGES.items():
    parts = (errors.ShapeError, "scores", str(given.shape), "(N, C, H, W)", remedy)
    bad_scores(f"images {given.shape}", given, *parts)
for kind, remedy in zip(KINDS, ("[1 - p, p]", "[np.zeros_like(z), z]"), strict=True):
    for shape in ((200,), (200, 1)):  # no guess that it is the positive class
        given, remedy_in_full = good(kind)[0][:, 0].reshape(shape), f"np.column_stack({remedy})"
        parts = (errors.ShapeError, "scores", str(shape), remedy_in_full)
        bad_scores(f"{kind} {shape}", given, *parts, kind=kind)


@new_names
@each("scores")
def test_bad_scores_are_refused_at_predict(case):
    given, error, parts, kind, options = case
    given = made(given)
    with refused(error, *parts):
        use(AnyCalibrator, "predict_proba", given, kind, **options)


@each("scores")
def test_bad_scores_are_refused_at_fit_which_leaves_what_was_fitted(case):
    """To the bit: every attribute, and what it predicts."""
    given, error, parts, kind, options = case
    given, estimator = made(given), deepcopy(fitted(AnyCalibrator, kind)).set_params(**options)
    other, before = deepcopy(estimator), state(estimator)
    with refused(error, *parts):
        estimator.fit(given, good()[1])
    assert state(estimator) == before
    assert same_fit(estimator, other, fresh(kind))


def test_a_bad_cell_is_named_by_its_row_in_the_whole_matrix(monkeypatch):
    """Rows may be worked off in parts, the caller's numbers count."""
    monkeypatch.setattr(simplex, "CHUNK_BYTES", 1000)
    with refused(errors.NonFiniteError, "scores[195, 1]", "nan", MEND):
        use(AnyCalibrator, "predict_proba", put((195, 1), np.nan))


def test_the_remedy_for_images_is_the_rows():
    scores, y = good()
    for remedy, images in IMAGES.items():
        found = eval(remedy, {"np": np, "scores": images})
        np.testing.assert_array_equal(found, scores)
    names = {"np": np, "y": y.reshape(5, 8, 5)}
    np.testing.assert_array_equal(eval("np.asarray(y).ravel()", names), y)


y = good()[1]


def text(row, value):
    labels = LETTERS[y].astype(object)
    labels[row] = value
    return labels


def number(row, value):
    labels = y.astype(float)
    labels[row] = value
    return labels


def hot(row, value):
    return put(row, value, base=np.eye(3)[y])


for form, given in {
    "nan": number(12, np.nan),
    "inf": number(12, np.inf),
    "None": text(12, None).tolist(),
    "nan in objects of text": text(12, np.nan),
    "nan in a list of numpy's text": [*LETTERS[y[:12]], float("nan"), *LETTERS[y[13:]]],
    "pandas NA": pd.Series(number(12, np.nan)).astype("Int64"),
    "pandas nullable text": pd.Series(text(12, pd.NA), dtype="string"),
    "category": pd.Categorical(text(12, None)),
    "polars text": pl.Series(text(12, None).tolist()),
    "polars integers": pl.Series(number(12, np.nan)).fill_nan(None).cast(pl.Int64),
    "one-hot": hot((12, 0), np.nan),
}.items():
    bad_labels(f"missing: {form}", given, errors.LabelError, "y[12]", MEND)
for classes, label in [
    *((NAMES, label) for label in ("dog", "an", "zebra")),
    *(([0, 1, 2], label) for label in (3, -1)),
    ([0.0, 1.0, 2.0], 5.0),
    ([b"ant", b"bee", b"cat"], b"dog"),
]:
    given = np.array([label if i == 44 else classes[c] for i, c in enumerate(y)])
    parts = (errors.LabelError, "y[44]", repr(label), "classes")
    bad_labels(f"{label!r} is no class", given, *parts, classes=classes)
for labels in (["0", "1", "2"], [b"ant", b"bee", b"cat"]):  # "0" is not 0, bytes are not text
    for classes in ([0, 1, 2], NAMES):
        parts = (errors.LabelError, ("y", "labels"), "classes")
        bad_labels(f"{labels} for {classes}", np.array(labels)[y], *parts, classes=classes)
for classes in (["ant", "bee"], ["ant", "bee", "ant"], "ant", [["ant"]], ["ant", 1, None]):
    given = LETTERS[y]
    bad_labels(f"classes={classes}", given, errors.ParameterError, "classes", classes=classes)
for labels in (LETTERS, LETTERS.astype(object), np.array([3, 5, 9])):  # which one is absent?
    given = labels[np.where(y == 1, 0, y)]
    bad_labels(f"an absent class, {labels.dtype}", given, errors.LabelError, "y", "pass classes=")
for row in ([1, 1, 0], [0, 0, 0], [0.5, 0.5, 0], [2, 0, 0], [1, -1, 1]):
    parts = (errors.LabelError, "y[21]", "one-hot", "exactly one 1")
    bad_labels(f"a label row {row}", hot(21, row), *parts)
for value in (0.5, -0.25, 1e-9):
    parts = (errors.LabelError, "y[33]", str(value), "class labels")
    bad_labels(f"a label {value}", number(33, value), *parts)
for labels in (y, LETTERS[y]):
    given = np.ma.array(labels, mask=np.arange(200) == 9)
    bad_labels(f"masked {labels.dtype}", given, errors.LabelError, "y[9]", "mask", ("fill", "drop"))
for name, given in {
    "too few": np.zeros(199, dtype=int),
    "three dimensions": np.zeros((200, 3, 1)),
    "a number": 1,
    "ragged rows": [[0, 1, 0]] * 199 + [[1]],
    "a generator": lambda: iter(range(200)),
}.items():
    bad_labels(name, given, errors.DataError, "y", "200", "row")
bad_labels("four labels", number(3, 9).astype(int), errors.LabelError, "y", "4", "3", "column")
bad_labels("mixed types", text(4, 7), errors.LabelError, "y", "type")
bad_labels("another width", np.eye(4)[y], errors.DataError, "y", "4", "3", "column")
bad_labels("no labels", None, errors.LabelError, "y", "None")
bad_labels("complex", y.astype(complex), errors.DataError, "y", "complex", "class labels")

for value in (-1.0, -1e-300, -np.inf, np.inf, np.nan):
    given = np.where(np.isin(np.arange(200), [57, 120]), value, 1.0)
    parts = (errors.WeightError, "sample_weight[57]", str(value), "finite", "negative")
    bad_weights(f"a weight {value}", given, *parts)
for shape in ((199,), (201,), (200, 1), (1, 200), (200, 3), (), (0,)):
    parts = (errors.WeightError, "sample_weight", str(shape), "per row")
    bad_weights(f"weights of shape {shape}", np.ones(shape), *parts)
for name, given in {
    "text": ["heavy"] * 200,
    "None": np.array([None] * 200),
    "pandas NA": pd.Series([1.0] * 199 + [pd.NA], dtype="Float64"),
    "polars null": pl.Series([1.0] * 199 + [None]),
    "complex": np.full(200, 1 + 1j),
    "generator": lambda: (1.0 for _ in range(200)),
    "mapping": {"weight": 1.0},
}.items():
    bad_weights(name, given, errors.WeightError, "sample_weight")
bad_weights("all zero", np.zeros(200), errors.WeightError, "sample_weight", "zero")
bad_weights("a class without one", y != 1, errors.LabelError, "y", "pass classes=")
given = np.ma.array(np.ones(200), mask=np.arange(200) == 9)
bad_weights("masked", given, errors.DataError, "sample_weight[9]", "mask", ("fill", "drop"))


@each("labels")
def test_bad_labels_are_refused(case):
    given, error, parts, _, options = case
    given, estimator = made(given), deepcopy(fitted(AnyCalibrator)).set_params(**options)
    before = state(estimator)
    with refused(error, *parts):
        estimator.fit(good()[0], given)
    assert state(estimator) == before


@each("weights")
def test_bad_weights_are_refused(case):
    given, error, parts, *_ = case
    given, estimator = made(given), deepcopy(fitted(AnyCalibrator))
    before = state(estimator)
    with refused(error, *parts):
        estimator.fit(good()[0], LETTERS[good()[1]], given)
    assert state(estimator) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("scores", value) for value in ("odds", None)),
        *(("normalize", value) for value in ("columns", True)),
        *(("min_probability", value) for value in (-1e-9, 0.34, 1.5, np.nan, "small", None)),
    ],
)
def test_a_fit_with_a_bad_parameter_leaves_what_was_fitted(name, value):
    """The parameter is named; fitted attributes stay."""
    estimator = AnyCalibrator().fit(*good()).set_params(**{name: value})
    before = state(estimator)
    with refused(errors.ParameterError, name, str(value)):
        estimator.fit(*good())
    assert state(estimator) == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(0, 3), (5, 0), (0, 0), (0,)])
def test_a_fit_to_nothing_is_refused(kind, shape):
    with refused(errors.ShapeError, str(shape), ("0 sample", "0 feature", "scores")):
        AnyCalibrator(scores=kind).fit(np.empty(shape), np.zeros(shape[0], dtype=int))


@pytest.mark.parametrize("method", ["predict_proba", "predict", "transform"])
@pytest.mark.parametrize(
    "rows", [fresh(n_classes=2), fresh(n_classes=4), np.empty((0, 4))], ids=len
)
def test_another_number_of_classes_is_refused_naming_both(method, rows):
    with refused(errors.ShapeError, str(rows.shape[1]), "3", ("column", "class")):
        getattr(fitted(AnyCalibrator), method)(rows)


@pytest.mark.parametrize("method", ["predict_proba", "predict", "transform"])
def test_predicting_before_fitting_is_refused(method):
    """Also after a first fit that failed."""
    estimator = AnyCalibrator()
    with pytest.raises(errors.NotFittedError, match=AnyCalibrator.__name__):
        getattr(estimator, method)(fresh())
    with refused(errors.LabelError):
        estimator.fit(good()[0], None)
    with pytest.raises(errors.NotFittedError, match=AnyCalibrator.__name__):
        getattr(estimator, method)(fresh())


def test_every_error_about_data_is_a_value_error():
    """As scikit-learn raises, so that callers catch both."""
    found = {name for name in errors.__all__ if name.endswith("Error")}
    data_errors = [getattr(errors, name) for name in found - {"MemoryLimitError"}]
    assert len(data_errors) > 15
    assert all(issubclass(error, ValueError) for error in data_errors)
    assert issubclass(errors.ContainerError, TypeError)
    assert issubclass(errors.MemoryLimitError, MemoryError)


CHECKS = {"simplex", "to_matrix", "column_order", "column_names", "check_is_fitted"}
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
    found -= {GroupedCalibrator}  # whose doors take groups: tests/calibrators/test_grouped
    assert len(found) > 20
    for calibrator in found:
        for name in DOORS:
            assert getattr(calibrator, name) is getattr(Calibrator, name), (calibrator, name)
