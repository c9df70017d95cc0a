"""Calibrate a file chunk by chunk into another one, which appears whole or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant import _simplex as simplex
from calibrant._atomic_file import new_directory
from calibrant._bad_rows import predict_good
from calibrant._containers import NamedMatrix, output_dtype
from calibrant._files.chunks import find_tables
from calibrant._files.classes import find_order
from calibrant._files.columns import ColumnSelection
from calibrant._files.logs import leave_out_absent
from calibrant._files.predictions import find_format, open_source, unknown_format
from calibrant._files.values import groups_like, groups_of
from calibrant._files.writers import Output, open_output
from calibrant._one_column import ONE_COLUMN
from calibrant.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant._calibrators.base import Calibrator
    from calibrant._files.source import FileChunk, Source

ON_BAD_ROW = ("error", "skip", "nan")
NAMED_ROWS = 5
"""Bad rows whose places are told."""


class Applied(NamedTuple):
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
    tell: Callable[[str], None] | None = None,
    groups: str | None = None,
) -> Applied:
    """Calibrate the predictions in ``path`` into ``out``.

    The format is that of the suffix, and ``-`` is CSV on standard input and output. Columns of a
    table that are no scores are copied; of other files the labels are, where ``out`` has a place
    for them. ``part`` is that of an npz file with "val" and "test", by default "test". ``progress``
    is called with the number of rows done and, where it is known, of all rows; ``tell`` with what
    was taken for a class in the log of an evaluation. ``groups`` is the column, array or field with
    the group of each row, for a fit by group.
    """
    simplex.check_option("on_bad_row", on_bad_row, ("error",) if groups else ON_BAD_ROW)
    n_read = n_bad = 0
    first_bad: list[int] = []
    is_strict = on_bad_row == "error"
    selection = to_apply(calibrator, selection, groups, takes_missing=not is_strict)
    known = find_format(out)
    if known is None or known.write is None:
        raise unknown_format(out, "cannot be written")
    with open_source(
        path,
        part=part,
        usual_part="test",
        kind=calibrator.scores,
        selection=selection,
        classes=calibrator.classes_.tolist(),
    ) as source:
        if source.log is not None and tell is not None:
            tell(source.log.note)
        calibrate = RowCalibration(calibrator, source, groups)
        output = Output(out, calibrator.classes_, source, calibrate.order, calibrate.dtype)
        with open_output(out) as file, known.write(file, output) as write:
            for chunk in source.chunks:
                calibrated, good = calibrate(chunk, n_read, is_strict=is_strict)
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


def to_apply(
    calibrator: Calibrator,
    selection: ColumnSelection | None,
    groups: str | None,
    *,
    takes_missing: bool = False,
) -> ColumnSelection:
    """Return the selection of a table for a model; its other columns are written again."""
    selection = selection or ColumnSelection()
    # Of several classes other numbers stay refused: they may be classes of another model.
    names = getattr(calibrator, "feature_names_in_", ()) if calibrator.scores in ONE_COLUMN else ()
    return replace(
        selection,
        beside=dict(selection.beside) | ({} if groups is None else {groups: "--groups"}),
        takes_missing=takes_missing,
        reads_others=True,
        fitted=tuple(names),
    )


def apply_directory(
    apply: Callable[[Path, Path], Applied],
    path: Path,
    out: Path,
    progress: Callable[[int, int | None], None],
) -> Applied:
    """Calibrate every table in a directory into one of the same name in a new directory."""
    files, done = find_tables(path), []
    with new_directory(out) as directory:
        for n, file in enumerate(files):
            target = directory / file.relative_to(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            done.append(apply(file, target))
            progress(n + 1, len(files))
    n_rows, n_bad, where = zip(*done, strict=True)
    return Applied(sum(n_rows), sum(n_bad), "; ".join([*filter(None, where)][:NAMED_ROWS]))


class RowCalibration:
    """Calibrates chunks of an open file, whose columns it has checked against the model's."""

    def __init__(self, calibrator: Calibrator, source: Source, groups: str | None) -> None:
        self.order = find_order(calibrator, source)
        self.dtype = output_dtype(np.empty(0, dtype=source.dtype))
        self._calibrator, self._source, self._groups = calibrator, source, groups
        is_single = source.kind in ONE_COLUMN  # whose name was checked with the file
        fitted = None if is_single else getattr(calibrator, "feature_names_in_", None)
        self._names = None
        if fitted is not None:
            # The order is settled: names that the model knows keep it from asking again.
            own = source.place.names or fitted.tolist()
            self._names = own if self.order is None else [str(c) for c in calibrator.classes_]

    def __call__(
        self, chunk: FileChunk, n_done: int = 0, *, is_strict: bool = True
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return calibrated rows, and which of them are good; bad ones are NaN, unless strict."""
        calibrator, source, scores = self._calibrator, self._source, chunk.scores
        by_group = {}
        if self._groups is not None:
            values = groups_of(chunk.beside[self._groups], source.place, n_done)
            by_group["groups"] = groups_like(values, calibrator.groups_)

        def predict(rows: NDArray[Any]) -> NDArray[Any]:
            rows = rows if self.order is None else rows[:, self.order]
            named = rows if self._names is None else NamedMatrix(rows, self._names)
            return calibrator.predict_proba(named, **by_group)

        try:
            # Rows that are left out are still counted, so they are marked first.
            how = "raise" if is_strict else "nan"
            calibrated, good = predict_good(predict, scores, calibrator, how)
        except DataError:
            if is_strict:  # once more, for a message with its place in the file
                normalize = calibrator.normalize
                simplex.check_scores(scores, calibrator.scores, normalize, n_done, source.place)
            raise
        if source.log is not None and source.log.has_absent:
            calibrated = leave_out_absent(calibrated, scores, source.kind, self.order)
        return calibrated, good
