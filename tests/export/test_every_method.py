"""Every method gives what ``predict_proba`` gives, whatever carries out its formula."""

import importlib

import numpy as np
import pytest

import calibrant
from calibrant import errors
from calibrant._maps import CalibrationMap
from calibrant.datasets import simulated_scores
from export.backends import RUN, WAYS, ways
from export.cases import CASES, KINDS, assert_same, data, fitted, make, rows_for, softmax

REFUSALS = (errors.ExportError, errors.NotFittedError, errors.ParameterError)
EXACT = [("onnx", "float64"), ("torch", "float64")]
BAD_ROWS = {
    "probabilities": [
        [np.nan, 0.5, 0.25, 0.25],
        [0.0, 0.5, np.inf, 0.5],
        [0.75, 0.5, 0.25, 0.0],
        [0.0, 0.0, 0.0, 0.0],
        [-0.2, 0.4, 0.4, 0.4],
        [1.1, -0.1, 0.0, 0.0],
        [1e300, 0.0, 0.0, 0.0],
    ],
    "logits": [
        [np.nan, 0.5, 0.25, 0.25],
        [np.inf, 0.0, 0.0, 0.0],
        [-np.inf, -np.inf, -np.inf, -np.inf],
        [1e200, 0.0, 0.0, 0.0],
    ],
}


@pytest.mark.parametrize("kind", KINDS)
@ways(CASES)
def test_same_as_predict_proba(case, backend, dtype, kind):
    calibrator = fitted(case, kind)
    rows = rows_for(calibrator, dtype)
    assert_same(RUN[backend](calibrator, rows, kind), calibrator, rows, dtype)


@pytest.mark.parametrize("n_classes", [2, 60])
@ways(["fir", "na-fir", "scir", "ts", "vs", "spline", "two-class", "auto"], EXACT)
def test_few_and_many_classes(case, backend, dtype, n_classes):
    calibrator = fitted(case, n_classes=n_classes)
    rows = rows_for(calibrator, n_classes=n_classes)
    assert_same(RUN[backend](calibrator, rows, None), calibrator, rows, dtype)


@pytest.mark.parametrize("n_rows", [0, 1, 5])
@ways(["scir", "na-fir", "structured", "auto"], EXACT)
def test_any_number_of_rows(case, backend, dtype, n_rows):
    calibrator = fitted(case)
    rows = rows_for(calibrator)[:n_rows]
    assert_same(RUN[backend](calibrator, rows, None), calibrator, rows, dtype)


