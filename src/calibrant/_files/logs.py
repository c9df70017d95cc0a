"""Logs of evaluations of language models, read whole: a column for each option, and the labels.

An option that a question does not have is absent: its logit is minus infinity, or its probability
0, and no calibration may give it anything.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._files.columns import Request
from calibrant._files.records import LINES, SMALLEST_MASS, field_of, find_layout, read_records
from calibrant._files.source import RawPredictions
from calibrant._files.tables import Place, suffix_of
from calibrant.errors import PredictionFileError
from calibrant.errors import some_in_words as some

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant._files.records import LoggedRow


def read_log(path: Path, request: Request | None = None) -> RawPredictions:
    """Read a log of an evaluation; the classes are those of a model, or of another part."""
    request = request or Request()
    known = None if request.classes is None else [str(c) for c in request.classes]
    records = read_records(path)
    layout = find_layout(records, request, known)
    rows = [layout.read(record) for record in records]
    wheres = [record.where for record in records]
    columns, by_name = _find_classes(rows, known, wheres)
    scores, labels, n_narrow = _matrix(rows, columns, layout.kind, by_name=by_name)
    if None in labels and any(label is not None for label in labels):
        where = wheres[labels.index(None)]
        raise PredictionFileError(f"{where}: the label is missing; fill it, or drop the record")
    what = "the options" if by_name else "the positions of the options, whose texts differ"
    note = f"{path}: {layout.title}; classes {some(columns, 12)} are {what}"
    if n_narrow:
        note += f"; {n_narrow:,} of {len(rows):,} rows have fewer options, and 0 for the others"
    lines = [record.place for record in records] if suffix_of(path) in LINES else None
    return RawPredictions(
        scores,
        layout.kind,
        None if None in labels else np.array(labels),
        Place(path, str(path), columns, lines=lines),
        names_are_classes=True,
        beside={
            name: [field_of(record, name, option) for record in records]
            for name, option in request.beside.items()
        },
        note=note,
        has_absent=n_narrow > 0,
        is_stated=layout.is_stated,
    )


def _matrix(
    rows: list[LoggedRow], columns: list[str], kind: str, *, by_name: bool
) -> tuple[NDArray[np.float64], list[str | None], int]:
    """Return scores with a column for each class, the labels, and how many rows lack options."""
    n_narrow = sum(len(row.names) < len(columns) for row in rows)
    scores = np.full((len(rows), len(columns)), -math.inf if kind == "logits" else 0.0)
    column_of = {name: j for j, name in enumerate(columns)}
    labels = []
    # An option of probability 0 is there: where 0 is for absent ones it is a bit more.
    floor = SMALLEST_MASS if n_narrow and kind == "probabilities" else 0.0
    for i, row in enumerate(rows):
        own = [column_of[name] for name in row.names] if by_name else range(len(row.names))
        scores[i, own] = [score or floor for score in row.scores]
        labels.append(None if row.label is None else columns[own[row.label]])
    return scores, labels, n_narrow


def _find_classes(
    rows: list[LoggedRow], known: list[str] | None, wheres: list[str]
) -> tuple[list[str], bool]:
    """Classes, and whether they are names of options: else they are places, from 0.

    Names are classes if no row has one that the widest row has not, or if they are keys of objects
    that recur.
    """
    widest = max(rows, key=lambda row: len(row.names)).names
    classes, places = known or widest, [str(j) for j in range(len(widest))]
    strangers = [
        (name, where)
        for row, where in zip(rows, wheres, strict=True)
        for name in row.names
        if name not in classes
    ]
    if not strangers:
        return list(classes), True
    if all(row.of_object for row in rows):
        union = sorted({name for row in rows for name in row.names})
        if known is None and 2 * len(union) <= sum(len(row.names) for row in rows):
            return union, True
    elif known is None or known[: len(places)] == places:
        return known or places, False
    other, where = strangers[0]
    raise PredictionFileError(
        f"{where}: the option {other!r:.200} is not among the classes {some(classes)}; leave out "
        "the record, fit to a log with all options, or write texts of options in 'options'"
    )


def leave_out_absent(
    rows: NDArray[Any], scores: NDArray[Any], kind: str, order: NDArray[np.int64] | None
) -> NDArray[Any]:
    """Give what absent options got to the others, where the model knows of no absent ones."""
    given = scores if order is None else scores[:, order]
    kept: NDArray[Any] = np.where(given == (-math.inf if kind == "logits" else 0.0), 0.0, rows)
    kept /= kept.sum(axis=1, keepdims=True)
    return kept
