"""Graphs in ONNX Runtime against ``predict_proba``, for every method."""

import getpass
import json
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant import errors, model_file
from calibrant._maps.base import CalibrationMap
from calibrant.datasets import simulated_scores
from conftest import simulate
from export.cases import CASES, KINDS, TOLERANCES, assert_same, fitted, rows_for, softmax

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

from calibrant.export import to_onnx  # noqa: E402


def session(model):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def run(model, rows):
    """What the graph makes of rows."""
    here = session(model)
    (given,) = here.get_inputs()
    (found,) = here.run(None, {given.name: rows})
    return found


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_same_as_predict_proba(case, kind, dtype):
    calibrator = fitted(case, kind)
    rows = rows_for(calibrator, dtype)
    model = to_onnx(calibrator, dtype=dtype)
    assert_same(run(model, rows), calibrator, rows, dtype)


@pytest.mark.parametrize(
    "case", ["fir", "na-fir", "scir", "ts", "vs", "spline", "two-class", "auto"]
)
@pytest.mark.parametrize("n_classes", [2, 60])
def test_few_and_many_classes(case, n_classes):
    calibrator = fitted(case, n_classes=n_classes)
    rows = rows_for(calibrator, n_classes=n_classes)
    assert_same(run(to_onnx(calibrator, dtype="float64"), rows), calibrator, rows, "float64")


@pytest.mark.parametrize("kind", KINDS)
def test_a_temperature_next_to_one_is_kept(kind):
    """ONNX Runtime leaves out factors that are 1 in single precision."""
    calibrator = copy(fitted("ts", kind))  # others use it
    rows = rows_for(calibrator)
    for gap in (1e-10, 1e-8, 1e-6):
        calibrator.map_ = replace(calibrator.map_, inverse_temperature=1.0 - gap)
        found = run(to_onnx(calibrator, dtype="float64"), rows)
        assert_same(found, calibrator, rows, "float64")


@pytest.mark.parametrize("opset", [16, 17, 18, 21])
def test_opsets(opset):
    calibrator = fitted("scir")
    model = to_onnx(calibrator, opset=opset, dtype="float64")
    assert [(one.domain, one.version) for one in model.opset_import] == [("", opset)]
    assert {node.domain for node in model.graph.node} == {""}
    rows = rows_for(calibrator)
    assert_same(run(model, rows), calibrator, rows, "float64")


@pytest.mark.parametrize("n_rows", [0, 1, 5])
@pytest.mark.parametrize("case", ["scir", "na-fir", "structured", "m2b-ir", "auto"])
def test_any_number_of_rows(case, n_rows):
    calibrator = fitted(case)
    rows = rows_for(calibrator)[:n_rows]
    assert_same(run(to_onnx(calibrator, dtype="float64"), rows), calibrator, rows, "float64")


@pytest.mark.parametrize("case", ["fir", "scir", "ts", "dirichlet", "auto"])
def test_logits_for_a_calibrator_of_probabilities(case):
    calibrator = fitted(case)
    logits = np.random.default_rng(0).normal(0, 3, (300, 4))
    found = run(to_onnx(calibrator, input="logits", dtype="float64"), logits)
    assert np.abs(found - calibrator.predict_proba(softmax(logits))).max() <= 1e-12


@pytest.mark.parametrize("case", ["fir", "scir", "ts", "dirichlet", "structured"])
def test_probabilities_for_a_calibrator_of_logits(case):
    calibrator = fitted(case, "logits")
    rows = np.random.default_rng(0).dirichlet([0.3, 0.2, 1.0, 0.1], 300)
    rows[:20, 2] = 0.0
    rows[:20] /= rows[:20].sum(axis=1, keepdims=True)
    found = run(to_onnx(calibrator, input="probabilities", dtype="float64"), rows)
    with np.errstate(divide="ignore"):
        assert np.abs(found - calibrator.predict_proba(np.log(rows))).max() <= 1e-12


@pytest.mark.parametrize("case", ["vs", "ms"])
def test_probabilities_do_not_tell_logits(case):
    with pytest.raises(errors.ExportError, match=r"up to a number for each row.*input='logits'"):
        to_onnx(fitted(case, "logits"), input="probabilities")


