"""Graphs in ONNX Runtime against ``predict_proba``, for every method."""

import json
from copy import copy
from dataclasses import replace

import numpy as np
import pytest

import calibrant
from calibrant import errors
from conftest import refuses, simulate
from export.backends import run_graph, run_onnx, session
from export.cases import CASES, KINDS, assert_same, data, fitted, rows_for, softmax

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, compose, helper, numpy_helper  # noqa: E402

from calibrant.export import merge_onnx, to_onnx  # noqa: E402

WEIGHTS = np.random.default_rng(0).normal(size=(5, 4))
FEATURES = np.random.default_rng(1).normal(size=(200, 5))


@pytest.mark.parametrize("kind", KINDS)
def test_a_temperature_next_to_one_is_kept(kind):
    """ONNX Runtime leaves out factors that are 1 in single precision."""
    calibrator = copy(fitted("ts", kind))  # others use it
    rows = rows_for(calibrator)
    for gap in (1e-10, 1e-8, 1e-6):
        calibrator.map_ = replace(calibrator.map_, inverse_temperature=1.0 - gap)
        found = run_onnx(calibrator, rows, kind)
        assert_same(found, calibrator, rows, "float64")


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
    assert found["calibrant.version"] == model.producer_version == calibrant.__version__
    assert model.ir_version == 8  # what opset 18 asks for, so that older runtimes take it
    shape = [d.dim_param or d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    assert shape == ["rows", len(labels)]


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"dtype": "float16"}, "dtype"),
        ({"precision": "float16"}, "precision"),
        ({"dtype": "float64", "precision": "float32"}, "precision"),
        ({"opset": 15}, "opset"),
    ],
)
def test_options_that_do_not_exist_are_refused(options, argument):
    with refuses(argument, value=options[argument]):
        to_onnx(fitted("ts"), **options)


SMOOTH = {"ts", "vs", "ms", "dirichlet", "structured", "spline", "matrix", "prior shift"}
SMOOTH |= {"chain of prior shift"}
LONG = {TensorProto.DOUBLE, TensorProto.INT64}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", sorted({*CASES} - SMOOTH))
def test_float32_inside_is_refused_for_methods_with_steps(case, kind):
    with pytest.raises(errors.ExportError, match="precision='float32'"):
        to_onnx(fitted(case, kind), precision="float32")


@pytest.mark.parametrize(
    ("case", "kind", "n_classes"),
    [(case, kind, 4) for case in sorted(SMOOTH) for kind in KINDS]
    + [("two-class", "probabilities", 2)],
)
def test_float32_inside_is_for_methods_without_steps(case, kind, n_classes):
    calibrator = fitted(case, kind, n_classes)
    rows = data(kind, n_classes)[2].astype(np.float32)
    model = to_onnx(calibrator, precision="float32")
    wanted = calibrator.predict_proba(rows)
    np.testing.assert_allclose(run_graph(model, rows), wanted, rtol=0, atol=1e-6)
    casts = {one.i for node in model.graph.node for one in node.attribute if one.name == "to"}
    types = {one.data_type for one in model.graph.initializer if one.dims != [1]}  # sizes have one
    assert (casts | types).isdisjoint(LONG)
    bad = np.full((1, n_classes), np.nan, np.float32)
    assert np.isnan(run_graph(model, bad)).all()


@pytest.mark.filterwarnings("ignore::calibrant.errors.ScoresKindWarning")
@pytest.mark.parametrize("case", ["ts", "vs", "ms", "matrix", "spline"])
def test_float32_inside_holds_for_large_logits(case):
    """To 1e-5, where logits times coefficients are up to 100."""
    calibrator = fitted(case, "logits")
    rows = np.random.default_rng(0).uniform(-100, 100, (2000, 4)).astype(np.float32)
    rows *= min(1.0, 1.0 / np.abs(getattr(calibrator, "coef_", np.ones(1))).max())
    found = run_graph(to_onnx(calibrator, precision="float32"), rows)
    np.testing.assert_allclose(found, calibrator.predict_proba(rows), rtol=0, atol=1e-5)


@pytest.mark.parametrize("opset", [16, 17, 21])
@pytest.mark.parametrize("case", ["chain", "auto", "prior shift"])
def test_other_opsets_give_the_same(case, opset):
    calibrator, rows = fitted(case), rows_for(fitted(case))
    model = to_onnx(calibrator, dtype="float64", opset=opset)
    assert [(one.domain, one.version) for one in model.opset_import] == [("", opset)]
    assert {node.domain for node in model.graph.node} == {""}
    assert_same(run_graph(model, rows), calibrator, rows, "float64")


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


@pytest.mark.parametrize(
    ("case", "kind", "dtype", "options"),
    [
        ("na-fir", "logits", np.float32, {}),
        ("na-fir", "probabilities", np.float32, {}),
        ("na-fir", "probabilities", np.float16, {}),  # these have 32 bits, too
        ("ts", "logits", np.float32, {"precision": "float32"}),
    ],
)
def test_behind_a_network_of_fewer_bits(case, kind, dtype, options):
    calibrator = fitted(case, kind)
    model = network(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), kind=kind)
    features = FEATURES.astype(dtype)
    merged = merge_onnx(model, calibrator, **options)
    wanted = calibrator.predict_proba(run(model, features)["scores"].astype(np.float32))
    found = run(merged, features)["calibrated"]
    assert found.dtype == np.float32
    assert np.abs(found - wanted).max() <= 1e-6
    is_double = TensorProto.DOUBLE in {one.data_type for one in merged.graph.initializer}
    assert is_double == (not options)


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
    for name in (None, "logits"):
        with pytest.raises(errors.ExportError, match="'scores', 'hidden'"):
            merge_onnx(model, fitted("ts"), input="logits", output=name)
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


def test_onnx_compose_takes_the_graph_as_it_is():
    calibrator = fitted("scir")
    own = to_onnx(calibrator, input="logits", dtype="float64")
    model = network()
    model.ir_version = own.ir_version
    merged = compose.merge_models(model, own, io_map=[("scores", "logits")])
    wanted = calibrator.predict_proba(softmax(FEATURES @ WEIGHTS))
    assert np.abs(run(merged)["calibrated"] - wanted).max() <= 1e-12


@pytest.mark.parametrize(
    ("model", "fact"),
    [
        (network(width=3), r"\(rows, 4\)"),
        (network(TensorProto.INT32), "int32"),
        (network(opset=13), "opset 13"),
    ],
)
def test_what_does_not_fit_is_refused(model, fact):
    with pytest.raises(errors.ExportError, match=fact):
        merge_onnx(model, fitted("ts"), input="logits")
