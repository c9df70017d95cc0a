"""Calibrators as MLflow models: what is served, what is in the directory, what is refused."""

import os
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import calibrant
from calibrant import errors, model_file
from calibrant.datasets import simulated_scores
from conftest import needs_pages
from export.cases import blocks
from model_file.catalogue import breaks

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # before the import: nothing is sent from here

with warnings.catch_warnings():
    # mlflow complains of type hints of its own when it is imported.
    warnings.filterwarnings("ignore", ".*Any type hint is inferred", UserWarning)
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("mlflow.pyfunc")

import pandas as pd
from mlflow.models import Model, ModelSignature
from mlflow.types import Schema, TensorSpec

from calibrant.export import mlflow as flavor

pytestmark = [
    pytest.mark.filterwarnings("ignore:Operation with range:DeprecationWarning"),  # of mlflow
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy"),  # of mlflow's tables
    pytest.mark.filterwarnings("ignore:unclosed scandir:ResourceWarning"),  # of mlflow
]

SCORES, Y = simulated_scores(400)
NAMES = np.array(["cat", "dog", "emu"])
FRAME = pd.DataFrame(SCORES, columns=NAMES)
NUMBERED = calibrant.FlattenedIsotonic().fit(SCORES, Y)
NAMED = calibrant.FlattenedIsotonic().fit(SCORES, NAMES[Y])
EXPECTED = NUMBERED.predict_proba(SCORES)
OURS = f"calibrant=={calibrant.__version__}"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The directories of two models, with classes that are numbers and with named ones."""
    directory = tmp_path_factory.mktemp("models")
    flavor.save_model(NUMBERED, directory / "numbered")
    flavor.save_model(NAMED, directory / "named")
    return directory


@pytest.fixture(scope="module")
def numbered(saved):
    return mlflow.pyfunc.load_model(str(saved / "numbered"))


@pytest.fixture(scope="module")
def named(saved):
    return mlflow.pyfunc.load_model(str(saved / "named"))


def test_arrays_of_numbered_classes_give_arrays(numbered):
    """So does a column of vectors, which is what Spark has."""
    np.testing.assert_array_equal(numbered.predict(SCORES), EXPECTED)
    found = numbered.predict(pd.DataFrame({"probabilities": SCORES.tolist()}))
    np.testing.assert_array_equal(found, EXPECTED)
    for method in ("predict", "predict_log_proba", "predict_proba"):
        found = numbered.predict(SCORES, params={"method": method})
        np.testing.assert_array_equal(found, getattr(NUMBERED, method)(SCORES))


def test_frames_of_named_classes_give_frames_whatever_the_order_of_columns(saved, named):
    for loaded in (flavor.load_model(str(saved / "named")), named.get_raw_model()):
        assert type(loaded) is calibrant.FlattenedIsotonic
        np.testing.assert_array_equal(loaded.predict_proba(SCORES), EXPECTED)
    frame = FRAME[["emu", "cat", "dog"]].set_index(np.arange(400) + 7)
    found = named.predict(frame)
    pd.testing.assert_frame_equal(
        found, pd.DataFrame(EXPECTED, columns=NAMES, index=frame.index), check_column_type=False
    )
    labels = named.predict(frame, params={"method": "predict"})
    assert labels.index.equals(frame.index)
    np.testing.assert_array_equal(labels.to_numpy(), NAMED.predict(SCORES))


def test_columns_that_are_no_classes_are_refused(named, numbered):
    for columns, missing in ((["cat", "dog", "cow"], "emu"), ([0, 1, 2], "emu")):
        with pytest.raises(mlflow.MlflowException, match=missing):
            named.predict(FRAME.set_axis(columns, axis=1))
    with pytest.raises(mlflow.MlflowException, match="probabilities"):  # no vector: without order
        numbered.predict(FRAME.set_axis([2, 0, 1], axis=1))


def test_the_directory_holds_a_model_file_and_no_pickle(saved):
    for directory in saved.iterdir():
        found = {path.relative_to(directory).as_posix() for path in directory.rglob("*.*")}
        assert "data/model.calibrant" in found
        assert {Path(name).suffix for name in found} == {".calibrant", ".yaml", ".json", ".txt"}
        flavors = Model.load(str(directory)).flavors
        assert flavors["python_function"]["loader_module"] == "calibrant.export.mlflow"
        assert flavors["python_function"]["data"] == "data/model.calibrant"
        sha256 = model_file.describe(directory / "data" / "model.calibrant")["sha256"]
        told = {"method": "fir", "data": "data/model.calibrant", "version": calibrant.__version__}
        assert flavors["calibrant"] == told | {"sha256": sha256}
    assert OURS in (saved / "named" / "requirements.txt").read_text().split()


def test_options_of_mlflow_are_passed_on(tmp_path):
    unnamed = ModelSignature(Schema([TensorSpec(np.dtype(np.float64), (-1, 3))]))
    own = {"signature": unnamed, "input_example": SCORES[:1], "metadata": {"owner": "us"}}
    flavor.save_model(NAMED, tmp_path / "own", pip_requirements=["calibrant"], **own)
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "own"))
    np.testing.assert_array_equal(loaded.predict(SCORES), EXPECTED)
    assert OURS not in (tmp_path / "own" / "requirements.txt").read_text().split()
    assert Model.load(str(tmp_path / "own")).metadata == {"owner": "us"}


def test_columns_are_named_as_those_of_the_fit_were(tmp_path):
    """In the order of the classes, so that none has to be warned of."""
    frame = FRAME.set_axis([f"prob_{name}" for name in NAMES], axis=1)
    with pytest.warns(errors.ColumnOrderWarning):
        calibrator = calibrant.TemperatureScaling().fit(frame.iloc[:, ::-1], NAMES[Y])
    flavor.save_model(calibrator, tmp_path / "model")
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    assert model.metadata.get_input_schema().input_names() == frame.columns.tolist()
    assert model.metadata.get_output_schema().input_names() == NAMES.tolist()
    found = model.predict(frame.iloc[:, ::-1])
    np.testing.assert_array_equal(found.to_numpy(), calibrator.predict_proba(frame))


def test_a_single_column_has_the_name_of_its_kind(tmp_path):
    margins = np.linspace(-3.0, 3.0, 400)
    happened = np.random.default_rng(0).random(400) < 1.0 / (1.0 + np.exp(-2.0 * margins))
    calibrator = calibrant.TemperatureScaling(scores="decision").fit(margins, happened)
    flavor.save_model(calibrator, tmp_path / "model")
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    found = model.predict(pd.DataFrame({"decision": margins}))
    np.testing.assert_allclose(found.to_numpy(), calibrator.predict_proba(margins), atol=1e-12)


def classifier():
    return calibrant.CalibratedClassifier(LogisticRegression(), "fir", cv=2).fit(SCORES, Y)


def grouped():
    model = calibrant.GroupedCalibrator(calibrant.TemperatureScaling())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small groups
        return model.fit(SCORES, Y, groups=np.resize(["north", "south"], 400))


@pytest.mark.parametrize(
    ("make", "error", "remedy"),
    [
        (classifier, errors.ExportError, "mlflow.sklearn"),
        (LogisticRegression, errors.ExportError, "calibrator"),
        (calibrant.TemperatureScaling, NotFittedError, "fit"),
        (grouped, errors.ExportError, "for_group"),
    ],
)
def test_what_has_no_place_is_refused_and_nothing_is_written(make, error, remedy, tmp_path):
    with pytest.raises(error, match=remedy):
        flavor.save_model(make(), tmp_path / "model")
    assert not (tmp_path / "model").exists()


FILE, ABOUT = "data/model.calibrant", "MLmodel"


@pytest.mark.parametrize(
    ("name", "change", "rule"),
    [
        (FILE, lambda c: c[:-40] + bytes([c[-40] ^ 1]) + c[-39:], "digest"),
        (FILE, lambda _: b"", "magic"),
        (FILE, lambda _: model_file.dumps(NAMED), "digest"),  # of another fit
        (ABOUT, lambda c: re.sub(rb"\n    sha256: .*", b"", c), "digest"),
        (ABOUT, lambda c: c.replace(b"  calibrant:\n", b"  another:\n"), "magic"),
    ],
)
def test_a_directory_that_was_changed_is_refused(name, change, rule, tmp_path):
    flavor.save_model(NUMBERED, tmp_path / "model")
    file = tmp_path / "model" / name
    file.write_bytes(change(file.read_bytes()))
    for load in (flavor.load_model, mlflow.pyfunc.load_model):
        with breaks(rule):
            load(str(tmp_path / "model"))


@pytest.fixture
def tracker(tmp_path):
    """A tracking server's store on disk, for one experiment."""
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    artifacts = (tmp_path / "artifacts").as_uri()
    mlflow.set_experiment(experiment_id=mlflow.create_experiment("one", artifacts))
    yield
    mlflow.set_tracking_uri(before)


