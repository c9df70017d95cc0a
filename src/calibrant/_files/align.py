"""Bring the labels of a file and the names of its columns together."""

from __future__ import annotations

import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._columns import are_whole, key, match_columns
from calibrant._containers import NamedMatrix
from calibrant._files.layout import MISSING
from calibrant._simplex import SUM_TOLERANCE, check_batch, check_memory, check_scores, softmax
from calibrant.errors import DataError, ParameterError, PredictionFileError, number_of
from calibrant.errors import some_in_words as some

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from calibrant._files.predictions import RawPredictions
    from calibrant._files.text import Place


LONGEST_LABEL = 1024
"""Characters of a label; a model file has no room for longer ones."""

FEWEST_IDS = 20
"""Rows from which on whole numbers that are all different are ids."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """Labels, whole numbers or text, and scores that go together.

    ``classes`` are those of the columns, where the file tells them; ``place`` is for messages, with
    the names of the columns; ``normalize`` is that of calibrators.
    """

    y: NDArray[Any]
    matrix: NDArray[Any]
    classes: list[Any] | None
    place: Place
    kind: str
    normalize: str | None

    @property
    def scores(self) -> Any:
        """The matrix, with the names of its columns where they have any."""
        return self._named(self.matrix)

    def _named(self, matrix: NDArray[Any]) -> Any:
        names = self.place.names
        return matrix if names is None else NamedMatrix(matrix, names)

    def with_positive_last(self) -> Aligned:
        """Put two columns that are named after their classes into the sorted order of these."""
        two = self.classes
        return self if two is None or len(two) != 2 else self.ordered_by(sorted(two))

    def ordered_by(self, two: list[Any]) -> Aligned:
        """Put two columns that are named after their classes into the order of these."""
        names = self.place.names or []
        match = match_columns(names, two, self.place) if len(names) == 2 else None
        if match is None or match.classes == two:
            return self
        place = replace(self.place, names=names[::-1])
        return replace(self, matrix=self.matrix[:, ::-1], classes=two, place=place)

    def take(self, rows: NDArray[Any]) -> Aligned:
        """Return some of the rows."""
        return replace(self, y=self.y[rows], matrix=self.matrix[rows])

    def probabilities(self) -> Any:
        """Scores as metrics take them."""
        matrix = self.matrix
        if self.kind == "logits" or self.normalize is not None:
            matrix = check_scores(matrix, self.kind, self.normalize)
        return self._named(softmax(matrix) if self.kind == "logits" else matrix)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Let errors name the file, the line and the options: check once more in these words."""
        try:
            yield
        except (DataError, ParameterError):
            self.check()
            raise

    def check(self) -> None:
        """Check labels and scores, without warnings: these come with the work itself."""
        options: dict[str, Any] = {"kind": self.kind, "normalize": self.normalize}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_batch(self.scores, self.y, classes=self.classes, named=self.place, **options)


def align(
    found: RawPredictions,
    *,
    classes: Sequence[str] | None = None,
    like: Aligned | None = None,
    normalize: str | None = None,
    positive_last: bool = False,
) -> Aligned:
    """Read the labels of a file, and find the column of each class.

    ``classes`` are those of the columns, from whoever knows them; ``like`` is another part of the
    same data, whose classes these are. With ``positive_last``, two classes that names tell are in
    sorted order, whatever that of their columns: the second one is positive.
    """
    raw, names = found.require_labels(), found.place.names
    n_columns = found.scores.shape[1]
    if raw.ndim != 1:  # one-hot rows, for the validator
        place = replace(found.place, names=None)
        return Aligned(raw, found.scores, None, place, found.kind, normalize)
    known: list[Any] | None = None
    if names is not None and found.place.path.suffix.lower() == ".npz":
        y, known = labels_of_archive(read_labels(raw, found.place), names)
    else:
        is_text = like is not None and like.y.dtype.kind == "U"
        y = read_labels(raw, found.place, as_text=is_text)
    if classes is not None:
        known = _typed(classes, y)
        if len(known) != n_columns:
            raise PredictionFileError(
                f"{found.source} has {number_of(n_columns, 'column')} of scores, but --classes "
                f"names {len(known)} classes"
            )
    elif like is not None:
        known = like.classes
        if names is not None:
            refuse_other_columns(names, known or range(like.matrix.shape[1]), found.place)
    elif names is not None and known is None:
        known = _classes_by_name(found, names, y)
    if known is names is None and y.dtype.kind in "iu" and len(np.unique(y)) > n_columns:
        known = list(range(n_columns))
    if known is not None:
        _refuse_unknown(y, known, found.place)
    whole = Aligned(y, found.scores, known, found.place, found.kind, normalize)
    if not positive_last or classes is not None or found.place.path.suffix.lower() == ".npz":
        return whole
    return whole.with_positive_last() if like is None else whole.ordered_by(like.classes or [])


