"""Which column of a file belongs to which class: by names, and by what the columns hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _notices as notices
from calibrant._columns import column_order, match_columns, order_of
from calibrant._files.values import refuse_unknown
from calibrant._one_column import ONE_COLUMN, check_positive, check_single_name
from calibrant._simplex import SUM_TOLERANCE
from calibrant.errors import CalibrantWarning, ColumnNameError, PredictionFileError, number_of
from calibrant.errors import some_in_words as some

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from calibrant._calibrators.base import Calibrator
    from calibrant._files.source import RawPredictions, Source
    from calibrant._files.text import Place

FEWEST_IDS = 20
"""Rows from which on whole numbers that are all different are ids."""


def classes_by_name(found: RawPredictions, names: list[str], y: NDArray[Any]) -> list[Any] | None:
    """Classes of the columns of a table, where the names tell them; all columns hold scores."""
    distinct, counts = np.unique(y, return_counts=True)
    labels = distinct.tolist()
    match = match_columns(names, labels, found.place)
    if match is None:
        frequent = distinct[np.argsort(-counts, kind="stable")[: (1 + len(labels)) // 2]]
        _refuse_label_without_column(found.place, names, y, frequent.tolist())
        if not found.are_columns_sure:
            _refuse_outsiders(found, names, len(labels))
        return None
    others = set(range(len(names))) - set(match.columns)
    if found.are_columns_sure:
        return None if others else match.classes
    if not match.prefix and not match.suffix and y.dtype.kind not in "iu":
        seen = set(labels)
        absent = [j for j, c in zip(match.columns, match.classes, strict=True) if c not in seen]
        if absent and not _complete_the_rows(found, absent):
            others |= set(absent)
    _refuse_columns(
        found,
        sorted(others),
        "match no label, while others match all labels; leave them out with --ignore, or choose "
        "the columns of scores with --columns",
    )
    return match.classes


def _refuse_columns(found: RawPredictions, columns: Any, fault: str) -> None:
    if len(columns):
        names = [(found.place.names or [])[j] for j in columns]
        raise PredictionFileError(f"{found.source}: columns {some(names)} {fault}")


def _complete_the_rows(found: RawPredictions, columns: list[int]) -> bool:
    """Whether columns that match no label are classes: rows sum to one with each, not without."""
    are_used = bool((found.scores[:, columns] > 0).any(axis=0).all())
    return found.kind == "probabilities" and are_used and _sum_to_one(found.scores)


def _sum_to_one(rows: NDArray[Any]) -> bool:
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = np.abs(rows.sum(axis=1) - 1.0)
    gaps = gaps[np.isfinite(gaps)]
    return len(gaps) > 0 and bool(np.median(gaps) <= SUM_TOLERANCE)


def _refuse_outsiders(found: RawPredictions, names: list[str], n_labels: int) -> None:
    """Refuse columns of numbers that are no scores, where names do not tell which are.

    Ids, folds and ages are whole numbers. Scores are not, but for a class that is certain or
    impossible in every row, and for votes and counts, which all columns hold: among these only a
    column with another number in every row is told apart, if chance cannot do it.
    """
    scores = found.scores
    is_out = ((scores < -SUM_TOLERANCE) | (scores > 1.0 + SUM_TOLERANCE)).any(axis=0)
    if found.kind == "probabilities" and (~is_out).sum() >= 2 and _sum_to_one(scores[:, ~is_out]):
        no_probabilities = "are not probabilities, while the others sum to one; leave them out with"
        _refuse_columns(found, np.flatnonzero(is_out), f"{no_probabilities} --ignore")
    known = [column[np.isfinite(column)] for column in scores.T]
    is_whole = np.array([len(own) > 0 and np.all(own == np.floor(own)) for own in known])
    fewest = max(len(scores), FEWEST_IDS) if is_whole.all() else 3
    is_counted = is_whole & [len(np.unique(own)) >= fewest for own in known]
    if not is_counted.all():
        _refuse_columns(
            found,
            np.flatnonzero(is_counted),
            "are whole numbers, such as ids or folds, while the others are scores; leave them out "
            "with --ignore, or choose the columns of scores with --columns",
        )
    if found.kind == "logits" and n_labels != len(names):
        raise PredictionFileError(
            f"{found.source} has {len(names)} columns of numbers and {n_labels} distinct labels, "
            "and the names do not say which column belongs to which label; choose the columns "
            "with --columns, or leave some out with --ignore"
        )


def _refuse_label_without_column(
    place: Place, names: list[str], y: NDArray[Any], frequent: list[Any]
) -> None:
    """Refuse a label that is the name of no column, while the frequent ones are."""
    are_places = y.dtype.kind in "iu"
    if are_places and len(np.unique(y)) <= len(names):
        return
    match = match_columns(names, frequent, place)
    if match is not None and (len(frequent) > 1 or not match.prefix + match.suffix):
        refuse_unknown(y, match.classes, place)
    if are_places:
        refuse_unknown(y, list(range(len(names))), place)


def refuse_other_columns(place: Place, n_columns: int, classes: Sequence[Any]) -> None:
    """Refuse a file with more or fewer columns of scores than a model has classes."""
    names = place.names
    if n_columns == len(classes):
        return
    match = None if names is None else match_columns(names, list(classes), place)
    if names is None or match is None:
        raise PredictionFileError(
            f"{place.source} has {number_of(n_columns, 'column')} of scores, but the model has "
            f"{len(classes)} classes"
        )
    own = dict(zip(match.columns, match.classes, strict=True))
    others = [name for j, name in enumerate(names) if own.get(j) not in set(classes)]
    raise PredictionFileError(
        f"{place.source}: columns {some(others)} are not classes of the model; leave them out "
        "with --ignore"
    )


def find_order(calibrator: Calibrator, source: Source) -> NDArray[np.int64] | None:
    """Check the columns of the file against those of the model, as ``predict_proba`` does."""
    classes, names, where = calibrator.classes_, source.place.names, source.place.source
    fitted = getattr(calibrator, "feature_names_in_", None)
    if source.kind in ONE_COLUMN:
        single = names[0] if names is not None and len(names) == 1 else None
        check_positive(classes, single, told=True, named=source.place)
        if source.layout is None or not source.layout.is_chosen:
            check_single_name(single, fitted, classes, "the model", source.place)
        return None
    refuse_other_columns(source.place, source.n_columns, classes.tolist())
    if names is None:
        if fitted is not None:
            text = f"{where} has no column names; the columns are taken to be {some(fitted)}"
            notices.warn(CalibrantWarning(text))
        return None
    order = column_order(names, classes, named=source.place)
    told = order is not None or order_of(names, classes, source.place) is not None
    if not told and fitted is not None and names != fitted.tolist():
        raise ColumnNameError(
            f"{where}: the columns are {some(names)}, but the model expects {some(fitted)} in "
            "this order; rename or reorder them"
        )
    return order
