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
from calibrant.datasets import simulated_scores
from conftest import simulate
from export.backends import run_graph, run_onnx
from export.cases import KINDS, assert_same, fitted, rows_for

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from calibrant.export import to_onnx  # noqa: E402


@pytest.mark.parametrize("kind", KINDS)
def test_a_temperature_next_to_one_is_kept(kind):
    """ONNX Runtime leaves out factors that are 1 in single precision."""
    calibrator = copy(fitted("ts", kind))  # others use it
    rows = rows_for(calibrator)
    for gap in (1e-10, 1e-8, 1e-6):
        calibrator.map_ = replace(calibrator.map_, inverse_temperature=1.0 - gap)
        found = run_onnx(calibrator, rows, kind)
        assert_same(found, calibrator, rows, "float64")


@pytest.mark.parametrize("opset", [16, 17, 18, 21])
def test_opsets(opset):
    calibrator = fitted("scir")
    model = to_onnx(calibrator, opset=opset, dtype="float64")
    assert [(one.domain, one.version) for one in model.opset_import] == [("", opset)]
    assert {node.domain for node in model.graph.node} == {""}
    rows = rows_for(calibrator)
    assert_same(run_graph(model, rows), calibrator, rows, "float64")


def metadata(model):
    return {one.key: one.value for one in model.metadata_props}


@pytest.mark.parametrize("labels", [["bird", "cat", "dög"], [3, 7, 11], [False, True]])
def test_metadata(labels):
    scores, y = simulate(300, len(labels))
    calibrator = calibrant.NormalizationAwareIsotonic().fit(scores, np.array(labels)[y])
    model = to_onnx(calibrator)
    found = metadata(model)
    assert json.loads(found["calibrant.classes"]) == labels
    assert found["calibrant.method"] == "na-fir"
    assert found["calibrant.input"] == "probabilities"
    assert found["calibrant.version"] == model.producer_version == calibrant.__version__
    assert found["calibrant.sha256"] == model_file.digest(calibrator)
    assert model.ir_version == 8  # what opset 18 asks for, so that older runtimes take it
    shape = [d.dim_param or d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    assert shape == ["rows", len(labels)]


def test_hostile_sizes():
    """Long names, many classes, and nobody's name or path inside."""
    n_classes = 5000
    rng = np.random.default_rng(0)
    scores = rng.dirichlet(np.full(n_classes, 0.02), 300)
    y = scores.argmax(axis=1)
    names = np.array([f"{i:05d}" + "x" * (9_995 if i < 20 else 5) for i in range(n_classes)])
    calibrator = calibrant.FlattenedIsotonic(classes=names).fit(scores, names[y])
    model = to_onnx(calibrator, dtype="float64")
    assert_same(run_graph(model, scores), calibrator, scores, "float64")
    data = model.SerializeToString()
    with pytest.raises(errors.StoredClassesError):  # which a graph does not mind
        model_file.dumps(calibrator)
    assert json.loads(metadata(model)["calibrant.classes"])
    for secret in (str(Path.home()), str(Path.cwd()), f"/{getpass.getuser()}", "/src/calibrant"):
        assert secret.encode() not in data


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "float16"}, "dtype='float16' is not known"),
        ({"opset": 12}, r"opset=12 must be a whole number in \[16"),
        ({"opset": 18.0}, "opset=18.0 must be a whole number"),
        ({"tolerance": -1e-6}, "tolerance="),
        ({"tolerance": 1.0}, "tolerance="),
        ({"tolerance": np.nan}, "tolerance="),
        ({"precision": "float16"}, "precision='float16' is not known"),
        ({"precision": "float32", "dtype": "float64"}, "leave out dtype='float64'"),
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
