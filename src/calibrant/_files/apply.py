"""Calibrate a file chunk by chunk into another one, which appears whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _notices as notices
from calibrant import _simplex as simplex
from calibrant._atomic_file import new_directory
from calibrant._columns import column_order, order_of
from calibrant._containers import NamedMatrix, output_dtype
from calibrant._files.align import refuse_other_columns
from calibrant._files.directory import find_tables
from calibrant._files.layout import ColumnSelection
from calibrant._files.predictions import open_source
from calibrant._files.sinks import open_sink, refuse_inputs
from calibrant.errors import CalibrantWarning, ColumnNameError, DataError
from calibrant.errors import some_in_words as some
from calibrant.scale._bad_rows import predict_good

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant._calibrators.base import Calibrator
    from calibrant._files.predictions import Source

ON_BAD_ROW = ("error", "skip", "nan")
NAMED_ROWS = 5
"""Bad rows whose places are told."""


@dataclass(frozen=True, slots=True)
class Applied:
    """How many rows were written, how many were bad, and where the first of them are."""

    n_rows: int
    n_bad_rows: int
    where: str = ""


def apply_file(
    calibrator: Calibrator,
    path: Path,
    out: Path,
    *,
    part: str | None = None,
    selection: ColumnSelection | None = None,
    on_bad_row: str = "error",
    progress: Callable[[int, int | None], None] | None = None,
) -> Applied:
    """Calibrate the predictions in ``path`` into ``out``.

    The format is that of the suffix, and ``-`` is CSV on standard input and output. Columns of a
    table that are no scores are copied; of other files the labels are, where ``out`` has a place
    for them. ``part`` is that of an npz file with "val" and "test", by default "test". ``progress``
    is called with the number of rows done and, where it is known, of all rows.
    """
    simplex.check_option("on_bad_row", on_bad_row, ON_BAD_ROW)
    refuse_inputs(out, path)
    n_read = n_bad = 0
    first_bad: list[int] = []
    selection = replace(selection or ColumnSelection(), takes_missing=on_bad_row != "error")
    options: dict[str, Any] = {"part": part, "usual_part": "test", "kind": calibrator.scores}
    with open_source(path, selection=selection, **options) as source:
        order = _column_order(calibrator, source)
        dtype = output_dtype(np.empty(0, dtype=source.dtype))
        with open_sink(out, calibrator.classes_, source, order, dtype) as write:
            for chunk in source.chunks:
                calibrated, good = _calibrate(
                    calibrator, chunk.scores, order, source, n_read, on_bad_row
                )
                keep = good if on_bad_row == "skip" else np.ones(len(good), dtype=bool)
                write(calibrated[keep], chunk, keep)
                bad = n_read + np.flatnonzero(~good)
                first_bad += bad[: NAMED_ROWS - len(first_bad)].tolist()
                n_bad += len(bad)
                n_read += len(good)
                if progress is not None:
                    progress(n_read, source.n_rows)
        where = source.place.rows(first_bad) if first_bad else ""
    where += ", ..." if n_bad > NAMED_ROWS else ""
    return Applied(n_read - n_bad if on_bad_row == "skip" else n_read, n_bad, where)


def apply_directory(
    calibrator: Calibrator,
    path: Path,
    out: Path,
    *,
    selection: ColumnSelection | None = None,
    on_bad_row: str = "error",
    progress: Callable[[int, int | None], None] | None = None,
) -> Applied:
    """Calibrate every table in a directory into one of the same name in a new directory."""
    files = find_tables(path)
    done, where = [], []
    with new_directory(out) as directory:
        for n, file in enumerate(files):
            target = directory / file.relative_to(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            found = apply_file(calibrator, file, target, selection=selection, on_bad_row=on_bad_row)
            done.append(found)
            where += [found.where] if found.where else []
            if progress is not None:
                progress(n + 1, len(files))
    n_rows, n_bad = (sum(getattr(d, name) for d in done) for name in ("n_rows", "n_bad_rows"))
    return Applied(n_rows, n_bad, "; ".join(where[:NAMED_ROWS]))


def _column_order(calibrator: Calibrator, source: Source) -> NDArray[np.int64] | None:
    """Check the columns of the file against those of the model, as ``predict_proba`` does."""
    classes, names, where = calibrator.classes_, source.place.names, source.place.source
    fitted = getattr(calibrator, "feature_names_in_", None)
    refuse_other_columns(source.place, source.n_columns, classes.tolist())
    if names is None:
        if fitted is not None:
            text = f"{where} has no names of columns; they are taken to be {some(fitted)}"
            notices.warn(CalibrantWarning(text))
        return None
    order = column_order(names, classes, named=source.place)
    told = order is not None or order_of(names, classes, source.place) is not None
    if not told and fitted is not None and names != fitted.tolist():
        raise ColumnNameError(
            f"{where}: the columns {some(names)} are not those of the model, "
            f"{some(fitted)}, in this order; rename or reorder them"
        )
    return order


def _calibrate(
    calibrator: Calibrator,
    scores: NDArray[Any],
    order: NDArray[np.int64] | None,
    source: Source,
    n_done: int,
    on_bad_row: str,
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Calibrated rows, and which of them are good; bad ones are NaN."""
    is_strict = on_bad_row == "error"
    fitted = getattr(calibrator, "feature_names_in_", None)

    def predict(rows: NDArray[Any]) -> NDArray[Any]:
        if order is not None:
            rows = rows[:, order]
        if fitted is None:
            return calibrator.predict_proba(rows)
        # The order is settled: names that the model knows keep it from asking again.
        known = source.place.names if order is None else [str(c) for c in calibrator.classes_]
        return calibrator.predict_proba(NamedMatrix(rows, known or fitted.tolist()))

    try:
        # Rows that are left out are still counted, so they are marked first.
        return predict_good(predict, scores, calibrator, "raise" if is_strict else "nan")
    except DataError:
        if is_strict:  # once more, for a message with its place in the file
            simplex.check_scores(
                scores, calibrator.scores, calibrator.normalize, n_done, source.place
            )
        raise