@ways(["fir", "scir", "ts", "dirichlet", "structured", "auto"], EXACT)
def test_a_graph_takes_the_softmax_of_logits(case, backend, dtype):
    logits = np.random.default_rng(0).normal(0, 3, (300, 4)).astype(dtype)
    logits[:20, 2] = -np.inf
    rows = softmax(logits)
    found = RUN[backend](fitted(case), logits, "logits")
    np.testing.assert_allclose(found, fitted(case).predict_proba(rows), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@ways(CASES, EXACT)
def test_refused_rows_mean_nothing_and_leave_the_others_alone(case, backend, dtype, kind):
    calibrator = fitted(case, kind)
    with np.errstate(over="ignore"):
        bad = np.array(BAD_ROWS[kind]).astype(dtype)
    if case == "normalized" and kind == "probabilities":  # which normalises some of them
        bad = bad[~((bad >= 0) & np.isfinite(bad)).all(axis=1) | ~bad.any(axis=1)]
    for row in bad:
        with pytest.raises(errors.DataError):
            calibrator.predict_proba(row[None])
    rows = data(kind, 4)[2][: len(bad)].astype(dtype)
    found = RUN[backend](calibrator, np.stack([rows, bad], axis=1).reshape(-1, 4), kind)
    assert np.isnan(found[1::2]).all()
    assert_same(found[::2], calibrator, rows, dtype)


@pytest.mark.parametrize(("backend", "dtype"), WAYS)
def test_rounded_rows_are_normalised(backend, dtype):
    """Rows whose sums are off by percents: ties stay ties."""
    rows, y = np.round(data("probabilities", 4)[2], 2).astype(dtype), data("probabilities", 4)[1]
    assert np.ptp(rows.sum(axis=1)) > 0.005
    calibrator = calibrant.NormalizationAwareIsotonic(classes=range(4)).fit(rows[: len(y)], y)
    assert_same(RUN[backend](calibrator, rows, "probabilities"), calibrator, rows, dtype)


@pytest.mark.filterwarnings("ignore::calibrant.errors.ClassShareWarning")  # a quarter for each
@pytest.mark.filterwarnings("ignore::calibrant.errors.ConstantFitWarning")
@pytest.mark.parametrize(("backend", "dtype"), WAYS)
def test_values_at_the_floor(backend, dtype):
    rows = rows_for(fitted("fir")).astype(dtype)
    calibrator = calibrant.FlattenedIsotonic(min_probability=0.25).fit(rows, rows.argmax(axis=1))
    found = RUN[backend](calibrator, rows, "probabilities")
    assert np.abs(found - 0.25).max() <= {"float64": 1e-15, "float32": 1e-7}[dtype]


# One column of two classes

RNG = np.random.default_rng(1)
MARGINS = RNG.normal(-0.5, 2.0, 300)[:, None]
COLUMNS = {"positive": 1.0 / (1.0 + np.exp(-MARGINS)), "decision": MARGINS}
Y = (RNG.random(300) < COLUMNS["positive"][:, 0]).astype(int)
BAD_CELLS = {"positive": [np.nan, 1.5, -0.5], "decision": [np.nan, 1e200, -1e200]}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", COLUMNS)
@ways(["ts", "vs", "fir", "two-class"], EXACT)
def test_graphs_take_one_column_of_either_kind(case, backend, dtype, kind):
    calibrator = make(case).set_params(scores=kind).fit(COLUMNS[kind], Y)
    rows = np.append(COLUMNS[kind], BAD_CELLS[kind])[:, None].astype(dtype)
    found = RUN[backend](calibrator, rows, None)
    assert np.isnan(found[300:]).all()
    wanted = calibrator.predict_proba(COLUMNS[kind])
    np.testing.assert_allclose(found[:300], wanted, rtol=0, atol=1e-12)


def test_onnx_names_its_column():
    pytest.importorskip("onnx")
    from calibrant.export import to_onnx

    calibrator = calibrant.TemperatureScaling(scores="decision").fit(MARGINS, Y)
    (given,) = to_onnx(calibrator).graph.input
    shape = [d.dim_param or d.dim_value for d in given.type.tensor_type.shape.dim]
    assert (given.name, shape) == ("decision", ["rows", 1])


# What is refused


class Stubborn(CalibrationMap):
    kind = "probabilities"

    def __call__(self, rows):
        return rows


def without_formula():
    calibrator = calibrant.TemperatureScaling().fit(*simulated_scores(300))
    calibrator.map_ = Stubborn()
    return calibrator


@pytest.mark.parametrize("package", ["onnx", "torch"])
@pytest.mark.parametrize(
    ("create", "kind", "fact"),
    [
        (without_formula, None, "Stubborn"),
        (calibrant.CalibratedClassifier, None, "register_skl2onnx"),
        (calibrant.TemperatureScaling, None, "fit"),
        (lambda: "model.calibrant", None, "'model.calibrant'"),
        (lambda: fitted("ts", "logits"), "probabilities", "use input='logits'"),
        (lambda: fitted("ts"), "positive", "use input='probabilities'"),
        (lambda: fitted("ts"), "scores", "input='scores'"),
    ],
)
def test_what_cannot_be_exported_is_named(package, create, kind, fact):
    pytest.importorskip(package)
    write = getattr(importlib.import_module("calibrant.export"), f"to_{package}")
    with pytest.raises(REFUSALS, match=fact):
        write(create(), input=kind)
