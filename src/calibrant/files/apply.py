"""Calibrate a file chunk by chunk into another one, which appears whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import simplex
from calibrant.atomic_file import replace_file
from calibrant.columns import column_order
from calibrant.containers import output_dtype
from calibrant.errors import DataError, PredictionFileError
from calibrant.files.stream import make_sink, open_source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant.calibrators.base import Calibrator
    from calibrant.files.stream import Source

ON_BAD_ROW = ("error", "skip", "nan")


@dataclass(frozen=True, slots=True)
class Applied:
    """How many rows were calibrated, and how many could not be."""

    n_rows: int
    n_bad_rows: int


def apply_file(
    calibrator: Calibrator,
    path: Path,
    out: Path,
    *,
    part: str | None = None,
    label_column: str = "label",
    on_bad_row: str = "error",
    progress: Callable[[int, int | None], None] | None = None,
) -> Applied:
    """Calibrate the predictions in ``path`` into ``out``.

    Parameters
    ----------
    calibrator : Calibrator
        A fitted one.
    path, out : Path
        Files of predictions; the format is that of their suffix.
    part : {"val", "test"}, optional
        Which part of an npz file with both.
    label_column : str, default="label"
        A column of a table that is no class; it is copied to ``out``.
    on_bad_row : {"error", "skip", "nan"}, default="error"
        What a row that cannot be used gets.
    progress : callable, optional
        Called with the number of rows done and, where it is known, of all rows.

    Returns
    -------
    applied : Applied
    """
    simplex.check_option("on_bad_row", on_bad_row, ON_BAD_ROW)
    if str(path) != "-" and out.exists() and path.exists() and out.samefile(path):
        raise PredictionFileError(f"{out} is the input itself; write to another file")
    n_rows = n_bad = 0
    with open_source(path, part=part, kind=calibrator.scores, label_column=label_column) as source:
        order = _column_order(calibrator, source, path)
        dtype = output_dtype(np.empty(0, dtype=source.dtype))
        with replace_file(out) as file:
            sink = make_sink(out, file, [str(c) for c in calibrator.classes_], source, dtype)
            for scores, labels in source.chunks:
                rows = scores if order is None else scores[:, order]
                calibrated, good = _calibrate(calibrator, rows, source, n_rows, on_bad_row)
                keep = good if on_bad_row == "skip" else np.ones(len(rows), dtype=bool)
                sink.write(calibrated[keep], None if labels is None else labels[keep])
                n_rows += len(rows)
                n_bad += int(np.count_nonzero(~good))
                if progress is not None:
                    progress(n_rows, source.n_rows)
            sink.finish()
    return Applied(n_rows, n_bad)


def _column_order(calibrator: Calibrator, source: Source, path: Path) -> NDArray[np.int64] | None:
    k = len(calibrator.classes_)
    if source.n_columns != k:
        raise PredictionFileError(
            f"{path} has {source.n_columns} columns of scores, but the model has {k} classes"
        )
    return column_order(source.names, calibrator.classes_)


def _calibrate(
    calibrator: Calibrator, rows: NDArray[Any], source: Source, n_done: int, on_bad_row: str
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Calibrated rows, and which of them are good; bad ones are NaN."""
    good = np.ones(len(rows), dtype=bool)
    try:
        return calibrator.predict_proba(rows), good
    except DataError:
        if on_bad_row == "error":  # once more, for a message with the row's number in the file
            first = source.first_line + n_done
            simplex.check_scores(rows, calibrator.scores, calibrator.normalize, first)
            raise
    good[bad_rows(rows, calibrator.scores, calibrator.normalize)] = False
    out = np.full(rows.shape, np.nan)
    if good.any():
        out[good] = calibrator.predict_proba(rows[good])
    return out, good


def bad_rows(rows: NDArray[Any], kind: str, normalize: str | None, first: int = 0) -> list[int]:
    """Rows that cannot be used, found by halving."""
    try:
        simplex.check_scores(rows, kind, normalize)
    except DataError:
        if len(rows) == 1:
            return [first]
        half = len(rows) // 2
        low = bad_rows(rows[:half], kind, normalize, first)
        return low + bad_rows(rows[half:], kind, normalize, first + half)
    return []
