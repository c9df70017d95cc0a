"""Calibrators as MLflow models: what is served, what is in the directory, what is refused."""

import getpass
import json
import os
import re
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import calibrant
from calibrant import errors, model_file
from calibrant.datasets import simulated_scores
from calibrant.export import trusted_types
from conftest import simulate
from test_architecture import ROOT

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # before the import: nothing is sent from here

with warnings.catch_warnings():
    # mlflow complains of type hints of its own when it is imported.
    warnings.filterwarnings("ignore", ".*Any type hint is inferred", UserWarning)
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("mlflow.pyfunc")

import pandas as pd
from mlflow.models import Model, ModelSignature
from mlflow.pyfunc import scoring_server
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
    np.testing.assert_array_equal(numbered.predict(SCORES), EXPECTED)
    for method in ("predict", "predict_log_proba", "predict_proba"):
        found = numbered.predict(SCORES, params={"method": method})
        np.testing.assert_array_equal(found, getattr(NUMBERED, method)(SCORES))


def test_frames_of_named_classes_give_frames_whatever_the_order_of_columns(named):
    frame = FRAME[["emu", "cat", "dog"]].set_index(np.arange(400) + 7)
    found = named.predict(frame)
    pd.testing.assert_frame_equal(
        found, pd.DataFrame(EXPECTED, columns=NAMES, index=frame.index), check_column_type=False
    )
    labels = named.predict(frame, params={"method": "predict"})
    assert labels.index.equals(frame.index)
    np.testing.assert_array_equal(labels.to_numpy(), NAMED.predict(SCORES))


@pytest.mark.parametrize("columns", [["cat", "dog", "cow"], [0, 1, 2]])
def test_columns_that_are_no_classes_are_refused(named, columns):
    with pytest.raises(mlflow.MlflowException, match=r"missing inputs.*emu"):
        named.predict(FRAME.set_axis(columns, axis=1))


def test_columns_of_a_frame_are_not_taken_for_a_vector(numbered):
    """MLflow would drop their names, and take them in whatever order they come."""
    with pytest.raises(mlflow.MlflowException, match=r"missing inputs \['probabilities'\]"):
        numbered.predict(FRAME.set_axis([2, 0, 1], axis=1))


def test_a_column_of_vectors_is_what_spark_has(numbered):
    found = numbered.predict(pd.DataFrame({"probabilities": SCORES.tolist()}))
    np.testing.assert_array_equal(found, EXPECTED)


def test_bad_rows_are_marked_or_left_out(numbered, named):
    scores, bad = SCORES.copy(), [3, 250]
    scores[3, 1], scores[250] = np.nan, 0.0
    good = np.delete(np.arange(len(scores)), bad)
    found = numbered.predict(scores, params={"on_bad_row": "nan"})
    assert np.flatnonzero(np.isnan(found).all(axis=1)).tolist() == bad
    assert (found[good] == EXPECTED[good]).all()
    labels = numbered.predict(scores, params={"on_bad_row": "nan", "method": "predict"})
    assert [labels[i] for i in bad] == [None, None]
    assert labels[good].tolist() == NUMBERED.predict(SCORES)[good].tolist()
    assert (numbered.predict(scores, params={"on_bad_row": "skip"}) == EXPECTED[good]).all()
    frame = pd.DataFrame(scores, columns=NAMES, index=np.arange(len(scores)) + 1000)
    left = named.predict(frame, params={"on_bad_row": "skip"})
    assert left.index.tolist() == (good + 1000).tolist()
    marked = named.predict(frame, params={"on_bad_row": "nan"})
    assert marked.index[marked.isna().all(axis=1)].tolist() == [1003, 1250]
    with pytest.raises(errors.NonFiniteError, match=r"scores\[3, 1\] is nan"):
        numbered.predict(scores)
    with pytest.raises(errors.ParameterError, match="on_bad_row='drop' is not known"):
        numbered.predict(scores, params={"on_bad_row": "drop"})


def test_another_method_is_refused(numbered):
    with pytest.raises(errors.ParameterError, match="method='fit' is not known"):
        numbered.predict(SCORES, params={"method": "fit"})


def answer(model, asked):
    """What the scoring server of MLflow answers to a request in JSON."""
    schema = model.metadata.get_input_schema()
    response = scoring_server.invocations(json.dumps(asked), "application/json", model, schema)
    assert response.status == 200
    return json.loads(response.response)["predictions"]


