"""Calibration sets in chunks: which class each column is, and fits and predictions of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors
from calibrant._bad_rows import predict_chunk, to_send
from calibrant._columns import column_order
from calibrant._containers import column_names, single_name, to_matrix
from calibrant._labels import check_labels
from calibrant._one_column import ONE_COLUMN, check_positive, how_to_pass
from calibrant._row_sample import RowSample
from calibrant._simplex import check_scores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.scale import Chunks


def classes_of_chunks(chunks: Chunks, kind: str, classes: Any) -> NDArray[Any]:
    """Return the class of each column of chunks; labels are read if nobody says the classes."""
    labels = chunks.labels() if classes is None else classes
    if len(labels) == 0:
        raise errors.ShapeError("no chunk has a row with a weight and a label; pass at least one")
    if chunks.n_columns == 1 and kind not in ONE_COLUMN:
        raise errors.ClassCountError(f"scores has one column: {how_to_pass(kind)}")
    name = (chunks.names or [None])[0]
    return _check_classes(labels, chunks.n_columns, chunks.names, name, kind, classes)


def classes_of_rows(scores: Any, y: Any, kind: str, classes: Any) -> NDArray[Any]:
    """Return the class of each column of a matrix."""
    matrix, labels = to_matrix(scores, kind), y if classes is None else classes
    if matrix.shape[1] == 1 and kind not in ONE_COLUMN:
        check_scores(matrix, kind)  # refuses it
    names, name = column_names(scores, kind), single_name(scores)
    return _check_classes(labels, matrix.shape[1], names, name, kind, classes)


def _check_classes(
    labels: Any, n_columns: int, names: list[Any] | None, name: Any, kind: str, classes: Any
) -> NDArray[Any]:
    is_single, told = kind in ONE_COLUMN, classes is not None
    names, n_columns = (None, 2) if is_single else (names, n_columns)
    _, known = check_labels(
        labels, len(labels), n_columns, classes=classes, names=names, is_single=is_single
    )
    column_order(names, known, told=told)
    if is_single:
        check_positive(known, name, told=told)
    return known


def check_sample(sample: RowSample, kind: str, normalize: str | None, classes: Any) -> None:
    """Refuse a sample of rows of another kind, or of other classes, than a calibrator asks for."""
    for name, own, theirs in (
        ("scores", kind, sample.scores),
        ("normalize", normalize, sample.normalize),
    ):
        if own != theirs:
            raise errors.ParameterError(
                f"the sample has {name}={theirs!r}, but the calibrator {own!r}; make both alike"
            )
    if classes is not None and not np.array_equal(np.asarray(classes), sample.classes):
        raise errors.ParameterError(
            f"the sample has the classes {errors.some_in_words(sample.classes)}, but the "
            f"calibrator {errors.some_in_words(classes)}; make both alike"
        )
    if sample.n_kept == 0:
        raise errors.ShapeError("the sample has no row with a weight: there is nothing to fit")


def predict_lazily(
    calibrator: Any, method: str, scores: Any, dtype: Any, n_columns: int | None
) -> Any:
    """Return the lazy result of a method, in the form of the engine that holds the scores."""
    from calibrant.scale import Chunks

    sent = to_send(calibrator)
    if isinstance(scores, Chunks):
        return scores.map(partial(_predict, sent, method, scores.names))
    from calibrant.scale.dask import map_rows, to_array

    calibrator._check_columns(scores, to_array(scores).shape)  # noqa: SLF001  (ours)
    return map_rows(sent, method, scores, dtype, n_columns)


def _predict(calibrator: Any, method: str, names: list[Any] | None, scores: Any) -> NDArray[Any]:
    names = column_names(scores) or names
    return predict_chunk(calibrator, method, np.asarray(scores), names, "raise")[0]
