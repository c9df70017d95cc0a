"""Calibration sets in chunks: the class of each column, and lazy predictions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _gate as gate
from calibrant import errors
from calibrant._bad_rows import predict_chunk, to_send

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._row_sample import RowSample
    from calibrant._types import Labels
    from calibrant.scale import Chunks


def find_classes(scores: Any, y: Any, chunks: Chunks | None, kind: str, classes: Any) -> Labels:
    """Return the class of each column of a matrix or of chunks; labels are read if they must be."""
    labels = classes
    if chunks is None:
        n_columns, names = gate.to_matrix(scores, kind).shape[1], gate.fitted_names(scores, kind)
        labels = y if classes is None else classes
    else:
        n_columns, names = chunks.n_columns, chunks.names
        labels = chunks.labels() if classes is None else classes
    if len(labels) == 0:
        raise errors.ShapeError("no row has a weight and a label; pass at least one")
    if n_columns == 1 and not gate.is_single(kind):
        raise errors.ShapeError(f"scores has one column: {gate.how_to_pass(kind)}")
    return gate.assign_classes(labels, len(labels), n_columns, kind, names=names, classes=classes)[
        1
    ]


def check_sample(sample: RowSample, kind: str, normalize: str | None, classes: object) -> None:
    """Refuse a sample of rows of another kind, or of other classes, than a calibrator asks for."""
    if (kind, normalize) != (sample.scores, sample.normalize):
        raise errors.ParameterError(
            f"the sample has scores={sample.scores!r} and normalize={sample.normalize!r}, but the "
            f"calibrator {kind!r} and {normalize!r}; make both alike"
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


def _predict(
    calibrator: object, method: str, names: list[Any] | None, scores: object
) -> NDArray[Any]:
    names = gate.column_names(scores) or names
    return predict_chunk(calibrator, method, np.asarray(scores), names, "raise")[0]
