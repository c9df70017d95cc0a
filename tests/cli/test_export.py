"""``calibrant export``: what it refuses without any of the packages, and what it writes."""

import json
import sys

import numpy as np
import pytest

import calibrant.export
from calibrant import FlattenedIsotonic, model_file
from calibrant._cli.main import run
from calibrant.datasets import simulated_scores

SCORES, Y = simulated_scores(500)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.calibrant"
    model_file.save(FlattenedIsotonic().fit(SCORES, Y), path)
    return path


def test_a_missing_package_is_said_to_be_needed_by_what_was_asked_for(
    model, tmp_path, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "calibrant.export._onnx", raising=False)
    for name in ("to_onnx", "merge_onnx"):
        monkeypatch.delitem(vars(calibrant.export), name, raising=False)
    assert run(["export", str(model), "-o", str(tmp_path / "m.onnx")]) != 0
    assert "calibrant.export.to_onnx needs onnx" in capsys.readouterr().err


def test_onnx(model, tmp_path, capsys):
    ort = pytest.importorskip("onnxruntime")
    path = tmp_path / "model.onnx"
    assert run(["export", str(model), "-o", str(path), "--dtype", "float64", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["bytes"] == path.stat().st_size
    assert told["method"] == "fir"
    (found,) = ort.InferenceSession(path).run(None, {"probabilities": SCORES})
    assert np.abs(found - model_file.load(model).predict_proba(SCORES)).max() <= 1e-12
    assert run(["export", str(model), "-o", str(path), "--input", "logits"]) == 0
    assert "3 classes, from logits to calibrated probabilities" in capsys.readouterr().out


def test_behind_a_network(model, tmp_path, capsys):
    onnx = pytest.importorskip("onnx")
    ort = pytest.importorskip("onnxruntime")
    given, found = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, ["rows", 3])
        for name in ("features", "scores")
    )
    node = onnx.helper.make_node("Identity", ["features"], ["scores"])
    graph = onnx.helper.make_graph([node], "network", [given], [found])
    imports = [onnx.helper.make_opsetid("", 18)]
    network = onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)
    onnx.save(network, tmp_path / "network.onnx")
    command = ["export", str(model), "--behind", str(tmp_path / "network.onnx")]
    assert run([*command, "-o", str(tmp_path / "whole.onnx")]) == 0
    assert "network.onnx to calibrated probabilities" in capsys.readouterr().out
    (both,) = ort.InferenceSession(tmp_path / "whole.onnx").run(None, {"features": SCORES})
    assert np.abs(both - model_file.load(model).predict_proba(SCORES)).max() <= 1e-12


def test_torch(model, tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "model.pt2"
    assert run(["export", str(model), "-o", str(path), "--dtype", "float64"]) == 0
    found = torch.export.load(path).module()(torch.from_numpy(SCORES))
    assert np.abs(found.numpy() - model_file.load(model).predict_proba(SCORES)).max() <= 1e-12
