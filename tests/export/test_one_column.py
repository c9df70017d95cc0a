"""Graphs and modules of a fit to one column of two classes take one column."""

import numpy as np
import pytest

import calibrant
from calibrant.export._pipeline import check_input
from export.backends import RUN, run_numpy

RNG = np.random.default_rng(1)
MARGINS = RNG.normal(-0.5, 2.0, 300)
P = 1.0 / (1.0 + np.exp(-MARGINS))
Y = (RNG.random(300) < P).astype(int)
GIVEN = {"positive": P[:, None], "decision": MARGINS[:, None]}
NAMES = ["TemperatureScaling", "VectorScaling", "FlattenedIsotonic", "TwoClassScaling"]

each_kind = pytest.mark.parametrize("kind", GIVEN)
pytestmark = pytest.mark.filterwarnings("ignore")


def fitted(name, kind):
    return getattr(calibrant, name)(scores=kind).fit(GIVEN[kind], Y)


@pytest.mark.parametrize("backend", RUN)
@pytest.mark.parametrize("name", NAMES)
@each_kind
def test_graphs_take_one_column_of_either_kind(kind, name, backend):
    found = fitted(name, kind)
    assert check_input(found, None) == kind
    written = RUN[backend](found, GIVEN[kind], kind)
    np.testing.assert_allclose(written, found.predict_proba(GIVEN[kind]), rtol=0, atol=1e-12)


@each_kind
def test_rows_that_are_refused_are_nan(kind):
    found = fitted("TemperatureScaling", kind)
    bad = {"positive": [np.nan, 1.5, -0.5], "decision": [np.nan, 1e200, -1e200]}[kind]
    with np.errstate(all="ignore"):
        written = run_numpy(found, np.array([*bad, 0.25])[:, None], kind)
    assert np.isnan(written).all(axis=1).tolist() == [True, True, True, False]


def test_onnx_names_its_column():
    pytest.importorskip("onnx")
    from calibrant.export import to_onnx

    (given,) = to_onnx(fitted("TemperatureScaling", "decision")).graph.input
    shape = [d.dim_param or d.dim_value for d in given.type.tensor_type.shape.dim]
    assert (given.name, shape) == ("decision", ["rows", 1])


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