def read_labels(raw: NDArray[Any], place: Place, *, as_text: bool = False) -> NDArray[Any]:
    """Labels as whole numbers where all of them are, else as they stand.

    In text, and where a label was missing in a table, whole numbers are written ``3.0``.
    """
    if raw.dtype.kind == "f":
        _refuse(~np.isfinite(raw), place, lambda _: _MISSING_LABEL)
        _refuse(raw != np.floor(raw), place, _no_class(raw))
        return raw.astype(np.int64)
    if raw.dtype.kind not in "OUS":
        return raw.astype(str) if as_text else raw
    found = [t.decode() if isinstance(t, bytes) else str(t) for t in raw.tolist()]
    for i, label in enumerate(found):
        if len(label) > LONGEST_LABEL:  # in an array of text every row would be as wide
            raise PredictionFileError(
                f"{place.label(i)} has {len(label):,} characters; labels have at most "
                f"{LONGEST_LABEL:,} (--label-column)"
            )
    check_memory(4 * len(found) * max(map(len, found), default=0), "the labels")
    text = np.array(found, dtype=str)
    distinct, inverse = np.unique(text, return_inverse=True)
    spoken = [label for label in distinct.tolist() if not MISSING.fullmatch(label)]
    numbers = all(
        re.fullmatch(r"\s*[+-]?[0-9]{1,18}(\.[0-9]*)?\s*", label) is not None for label in spoken
    )
    silent = [MISSING.fullmatch(t) is not None and (numbers or not t.strip()) for t in distinct]
    _refuse(np.array(silent, dtype=bool)[inverse], place, lambda _: _MISSING_LABEL)
    if not numbers or as_text:
        return text
    broken = np.array([not are_whole([label]) for label in distinct.tolist()], dtype=bool)
    _refuse(broken[inverse], place, _no_class(text))
    return np.array([int(key(label)) for label in distinct.tolist()], dtype=np.int64)[inverse]


def _refuse(bad: NDArray[Any], place: Place, fault: Callable[[int], str]) -> None:
    """Refuse the first label that is bad."""
    if bad.any():
        i = int(np.argmax(bad))
        raise PredictionFileError(f"{place.label(i)} {fault(i)}")


_MISSING_LABEL = "is missing; fill it, or drop the row"


def _no_class(labels: NDArray[Any]) -> Callable[[int], str]:
    remedy = "labels are text or whole numbers (--label-column)"
    return lambda i: f"{labels[i]} is no class; {remedy}"


def _refuse_unknown(y: NDArray[Any], known: list[Any], place: Place) -> None:
    classes, labels = np.array(known), y
    if y.dtype.kind == "U" or classes.dtype.kind == "U":
        classes, labels = classes.astype(str), y.astype(str)
    among = f"is not among the classes {some(known)}"
    _refuse(~np.isin(labels, classes), place, lambda i: f"{y[i].item()!r} {among}")


def _typed(classes: Sequence[str], y: NDArray[Any]) -> list[Any]:
    """Classes as the labels are: whole numbers or text."""
    if y.dtype.kind in "iu" and are_whole(classes):
        return [int(key(c)) for c in classes]
    return list(classes)


def labels_of_archive(y: NDArray[Any], names: list[str]) -> tuple[NDArray[Any], list[Any]]:
    """Labels of an npz file, and its ``classes``.

    Labels are among the classes; numbers beside classes of text are places of classes. So what a
    label means does not depend on which others are there.
    """
    if y.dtype.kind == "f" and np.all(y == np.floor(y)):
        y = y.astype(np.int64)
    if y.dtype.kind == "b":  # as the classes, whose names are text
        y = y.astype(str)
    if y.dtype.kind in "iu" and not are_whole(names):
        known = (y >= 0) & (y < len(names))
        text = y.astype(str).astype(object)
        text[known] = np.array(names, dtype=object)[y[known]]
        return text.astype(str), list(names)
    return y, _typed(names, y)


def _classes_by_name(found: RawPredictions, names: list[str], y: NDArray[Any]) -> list[Any] | None:
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
        "match no label, while others match all of them; leave them out by --ignore, or choose the "
        "columns of scores by --columns",
    )
    return match.classes


