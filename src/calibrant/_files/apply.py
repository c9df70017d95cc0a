"""Calibrate a file: whole, or chunk by chunk into another one that appears whole or not at all."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from calibrant import _gate as gate
from calibrant import _notices as notices
from calibrant import errors
from calibrant._atomic_file import new_directory
from calibrant._bad_rows import ON_BAD_ROW, predict_good
from calibrant._files.align import features_of, groups_of, refuse_other_columns, refuse_unknown
from calibrant._files.formats import (
    files_below,
    find_format,
    labels_of_model,
    name_others,
    open_output,
    open_source,
    unknown_format,
)
from calibrant._gate import NamedMatrix, is_single
from calibrant.errors import some_in_words as some

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from calibrant._calibrators.base import Calibrator
    from calibrant._calibrators.checks import ScoreSums, ShiftCheck
    from calibrant._files.formats import Chunks
    from calibrant._files.source import Request, Rows, Source
    from calibrant._types import Array, Bools, Floats, Labels, Wholes

NAMED_ROWS = 5
"""Number of bad rows that are named by their places."""


class Applied(NamedTuple):
    """How many rows were written, how many were bad, and where the first of them are."""

    n_rows: int
    n_bad_rows: int
    where: list[str]
    note: str
    """What was read as what, for users."""

    check: ShiftCheck | None = None
    """Whether the scores of all files look like those of the fit, if that was asked for."""


def apply_file(
    calibrator: Calibrator,
    path: Path,
    out: Path,
    request: Request,
    *,
    on_bad_row: str = "raise",
    is_checked: bool = False,
    progress: Callable[[int, int | None], None] = lambda *_: None,
) -> Applied:
    """Calibrate the predictions in ``path`` into ``out``, whose format is that of its suffix.

    Columns of a table that are no scores are copied; of other files the labels are, where ``out``
    has a place for them. Tables of a directory keep their names in a new directory. Scores that are
    to be checked are compared with those of the fit, all files together. ``progress`` is called
    with the number of rows or files done.
    """
    by_row = request.groups is not None or hasattr(calibrator, "columns_")
    gate.check_option("on_bad_row", on_bad_row, ON_BAD_ROW)
    if by_row and on_bad_row != "raise":
        message = f"on_bad_row={on_bad_row!r} is for models of scores alone; repair the bad rows"
        raise errors.ParameterError(message, argument="on_bad_row", value=on_bad_row)
    sums = calibrator._score_sums() if is_checked else None  # noqa: SLF001  (ours)
    apply = partial(_apply_one, calibrator, request, on_bad_row, sums)
    tables = files_below(path, "table") if path.is_dir() else []
    if tables:
        done, note = [], name_others(path, tables)
        with new_directory(out) as directory:
            for n, file in enumerate(tables, start=1):
                target = directory / file.relative_to(path)
                target.parent.mkdir(parents=True, exist_ok=True)
                done.append(apply(lambda *_: None, file, target))
                progress(n, len(tables))
    else:
        done = [apply(progress, path, out)]
        note = done[0].note
    n_rows, n_bad = sum(one.n_rows for one in done), sum(one.n_bad_rows for one in done)
    where = [*chain(*(one.where for one in done))][:NAMED_ROWS]
    check = sums.compare() if sums is not None and sums.n_rows > 1 else None
    return Applied(n_rows, n_bad, where, note, check)


def _apply_one(
    calibrator: Calibrator,
    request: Request,
    on_bad_row: str,
    sums: ScoreSums | None,
    progress: Callable[[int, int | None], None],
    path: Path,
    out: Path,
) -> Applied:
    """Calibrate a file, and add its scores to ``sums``."""
    calibrate, known = RowCalibration(calibrator, path, request, sums), find_format(out)
    if known is None or known.write is None:
        raise unknown_format(out, to_write=True)
    n_read = n_bad = 0
    where: list[str] = []

    def chunks() -> Chunks:
        nonlocal n_read, n_bad
        for rows in calibrate.source.chunks:
            calibrated, good = calibrate(rows, on_bad_row)
            bad = np.flatnonzero(~good)
            where.extend(rows.place.where(bad[: NAMED_ROWS - len(where)].tolist()))
            n_read, n_bad = n_read + len(good), n_bad + len(bad)
            if on_bad_row == "skip" and len(bad):
                yield calibrated[good], rows.take(np.flatnonzero(good))
            else:
                yield calibrated, rows
            progress(n_read, None)

    with open_output(out) as file:
        known.write(file, out, calibrate, chunks())
    n_written = n_read - n_bad if on_bad_row == "skip" else n_read
    return Applied(n_written, n_bad, where, calibrate.source.note)


def _feature_names(calibrator: object) -> list[str]:
    """Return the columns that a model reads beside the scores."""
    return [column.name for column in getattr(calibrator, "columns_", ()) if column.width]


def _find_order(calibrator: Calibrator, source: Source) -> Wholes | None:
    """Check the columns of a file against those of a model, as ``predict_proba`` does.

    Return their order, if it is not that of the classes.
    """
    classes, names, place = calibrator.classes_, source.place.names, source.place
    fitted = getattr(calibrator, "feature_names_in_", None)
    if is_single(source.kind):
        single = names[0] if names is not None and len(names) == 1 else None
        with errors.naming(place):
            gate.check_positive(classes, single, are_given=True)
            if source.columns is None or not source.columns.are_chosen:
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
        fault = f"the columns are {some(names)}, but the model expects {some(fitted)}"
        remedy = "rename or reorder them"
        raise errors.ColumnNameError(f"{place.source}: {fault} in this order; {remedy}")
    return None


class RowCalibration:
    """Calibrates rows of an open file, whose columns it has checked against the model's.

    ``names`` are those of the columns of scores, in the order of ``classes``. Scores of good rows
    are added to ``sums``.
    """

    def __init__(
        self, calibrator: Calibrator, path: Path, request: Request, sums: ScoreSums | None = None
    ) -> None:
        self._calibrator, self._groups, self._sums = calibrator, request.groups, sums
        # Of several classes other numbers stay refused: they may be classes of another model.
        single = is_single(calibrator.scores)
        fitted = tuple(getattr(calibrator, "feature_names_in_", ())) if single else ()
        beside = dict.fromkeys(_feature_names(calibrator), "the model was fitted with --features")
        request = replace(
            request,
            kind=calibrator.scores,
            known_classes=calibrator.classes_.tolist(),
            more={**request.more, **beside},
            fitted=fitted,
            reads_others=True,  # to be written again
        )
        self.source, self.classes = open_source(path, request), calibrator.classes_
        self._order = _find_order(calibrator, self.source)
        names = self.source.place.names or [str(c) for c in self.classes]
        self.names = names if self._order is None else [names[j] for j in self._order]

    def __call__(self, rows: Rows, on_bad_row: str = "raise") -> tuple[Floats, Bools]:
        """Return calibrated rows, and which of them are good; bad ones are refused, or NaN."""
        calibrator, classes = self._calibrator, [str(c) for c in self.classes]
        by_row: dict[str, object] = {}
        if self._groups is not None:
            groups, known = groups_of(rows.column(self._groups), rows.place), calibrator.groups_
            if known.dtype.kind in "iufb":  # of a model that Python fitted to numbers
                by_text = {gate.key(name).casefold(): name for name in known.tolist()}
                other = int(known.max()) + 1  # a group that is not there
                texts = [gate.key(name).casefold() for name in groups.tolist()]
                groups = np.array([by_text.get(text, other) for text in texts])
            by_row["groups"] = groups
        if names := _feature_names(calibrator):
            by_row["features"] = features_of(rows, names, calibrator.columns_)
        scores = rows.scores if self._order is None else rows.scores[:, self._order]

        def predict(some: Array) -> Floats:
            # The columns are checked already: with these names the model asks no more.
            given = some if is_single(calibrator.scores) else NamedMatrix(some, classes)
            probabilities = calibrator.predict_proba(given, **by_row)
            if self._sums is not None:
                calibrator._add_scores(self._sums, given)  # noqa: SLF001  (ours)
            return probabilities

        ordered = None if rows.place.names is None else self.names
        with errors.naming(replace(rows.place, names=ordered)):
            # Rows that are left out are still counted, so they are marked first.
            how = "raise" if on_bad_row == "raise" else "nan"
            result, good = predict_good(predict, scores, calibrator, how)
        calibrated = cast("Floats", result)
        if rows.has_absent:
            # What absent options got is for the others, where the model knows of no absent ones.
            absent = -np.inf if rows.kind == "logits" else 0.0
            calibrated = np.where(scores == absent, 0.0, calibrated)
            calibrated /= calibrated.sum(axis=1, keepdims=True)
        return calibrated, good


class CalibratedFile(NamedTuple):
    """A file that was read and calibrated whole."""

    rows: Rows
    probabilities: Floats
    calibration: RowCalibration

    @property
    def y(self) -> Labels:
        """Labels, which are classes of the model."""
        y = labels_of_model(self.rows, self.calibration.classes)
        refuse_unknown(y, self.calibration.classes.tolist(), self.rows.place)
        return y


def calibrate_file(
    calibrator: Calibrator, path: Path, request: Request, sums: ScoreSums | None = None
) -> CalibratedFile:
    """Read a file and calibrate it; its scores are added to ``sums``."""
    calibrate = RowCalibration(calibrator, path, request, sums)
    rows = calibrate.source.read()
    return CalibratedFile(rows, calibrate(rows)[0], calibrate)
