"""Graphs in ONNX Runtime against ``predict_proba``, for every method."""

import getpass
import json
import subprocess
import sys
from copy import copy
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant import errors
from conftest import needs_pages, simulate
from export.backends import run_graph, run_onnx, session
from export.cases import CASES, KINDS, assert_same, data, fitted, rows_for, softmax

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, compose, helper, numpy_helper  # noqa: E402

from calibrant.export import merge_onnx, to_onnx  # noqa: E402

WEIGHTS = np.random.default_rng(0).normal(size=(5, 4))
FEATURES = np.random.default_rng(1).normal(size=(200, 5))
WORKER = Path(__file__).parents[2] / "tools" / "runtime_worker.py"
LONG = {TensorProto.DOUBLE, TensorProto.INT64}
SOME = ("fir", "na-fir", "scir", "platt-ovr", "m2b-ir", "ir-ovr", "ms", "spline", "chain")


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
    assert model.ir_version == 8  # what opset 18 asks for, so that older runtimes take it
    shape = [d.dim_param or d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    assert shape == ["rows", len(labels)]
    for secret in (str(Path.home()), str(Path.cwd()), f"/{getpass.getuser()}", "/src/calibrant"):
        assert secret.encode() not in model.SerializeToString()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "float16"}, "dtype='float16' is not known"),
        ({"opset": 12}, r"opset=12 must be a whole number in \[16"),
        ({"opset": 18.0}, "opset=18.0 must be a whole number"),
        ({"precision": "float16"}, "precision='float16' is not known"),
        ({"precision": "float32", "dtype": "float64"}, "leave out dtype='float64'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(errors.ParameterError, match=message):
        to_onnx(fitted("ts"), **options)


# Behind a network


def network(dtype=TensorProto.DOUBLE, opset=18, outputs=("scores",), kind="logits", width=4):
    """A linear classifier, with its hidden values as a second output if that is asked for."""
    weights = WEIGHTS.astype(helper.tensor_dtype_to_np_dtype(dtype))
    nodes = [
        helper.make_node("MatMul", ["features", "weights"], ["hidden"]),
        helper.make_node("Identity" if kind == "logits" else "Softmax", ["hidden"], ["scores"]),
    ]
    given = helper.make_tensor_value_info("features", dtype, ["batch", 5])
    found = [helper.make_tensor_value_info(name, dtype, ["batch", width]) for name in outputs]
    constants = [numpy_helper.from_array(weights, "weights")]
    graph = helper.make_graph(nodes, "network", [given], found, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def run(model, features=FEATURES):
    here = session(model)
    names = [one.name for one in here.get_outputs()]
    return dict(zip(names, here.run(None, {"features": features}), strict=True))


@pytest.mark.parametrize("case", ["ts", "na-fir", "scir", "structured", "auto"])
def test_logits_behind_a_network(case):
    """For a calibrator of logits, and for one of probabilities."""
    logits = FEATURES @ WEIGHTS
    for kind, scores in (("logits", logits), ("probabilities", softmax(logits))):
        calibrator = fitted(case, kind)
        found = run(merge_onnx(network(), calibrator, input="logits"))
        assert np.abs(found["calibrated"] - calibrator.predict_proba(scores)).max() <= 1e-12


@pytest.mark.parametrize(("case", "precision"), [("na-fir", "float64"), ("ts", "float32")])
@pytest.mark.parametrize("kind", ["logits", "probabilities"])
def test_float32(kind, case, precision):
    calibrator = fitted(case, kind)
    model = network(TensorProto.FLOAT, kind=kind)
    features = FEATURES.astype(np.float32)
    wanted = calibrator.predict_proba(run(model, features)["scores"])
    merged = merge_onnx(model, calibrator, precision=precision)
    found = run(merged, features)["calibrated"]
    assert found.dtype == np.float32
    assert np.abs(found - wanted).max() <= 1e-6
    long = TensorProto.DOUBLE in {one.data_type for one in merged.graph.initializer}
    assert long == (precision == "float64")


@pytest.mark.parametrize("kind", ["logits", "probabilities"])
def test_behind_a_network_of_16_bits_scores_are_cast(kind):
    calibrator = fitted("na-fir", kind)
    model = network(TensorProto.FLOAT16, kind=kind, outputs=("scores", "hidden"))
    features = FEATURES.astype(np.float16)
    before = run(model, features)
    merged = merge_onnx(model, calibrator, output="scores")
    (cast,) = (node for node in merged.graph.node if node.input[0] == "scores")
    assert (cast.op_type, cast.name) == ("Cast", "calibrant/Cast_scores")
    found = run(merged, features)
    np.testing.assert_array_equal(found["hidden"], before["hidden"])
    assert found["calibrated"].dtype == np.float32
    wanted = calibrator.predict_proba(before["scores"].astype(np.float32))
    assert np.abs(found["calibrated"] - wanted).max() <= 1e-6


def test_nodes_have_names_of_their_own():
    """By which profilers, viewers and lists of nodes that are left as they are tell them apart."""
    model = to_onnx(fitted("chain"))
    names = [node.name for node in model.graph.node]
    assert all(names)
    assert len({*names}) == len(names)
    assert any(name.startswith("stage_2/TopK_") for name in names)
    assert [node.name for node in to_onnx(fitted("chain")).graph.node] == names
    merged = merge_onnx(network(), fitted("chain"), input="logits")
    own = [node.name for node in merged.graph.node if node.name]
    assert len({*own}) == len(own)
    assert all(name.startswith("calibrant/") for name in own)


def test_other_outputs_stay():
    model = network(outputs=("scores", "hidden"))
    with pytest.raises(errors.ExportError, match=r"2 outputs, 'scores', 'hidden'; .*output="):
        merge_onnx(model, fitted("ts"), input="logits")
    with pytest.raises(errors.ExportError, match=r"output='logits' is not an output .*'scores'"):
        merge_onnx(model, fitted("ts"), input="logits", output="logits")
    found = run(merge_onnx(model, fitted("ts"), input="logits", output="scores"))
    assert {*found} == {"calibrated", "hidden"}
    np.testing.assert_array_equal(found["hidden"], run(model)["hidden"])


def test_the_model_is_not_changed_and_may_be_a_file(tmp_path):
    model = network(opset=20)
    before = model.SerializeToString()
    merged = merge_onnx(model, fitted("fir"), input="logits")
    assert model.SerializeToString() == before
    assert [one.version for one in merged.opset_import] == [20]
    onnx.save(model, tmp_path / "network.onnx")
    assert merge_onnx(tmp_path / "network.onnx", fitted("fir"), input="logits") == merged
    assert "calibrant.classes" in {one.key for one in merged.metadata_props}


def test_a_name_that_is_taken():
    model = network()
    model.graph.node[0].output[0] = model.graph.node[1].input[0] = "calibrated"
    merged = merge_onnx(model, fitted("ts"), input="logits")
    assert [one.name for one in merged.graph.output] == ["calibrant/calibrated"]


def test_onnx_compose_takes_the_graph_as_it_is():
    calibrator = fitted("scir")
    own = to_onnx(calibrator, input="logits", dtype="float64")
    model = network()
    model.ir_version = own.ir_version
    merged = compose.merge_models(model, own, io_map=[("scores", "logits")])
    wanted = calibrator.predict_proba(softmax(FEATURES @ WEIGHTS))
    assert np.abs(run(merged)["calibrated"] - wanted).max() <= 1e-12


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (network(width=3), r"'scores' has shape \(\?, 3\); the calibrator takes \(rows, 4\)"),
        (network(TensorProto.INT32), "'scores' is of type int32"),
        (network(opset=13), r"opset 13, .*convert_version\(model, 16\)"),
    ],
)
def test_what_does_not_fit_is_refused(model, message):
    with pytest.raises(errors.ExportError, match=message):
        merge_onnx(model, fitted("ts"), input="logits")