def _refuse_columns(found: RawPredictions, columns: Any, fault: str) -> None:
    if len(columns):
        names = [(found.place.names or [])[j] for j in columns]
        raise PredictionFileError(f"{found.source}: columns {some(names)} {fault}")


def _sum_to_one(rows: NDArray[Any]) -> bool:
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = np.abs(rows.sum(axis=1) - 1.0)
    gaps = gaps[np.isfinite(gaps)]
    return len(gaps) > 0 and bool(np.median(gaps) <= SUM_TOLERANCE)


def _complete_the_rows(found: RawPredictions, columns: list[int]) -> bool:
    """Whether columns that match no label are classes: rows sum to one with each, not without."""
    are_used = bool(np.all(np.any(found.scores[:, columns] > 0, axis=0)))
    return found.kind == "probabilities" and are_used and _sum_to_one(found.scores)


def _refuse_outsiders(found: RawPredictions, names: list[str], n_labels: int) -> None:
    """Refuse columns of numbers that are no scores, where names do not tell which are."""
    are_logits = found.kind == "logits"
    out = ((found.scores < -SUM_TOLERANCE) | (found.scores > 1.0 + SUM_TOLERANCE)).any(axis=0)
    is_rest = np.count_nonzero(~out) >= 2 and _sum_to_one(found.scores[:, ~out])
    if is_rest and not are_logits:
        no_probabilities = "hold no probabilities, while the others sum to one; leave them out by"
        _refuse_columns(found, np.flatnonzero(out), f"{no_probabilities} --ignore")
    _refuse_columns(
        found,
        np.flatnonzero(_are_counted(found.scores)),
        "hold whole numbers, as ids or folds do, and the others scores; leave them out by "
        "--ignore, or choose the columns of scores by --columns",
    )
    if are_logits and n_labels != len(names):
        raise PredictionFileError(
            f"{found.source} has {len(names)} columns of numbers and {n_labels} distinct labels, "
            "and the names do not tell which column belongs to which; choose the columns by "
            "--columns, or leave some out by --ignore"
        )


def _are_counted(scores: NDArray[Any]) -> NDArray[np.bool_]:
    """Which columns hold ids, folds, ages and the like, and no scores.

    Scores of a classifier are no whole numbers, but for a class that is certain or impossible in
    every row, and for votes and counts, which all columns hold: among these only one with another
    number in every row is told apart, and only if there are so many that chance cannot do it.
    """
    is_whole = np.array([_is_whole(column) for column in scores.T], dtype=bool)
    n_distinct = np.array([len(np.unique(column)) for column in scores.T])
    least = 3 if not is_whole.all() else max(len(scores), FEWEST_IDS)
    found: NDArray[np.bool_] = is_whole & (n_distinct >= least)
    return found & ~found.all()


def _is_whole(column: NDArray[Any]) -> bool:
    known = column[np.isfinite(column)]
    return len(known) > 0 and bool(np.all(known == np.floor(known)))


def _refuse_label_without_column(
    place: Place, names: list[str], y: NDArray[Any], frequent: list[Any]
) -> None:
    """Refuse a label that is the name of no column, while the frequent ones are."""
    are_places = y.dtype.kind in "iu"
    if are_places and len(np.unique(y)) <= len(names):
        return
    match = match_columns(names, frequent, place)
    if match is not None and (len(frequent) > 1 or not match.prefix + match.suffix):
        _refuse_unknown(y, match.classes, place)
    if are_places:
        _refuse_unknown(y, list(range(len(names))), place)


def refuse_other_columns(names: list[str], classes: Sequence[Any], place: Place) -> None:
    """Refuse a table with more or fewer columns of scores than a model has classes."""
    if len(names) == len(classes):
        return
    match = match_columns(names, list(classes), place)
    if match is not None:
        own = dict(zip(match.columns, match.classes, strict=True))
        wanted = set(classes)
        others = [name for j, name in enumerate(names) if own.get(j) not in wanted]
        raise PredictionFileError(
            f"{place.source}: columns {some(others)} are no classes of the model; leave "
            "them out by --ignore"
        )
    raise wrong_number_of_columns(place.source, len(names), len(classes))


def wrong_number_of_columns(source: str, n_columns: int, n_classes: int) -> PredictionFileError:
    """Return the error about a file for another number of classes than the model has."""
    return PredictionFileError(
        f"{source} has {number_of(n_columns, 'column')} of scores, but the model has "
        f"{n_classes} classes"
    )
