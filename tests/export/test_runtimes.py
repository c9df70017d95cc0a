"""Graphs in other runtimes than ONNX Runtime, and those for runtimes with float32 alone."""

import json
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from calibrant import NormalizationAwareIsotonic, errors
from conftest import simulate
from export.cases import CASES, KINDS, assert_same, data, fitted, make, rows_for

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

from calibrant.export import merge_onnx, to_onnx  # noqa: E402
from export.test_onnx import BAD_ROWS, run  # noqa: E402
from export.test_onnx_merge import FEATURES, network  # noqa: E402

WORKER = Path(__file__).parents[2] / "docs" / "runtime_worker.py"
LONG = {onnx.TensorProto.DOUBLE, onnx.TensorProto.INT64}
SOME = ("fir", "na-fir", "scir", "platt-ovr", "m2b-ir", "ir-ovr", "ms", "spline", "chain")
LARGE = pytest.param("auto", marks=pytest.mark.slow)  # a graph of thousands of nodes


def some_rows(calibrator):
    """Rows at thresholds but for those nearer to 1 than float32 tells, which a graph merges."""
    rows = rows_for(calibrator, "float32")
    return rows if calibrator.map_.kind == "logits" else rows[rows.max(axis=1) < 1 - 1e-6]


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
    wanted = {case: fitted(case) for case in cases}
    models = {case: (to_onnx(one, **options), some_rows(one)) for case, one in wanted.items()}
    for case, found in run_elsewhere(runtime, models, folder).items():
        assert_same(found, wanted[case], models[case][1], "float32")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", [LARGE if case == "auto" else case for case in CASES])
def test_without_float64_the_same_as_predict_proba(case, kind):
    calibrator = fitted(case, kind)
    rows = some_rows(calibrator)
    model = to_onnx(calibrator, precision="float32")
    assert_same(run(model, rows), calibrator, rows, "float32")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", ["scir", "m2b-ir", "structured", "mixture"])
def test_without_float64_refused_rows_mean_nothing(case, kind):
    calibrator = fitted(case, kind)
    bad = np.array([row for row in BAD_ROWS[kind] if max(row) not in (1e300, 1e200)], np.float32)
    rows = data(kind, 4)[2][: len(bad)].astype(np.float32)
    both = np.empty((2 * len(bad), 4), np.float32)
    both[::2], both[1::2] = rows, bad
    found = run(to_onnx(calibrator, precision="float32"), both)
    assert np.isnan(found[1::2]).all()
    assert_same(found[::2], calibrator, rows, "float32")


def test_without_float64_rounded_rows_are_on_their_side():
    """Rows whose sums are off by percents are divided in pairs, too: ties stay ties."""
    rows = np.round(data("probabilities", 4)[2], 2).astype(np.float32)
    y = data("probabilities", 4)[1]
    calibrator = NormalizationAwareIsotonic(classes=range(4)).fit(rows[: len(y)], y)
    assert np.ptp(rows.sum(axis=1)) > 0.005
    assert_same(run(to_onnx(calibrator, precision="float32"), rows), calibrator, rows, "float32")


@pytest.mark.parametrize("n_classes", [2, 60])
@pytest.mark.parametrize("case", ["na-fir", "scir", "vs"])
def test_without_float64_few_and_many_classes(case, n_classes):
    """Fitted to scores as they are served: sums of 59 cells would else be next to thresholds."""
    _, y, rows = data("probabilities", n_classes)
    rows = rows.astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few rows
        calibrator = make(case).set_params(classes=range(n_classes)).fit(rows[: len(y)], y)
    found = run(to_onnx(calibrator, precision="float32"), rows)
    assert_same(found, calibrator, rows, "float32")


@pytest.fixture(scope="module")
def logits_of_a_network():
    """Logits in float32, and those of another runtime, which differ by 3e-6."""
    scores, y = simulate(3000, 10)
    logits = np.log(scores).astype(np.float32)
    noise = np.random.default_rng(0).uniform(-3e-6, 3e-6, logits.shape)
    return logits, (logits + noise).astype(np.float32), y