def test_it_is_served(numbered, named):
    rows = SCORES[:3].tolist()
    np.testing.assert_array_equal(answer(numbered, {"inputs": rows}), EXPECTED[:3])
    by_name = {"inputs": {"probabilities": rows}, "params": {"method": "predict"}}
    assert answer(numbered, by_name) == NUMBERED.predict(SCORES[:3]).tolist()
    backwards = {"columns": ["emu", "dog", "cat"], "data": SCORES[:3, ::-1].tolist()}
    found = answer(named, {"dataframe_split": backwards})
    assert found == [dict(zip(NAMES.tolist(), row, strict=True)) for row in EXPECTED[:3].tolist()]


def test_the_example_of_the_directory_can_be_served(saved, numbered, named):
    for name, model in (("numbered", numbered), ("named", named)):
        example = json.loads((saved / name / "serving_input_example.json").read_text())
        assert len(answer(model, example)) == 2
        assert len(model.predict(model.input_example)) == 2


def test_what_is_loaded_is_the_calibrator(saved, named):
    loaded = flavor.load_model(str(saved / "named"))
    assert type(loaded) is calibrant.FlattenedIsotonic
    np.testing.assert_array_equal(loaded.predict_proba(SCORES), EXPECTED)
    assert type(named.get_raw_model()) is calibrant.FlattenedIsotonic


def test_the_directory_holds_a_model_file_and_no_pickle(saved):
    for directory in saved.iterdir():
        found = {path.relative_to(directory).as_posix() for path in directory.rglob("*.*")}
        assert "data/model.calibrant" in found
        assert {Path(name).suffix for name in found} == {".calibrant", ".yaml", ".json", ".txt"}
        flavors = Model.load(str(directory)).flavors
        assert flavors["python_function"]["loader_module"] == "calibrant.export.mlflow"
        assert flavors["python_function"]["data"] == "data/model.calibrant"
        assert flavors["calibrant"] == {
            "method": "fir",
            "n_classes": 3,
            "scores": "probabilities",
            "format": "1.0",
            "sha256": model_file.describe(directory / "data" / "model.calibrant")["sha256"],
            "data": "data/model.calibrant",
            "version": calibrant.__version__,
        }


def test_the_directory_names_neither_a_path_of_this_machine_nor_its_user(saved):
    told = [str(saved), str(ROOT), str(Path.cwd()), str(Path.home())]
    for path in saved.rglob("*.*"):
        text = path.read_bytes().decode("utf-8", "replace")
        assert not [word for word in told if len(word) > 1 and word in text], path
        assert not re.search(rf"\b{re.escape(getpass.getuser())}\b", text), path


def test_requirements_are_versions(saved):
    lines = (saved / "named" / "requirements.txt").read_text().split()
    names = [line.partition("==")[0] for line in lines]
    assert f"calibrant=={calibrant.__version__}" in lines
    assert names == ["mlflow", "calibrant", "numpy", "scipy", "scikit-learn", "threadpoolctl"]
    assert all(re.fullmatch(r"[\w-]+==[\w.]+", line) for line in lines)


def test_requirements_can_be_given(tmp_path):
    (tmp_path / "more.txt").write_text("polars\n")
    (tmp_path / "helper.py").write_text("")
    flavor.save_model(NUMBERED, tmp_path / "a", pip_requirements=["calibrant"])
    flavor.save_model(NUMBERED, tmp_path / "b", extra_pip_requirements=["pyarrow>=15"])
    flavor.save_model(
        NUMBERED,
        tmp_path / "c",
        extra_pip_requirements=str(tmp_path / "more.txt"),
        code_paths=[str(tmp_path / "helper.py")],
        metadata={"owner": "us"},
    )
    texts = [(tmp_path / name / "requirements.txt").read_text().split() for name in "abc"]
    assert [line for line in texts[0] if not line.startswith("mlflow")] == ["calibrant"]
    assert {"pyarrow>=15", f"calibrant=={calibrant.__version__}"} <= {*texts[1]}
    assert {"polars", f"calibrant=={calibrant.__version__}"} <= {*texts[2]}
    assert (tmp_path / "c" / "code" / "helper.py").exists()
    assert Model.load(str(tmp_path / "c")).metadata == {"owner": "us"}