BAD_ROWS = {
    "probabilities": [
        [np.nan, 0.5, 0.5, 0.0],
        [0.0, 0.5, np.inf, 0.5],
        [0.5, 0.5, 0.5, 0.0],
        [0.0, 0.0, 0.0, 0.0],
        [-0.2, 0.4, 0.4, 0.4],
        [1e300, 0.0, 0.0, 0.0],
    ],
    "logits": [
        [np.nan, 0.5, 0.5, 0.0],
        [np.inf, 0.5, 0.5, 0.0],
        [-np.inf, -np.inf, -np.inf, -np.inf],
        [1e200, 0.0, 0.0, 0.0],
    ],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_refused_rows_mean_nothing(case, kind):
    """And do not touch their neighbours."""
    calibrator = fitted(case, kind)
    bad = np.array(BAD_ROWS[kind])
    if case == "normalized" and kind == "probabilities":
        bad = np.delete(bad, [2, 5], axis=0)  # which it normalises
    rows = rows_for(calibrator)[: len(bad)]
    for row in bad:
        with pytest.raises(errors.DataError):
            calibrator.predict_proba(row[None])
    both = np.empty((2 * len(bad), 4))
    both[::2], both[1::2] = rows, bad
    found = run(to_onnx(calibrator, dtype="float64"), both)
    assert np.isnan(found[1::2]).all()
    assert_same(found[::2], calibrator, rows, "float64")


def test_rounded_rows_are_normalised():
    calibrator = fitted("fir")
    rows = np.round(rows_for(calibrator), 2)
    assert np.ptp(rows.sum(axis=1)) > 0.005
    assert_same(run(to_onnx(calibrator, dtype="float64"), rows), calibrator, rows, "float64")


def test_metadata():
    scores, y = simulated_scores(300)
    names = np.array(["bird", "cat", "dög"])
    calibrator = calibrant.NormalizationAwareIsotonic().fit(scores, names[y])
    model = to_onnx(calibrator)
    found = {one.key: one.value for one in model.metadata_props}
    assert json.loads(found["calibrant.classes"]) == [*names]
    assert found["calibrant.method"] == "na-fir"
    assert found["calibrant.input"] == "probabilities"
    assert found["calibrant.version"] == model.producer_version == calibrant.__version__
    assert found["calibrant.sha256"] == model_file.digest(calibrator)
    assert model.ir_version == 8  # what opset 18 asks for, so that older runtimes take it
    shape = [d.dim_param or d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    assert shape == ["rows", 3]


@pytest.mark.parametrize("labels", [np.array([3, 7, 11]), np.array([False, True])])
def test_classes_keep_their_type(labels):
    scores, y = simulate(300, len(labels))
    model = to_onnx(calibrant.TemperatureScaling().fit(scores, labels[y]))
    found = {one.key: one.value for one in model.metadata_props}
    assert json.loads(found["calibrant.classes"]) == labels.tolist()


def test_hostile_sizes():
    """Long names, many classes, and nobody's name or path inside."""
    n_classes = 5000
    rng = np.random.default_rng(0)
    scores = rng.dirichlet(np.full(n_classes, 0.02), 300)
    y = scores.argmax(axis=1)
    names = np.array([f"{i:05d}" + "x" * (9_995 if i < 20 else 5) for i in range(n_classes)])
    calibrator = calibrant.FlattenedIsotonic(classes=names).fit(scores, names[y])
    model = to_onnx(calibrator, dtype="float64")
    assert_same(run(model, scores), calibrator, scores, "float64")
    data = model.SerializeToString()
    with pytest.raises(errors.StoredClassesError):  # which a graph does not mind
        model_file.dumps(calibrator)
    assert json.loads({one.key: one.value for one in model.metadata_props}["calibrant.classes"])
    for secret in (str(Path.home()), str(Path.cwd()), f"/{getpass.getuser()}", "/src/calibrant"):
        assert secret.encode() not in data


@pytest.mark.filterwarnings("ignore::calibrant.errors.ClassShareWarning")  # a quarter for each
def test_values_at_the_floor():
    calibrator = fitted("fir")
    floor = calibrant.FlattenedIsotonic(min_probability=0.25).fit(
        calibrator_scores := rows_for(calibrator), calibrator_scores.argmax(axis=1)
    )
    found = run(to_onnx(floor, dtype="float64"), calibrator_scores)
    assert np.abs(found - 0.25).max() <= 1e-15


class Stubborn(CalibrationMap):
    kind = "probabilities"

    def __call__(self, rows):
        return rows


def test_what_has_no_formula_says_so():
    calibrator = calibrant.TemperatureScaling().fit(*simulated_scores(300))
    calibrator.map_ = Stubborn()
    with pytest.raises(errors.ExportError, match="Stubborn cannot be exported"):
        to_onnx(calibrator)


def test_what_is_no_fitted_calibrator_is_refused():
    with pytest.raises(errors.NotFittedError):
        to_onnx(calibrant.TemperatureScaling())
    with pytest.raises(errors.ExportError, match="is no calibrator"):
        to_onnx("model.calibrant")
    with pytest.raises(errors.ExportError, match="register_skl2onnx"):
        to_onnx(calibrant.CalibratedClassifier())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input": "scores"}, "input='scores' is not known"),
        ({"dtype": "float16"}, "dtype='float16' is not known"),
        ({"opset": 12}, r"opset=12 must be a whole number in \[16"),
        ({"opset": 18.0}, "opset=18.0 must be a whole number"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(errors.ParameterError, match=message):
        to_onnx(fitted("ts"), **options)


def test_set_params_after_the_fit_changes_nothing():
    calibrator = calibrant.TemperatureScaling().fit(*simulated_scores(300))
    before = to_onnx(calibrator).SerializeToString()
    calibrator.set_params(scores="logits")
    with pytest.raises(errors.FittedValueError):
        model_file.dumps(calibrator)
    after = to_onnx(calibrator)
    assert after.graph == onnx.load_from_string(before).graph
