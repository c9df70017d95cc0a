"""Write prediction files from classifiers of one's own."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._atomic_file import replace_file
from calibrant.errors import LabelError, ShapeError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from numpy.typing import NDArray


def split_rows(n_rows: int, seed: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split rows 25 / 75 into a val and a test part, as the paper does: sorted row numbers."""
    order = np.random.RandomState(seed).permutation(n_rows)  # as published splits
    n_val = round(n_rows / 4)
    return np.sort(order[:n_val]).astype(np.int64), np.sort(order[n_val:]).astype(np.int64)


def write_predictions(path: str | os.PathLike[str], **arrays: Any) -> Path:
    """Write arrays ``val_labels``, ``val_probs``, ... to an npz file, whole or not at all."""
    path = Path(path)
    if path.suffix != ".npz":
        raise ValueError(f"{path} is not a prediction file name; use dataset_model.npz")
    with replace_file(path) as file:
        np.savez_compressed(file, **arrays)
    return path


def from_estimator(
    estimator: Any,
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    test: tuple[Any, Any] | None = None,
    seed: int = 0,
) -> Path:
    """Write a prediction file from a fitted scikit-learn classifier.

    Labels are written as they are, and the label of each column as ``classes``, so that all
    commands name the classes.

    Parameters
    ----------
    estimator : object
        With ``classes_`` and ``predict_proba``, or else ``decision_function``.
    X, y : array-like
        Rows that the estimator was not trained on, and their labels.
    path : path-like
        ``dataset_model.npz`` in the directory of a study.
    test : (X, y), optional
        The test part. Without it the rows are split 25 / 75 into val and test.
    seed : int, default=0
        Of the split.

    Returns
    -------
    path : Path

    Raises
    ------
    LabelError
        If a label is none of the estimator's classes.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from calibrant.study import from_estimator
    >>> X, y = load_digits(return_X_y=True)
    >>> path = Path(tempfile.mkdtemp()) / "digits_gaussian-nb.npz"
    >>> _ = from_estimator(GaussianNB().fit(X[:900], y[:900]), X[900:], y[900:], path)
    >>> with np.load(path) as file:
    ...     file["val_probs"].shape, file["test_probs"].shape
    ((224, 10), (673, 10))
    """
    classes = np.asarray(estimator.classes_)
    names = classes.astype(str) if classes.dtype.kind == "O" else classes  # never pickled
    columns = {label: j for j, label in enumerate(classes.tolist())}
    parts = []
    for rows, labels in [(X, y)] if test is None else [(X, y), test]:
        try:
            found = [columns[label] for label in np.asarray(labels).tolist()]
        except KeyError as error:
            raise LabelError(f"the label {error} is not one of the estimator's classes") from error
        parts.append((_scores_of(estimator, rows), names[found]))
    kind = "probs" if hasattr(estimator, "predict_proba") else "logits"
    return _write_parts(path, kind, parts, seed, classes=names)


def from_torch(
    model: Any,
    loader: Iterable[Any],
    path: str | os.PathLike[str],
    *,
    test: Iterable[Any] | None = None,
    seed: int = 0,
    device: Any = None,
) -> Path:
    """Write a prediction file from a PyTorch classifier.

    Parameters
    ----------
    model : torch.nn.Module
        Maps a batch to logits, or to an object that has them as ``logits``. It is put into
        evaluation mode and back.
    loader : iterable
        Yields batches (inputs, labels), in a fixed order, labels numbered from 0.
    path : path-like
        ``dataset_model.npz`` in the directory of a study.
    test : iterable, optional
        Batches of the test part. Without it the rows are split 25 / 75 into val and test.
    seed : int, default=0
        Of the split.
    device : torch.device or str, optional
        Where to compute; by default where the model is.

    Returns
    -------
    path : Path

    Examples
    --------
    >>> from calibrant.study import from_torch
    >>> from_torch(model, loader, "cifar10_mine.npz")  # doctest: +SKIP
    """
    torch: Any = import_module("torch")
    if device is None:
        device = next((parameter.device for parameter in model.parameters()), "cpu")
    was_training = bool(model.training)
    model.eval()
    try:
        with torch.no_grad():
            parts = [
                _logits_of(model, batches, device)
                for batches in ([loader] if test is None else [loader, test])
            ]
    finally:
        model.train(was_training)
    return _write_parts(path, "logits", parts, seed)


def _logits_of(
    model: Any, batches: Iterable[Any], device: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Logits and labels of all batches; the model must not learn from them."""
    logits, labels = [], []
    for inputs, targets in batches:
        found = model(inputs.to(device))
        logits.append(np.asarray(getattr(found, "logits", found).detach().cpu().float()))
        labels.append(np.asarray(targets.cpu()))
    scores, y = np.concatenate(logits), np.concatenate(labels)
    if scores.ndim != 2 or len(scores) != len(y):
        raise ShapeError(f"the model gave logits of shape {scores.shape} for {len(y)} labels")
    if y.size and not 0 <= y.min() <= y.max() < scores.shape[1]:
        raise LabelError(f"labels {y.min()} .. {y.max()} do not fit {scores.shape[1]} columns")
    return scores, y.astype(np.int64)


def _scores_of(estimator: Any, rows: Any) -> NDArray[Any]:
    if hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict_proba(rows))
    logits = np.asarray(estimator.decision_function(rows))
    if logits.ndim == 1:  # of the second of two classes
        return np.column_stack([np.zeros_like(logits), logits])
    if logits.shape[1] != len(estimator.classes_):
        raise ShapeError(
            f"decision_function gives {logits.shape[1]} columns for {len(estimator.classes_)} "
            "classes; an SVC needs decision_function_shape='ovr'"
        )
    return logits


def _write_parts(
    path: str | os.PathLike[str],
    kind: str,
    parts: list[tuple[NDArray[Any], NDArray[Any]]],
    seed: int,
    **others: NDArray[Any],
) -> Path:
    """Write val and test, which are split off each other if there is one part."""
    if len(parts) == 1:
        scores, labels = parts[0]
        parts = [(scores[rows], labels[rows]) for rows in split_rows(len(labels), seed)]
    arrays = dict(others)
    for part, (scores, labels) in zip(("val", "test"), parts, strict=True):
        arrays |= {f"{part}_{kind}": scores, f"{part}_labels": labels}
    return write_predictions(path, **arrays)