def test_a_signature_can_be_given_or_left_out(tmp_path):
    unnamed = Schema([TensorSpec(np.dtype(np.float64), (-1, 3))])
    flavor.save_model(
        NAMED, tmp_path / "own", signature=ModelSignature(unnamed), input_example=SCORES[:1]
    )
    flavor.save_model(NAMED, tmp_path / "none", signature=False, input_example=False)
    own, none = (mlflow.pyfunc.load_model(str(tmp_path / name)) for name in ("own", "none"))
    np.testing.assert_array_equal(own.predict(SCORES), EXPECTED)
    np.testing.assert_array_equal(none.predict(SCORES), EXPECTED)
    assert none.predict(FRAME).columns.tolist() == NAMES.tolist()
    assert none.metadata.signature is None
    assert not (tmp_path / "none" / "input_example.json").exists()


def signature_of(calibrator, path):
    flavor.save_model(calibrator, path)
    return mlflow.pyfunc.load_model(str(path))


def test_columns_are_named_as_those_of_the_fit_were(tmp_path):
    """In the order of the classes, so that none has to be warned of."""
    frame = FRAME.set_axis([f"prob_{name}" for name in NAMES], axis=1)
    with pytest.warns(errors.ColumnOrderWarning):
        calibrator = calibrant.TemperatureScaling().fit(frame.iloc[:, ::-1], NAMES[Y])
    model = signature_of(calibrator, tmp_path / "model")
    assert model.metadata.get_input_schema().input_names() == frame.columns.tolist()
    assert model.metadata.get_output_schema().input_names() == NAMES.tolist()
    found = model.predict(frame.iloc[:, ::-1])
    np.testing.assert_array_equal(found.to_numpy(), calibrator.predict_proba(frame))


@pytest.mark.parametrize(
    "labels",
    [
        np.array([False, True]),
        np.array([10, 20]),
        np.array([1.0, 2.0]),
        np.array(["", "b"]),
        np.array(["a", "b\n: '\"{"]),
        np.array(["\u00e4", "\U0001f600"]),
    ],
    ids=["bool", "whole", "fraction", "empty", "punctuation", "emoji"],
)
def test_classes_of_every_kind(labels, tmp_path):
    scores, y = simulate(200, 2)
    calibrator = calibrant.TemperatureScaling().fit(scores, labels[y])
    model = signature_of(calibrator, tmp_path / "model")
    names = model.metadata.get_input_schema().input_names()
    given = scores if names == ["probabilities"] else pd.DataFrame(scores, columns=names)
    assert names in (["probabilities"], labels.tolist())
    np.testing.assert_array_equal(model.predict(given), calibrator.predict_proba(scores))
    found = model.predict(given, params={"method": "predict"})
    np.testing.assert_array_equal(found, calibrator.predict(scores))


def test_long_names_and_many_classes_are_one_vector_for_each_row(tmp_path):
    scores, y = simulate(200, 20)
    long = np.array([chr(ord("a") + c) * 1_000 for c in range(20)])
    calibrator = calibrant.TemperatureScaling(classes=long).fit(scores, long[y])
    model = signature_of(calibrator, tmp_path / "long")
    np.testing.assert_array_equal(model.predict(scores), calibrator.predict_proba(scores))
    labels = model.predict(scores, params={"method": "predict"})
    np.testing.assert_array_equal(labels, calibrator.predict(scores))
    assert (tmp_path / "long" / "MLmodel").stat().st_size < 5_000
    scores, y = simulate(120, 5_000)
    many = calibrant.TemperatureScaling(classes=np.arange(5_000)).fit(scores, y)
    model = signature_of(many, tmp_path / "many")
    np.testing.assert_array_equal(model.predict(scores[:3]), many.predict_proba(scores[:3]))
    assert sum(path.stat().st_size for path in (tmp_path / "many").rglob("*.*")) < 500_000


@pytest.mark.parametrize("n_classes", [2, 3, 100, 101])
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
def test_the_example_is_on_the_simplex_or_logits(n_classes, kind, tmp_path):
    scores, y = simulate(200, n_classes)
    scores = np.log(scores) if kind == "logits" else scores
    calibrator = calibrant.TemperatureScaling(scores=kind, classes=np.arange(n_classes))
    model = signature_of(calibrator.fit(scores, y), tmp_path / "model")
    example = model.input_example[kind]
    assert example.shape == (2 if n_classes <= 100 else 1, n_classes)
    assert model.metadata.get_input_schema().input_names() == [kind]
    assert np.isfinite(model.predict(example)).all()
    totals = example.sum(axis=1)
    assert (totals == (1 if kind == "probabilities" else 4)).all()


