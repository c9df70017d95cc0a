"""Calibrators as models of MLflow, which hold a model file and no pickle."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from calibrant import __version__, errors, model_file
from calibrant import _extras as extras
from calibrant import _gate as gate
from calibrant._calibrators.grouped import GroupedCalibrator
from calibrant.export._pipeline import check_input, take_calibrator

try:
    import mlflow.artifacts
    import mlflow.pyfunc
    import pandas as pd
    from mlflow.models import Model, ModelSignature
    from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema, TensorSpec
except ImportError as error:
    raise extras.needed(error, "calibrant.export.mlflow", "mlflow") from error

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from mlflow.models.model import ModelInfo

    from calibrant._calibrators.base import Calibrator
    from calibrant._types import Array, Floats

__all__ = ["load_model", "log_model", "save_model"]

FLAVOR = "calibrant"
DATA = "data/model.calibrant"
"""Where MLflow puts the model file."""

FOR_CLASSIFIERS = (
    "a model file cannot hold it; use mlflow.sklearn.log_model(model, "
    "serialization_format='skops', skops_trusted_types=calibrant.export.trusted_types(), "
    "pyfunc_predict_fn='predict_proba')"
)

METHODS = ("predict_proba", "predict", "predict_log_proba")
"""Choices of the parameter ``method`` of a prediction; the first is the default."""

MOST_COLUMNS = 100
"""MLflow checks one named column after the other, which takes 5 ms a call for 100; beyond that a
row is one vector."""


def save_model(
    calibrator: Calibrator,
    path: str | os.PathLike[str],
    *,
    signature: ModelSignature | None = None,
    input_example: object = None,
    pip_requirements: Sequence[str] | str | None = None,
    mlflow_model: Model | None = None,
    **options: object,
) -> None:
    """Write a fitted calibrator as an MLflow model, a directory with a model file.

    Parameters
    ----------
    calibrator : Calibrator
        A fitted calibrator. A ``CalibratedClassifier`` is for ``mlflow.sklearn``.
    path : path-like
        Directory to create.
    signature : ModelSignature, optional
        By default made from the calibrator: columns named as in the data frame at ``fit``, or after
        classes that are text, or the single column "positive" or "decision"; otherwise, and with
        more than 100 classes, one vector per row, named "probabilities" or "logits".
    input_example : any that MLflow takes, optional
        By default a row of equal scores.
    pip_requirements : list of str or path, optional
        By default this version of calibrant.
    mlflow_model : mlflow.models.Model, optional
        MLflow model to add the flavour to.
    **options
        As in ``mlflow.pyfunc.save_model``: ``conda_env``, ``code_paths``, ``metadata``.

    Raises
    ------
    ExportError
        If ``calibrator`` is not a calibrator, or is one of groups, which MLflow does not pass.
    ModelFileError
        If the calibrator cannot be saved.

    Examples
    --------
    >>> import tempfile
    >>> import mlflow
    >>> from calibrant import TemperatureScaling
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.export.mlflow import save_model
    >>> scores, y = simulated_scores(500)
    >>> path = tempfile.mkdtemp()
    >>> save_model(TemperatureScaling().fit(scores, y), path)
    >>> model = mlflow.pyfunc.load_model(path)
    >>> model.predict(scores).shape, model.predict(scores[:2], params={"method": "predict"})
    ((500, 3), array([...]))
    """
    taken = take_calibrator(calibrator, FOR_CLASSIFIERS)
    if isinstance(taken, GroupedCalibrator):
        raise errors.ExportError(
            "a model of MLflow is given scores and no groups, so it cannot choose the calibrator "
            f"of a row; save for_group(name) of each of {len(taken.groups_)} groups as a model of "
            "its own, and for_group(None) for all other rows"
        )
    names = _column_names(taken)
    model = Model() if mlflow_model is None else mlflow_model
    if pip_requirements is None and options.get("conda_env") is None:
        pip_requirements = [f"calibrant=={__version__}"]
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "model.calibrant")
        sha256 = model_file.save(taken, file)
        facts = {"method": taken.method, "data": DATA, "version": __version__}
        model.add_flavor(FLAVOR, **facts, sha256=sha256)
        mlflow.pyfunc.save_model(
            path,
            loader_module=__name__,
            data_path=str(file),
            signature=_signature(taken, names) if signature is None else signature,
            input_example=_example(taken, names) if input_example is None else input_example,
            pip_requirements=pip_requirements,
            mlflow_model=model,
            **options,
        )


def log_model(calibrator: Calibrator, name: str | None = None, **options: object) -> ModelInfo:
    """Log a fitted calibrator to MLflow, in the active run if there is one.

    Parameters
    ----------
    calibrator : Calibrator
        A fitted calibrator.
    name : str, optional
        Name of the model.
    **options
        As in ``mlflow.sklearn.log_model``: ``registered_model_name``, ``await_registration_for``,
        ``params``, ``tags``, ``model_type``, ``step``, ``model_id``; others go to ``save_model``.

    Returns
    -------
    info : mlflow.models.model.ModelInfo
        With the ``model_uri``.

    Examples
    --------
    >>> from calibrant import TemperatureScaling
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.export.mlflow import log_model
    >>> calibrator = TemperatureScaling().fit(*simulated_scores(500))
    >>> info = log_model(calibrator, name="calibrator")  # doctest: +SKIP
    """
    flavor = sys.modules[__name__]
    return Model.log(None, flavor, name=name, calibrator=calibrator, **options)


def load_model(model_uri: str) -> Calibrator:
    """Load a calibrator saved by ``save_model`` or ``log_model``.

    Parameters
    ----------
    model_uri : str
        Location of the model, such as ``models:/name/1`` or a directory.

    Returns
    -------
    calibrator : Calibrator

    Raises
    ------
    ModelFileError
        If the model has another flavour, or its model file has changed.

    Examples
    --------
    >>> import tempfile
    >>> from calibrant import TemperatureScaling
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.export.mlflow import load_model, save_model
    >>> directory = tempfile.mkdtemp() + "/model"
    >>> save_model(TemperatureScaling().fit(*simulated_scores()), directory)
    >>> load_model(directory)
    TemperatureScaling()
    """
    return _read(Path(mlflow.artifacts.download_artifacts(artifact_uri=str(model_uri))))


class _Served:
    """What ``mlflow.pyfunc`` serves; ``path`` is that of the model file."""

    def __init__(self, path: str) -> None:
        self._calibrator = _read(Path(path).parents[1])

    def get_raw_model(self) -> Calibrator:
        return self._calibrator

    def predict(self, data: object, params: dict[str, str] | None = None) -> Array | pd.DataFrame:
        """Return a data frame for one, with the classes as its columns, and else an array."""
        method = (params or {}).get("method", METHODS[0])
        gate.check_option("method", method, METHODS)
        predict = getattr(self._calibrator, method)
        if isinstance(data, dict):  # of a vector for each row, which has a name
            (data,) = data.values()
        if not isinstance(data, pd.DataFrame):
            return predict(np.asarray(data))
        result = predict(data)
        if method == "predict":
            return pd.Series(result, index=data.index, name="label")
        return pd.DataFrame(result, index=data.index, columns=_texts(self._calibrator))


_load_pyfunc = _Served  # the name that MLflow looks for in a loader


def _read(directory: Path) -> Calibrator:
    """Read the model file of an MLflow model, if it is the one that was saved."""
    flavors = Model.load(str(directory)).flavors
    if FLAVOR not in flavors:
        message = (
            f"{directory} is an MLflow model of {', '.join(sorted(flavors))}, not of calibrant"
        )
        raise errors.ModelFileError(f"{message}; load it with mlflow.pyfunc.load_model", "magic")
    digest = flavors[FLAVOR].get("sha256")
    if not isinstance(digest, str):
        message = f"{directory}/MLmodel has no sha256 of {DATA}; save it again"
        raise errors.ModelFileError(message, "digest")
    return model_file.load(directory / DATA, sha256=digest)


def _texts(calibrator: Calibrator) -> list[str]:
    """Classes as text, in the order of the columns."""
    return [str(c) for c in calibrator.classes_.tolist()]


def _column_names(calibrator: Calibrator) -> list[str] | None:
    """Names of input columns in the order of the classes; None if a row is to be one vector."""
    classes, kind = calibrator.classes_, check_input(calibrator, None)
    names = list(getattr(calibrator, "feature_names_in_", []))
    if gate.is_single(kind):
        names = names or [kind]
    elif names:
        order = gate.order_of(names, classes)
        names = names if order is None else [names[j] for j in order]
    elif all(isinstance(c, str) for c in classes.tolist()):
        names = _texts(calibrator)
    is_short = 0 < len(names) <= MOST_COLUMNS
    return names if is_short and all(names) and len(set(names)) == len(names) else None


def _signature(calibrator: Calibrator, names: list[str] | None) -> ModelSignature:
    if names is None:
        vectors = np.dtype(np.float64), (-1, calibrator.n_features_in_)
        # With a name, or MLflow would take columns of a data frame in whatever order they come.
        inputs = Schema([TensorSpec(*vectors, calibrator.map_.kind)])
        outputs = Schema([TensorSpec(*vectors)])
    else:
        inputs, outputs = (
            Schema([ColSpec(DataType.double, name) for name in of])
            for of in (names, _texts(calibrator))
        )
    params = ParamSchema([ParamSpec("method", DataType.string, METHODS[0])])
    return ModelSignature(inputs, outputs, params)


def _example(calibrator: Calibrator, names: list[str] | None) -> Floats | pd.DataFrame:
    """Return a row of equal scores, as the signature has it."""
    equal = 0.0 if calibrator.map_.kind == "logits" else 1.0 / len(calibrator.classes_)
    width = gate.n_columns_of(check_input(calibrator, None), calibrator.n_features_in_)
    row = np.full((1, width), equal)
    return row if names is None else pd.DataFrame(row, columns=names)


def __dir__() -> list[str]:
    return __all__
