"""Rows that cannot be calibrated: refused, marked or left out."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _gate as gate
from calibrant import _notices as notices
from calibrant import errors
from calibrant._gate import NamedMatrix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from calibrant._types import Array, Bools, Label, Labels

ON_BAD_ROW = ("raise", "nan", "skip")
"""What may be asked for: an error, NaN in every column, or no row."""


def bad_rows(rows: Any, kind: str, normalize: str | None, first: int = 0) -> list[int]:
    """Rows that cannot be used, found by halving."""
    try:
        gate.check_scores(rows, kind, normalize)
    except errors.DataError:
        if len(rows) < 2:  # none is wrong in its shape: whoever predicts says so
            return [first] * len(rows)
        half = len(rows) // 2
        low = bad_rows(rows[:half], kind, normalize, first)
        return low + bad_rows(rows[half:], kind, normalize, first + half)
    return []


def predict_good(
    predict: Callable[[Any], NDArray[np.generic]], rows: Any, calibrator: Any, on_bad_row: str
) -> tuple[Array, Bools]:
    """Return predictions of rows, all of them or the good ones, and which are good.

    Bad rows are refused, are NaN (None where labels are predicted), or have no prediction.
    """
    good = np.ones(len(rows), dtype=bool)
    try:
        return predict(rows), good
    except errors.DataError:
        if on_bad_row == "raise":
            raise
    good[bad_rows(rows, calibrator._kind, calibrator.normalize)] = False  # noqa: SLF001  (ours)
    result = predict(rows[good])
    if on_bad_row == "skip":
        return result, good
    is_number = result.dtype.kind == "f"
    missing = (np.nan, result.dtype) if is_number else (None, np.dtype(object))
    out = np.full((len(good), *result.shape[1:]), missing[0], dtype=missing[1])
    out[good] = result
    return out, good


def predict_chunk(
    calibrator: object,
    method: str,
    rows: NDArray[Any],
    names: Sequence[Label] | None,
    on_bad_row: str,
) -> tuple[Array, Bools]:
    """Return predictions of a chunk and which rows are good; its columns were looked at before."""

    def predict(some: Array) -> Labels:
        given = some if names is None else NamedMatrix(some, names)
        result: Array = getattr(calibrator, method)(given)
        return result

    with notices.kept():
        return predict_good(predict, rows, calibrator, on_bad_row)


def to_send(calibrator: object) -> Any:
    """Return a calibrator as it is now, without its rows, which predictions do not need."""
    sent = copy.copy(calibrator)
    vars(sent).pop("sample_", None)
    return sent