def test_what_has_no_place_is_refused_and_nothing_is_written(tmp_path):
    classifier = calibrant.CalibratedClassifier(LogisticRegression(), cv=2).fit(SCORES, Y)
    with pytest.raises(errors.ExportError, match=r"mlflow\.sklearn.*trusted_types"):
        flavor.save_model(classifier, tmp_path / "model")
    with pytest.raises(errors.ExportError, match="no calibrator"):
        flavor.save_model(LogisticRegression(), tmp_path / "model")
    with pytest.raises(NotFittedError):
        flavor.save_model(calibrant.TemperatureScaling(), tmp_path / "model")
    kept = calibrant.TemperatureScaling().fit(SCORES, Y)
    kept.lock_ = threading.Lock()
    with pytest.raises(errors.UnsavableError, match="lock_"):
        flavor.save_model(kept, tmp_path / "model")
    longer = np.array([letter * 10_000 for letter in "abc"])  # than a model file holds
    with pytest.raises(errors.StoredClassesError, match="10000 bytes, 1024 at most"):
        flavor.save_model(calibrant.TemperatureScaling().fit(SCORES, longer[Y]), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def both_loaders(path):
    return (lambda: flavor.load_model(str(path))), (lambda: mlflow.pyfunc.load_model(str(path)))


def test_another_model_file_is_refused(tmp_path):
    """Damaged, or whole and of another fit."""
    flavor.save_model(NUMBERED, tmp_path / "model")
    file = tmp_path / "model" / "data" / "model.calibrant"
    damaged = bytearray(file.read_bytes())
    damaged[-40] ^= 1
    for content in (bytes(damaged), b"", model_file.dumps(NAMED)):
        file.write_bytes(content)
        for load in both_loaders(tmp_path / "model"):
            with pytest.raises(errors.ModelFileError):
                load()
    file.unlink()
    for load in both_loaders(tmp_path / "model"):
        with pytest.raises(FileNotFoundError):
            load()


def test_a_directory_without_a_digest_or_of_another_flavour_is_refused(tmp_path):
    flavor.save_model(NUMBERED, tmp_path / "model")
    about = tmp_path / "model" / "MLmodel"
    text = about.read_text()
    about.write_text(re.sub(r"\n    sha256: .*", "", text))
    for load in both_loaders(tmp_path / "model"):
        with pytest.raises(errors.DigestError, match="no sha256"):
            load()
    about.write_text(text.replace("  calibrant:\n", "  another:\n"))
    for load in both_loaders(tmp_path / "model"):
        with pytest.raises(errors.MagicError, match="another, python_function and not"):
            load()


def test_code_in_a_directory_from_a_stranger_does_not_run(tmp_path):
    """MLflow itself imports the module that MLmodel names, after it has put code in its way."""
    (tmp_path / "forged_loader.py").write_text("raise SystemExit('it ran')")
    flavor.save_model(NUMBERED, tmp_path / "model", code_paths=[str(tmp_path / "forged_loader.py")])
    about = tmp_path / "model" / "MLmodel"
    about.write_text(about.read_text().replace(flavor.__name__, "forged_loader"))
    assert "loader_module: forged_loader" in about.read_text()
    loaded = flavor.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict_proba(SCORES), EXPECTED)
    assert "forged_loader" not in sys.modules


@pytest.fixture(scope="module")
def tracker(tmp_path_factory):
    """A tracking server's store on disk, for one experiment."""
    directory = tmp_path_factory.mktemp("tracker")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"sqlite:///{directory}/mlflow.db")
    artifacts = (directory / "artifacts").as_uri()
    mlflow.set_experiment(experiment_id=mlflow.create_experiment("one", artifacts))
    yield
    mlflow.set_tracking_uri(before)


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


@pytest.mark.usefixtures("tracker")
def test_a_classifier_is_logged_by_the_flavour_of_scikit_learn():
    classifier = calibrant.CalibratedClassifier(LogisticRegression(), "fir", cv=2).fit(SCORES, Y)
    info = mlflow.sklearn.log_model(
        classifier,
        name="classifier",
        serialization_format="skops",
        skops_trusted_types=trusted_types(),
        pyfunc_predict_fn="predict_proba",
        pip_requirements=["calibrant"],
    )
    expected = classifier.predict_proba(SCORES)
    for load in (mlflow.sklearn.load_model, mlflow.pyfunc.load_model):
        model = load(info.model_uri)
        predict = getattr(model, "predict_proba", model.predict)
        np.testing.assert_array_equal(predict(SCORES), expected)
