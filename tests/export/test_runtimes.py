"""Graphs in other runtimes than ONNX Runtime, and those for runtimes with float32 alone."""

import json
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from conftest import simulate
from export.backends import RUN, run_onnx
from export.cases import CASES, assert_same, data, fitted, make, rows_for

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from calibrant.export import to_onnx  # noqa: E402

WORKER = Path(__file__).parents[2] / "docs" / "runtime_worker.py"
LONG = {onnx.TensorProto.DOUBLE, onnx.TensorProto.INT64}
SOME = ("fir", "na-fir", "scir", "platt-ovr", "m2b-ir", "ir-ovr", "ms", "spline", "chain")


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


@pytest.mark.parametrize("n_classes", [2, 60])
@pytest.mark.parametrize("case", ["na-fir", "scir", "vs"])
def test_without_float64_few_and_many_classes(case, n_classes):
    """Fitted to scores as they are served: sums of 59 cells would else be next to thresholds."""
    _, y, rows = data("probabilities", n_classes)
    rows = rows.astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few rows
        calibrator = make(case).set_params(classes=range(n_classes)).fit(rows[: len(y)], y)
    assert_same(RUN["pairs"](calibrator, rows, "probabilities"), calibrator, rows, "float32")


@pytest.mark.parametrize("case", ["fir", "na-fir", "scir", "m2b-ir"])
def test_logits_of_another_runtime_stay_on_their_side(case):
    """Thresholds are scores of the fit: what is off by less than a rounding must not jump."""
    scores, y = simulate(3000, 10)
    logits = np.log(scores).astype(np.float32)
    noise = np.random.default_rng(0).uniform(-3e-6, 3e-6, logits.shape)
    others = (logits + noise).astype(np.float32)
    calibrator = make(case).set_params(scores="logits").fit(logits, y)
    wanted = calibrator.predict_proba(logits)

    def moved(rows, tolerance):
        found = run_onnx(calibrator, rows, "logits", tolerance=tolerance)
        return int((np.abs(found - wanted).max(axis=1) > 1e-3).sum())

    assert moved(logits, 0.0) == 0
    jumps = moved(others, 0.0)
    assert jumps >= 5
    assert moved(others, 2.0**-17) <= jumps // 10  # those that are next to a threshold by chance
    assert moved(logits, 2.0**-17) <= jumps // 10


@pytest.mark.parametrize("case", CASES)
def test_what_not_every_runtime_has_is_not_used(case):
    """Pads that are negative, Sigmoid in float64; in pairs any number that is longer."""
    exact, pairs = to_onnx(fitted(case)).graph, to_onnx(fitted(case), precision="float32").graph
    assert not {node.op_type for node in (*exact.node, *pairs.node)} & {"Pad", "Sigmoid"}
    assert onnx.TensorProto.DOUBLE not in {one.data_type for one in pairs.initializer}
    casts = {one.i for node in pairs.node for one in node.attribute if one.name == "to"}
    assert not casts & LONG  # indices of a sort are told by ONNX


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