@needs_pages
@pytest.mark.usefixtures("tracker")
def test_a_classifier_is_logged_by_the_flavour_of_scikit_learn_as_the_page_has_it():
    pytest.importorskip("skops")
    (block,) = blocks("guides/into-production.md")
    model = classifier()
    exec(compile(block, "into-production.md", "exec"), {"classifier": model})
    (logged,) = mlflow.search_logged_models(output_format="list")
    found = mlflow.pyfunc.load_model(logged.model_uri).predict(SCORES)
    np.testing.assert_array_equal(found, model.predict_proba(SCORES))


@pytest.mark.usefixtures("tracker")
def test_it_is_logged_and_registered(capfd):
    with mlflow.start_run() as run:
        info = flavor.log_model(
            NAMED, name="calibrator", registered_model_name="pets", tags={"kind": "isotonic"}
        )
    assert "Failed to validate" not in capfd.readouterr().err  # of the example, as served
    assert info.run_id == run.info.run_id
    assert {*info.flavors} == {"calibrant", "python_function"}
    for uri in (info.model_uri, "models:/pets/1"):
        loaded = flavor.load_model(uri)
        np.testing.assert_array_equal(loaded.predict_proba(SCORES), EXPECTED)
    served = mlflow.pyfunc.load_model("models:/pets/1")
    np.testing.assert_array_equal(served.predict(FRAME).to_numpy(), EXPECTED)
    assert mlflow.get_logged_model(info.model_id).tags["kind"] == "isotonic"
