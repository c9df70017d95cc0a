"""Graphs and modules of a fit to one column of two classes take one column."""

import numpy as np
import pytest

import calibrant
from calibrant.export._pipeline import check_input, write_rows
from export.numpy_operations import NumpyOperations

RNG = np.random.default_rng(1)
MARGINS = RNG.normal(-0.5, 2.0, 300)
P = 1.0 / (1.0 + np.exp(-MARGINS))
Y = (RNG.random(300) < P).astype(int)
GIVEN = {"positive": P[:, None], "decision": MARGINS[:, None]}
NAMES = ["TemperatureScaling", "VectorScaling", "FlattenedIsotonic", "TwoClassScaling"]

each_kind = pytest.mark.parametrize("kind", GIVEN)
each_method = pytest.mark.parametrize("name", NAMES)


def fitted(name, kind):
    return getattr(calibrant, name)(scores=kind).fit(GIVEN[kind], Y)


@each_kind
@each_method
@pytest.mark.filterwarnings("ignore")
def test_the_formula_is_predict_proba(name, kind):
    found = fitted(name, kind)
    assert check_input(found, None) == kind
    for given, rows in GIVEN.items():
        written = write_rows(NumpyOperations(2), found, rows, given)[0]
        expected = found.predict_proba(GIVEN[kind])
        np.testing.assert_allclose(written, expected, rtol=0, atol=1e-12)


@each_kind
def test_rows_that_are_refused_are_nan(kind):
    found = fitted("TemperatureScaling", kind)
    bad = {"positive": [np.nan, 1.5, -0.5], "decision": [np.nan, 1e200, -1e200]}[kind]
    rows = np.array([*bad, 0.25])[:, None]
    with np.errstate(all="ignore"):
        written = write_rows(NumpyOperations(2), found, rows, kind)[0]
    assert np.isnan(written).all(axis=1).tolist() == [True, True, True, False]


@each_kind
@each_method
def test_onnx_takes_one_column(name, kind):
    pytest.importorskip("onnx")
    ort = pytest.importorskip("onnxruntime")
    from calibrant.export import to_onnx

    found = fitted(name, kind)
    model = to_onnx(found, dtype="float64")
    session = ort.InferenceSession(model.SerializeToString())
    (given,) = session.get_inputs()
    assert (given.name, given.shape) == (kind, ["rows", 1])
    (rows,) = session.run(None, {kind: GIVEN[kind]})
    np.testing.assert_allclose(rows, found.predict_proba(GIVEN[kind]), rtol=0, atol=1e-12)
    told = {one.key: one.value for one in model.metadata_props}
    assert told["calibrant.input"] == kind


@each_kind
@each_method
def test_torch_takes_a_vector_or_one_column(name, kind, tmp_path):
    torch = pytest.importorskip("torch")
    from calibrant import errors
    from calibrant.export import save_pt2, to_torch

    found = fitted(name, kind)
    module, given = to_torch(found), torch.tensor(GIVEN[kind])
    for rows in (given, given[:, 0]):
        np.testing.assert_allclose(
            module(rows).numpy(), found.predict_proba(GIVEN[kind]), rtol=0, atol=1e-12
        )
    with pytest.raises(errors.ShapeError, match="with one number"):
        module(torch.ones((3, 2)))
    save_pt2(module, tmp_path / "model.pt2", dtype="float64")
    again = torch.export.load(tmp_path / "model.pt2").module()
    assert torch.equal(again(given), module(given))


@pytest.mark.filterwarnings("ignore")
def test_mlflow_takes_one_column(tmp_path):
    pytest.importorskip("mlflow")
    import mlflow
    import pandas as pd

    from calibrant.export.mlflow import save_model

    found = fitted("TemperatureScaling", "decision")
    save_model(found, tmp_path / "model")
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    assert model.metadata.signature.inputs.input_names() == ["decision"]
    rows = model.predict(pd.DataFrame({"decision": MARGINS[:5]}))
    np.testing.assert_allclose(rows.to_numpy(), found.predict_proba(MARGINS[:5]), atol=1e-12)


@each_kind
@pytest.mark.parametrize("column", [0, 1])
def test_one_column_is_taken_out_of_two(kind, column):
    onnx = pytest.importorskip("onnx")
    ort = pytest.importorskip("onnxruntime")
    from calibrant import errors
    from calibrant.export import merge_onnx

    given, scores = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, ["rows", 2])
        for name in ("given", "scores")
    )
    node = onnx.helper.make_node("Identity", ["given"], ["scores"])
    graph = onnx.helper.make_graph([node], "classifier", [given], [scores])
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8
    )
    found = fitted("FlattenedIsotonic", kind)
    both = np.column_stack([GIVEN[kind], GIVEN[kind]])
    both[:, 1 - column] = 0.123
    with pytest.raises(errors.ExportError, match=r"takes \(rows, 1\).*column="):
        merge_onnx(model, found)
    merged = merge_onnx(model, found, column=column)
    (rows,) = ort.InferenceSession(merged.SerializeToString()).run(None, {"given": both})
    np.testing.assert_allclose(rows, found.predict_proba(GIVEN[kind]), rtol=0, atol=1e-12)
    with pytest.raises(errors.ParameterError, match=r"column=2 must be a whole number in \[0, 1\]"):
        merge_onnx(model, found, column=2)
    whole = calibrant.FlattenedIsotonic().fit(np.column_stack([1 - P, P]), Y)
    with pytest.raises(errors.ParameterError, match="column=1 is for a calibrator of one column"):
        merge_onnx(model, whole, column=1)
