"""Calibrate a file chunk by chunk into another one, which appears whole or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant import _gate as gate
from calibrant import _notices as notices
from calibrant import errors
from calibrant._atomic_file import new_directory
from calibrant._bad_rows import ON_BAD_ROW, predict_good
from calibrant._files.align import refuse_other_columns
from calibrant._files.chunks import find_tables
from calibrant._files.columns import Request
from calibrant._files.logs import leave_out_absent
from calibrant._files.predictions import find_format, open_source, unknown_format
from calibrant._files.values import features_of, groups_like, groups_of
from calibrant._files.writers import Output, open_output
from calibrant._gate import ONE_COLUMN, NamedMatrix
from calibrant.errors import some_in_words as some

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant._calibrators.base import Calibrator
    from calibrant._files.source import RawPredictions, Source

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
    request: Request | None = None,
    on_bad_row: str = "raise",
    progress: Callable[[int, int | None], None] | None = None,
    tell: Callable[[str], None] | None = None,
    groups: str | None = None,
) -> Applied:
    """Calibrate the predictions in ``path`` into ``out``.

    The format is that of the suffix. Columns of a table that are no scores are copied; of other
    files the labels are, where ``out`` has a place for them. The part of an npz file is by default
    "test". ``progress`` is called with the number of rows done, ``tell`` with what was taken for a
    class in the log of an evaluation. ``groups`` is the column beside the scores with the group of
    each row, for a fit by group.
    """
    by_row = bool(groups) or hasattr(calibrator, "columns_")
    gate.check_option("on_bad_row", on_bad_row, ("raise",) if by_row else ON_BAD_ROW)
    n_read = n_bad = 0
    first_bad: list[int] = []
    known = find_format(out)
    if known is None or known.write is None:
        raise unknown_format(out, to_write=True)
    request = request_of(calibrator, request or Request(usual_part="test"))
    with open_source(path, request) as source:
        calibrate = RowCalibration(calibrator, source, groups)
        output = Output(out, calibrator.classes_, source, calibrate.order, calibrate.dtype)
        with open_output(out) as file, known.write(file, output) as write:
            for chunk in source.chunks:
                if chunk.note and tell is not None:
                    tell(chunk.note)
                calibrated, good = calibrate(chunk, is_strict=on_bad_row == "raise")
                keep = good if on_bad_row == "skip" else np.ones(len(good), dtype=bool)
                write(calibrated[keep], chunk, keep)
                bad = n_read + np.flatnonzero(~good)
                first_bad += bad[: NAMED_ROWS - len(first_bad)].tolist()
                n_bad += len(bad)
                n_read += len(good)
                if progress is not None:
                    progress(n_read, None)
        where = source.place.rows(first_bad) if first_bad else ""
    where += ", ..." if n_bad > NAMED_ROWS else ""
    return Applied(n_read - n_bad if on_bad_row == "skip" else n_read, n_bad, where)


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


def request_of(calibrator: Calibrator, request: Request) -> Request:
    """Return what a model asks of a file; other columns of a table are written again."""
    # Of several classes other numbers stay refused: they may be classes of another model.
    names = getattr(calibrator, "feature_names_in_", ()) if calibrator.scores in ONE_COLUMN else ()
    beside = dict.fromkeys(_feature_names(calibrator), "the model was fitted with --features")
    return replace(
        request,
        kind=calibrator.scores,
        classes=calibrator.classes_.tolist(),
        beside={**request.beside, **beside},
        reads_others=True,
        fitted=tuple(names),
    )


def _feature_names(calibrator: Any) -> list[str]:
    """Return the columns that a model reads beside the scores."""
    return [column.name for column in getattr(calibrator, "columns_", ()) if column.width]


def _find_order(calibrator: Calibrator, source: Source) -> NDArray[np.int64] | None:
    """Check the columns of the file against those of the model, as ``predict_proba`` does.

    Return their order, if it is not that of the classes.
    """
    classes, names, place = calibrator.classes_, source.place.names, source.place
    fitted = getattr(calibrator, "feature_names_in_", None)
    if source.kind in ONE_COLUMN:
        single = names[0] if names is not None and len(names) == 1 else None
        with errors.naming(place):
            gate.check_positive(classes, single, told=True)
            if source.layout is None or not source.layout.is_chosen:
                gate.check_single_name(single, fitted, "the model")
        return None
    refuse_other_columns(place, source.n_columns, classes.tolist())
    if names is None:
        if fitted is not None:
            text = f"{place.source} has no column names; the columns are taken to be {some(fitted)}"
            notices.warn(errors.CalibrantWarning(text))
        return None
    with errors.naming(place):
        order = gate.order_of(names, classes)
    if order is not None:
        return gate.changed_order(order, names)
    if fitted is not None and names != fitted.tolist():
        raise errors.ColumnNameError(
            f"{place.source}: the columns are {some(names)}, but the model expects {some(fitted)} "
            "in this order; rename or reorder them"
        )
    return None


class RowCalibration:
    """Calibrates chunks of an open file, whose columns it has checked against the model's."""

    def __init__(self, calibrator: Calibrator, source: Source, groups: str | None) -> None:
        self.order = _find_order(calibrator, source)
        self.dtype = gate.output_dtype(np.empty(0, dtype=source.dtype))
        self._calibrator, self._groups = calibrator, groups
        # The columns are checked already: names that the model knows keep it from asking again.
        fitted = getattr(calibrator, "feature_names_in_", None)
        self._names = None
        if fitted is not None and source.kind not in ONE_COLUMN:
            self._names = source.place.names or fitted.tolist()
            if self.order is not None:
                self._names = [str(c) for c in calibrator.classes_]

    def __call__(
        self, chunk: RawPredictions, *, is_strict: bool = True
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return calibrated rows, and which of them are good; bad ones are NaN, unless strict."""
        calibrator, scores = self._calibrator, chunk.scores
        by_row = {}
        if self._groups is not None:
            values = groups_of(chunk.beside[self._groups], chunk.place)
            by_row["groups"] = groups_like(values, calibrator.groups_)
        if names := _feature_names(calibrator):
            by_row["features"] = features_of(chunk.beside, names, calibrator.columns_)

        def predict(rows: NDArray[Any]) -> NDArray[Any]:
            rows = rows if self.order is None else rows[:, self.order]
            named = rows if self._names is None else NamedMatrix(rows, self._names)
            return calibrator.predict_proba(named, **by_row)

        try:
            # Rows that are left out are still counted, so they are marked first.
            how = "raise" if is_strict else "nan"
            calibrated, good = predict_good(predict, scores, calibrator, how)
        except errors.DataError:
            if is_strict:  # once more, for a message with its place in the file
                with errors.naming(chunk.place):
                    gate.check_scores(scores, calibrator.scores, calibrator.normalize)
            raise
        if chunk.has_absent:
            calibrated = leave_out_absent(calibrated, scores, chunk.kind, self.order)
        return calibrated, good