# Other runtimes, some of which have float32 alone


def run_elsewhere(runtime, models, folder):
    """What a runtime makes of each model and its rows, in a process of its own: some abort."""
    about = []
    for name, (model, rows) in models.items():
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
        rows.tofile(folder / f"{name}.rows")
        about.append({"name": name, "dtype": rows.dtype.name, "shape": rows.shape})
    (folder / "models.json").write_text(json.dumps(about))
    command = [sys.executable, str(WORKER), runtime, str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    failed = {path.stem: path.read_text() for path in folder.glob("*.error")}
    assert not failed
    return {
        one["name"]: np.fromfile(folder / f"{one['name']}.found", one["dtype"]).reshape(
            one["shape"]
        )
        for one in about
    }


def check_elsewhere(runtime, cases, folder, **options):
    models = {}
    for case in cases:
        rows = rows_for(fitted(case), "float32")
        rows = rows[rows.max(axis=1) < 1 - 1e-6]  # those nearer to 1 a graph merges
        models[case] = to_onnx(fitted(case), **options), rows
    for case, found in run_elsewhere(runtime, models, folder).items():
        assert_same(found, fitted(case), models[case][1], "float32")


SMOOTH = {"ts", "vs", "ms", "dirichlet", "structured", "spline", "matrix", "prior shift"}
SMOOTH |= {"chain of prior shift"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", [case for case in CASES if case not in SMOOTH])
def test_float32_alone_is_refused_for_methods_with_steps(case, kind):
    calibrator = fitted(case, kind)
    with pytest.raises(errors.ExportError, match=r"too coarse for .*: export with precision="):
        to_onnx(calibrator, precision="float32")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", [case for case in CASES if case in SMOOTH])
def test_float32_alone_is_for_methods_without_steps(case, kind):
    calibrator = fitted(case, kind)
    model = to_onnx(calibrator, precision="float32")
    rows = data(kind, 4)[2].astype(np.float32)
    wanted = calibrator.predict_proba(rows)
    np.testing.assert_allclose(run_graph(model, rows), wanted, rtol=0, atol=1e-6)
    assert TensorProto.DOUBLE not in {one.data_type for one in model.graph.initializer}
    casts = {one.i for node in model.graph.node for one in node.attribute if one.name == "to"}
    assert not casts & LONG
    bad = np.full((1, 4), np.nan, np.float32)
    assert np.isnan(run_graph(model, bad)).all()


def test_float32_alone_takes_curves_of_two_classes():
    calibrator = fitted("two-class", n_classes=2)
    rows = data("probabilities", 2)[2].astype(np.float32)
    found = run_graph(to_onnx(calibrator, precision="float32"), rows)
    np.testing.assert_allclose(found, calibrator.predict_proba(rows), rtol=0, atol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_what_not_every_runtime_has_is_not_used(case):
    """Pads that are negative, Sigmoid in float64."""
    graph = to_onnx(fitted(case)).graph
    assert not {node.op_type for node in graph.node} & {"Pad", "Sigmoid"}


@needs_pages
@pytest.mark.skipif(find_spec("openvino") is None, reason="needs OpenVINO")
def test_openvino(tmp_path):
    """It reads float64 as float32."""
    check_elsewhere("openvino", sorted(SMOOTH), tmp_path, precision="float32")


@needs_pages
@pytest.mark.skipif(find_spec("tract") is None, reason="needs tract")
def test_tract(tmp_path):
    """It multiplies by reciprocals where it should divide."""
    check_elsewhere("tract", SOME, tmp_path)


@needs_pages
def test_the_reference_evaluator_of_onnx(tmp_path):
    """Without tables of more than 64 entries, which it cannot gather from."""
    check_elsewhere("reference", ("ts", "platt-ovr", "structured"), tmp_path)