def pass_through(n_classes):
    """A network that returns what it is given."""
    values = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["rows", n_classes])
        for name in ("features", "scores")
    ]
    node = onnx.helper.make_node("Identity", ["features"], ["scores"])
    graph = onnx.helper.make_graph([node], "network", values[:1], values[1:])
    imports = [onnx.helper.make_opsetid("", 18)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=9)


@pytest.mark.parametrize("case", ["fir", "na-fir", "scir", "m2b-ir"])
def test_logits_of_another_runtime_stay_on_their_side(case, logits_of_a_network):
    """Thresholds are scores of the fit: what is off by less than a rounding must not jump."""
    logits, others, y = logits_of_a_network
    calibrator = make(case).set_params(scores="logits").fit(logits, y)
    wanted = calibrator.predict_proba(logits)

    def moved(model, rows):
        return int((np.abs(run(model, rows) - wanted).max(axis=1) > 1e-3).sum())

    exact = merge_onnx(pass_through(10), calibrator, tolerance=0.0)
    merged = merge_onnx(pass_through(10), calibrator)
    assert moved(exact, logits) == 0
    jumps = moved(exact, others)
    assert jumps >= 5
    assert moved(merged, others) <= jumps // 10  # those that are next to a threshold by chance
    assert moved(merged, logits) <= jumps // 10


@pytest.mark.parametrize("tolerance", [-1e-6, 1.0, np.nan])
def test_a_tolerance_is_small(tolerance):
    with pytest.raises(errors.ParameterError, match="tolerance="):
        to_onnx(fitted("fir"), tolerance=tolerance)


@pytest.mark.parametrize("case", CASES)
def test_no_number_is_longer_than_it_should_be(case):
    """Neither real ones nor what is computed with them; indices of a sort are told by ONNX."""
    model = to_onnx(fitted(case), precision="float32")
    assert onnx.TensorProto.DOUBLE not in {one.data_type for one in model.graph.initializer}
    for node in model.graph.node:
        for attribute in node.attribute:
            assert attribute.name != "to" or attribute.i not in LONG, node.name


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("case", CASES)
def test_operators_that_not_every_runtime_has_are_not_used(case, precision):
    """Pads that are negative, and Sigmoid in float64."""
    kinds = {node.op_type for node in to_onnx(fitted(case), precision=precision).graph.node}
    assert not kinds & {"Pad", "Sigmoid"}


def test_a_network_and_a_calibrator_without_float64():
    calibrator = fitted("na-fir", "logits")
    model = network(onnx.TensorProto.FLOAT)
    merged = merge_onnx(model, calibrator, precision="float32")
    assert onnx.TensorProto.DOUBLE not in {one.data_type for one in merged.graph.initializer}
    features = FEATURES.astype(np.float32)
    scores, found = run(model, features), run(merged, features)
    assert np.abs(found - calibrator.predict_proba(scores)).max() <= 1e-6


def test_a_graph_without_float64_takes_none():
    with pytest.raises(errors.ParameterError, match="leave out dtype='float64'"):
        to_onnx(fitted("ts"), dtype="float64", precision="float32")
    with pytest.raises(errors.ParameterError, match="precision='float16' is not known"):
        to_onnx(fitted("ts"), precision="float16")


@pytest.mark.skipif(find_spec("openvino") is None, reason="needs OpenVINO")
def test_openvino(tmp_path):
    """It reads float64 as float32."""
    check_elsewhere("openvino", SOME, tmp_path, precision="float32")


@pytest.mark.skipif(find_spec("tract") is None, reason="needs tract")
def test_tract(tmp_path):
    """It multiplies by reciprocals where it should divide."""
    check_elsewhere("tract", SOME, tmp_path, tolerance=1e-11)


def test_the_reference_evaluator_of_onnx(tmp_path):
    """It finds entries of tables of more than 64 by Gather alone."""
    cases = ("fir", "ir-ovr", "platt-ovr")
    check_elsewhere("reference", cases, tmp_path, precision="float32")
