"""A network and a calibrator in one ONNX model."""

import numpy as np
import pytest

from calibrant import errors
from export.cases import fitted, softmax

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

from onnx import TensorProto, compose, helper, numpy_helper  # noqa: E402

from calibrant.export import merge_onnx, to_onnx  # noqa: E402

WEIGHTS = np.random.default_rng(0).normal(size=(5, 4))
FEATURES = np.random.default_rng(1).normal(size=(200, 5))


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
    here = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
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


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("kind", ["logits", "probabilities"])
def test_float32(kind, precision):
    calibrator = fitted("na-fir", kind)
    model = network(TensorProto.FLOAT, kind=kind)
    features = FEATURES.astype(np.float32)
    wanted = calibrator.predict_proba(run(model, features)["scores"])
    merged = merge_onnx(model, calibrator, precision=precision)
    found = run(merged, features)["calibrated"]
    assert found.dtype == np.float32
    assert np.abs(found - wanted).max() <= 1e-6
    long = TensorProto.DOUBLE in {one.data_type for one in merged.graph.initializer}
    assert long == (precision == "float64")
    assert merged == merge_onnx(model, calibrator, precision=precision, tolerance=2.0**-17)


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
    with pytest.raises(errors.ExportError, match=r"output='logits' is no output .*'scores'"):
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
    assert "calibrant.sha256" in {one.key for one in merged.metadata_props}


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
